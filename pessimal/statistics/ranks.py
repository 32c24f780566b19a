"""Rank statistics: percentiles, Kendall's tau with intervals, rank-biased overlap, tail overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

Z95 = 1.959963984540054


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; NaN where it is not defined."""

    value: float
    """The estimate."""
    low: float
    """Lower end."""
    high: float
    """Upper end."""
    n: int
    """Units that it rests on."""


def percentiles(values: ArrayLike) -> Floats:
    """Average-rank percentiles, (rank - 1/2) / n: in (0, 1), with mean 1/2, ties at their average.

    Args:
        values: finite numbers, shape ``[n]`` or ``[n, k]``; ranked within each column.
    """
    from scipy.stats import rankdata

    array = np.asarray(values, dtype=np.float64)
    ranks: Floats = (rankdata(array, method="average", axis=0) - 0.5) / max(len(array), 1)
    return ranks


def tied_pairs(values: ArrayLike) -> float:
    """Share of tied pairs, sum of t(t - 1) over groups / n(n - 1); NaN below two values."""
    _, counts = np.unique(np.asarray(values), return_counts=True)
    n = int(counts.sum())
    return float((counts * (counts - 1.0)).sum() / (n * (n - 1.0))) if n > 1 else float("nan")


def concordance(x: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """Each unit's concordance, c_i = sum over j of w_j sign(x_i - x_j) sign(y_i - y_j).

    O(n log n): a pair of different x is told apart by exactly one bit of its dense ranks, so each
    bit costs one pass over the units ordered by (higher bits of x, y).

    Args:
        x: finite numbers, shape ``[n]``.
        y: finite numbers, shape ``[n]``.
        weights: non-negative numbers, shape ``[n]``; ones by default.
    """
    x_rank, y_rank = _dense(x), _dense(y)
    n = len(x_rank)
    weight = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    total = np.zeros(n)
    order = np.argsort(y_rank, kind="stable")
    for bit in range(int(x_rank.max(initial=0)).bit_length() - 1, -1, -1):
        group, side = x_rank[order] >> (bit + 1), (x_rank[order] >> bit) & 1
        total[order] += _across(group, side, y_rank[order], weight[order])
        order = order[np.argsort(group * 2 + side, kind="stable")]
    return total


def _across(group: Ints, side: Ints, y: Ints, weight: Floats) -> Floats:
    """Concordance of each unit with those on the other side of its group; sorted by (group, y)."""
    n = len(group)
    new_group = np.diff(group, prepend=-1) != 0
    new_tie = new_group | (np.diff(y, prepend=-1) != 0)
    # Cumulated weight of each side before each position, with the total at the end.
    before = np.zeros((2, n + 1))
    before[1, 1:] = np.cumsum(weight * side)
    before[0, 1:] = np.cumsum(weight * (1 - side))
    group_start, group_end = _spans(new_group)
    tie_start, tie_end = _spans(new_tie)
    other = 1 - side
    below = before[other, tie_start] - before[other, group_start]
    above = before[other, group_end] - before[other, tie_end]
    signed: Floats = (below - above) * (2 * side - 1)
    return signed


def _spans(starts: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """First position and one past the last of the run that each position is in."""
    first = np.flatnonzero(starts)
    run = np.cumsum(starts) - 1
    return first[run], np.append(first[1:], len(starts))[run]


def _dense(values: ArrayLike) -> Ints:
    return np.unique(np.asarray(values), return_inverse=True)[1].astype(np.int64)


def tau_b(
    x: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> Estimate:
    """Kendall's tau-b, optionally pair-weighted with w_i w_j, with a 95 % interval.

    tau = S / sqrt(D_x D_y): S sums w_i w_j sign(x_i - x_j) sign(y_i - y_j) over pairs, D_x sums
    w_i w_j over the pairs with different x (Kendall 1945, with pair weights). The interval comes
    from the infinitesimal jackknife over units, whose terms are linear in the concordance counts,
    on Fisher's z scale.

    Args:
        x: finite numbers, shape ``[n]``.
        y: finite numbers, shape ``[n]``.
        weights: non-negative numbers, shape ``[n]``.
        clusters: labels of units that are resampled together, shape ``[n]``.

    Returns:
        NaN for all three where x or y is constant or n is below 2.
    """
    value, influence = tau_influence(x, y, weights)
    if clusters is not None and np.isfinite(value):
        influence = np.bincount(_dense(clusters), influence).astype(np.float64)
    return interval(value, influence, len(np.asarray(x)))


def tau_influence(
    x: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None
) -> tuple[float, Floats]:
    """Tau-b as `tau_b` gives it, and what each unit moves it by: infinitesimal jackknife terms.

    The terms sum to zero. Those of an average of taus over the same units are the average of the
    taus' terms; `interval` makes an interval of them.

    Args:
        x: finite numbers, shape ``[n]``.
        y: finite numbers, shape ``[n]``.
        weights: non-negative numbers, shape ``[n]``.

    Returns:
        Tau (NaN where it is not defined) and terms of shape ``[n]``.
    """
    n = len(np.asarray(x))
    weight = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    untied_x, untied_y = _untied(x, weight), _untied(y, weight)
    pairs_x, pairs_y = float((weight * untied_x).sum() / 2), float((weight * untied_y).sum() / 2)
    scale = float(np.sqrt(pairs_x * pairs_y))
    if n < 2 or scale == 0:
        return float("nan"), np.full(n, np.nan)
    counts = weight * concordance(x, y, weight)
    tau = float(np.clip(counts.sum() / 2 / scale, -1, 1))
    terms: Floats = weight * untied_x / pairs_x + weight * untied_y / pairs_y
    return tau, counts / scale - tau / 2 * terms


def interval(value: float, influence: Floats, n: int) -> Estimate:
    """A correlation's 95 % interval from its units' jackknife terms, on Fisher's z scale.

    Args:
        value: in [-1, 1], or NaN.
        influence: one term an independent unit.
        n: what to report as the number of units.
    """
    units = len(influence)
    if units < 2 or not np.isfinite(value):
        return Estimate(value, float("nan"), float("nan"), n)
    return _fisher(value, float(np.sqrt((influence**2).sum() * units / (units - 1))), n)


def _fisher(value: float, error: float, n: int) -> Estimate:
    if abs(value) >= 1 - 1e-12:
        return Estimate(value, value, value, n)
    half = Z95 * error / (1 - value**2)
    centre = np.arctanh(value)
    return Estimate(value, float(np.tanh(centre - half)), float(np.tanh(centre + half)), n)


def _untied(values: ArrayLike, weight: Floats) -> Floats:
    """Weight of the units that differ from each unit."""
    rank = _dense(values)
    untied: Floats = weight.sum() - np.bincount(rank, weight)[rank] if len(rank) else weight
    return untied


def tau_matrix(columns: ArrayLike) -> Floats:
    """Pairwise tau-b between columns, shape ``[k, k]`` from ``[n, k]``."""
    array = np.asarray(columns, dtype=np.float64)
    k = array.shape[1]
    matrix = np.eye(k)
    for i in range(k):
        for j in range(i):
            matrix[i, j] = matrix[j, i] = tau_b(array[:, i], array[:, j]).value
    return matrix


def _membership(values: Floats, depth: int) -> Floats:
    """Chance of each item to be among the first `depth` when ties are broken at random.

    Highest values come first; items tied across the border share the places that are left.
    """
    below = np.sort(values)
    greater = len(values) - np.searchsorted(below, values, side="right")
    tied = len(values) - np.searchsorted(below, values, side="left") - greater
    return np.asarray(np.clip((depth - greater) / tied, 0.0, 1.0), dtype=np.float64)


def rbo(x: ArrayLike, y: ArrayLike, p: float = 0.9) -> float:
    """Rank-biased overlap of two score lists of the same items, averaged over ways to break ties.

    RBO (Webber et al. 2010), (1 - p) sum over d of p^(d-1) A_d, with A_d the expected agreement at
    depth d when ties are broken at random (RBO^a of Corsi and Urbano 2024), cut where p^d is below
    1e-12 or the list ends, and extrapolated with the last agreement.

    Args:
        x: scores, shape ``[n]``; the highest is first.
        y: scores of the same items, shape ``[n]``.
        p: persistence, in (0, 1).
    """
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    n = len(first)
    if n == 0:
        return float("nan")
    depths = np.arange(1, min(n, int(np.ceil(np.log(1e-12) / np.log(p)))) + 1)
    deepest = int(depths[-1])
    # Items that can't be within the deepest cut of both lists never count.
    kept = (_membership(first, deepest) > 0) & (_membership(second, deepest) > 0)
    agreement = np.zeros(len(depths))
    if kept.any():
        parts = [_places(values, kept) for values in (first, second)]
        for i, depth in enumerate(depths):
            shares = [np.clip((depth - greater) / tied, 0.0, 1.0) for greater, tied in parts]
            agreement[i] = float(shares[0] @ shares[1]) / depth
    sum_of_terms = float((1 - p) * (p ** (depths - 1) * agreement).sum())
    return sum_of_terms + float(agreement[-1] * p**deepest)


def _places(values: Floats, kept: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    ordered = np.sort(values)
    right = np.searchsorted(ordered, values[kept], side="right")
    left = np.searchsorted(ordered, values[kept], side="left")
    return len(values) - right, right - left


def tail_overlap(
    x: ArrayLike, y: ArrayLike, share: float = 0.01, tail: Literal["top", "bottom"] = "top"
) -> float:
    """Share of one list's tail that is in the other's, expected when ties are broken at random.

    Args:
        x: scores, shape ``[n]``.
        y: scores of the same items, shape ``[n]``.
        share: the tail's size as a share of n; at least one item.
        tail: ``top`` for the highest scores, ``bottom`` for the lowest.
    """
    sign = 1.0 if tail == "top" else -1.0
    first, second = (sign * np.asarray(values, dtype=np.float64) for values in (x, y))
    depth = max(1, round(share * len(first)))
    if len(first) == 0:
        return float("nan")
    return float(_membership(first, depth) @ _membership(second, depth)) / depth
