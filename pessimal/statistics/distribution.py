"""The shape of a score distribution: moments, quantile skew, shares; the noise of an average."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pessimal.statistics.ranks import Z95, Estimate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

TAIL = 0.01
REWORDINGS = 3


def standardise(values: ArrayLike) -> Floats:
    """(value - mean) / SD (ddof 0) within each column, over its finite values.

    Args:
        values: shape ``[n]`` or ``[n, k]``.

    Returns:
        The same shape; a column without spread is all zero where it is finite, and what isn't
        finite is NaN.
    """
    array = np.array(values, dtype=np.float64)
    array[~np.isfinite(array)] = np.nan
    count = np.maximum(np.isfinite(array).sum(axis=0), 1)
    centred = array - np.nansum(array, axis=0) / count
    spread = np.sqrt(np.nansum(centred**2, axis=0) / count)
    scaled: Floats = centred / np.where(spread > 0, spread, 1.0)
    return scaled


def moments(values: ArrayLike) -> tuple[Estimate, Estimate, Estimate]:
    """Mean, variance (ddof 0) and biased skewness g1 = m3 / m2^1.5, with normal 95 % intervals.

    Standard errors are those of the influence functions, which for these moments are polynomials
    of the standardised value.

    Args:
        values: finite numbers, shape ``[n]``; skewness is NaN without spread.
    """
    x = np.asarray(values, dtype=np.float64)
    if len(x) < 2:
        nothing = Estimate(float("nan"), float("nan"), float("nan"), len(x))
        return nothing, nothing, nothing
    mean, variance = float(x.mean()), float(x.var())
    z = (x - mean) / np.sqrt(variance) if variance > 0 else np.full(len(x), np.nan)
    g1 = float((z**3).mean())
    return (
        _normal(mean, x - mean),
        _normal(variance, (x - mean) ** 2 - variance),
        _normal(g1, z**3 - 3 * z - g1 - 1.5 * g1 * (z**2 - 1)),
    )


def _normal(value: float, influence: Floats) -> Estimate:
    half = Z95 * float(influence.std(ddof=1)) / np.sqrt(len(influence))
    return Estimate(value, value - half, value + half, len(influence))


def quantile_skew(values: ArrayLike, rng: np.random.Generator, b: int = 2000) -> Estimate:
    """(Q99 + Q01 - 2 Q50) / (Q99 - Q01) with a bootstrap interval; NaN where Q99 = Q01.

    A bootstrap sample's order statistics sit at the order statistics of uniform numbers, which are
    sums of a Dirichlet draw: exact, and no sample is ever drawn.

    Args:
        values: finite numbers, shape ``[n]``.
        rng: seeded generator.
        b: bootstrap samples.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    if n < 3 or ordered[0] == ordered[-1]:
        return Estimate(float("nan"), float("nan"), float("nan"), n)
    low, middle, high = np.quantile(ordered, [TAIL, 0.5, 1 - TAIL])
    ranks = np.clip(np.round(np.array([TAIL, 0.5, 1 - TAIL]) * (n - 1)) + 1, 1, n)
    spacings = np.diff(ranks, prepend=0, append=n + 1)
    places = np.cumsum(rng.dirichlet(np.maximum(spacings, 1e-9), size=b), axis=1)[:, :3]
    drawn = ordered[np.minimum((places * n).astype(np.int64), n - 1)]
    with np.errstate(invalid="ignore", divide="ignore"):
        value = (high + low - 2 * middle) / (high - low)
        skews = (drawn[:, 2] + drawn[:, 0] - 2 * drawn[:, 1]) / (drawn[:, 2] - drawn[:, 0])
    skews = skews[np.isfinite(skews)]
    if not np.isfinite(value) or len(skews) < 0.9 * b:
        return Estimate(float("nan"), float("nan"), float("nan"), n)
    ends = np.quantile(skews, [0.025, 0.975])
    return Estimate(float(value), float(ends[0]), float(ends[1]), n)


def share(count: float, n: int) -> Estimate:
    """A share with Wilson's 95 % interval (Wilson 1927); NaN for n = 0."""
    if n == 0:
        return Estimate(float("nan"), float("nan"), float("nan"), 0)
    p, z2 = count / n, Z95**2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * float(np.sqrt(p * (1 - p) / n + z2 / (4 * n * n)))
    return Estimate(p, min(centre - half, p), max(centre + half, p), n)


def noise_floor(by_prompt: ArrayLike) -> float | None:
    """What rewording the prompt moves an average over prompts by: SD over prompts / sqrt(prompts).

    Args:
        by_prompt: the metric under each prompt of one framing, shape ``[prompts]``.

    Returns:
        None below three finite values, where nothing can be said.
    """
    values = np.asarray(by_prompt, dtype=np.float64)
    values = values[np.isfinite(values)]
    if len(values) < REWORDINGS:
        return None
    return float(values.std(ddof=1) / np.sqrt(len(values)))
