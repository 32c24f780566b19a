"""Cluster bootstrap over words and words x prompts, as counts: replicates are matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

REPLICATES = 2000
CROSSED_PROMPTS = 9


def resample_counts(
    rng: np.random.Generator, n: int, b: int = REPLICATES, clusters: ArrayLike | None = None
) -> Floats:
    """How often each of `n` units is drawn in each of `b` bootstrap samples.

    Args:
        rng: seeded generator.
        n: number of units.
        b: number of samples.
        clusters: labels, shape ``[n]``; units with one label are drawn together.

    Returns:
        Shape ``[b, n]``; every row sums to n where there are no clusters.
    """
    if n == 0:
        return np.zeros((b, 0))
    if clusters is None:
        # Counting uniform draws is many times faster than numpy's multinomial.
        cells = rng.integers(0, n, size=(b, n)) + n * np.arange(b)[:, None]
        return np.bincount(cells.ravel(), minlength=b * n).reshape(b, n).astype(np.float64)
    labels, which = np.unique(np.asarray(clusters), return_inverse=True)
    return resample_counts(rng, len(labels), b)[:, which]


def prompt_weights(rng: np.random.Generator, prompts: int, b: int = REPLICATES) -> Floats:
    """Weights of the prompts in each resample, shape ``[b, prompts]``, rows summing to one.

    Prompts are resampled too (crossed with words) where there are nine or more; fewer are taken as
    they are, since so few say nothing about how prompts differ.
    """
    if prompts < CROSSED_PROMPTS:
        return np.full((b, prompts), 1 / max(prompts, 1))
    return resample_counts(rng, prompts, b) / prompts


def in_batches(b: int, width: int, cells: int = 4_000_000) -> Iterator[int]:
    """Sizes that sum to `b` and keep ``size * width`` below `cells`, to bound memory."""
    size = max(1, min(b, cells // max(width, 1)))
    while b > 0:
        yield min(size, b)
        b -= size


def percentile_interval(replicates: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap interval of finite replicates; NaN where under nine in ten are finite.

    Args:
        replicates: shape ``[b]``.
        level: coverage.
    """
    values = np.asarray(replicates, dtype=np.float64)
    finite = values[np.isfinite(values)]
    if len(values) == 0 or len(finite) < 0.9 * len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def simultaneous_intervals(
    estimates: ArrayLike,
    replicates: ArrayLike,
    level: float = 0.95,
    sizes: ArrayLike | None = None,
    spreads: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Max-t intervals that hold for all estimates at once.

    Half-widths are c * SE_k, with c the `level` quantile over resamples of
    max_k |r_bk - r_k| / SE_k (Westfall and Young 1993, single step); r_k is the replicates' mean
    and SE_k their SD.

    Args:
        estimates: shape ``[k]``.
        replicates: shape ``[b, k]``.
        level: joint coverage.
        sizes: units behind each SE, shape ``[k]``. An SE from a dozen units is itself uncertain,
            far more so that far out: each variance is drawn three quarters of the way to the one
            that all units together give it, and Student's t takes the place of the normal at c's
            own tail (a moderated t: Smyth 2004). Its degrees of freedom are two and a half times
            those of the units alone: less than the pool's, whose spreads are guessed.
        spreads: SD of one unit, up to a common factor, shape ``[k]``; equal by default.

    Returns:
        Lower and upper ends, shape ``[k]``.
    """
    values, draws = (
        np.asarray(estimates, dtype=np.float64),
        np.asarray(replicates, dtype=np.float64),
    )
    error = draws.std(axis=0, ddof=1)
    scale = np.where(error > 0, error, 1.0)
    critical = float(np.quantile(np.abs((draws - draws.mean(axis=0)) / scale).max(axis=1), level))
    half = critical * error
    if sizes is not None:
        from scipy.stats import norm, t

        units = np.asarray(sizes, dtype=np.float64)
        spread = np.ones(len(units)) if spreads is None else np.asarray(spreads, np.float64)
        pooled = spread * np.sqrt(((error / spread) ** 2 * units).mean() / units)
        moderated = np.sqrt(error**2 / 4 + pooled**2 * 3 / 4)
        half = t.isf(norm.sf(critical), np.maximum(2.5 * (units - 1), 1)) * moderated
    return values - half, values + half
