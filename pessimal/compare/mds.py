"""A map of the models on which near ones agree, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MAXIMUM_STRESS = 0.20
MINIMUM_MODELS = 3
_STARTS = 16


@dataclass(frozen=True)
class Map:
    """A metric multidimensional scaling in two dimensions."""

    points: list[list[float]] | None
    """A point a model; None where the map is refused."""
    stress: float | None
    """Stress-1: 0 for a faithful map. None where none was made."""
    reason: str | None
    """Why there are no points."""

    def document(self) -> dict[str, Any]:
        """As it stands in the document."""
        return {"points": self.points, "stress": self.stress, "reason": self.reason}


def make_map(tau: Floats, seed: int = 0) -> Map:
    """Lay out models so that distances are 1 - tau as nearly as they can be.

    Stress-1 = sqrt(sum (d - delta)^2 / sum d^2) over pairs, d on the map, delta = 1 - tau (Kruskal
    1964, with metric scaling). Above .20 the map would show what isn't there, and is refused.

    Args:
        tau: symmetric, ``[k, k]``, NaN where two models weren't compared.
        seed: of the starts.
    """
    from sklearn.manifold import MDS

    k = len(tau)
    if k < MINIMUM_MODELS:
        return Map(None, None, f"A map takes {MINIMUM_MODELS} models; there are {k}.")
    if not np.isfinite(tau).all():
        return Map(None, None, "Some models have too few words in common to place them.")
    wanted = 1 - tau
    np.fill_diagonal(wanted, 0.0)
    pairs = np.triu_indices(k, 1)
    if wanted[pairs].max() <= 1e-12:
        return Map([[0.0, 0.0]] * k, 0.0, None)
    scaling = MDS(
        n_components=2, metric="precomputed", metric_mds=True, init="random", n_init=_STARTS,
        max_iter=1000, random_state=seed, normalized_stress=False,
    )  # fmt: skip
    points = scaling.fit_transform(wanted)
    points = points - points.mean(axis=0)
    found = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    error = ((found - wanted)[pairs] ** 2).sum() / (found[pairs] ** 2).sum()
    stress = float(np.sqrt(error))
    if stress > MAXIMUM_STRESS:
        return Map(
            None, stress,
            f"Two dimensions can't hold these distances: stress is {stress:.2f}, and above"
            f" {MAXIMUM_STRESS:.2f} a map misleads. Read the matrix.",
        )  # fmt: skip
    return Map(points.tolist(), stress, None)
