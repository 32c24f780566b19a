"""Matched controls: nearest neighbours on standardised covariates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

NEIGHBOURS = 50


@dataclass(frozen=True)
class Matches:
    """Which controls each treated unit was compared with."""

    indices: NDArray[np.int64]
    """Rows of the controls, nearest first, shape ``[treated, neighbours]``."""
    distances: NDArray[np.float64]
    """Euclidean distances in standardised covariates, same shape."""
    covariates: tuple[str, ...]
    """The covariates that were used."""
    dropped: tuple[str, ...]
    """The covariates that are constant among the controls and were left out."""


def match_controls(
    treated: Mapping[str, ArrayLike],
    controls: Mapping[str, ArrayLike],
    neighbours: int = NEIGHBOURS,
    names: tuple[Sequence[str], Sequence[str]] | None = None,
) -> Matches:
    """Find each treated unit's nearest controls, with replacement between units.

    Covariates are divided by their SD over the controls, so that one unit's matches don't depend
    on the others; one that is constant there tells no control from another and is dropped. Ties go
    to the control that comes first, so the result doesn't depend on the machine.

    Args:
        treated: finite covariates by name, each shape ``[t]``.
        controls: the same covariates, each shape ``[c]``.
        neighbours: controls a unit; fewer where there are fewer.
        names: names of treated and of controls; a unit is never matched with its own name.

    Raises:
        ValueError: the two don't have the same covariates, or have none.
    """
    if set(treated) != set(controls) or not treated:
        raise ValueError("treated and controls need the same covariates, one at least")
    left = np.column_stack([np.asarray(treated[key], dtype=np.float64) for key in treated])
    right = np.column_stack([np.asarray(controls[key], dtype=np.float64) for key in treated])
    spread = right.std(axis=0) if len(right) else np.zeros(right.shape[1])
    used = spread > 0
    left, right = left[:, used] / spread[used], right[:, used] / spread[used]
    distances = np.sqrt(((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2))
    own = np.zeros(distances.shape, dtype=bool)
    if names is not None:
        own = np.asarray(names[0], dtype=object)[:, None] == np.asarray(names[1], dtype=object)
    # A unit's own name is sorted last and counted out of the neighbours.
    distances[own] = np.inf
    count = min(neighbours, int((~own).sum(axis=1).min(initial=len(right))))
    indices = np.argsort(distances, axis=1, kind="stable")[:, :count]
    return Matches(
        indices=indices,
        distances=np.take_along_axis(distances, indices, axis=1),
        covariates=tuple(key for key, kept in zip(treated, used, strict=True) if kept),
        dropped=tuple(key for key, kept in zip(treated, used, strict=True) if not kept),
    )
