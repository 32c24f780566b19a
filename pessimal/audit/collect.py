"""Find audits by path, the way pytest finds tests, and through other packages' entry points."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path

from pessimal.audit.drift import drift
from pessimal.audit.spec import Audit, MetricSpec
from pessimal.errors import UsageError

ENTRY_POINTS = "pessimal.audits"
COLLECTED = "_pessimal_audit_"
"""How the module names of files in an audits folder begin."""


def collect_audits(folder: Path) -> dict[str, Audit]:
    """Import every ``*.py`` of `folder` that doesn't begin with an underscore.

    Entry points of other packages are added, and ``drift``, which comes with the engine.

    Returns:
        The audits by name, in alphabetical order.

    Raises:
        UsageError: a file that can't be imported, that holds no audit, or a name used twice.
    """
    found = {drift.name: drift}
    for path in sorted(folder.glob("[!_]*.py")):
        for audit in _audits_of(path):
            _add(found, audit)
    for point in entry_points(group=ENTRY_POINTS):
        audit = point.load()
        if not isinstance(audit, Audit):
            raise UsageError(
                "audit_invalid", f"The entry point {point.value} is not an audit.",
                "Decorate its function with pessimal.audit.audit.",
            )  # fmt: skip
        _add(found, audit)
    return dict(sorted(found.items()))


def metric_specs(audits: dict[str, Audit]) -> dict[str, MetricSpec]:
    """Every declared metric by its full name, ``<audit>.<metric>``."""
    return {
        f"{audit.name}.{spec.name}": spec for audit in audits.values() for spec in audit.metrics
    }


def suggest(name: str, known: list[str]) -> str:
    """A "did you mean" sentence for a name that is not among `known`."""
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known: {', '.join(sorted(known))}." if known else "None is known."


def _audits_of(path: Path) -> list[Audit]:
    # The module's name holds the file's own path, so two content roots never meet in sys.modules.
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    name = f"{COLLECTED}{path.stem}_{digest}"
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UsageError(
                "audit_invalid", f"{path} can't be imported.", "Give it the ending .py."
            )
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise UsageError(
                "audit_invalid", f"{path} can't be imported: {type(error).__name__}: {error}.",
                "Mend the file, or begin its name with an underscore to leave it out.",
            ) from error  # fmt: skip
    audits = [value for value in vars(module).values() if isinstance(value, Audit)]
    if not audits:
        raise UsageError(
            "audit_invalid", f"{path} holds no audit.",
            "Decorate a function with pessimal.audit.audit, or begin the file's name with an "
            "underscore.",
        )  # fmt: skip
    return audits


def _add(found: dict[str, Audit], audit: Audit) -> None:
    if audit.name in found:
        raise UsageError(
            "audit_duplicate",
            f"Two audits are called {audit.name!r}: {found[audit.name].source} and {audit.source}.",
            "Rename one of the functions.",
        )
    found[audit.name] = audit
