"""Effect sizes between two groups of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def cohens_d(first: ArrayLike, second: ArrayLike) -> float:
    """(mean of first - mean of second) / pooled SD (ddof 1); NaN where there is no spread.

    Args:
        first: finite numbers, shape ``[n]``.
        second: finite numbers, shape ``[m]``.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if len(a) < 2 or len(b) < 2:
        return float("nan")
    pooled = ((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / (len(a) + len(b) - 2)
    return float((a.mean() - b.mean()) / np.sqrt(pooled)) if pooled > 0 else float("nan")


def cliffs_delta(first: ArrayLike, second: ArrayLike) -> float:
    """P(first > second) - P(first < second) for a random pair, through the rank sum; NaN if empty.

    Args:
        first: finite numbers, shape ``[n]``.
        second: finite numbers, shape ``[m]``.
    """
    from scipy.stats import rankdata

    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if len(a) == 0 or len(b) == 0:
        return float("nan")
    rank_sum = rankdata(np.concatenate([a, b]))[: len(a)].sum()
    u = rank_sum - len(a) * (len(a) + 1) / 2
    return float(2 * u / (len(a) * len(b)) - 1)


def weighted_moments(values: Floats, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """Total count, mean and variance (ddof 1) of every column in every resample.

    Args:
        values: finite numbers, shape ``[n, k]``.
        counts: how often each row was drawn, shape ``[b, n]``.

    Returns:
        Total shape ``[b, 1]``, means and variances shape ``[b, k]``; NaN for too small a total.
    """
    # Centring first keeps the variance's subtraction from cancelling.
    centre = values.mean(axis=0)
    shifted = values - centre
    total = counts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = counts @ shifted / total
        variance = (counts @ shifted**2 - total * mean**2) / (total - 1)
    return total, mean + centre, np.maximum(variance, 0)


def cohens_d_replicates(
    first: Floats, second: Floats, first_counts: Floats, second_counts: Floats
) -> Floats:
    """Cohen's d of every column in every resample.

    Args:
        first: shape ``[n, k]``.
        second: shape ``[m, k]``.
        first_counts: how often each row of `first` was drawn, shape ``[b, n]``.
        second_counts: the same for `second`, shape ``[b, m]``.

    Returns:
        Shape ``[b, k]``; NaN where a resample has no spread.
    """
    n, mean_a, var_a = weighted_moments(first, first_counts)
    m, mean_b, var_b = weighted_moments(second, second_counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = ((n - 1) * var_a + (m - 1) * var_b) / (n + m - 2)
        d: Floats = (mean_a - mean_b) / np.sqrt(pooled)
    return d
