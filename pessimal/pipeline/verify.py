"""Find what has changed since a run was judged: its artifacts, its inputs, the code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pessimal.audit import MetricSpec
from pessimal.errors import PessimalError, UsageError
from pessimal.pipeline.evidence import (
    MODULE,
    RECORD,
    RECORD_SCHEMA,
    RECORD_TAG,
    code_files,
    dumps,
    text_hash,
    waivers_of,
)
from pessimal.pipeline.work import WAIVERS
from pessimal.project import ContentRoot
from pessimal.text import show_text
from pessimal.tracking import Tracker, hash_file


def verify_run(
    tracker: Tracker, run_id: str, content: ContentRoot, specs: Mapping[str, MetricSpec]
) -> list[str]:
    """Check a run's record against the run, its inputs and the code. Reads files, runs none.

    Args:
        tracker: the store.
        run_id: the run's full id.
        content: where policies, waivers and audits are now.
        specs: every metric that the run's policy may name.

    Returns:
        What could not be checked here, in sentences: a model that isn't on this machine.

    Raises:
        PessimalError: ``run_changed``, naming everything that changed; ``record_missing`` where the
            run holds no record.
    """
    record = _read_record(tracker, run_id)
    changes = _artifacts(tracker, run_id, record) + _tags(tracker, run_id)
    changes += _inputs(tracker, run_id, record, content, specs) + _code(record, content)
    model_changes, unchecked = _model(record)
    changes += model_changes
    if changes:
        raise PessimalError(
            "run_changed", f"Run {run_id} is no longer what was judged: {'; '.join(changes)}.",
            "Restore what changed, or audit the model again.",
        )  # fmt: skip
    return unchecked


def _read_record(tracker: Tracker, run_id: str) -> dict[str, Any]:
    try:
        record = json.loads(tracker.download(run_id, RECORD).read_text(encoding="utf-8"))
        if record["schema"] == RECORD_SCHEMA and record["run_id"] == run_id:
            found: dict[str, Any] = record
            return found
    except (ValueError, KeyError, TypeError) as error:
        raise PessimalError(
            "run_changed", f"{RECORD} of run {run_id} is no record any more: {error}.",
            "Audit the model again.",
        ) from error  # fmt: skip
    raise PessimalError(
        "run_changed", f"{RECORD} of run {run_id} is another run's.", "Audit the model again."
    )


def _artifacts(tracker: Tracker, run_id: str, record: Mapping[str, Any]) -> list[str]:
    there = set(tracker.artifacts(run_id)) - {RECORD}
    known: Mapping[str, str] = record["artifacts"]
    changes = [f"the artifact {show_text(name)} was added" for name in sorted(there - set(known))]
    for name, digest in known.items():
        if name not in there:
            changes.append(f"the artifact {show_text(name)} is gone")
        elif tracker.hash_artifact(run_id, name) != digest:
            changes.append(f"the artifact {show_text(name)} changed")
    return changes


def _tags(tracker: Tracker, run_id: str) -> list[str]:
    """The record and the document speak for themselves; the tags must say the same."""
    tags = tracker.tags(run_id)
    document = tracker.load_document(run_id)
    expected = {
        RECORD_TAG: tracker.hash_artifact(run_id, RECORD),
        "verdict": document["verdict"],
        "policy.sha256": document["policy_sha256"],
    }
    return [
        f"the tag {name} changed" for name, value in expected.items() if tags.get(name) != value
    ]


def _inputs(
    tracker: Tracker, run_id: str, record: Mapping[str, Any], content: ContentRoot,
    specs: Mapping[str, MetricSpec],
) -> list[str]:  # fmt: skip
    from pessimal.gate.policy import load_policy
    from pessimal.gate.waivers import load_waivers

    policy = record["policy"]
    path = Path(policy["path"])
    if not path.is_file():  # a run of another machine: the project's policy of that name
        path = content.expectations / path.name
    changes = []
    audits = {name.split(".", 1)[0] for name in specs}
    try:
        if load_policy(str(path), content.expectations, specs, audits).sha256 != policy["sha256"]:
            changes.append(f"the policy {policy['name']} changed")
    except UsageError as error:
        changes.append(f"the policy {policy['name']} changed ({error.message.rstrip('.')})")
    model = tracker.load_document(run_id)["model"]
    waivers = load_waivers(content.expectations / WAIVERS, specs)
    if text_hash(dumps(waivers_of(waivers, model))) != record["waivers"]:
        changes.append("the model's waivers changed")
    return changes


def _code(record: Mapping[str, Any], content: ContentRoot) -> list[str]:
    known: Mapping[str, str] = record["code"]["files"]
    now = code_files(content.audits)
    changed = [
        name for name, digest in known.items()
        if not name.startswith(MODULE) and (name not in now or hash_file(now[name]) != digest)
    ]  # fmt: skip
    # An audit that was added later has measured nothing here.
    changed += [name for name in now if name not in known and not name.startswith("audits/")]
    if not changed:
        return []
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return [f"the code changed ({', '.join(map(show_text, changed[:3]))}{more})"]


def _model(record: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What changed among the model's files, and the parts that are not on this machine."""
    from pessimal.models.hashing import hash_files

    changes: list[str] = []
    unchecked: list[str] = []
    files = record["model"]["files"]
    if files and "weights" not in files:
        unchecked.append("The weights behind the endpoint were not asked and not checked.")
    for part, held in files.items():
        paths = [Path(path) for path in held["paths"]]
        there = [path for path in paths if path.is_file()]
        if not any(path.parent.is_dir() for path in paths):
            unchecked.append(f"The model's {part} is not on this machine and was not checked.")
        elif len(there) < len(paths) or hash_files(there) != held["sha256"]:
            changes.append(f"the model's {part} changed")
    return changes, unchecked
