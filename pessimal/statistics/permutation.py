"""Permutation tests over models, and corrections for families of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

LARGEST_FAMILY = 50


def permutation_p(first: ArrayLike, second: ArrayLike) -> float:
    """Exact two-sided p of a difference in means between two groups of models.

    Every way to split the models into groups of these sizes is tried. A model is one sample: pass
    one number a model, never one a prompt.

    Args:
        first: one number a model, shape ``[n]``, n at least 1.
        second: the same for the other group, shape ``[m]``.

    Raises:
        ValueError: an empty group, or more than a million splits.
    """
    from itertools import chain, combinations
    from math import comb

    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if len(a) == 0 or len(b) == 0:
        raise ValueError("both groups need a model")
    if comb(len(a) + len(b), len(a)) > 1_000_000:
        raise ValueError("too many models to try every split")

    values = np.concatenate([a, b])
    splits = comb(len(values), len(a))
    chosen = np.fromiter(
        chain.from_iterable(combinations(range(len(values)), len(a))), np.int64, splits * len(a)
    ).reshape(splits, len(a))
    sums = values[chosen].sum(axis=1)
    differences = np.abs(sums / len(a) - (values.sum() - sums) / len(b))
    # The first split is the observed one; a hair of slack counts splits that tie but for rounding.
    return float((differences >= differences[0] - 1e-12 * np.abs(values).max()).mean())


def holm(p_values: ArrayLike) -> Floats:
    """Holm's adjusted p-values (family-wise error), shape ``[k]``.

    Raises:
        ValueError: more than fifty tests.
    """
    return _adjust(p_values, "holm")


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Benjamini and Hochberg's adjusted p-values (false discovery rate), shape ``[k]``.

    Raises:
        ValueError: more than fifty tests.
    """
    return _adjust(p_values, "fdr_bh")


def _adjust(p_values: ArrayLike, method: str) -> Floats:
    from statsmodels.stats.multitest import multipletests

    values = np.asarray(p_values, dtype=np.float64)
    if len(values) > LARGEST_FAMILY:
        # Over a vocabulary everything is "significant"; such a p-value says nothing.
        raise ValueError(f"a family of {len(values)} tests; at most {LARGEST_FAMILY}")
    return np.asarray(multipletests(values, method=method)[1]) if len(values) else values
