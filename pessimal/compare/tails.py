"""How much of their best, or worst, hundredth two models share, with an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from pessimal.statistics.bootstrap import in_batches, percentile_interval
from pessimal.statistics.ranks import Z95, Estimate, tail_overlap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SHARE = 0.01
REPLICATES = 1000
MINIMUM_WORDS = 1000
"""Fewer words make a tail of under ten."""


def tail_estimate(
    x: Floats, y: Floats, tail: Literal["top", "bottom"], rng: np.random.Generator,
    replicates: int = REPLICATES,
) -> Estimate:  # fmt: skip
    """`tail_overlap` of 1 %, with a 95 % bootstrap interval over words.

    Each resample gives every word a Poisson(1) number of copies, which for many words is the
    bootstrap; so only the words that can be in a tail need to be drawn. Copies of a word are tied.
    A resample of a small tail can't show what the sample happens to lack, so the percentile
    interval is widened to Wilson's for as many draws as the tail has words.

    Args:
        x: scores, shape ``[n]``.
        y: scores of the same words, shape ``[n]``.
        tail: ``top`` for the highest scores, ``bottom`` for the lowest.
        rng: seeded generator.
        replicates: resamples.

    Returns:
        NaN for all three below `MINIMUM_WORDS` words.
    """
    n = len(x)
    if n < MINIMUM_WORDS:
        return Estimate(float("nan"), float("nan"), float("nan"), n)
    depth = round(SHARE * n)
    sign = 1.0 if tail == "top" else -1.0
    first, second = sign * x, sign * y
    # The words that a tail of `depth` copies can reach, in all but one of a billion resamples.
    reach = min(n, int(depth + 6 * np.sqrt(depth) + 20))
    near = [values >= np.partition(values, n - reach)[n - reach] for values in (first, second)]
    candidates = np.flatnonzero(near[0] | near[1])
    sides = [_Side(values[candidates], kept[candidates])
             for values, kept in zip((first, second), near, strict=True)]  # fmt: skip
    found = []
    for size in in_batches(replicates, len(candidates)):
        copies = rng.poisson(1.0, size=(size, len(candidates))).astype(np.float64)
        shares = [side.membership(copies, depth) for side in sides]
        found.append((copies * shares[0] * shares[1]).sum(axis=1) / depth)
    value = tail_overlap(x, y, SHARE, tail)
    low, high = percentile_interval(np.concatenate(found))
    least, most = _wilson(value, depth)
    return Estimate(value, min(low, least), max(high, most), n)


def _wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % score interval (1927) of a share of `n`."""
    centre = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * np.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


class _Side:
    """One list's candidates, sorted once: the highest first, ties in one group."""

    def __init__(self, values: Floats, near: NDArray[np.bool_]) -> None:
        self.near = np.flatnonzero(near)
        self.order = self.near[np.argsort(-values[self.near], kind="stable")]
        new = np.diff(values[self.order], prepend=np.inf) != 0
        self.starts = np.flatnonzero(new)
        self.group = np.cumsum(new) - 1

    def membership(self, copies: Floats, depth: int) -> Floats:
        """Share of each candidate's copies that is in the tail, shape ``[b, candidates]``."""
        sizes = np.add.reduceat(copies[:, self.order], self.starts, axis=1)
        before = np.cumsum(sizes, axis=1) - sizes
        share = np.clip((depth - before) / np.maximum(sizes, 1e-9), 0.0, 1.0)
        found = np.zeros_like(copies)
        found[:, self.order] = share[:, self.group]
        return found
