"""Waivers: failures that somebody answers for, of one model at one revision, until a date."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pessimal.audit.collect import suggest
from pessimal.audit.spec import MetricSpec
from pessimal.gate.nodes import brief, read_node
from pessimal.text import show_text

CODE = "waiver_invalid"
KEYS = ("metric", "slice", "model", "revision", "reason", "owner", "expires")


@dataclass(frozen=True)
class Waiver:
    """One waived failure."""

    metric: str
    """``<audit>.<metric>``."""
    slice: str
    """The slice of the rule."""
    model: str
    """The model's id."""
    revision: str
    """The model's revision as `revision_of` gives it, whole; another one is another model."""
    reason: str
    """Why the failure is acceptable for now."""
    owner: str
    """Who answers for it."""
    expires: datetime.date
    """The last day it holds."""
    source: str
    """File and line: ``expectations/waivers.yaml:3``."""


def revision_of(model: Mapping[str, Any]) -> str | None:
    """The revision that a waiver names: the commit, else the sha256 of the adapter or the weights.

    Args:
        model: the ``model`` object of an audit document.
    """
    hashes = model.get("hashes") or {}
    return model.get("revision") or hashes.get("adapter") or hashes.get("weights")


def load_waivers(path: Path, specs: Mapping[str, MetricSpec]) -> tuple[Waiver, ...]:
    """Load ``waivers.yaml``: a list of `metric slice model revision reason owner expires`.

    Args:
        path: the file; one that isn't there or is empty holds no waivers.
        specs: every declared metric by its full name.

    Raises:
        UsageError: a field that is missing, unknown, empty or of the wrong type, an unknown metric,
            a waiver of the numerics, or two waivers of the same thing.
    """
    if not path.exists():
        return ()
    root, _ = read_node(path, f"{path.parent.name}/{show_text(path.name)}", CODE)
    if root is None:
        return ()
    found: dict[tuple[str, ...], Waiver] = {}
    for item in root.items():
        keys = item.mapping(KEYS, needed=KEYS)
        texts = {key: keys[key].text() for key in KEYS[:-1]}
        for key in KEYS[:-1]:
            if not texts[key].strip():
                raise keys[key].fault(f"The {key} is blank.", f"Give the {key}.")
        metric = texts["metric"]
        if metric not in specs:
            raise keys["metric"].fault(
                f"There is no metric {brief(metric)}.", suggest(metric, sorted(specs))
            )
        if metric.startswith("numerics."):
            raise item.fault(
                "A numerics rule can't be waived: every other verdict rests on it.",
                "Override its bound for this model under models: in the policy.",
            )
        waiver = Waiver(**texts, expires=keys["expires"].date(), source=item.place)
        same = (metric, waiver.slice, waiver.model, waiver.revision)
        if same in found:
            raise item.fault(
                f"{found[same].source} waives the same failure.", "Keep one of the two."
            )
        found[same] = waiver
    return tuple(found.values())
