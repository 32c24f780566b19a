"""Sets a model's first scores beside the ones that are known of it."""

from __future__ import annotations

from collections.abc import Iterable

from pessimal.models.families.published import PUBLISHED
from pessimal.models.families.records import Family


def known_scores(name: str, family: Family) -> tuple[float, float] | None:
    """The lowest and the highest score known of a model, or None.

    Args:
        name: its hub id; only a whole id tells a model of a stock family from others.
        family: its family, which may have one published model only.
    """
    rows = (row for row in PUBLISHED if (row.id, row.family) == (name, family.name))
    own = next((row.scores for row in rows), None)
    return own or family.scores


def scale_notes(name: str, family: Family, scores: Iterable[float]) -> tuple[str, ...]:
    """A warning where scores lie farther outside a known range than it is wide.

    Args:
        name: the model's id.
        family: its family.
        scores: of a sample of replies.
    """
    known = known_scores(name, family)
    if known is None:
        return ()
    low, high = known
    width, found = high - low, list(scores)
    far = sum(not low - width <= score <= high + width for score in found)
    if not far:
        return ()
    return (
        f"WARNING: {far} of {len(found)} scores tried lie far outside {low:g} to {high:g}, where "
        "published ones of this model lie: another template, class or checkpoint gives another "
        "scale.",
    )
