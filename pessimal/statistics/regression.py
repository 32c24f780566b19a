"""Least squares with robust errors, variance inflation and bootstrap replicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """A design matrix with an intercept, without constant or collinear covariates."""

    matrix: Floats
    """Shape ``[n, 1 + k]``; the first column is the intercept."""
    names: tuple[str, ...]
    """Names of the k covariates."""
    dropped: tuple[str, ...]
    """Covariates left out: constant, or determined by those before them."""
    vif: Mapping[str, float]
    """Variance inflation factor by covariate, 1 / (1 - R^2 on the others)."""


@dataclass(frozen=True)
class Fit:
    """A least-squares fit of every column of y."""

    coefficients: Mapping[str, Floats]
    """By covariate (``intercept`` included), each shape ``[k]``, one a column of y."""
    errors: Mapping[str, Floats]
    """HC3 standard errors, the same shape."""
    n: int
    """Rows used."""


def make_design(covariates: Mapping[str, ArrayLike]) -> Design:
    """Build a design, dropping covariates that add nothing to those before them.

    Args:
        covariates: finite numbers by name, each shape ``[n]``; those that matter most come first.
    """
    columns: list[Floats] = []
    names: list[str] = []
    dropped: list[str] = []
    n = len(next(iter(map(np.asarray, covariates.values())), np.zeros(0)))
    basis = np.ones((n, 1)) / np.sqrt(max(n, 1))
    for name, values in covariates.items():
        column = np.asarray(values, dtype=np.float64)
        rest = column - basis @ (basis.T @ column)
        rest -= basis @ (basis.T @ rest)  # twice is enough for orthogonality
        size = float(np.linalg.norm(rest))
        if size <= 1e-9 * max(float(np.linalg.norm(column)), 1e-300):
            dropped.append(name)
            continue
        names.append(name)
        columns.append(column)
        basis = np.column_stack([basis, rest / size])
    matrix = np.column_stack([np.ones(n), *columns])
    return Design(matrix, tuple(names), tuple(dropped), _inflation(names, matrix[:, 1:]))


def _inflation(names: list[str], columns: Floats) -> dict[str, float]:
    if len(names) < 2:
        return dict.fromkeys(names, 1.0)
    inverse = np.linalg.inv(np.corrcoef(columns, rowvar=False))
    return {name: float(inverse[i, i]) for i, name in enumerate(names)}


def ols(y: ArrayLike, design: Design) -> Fit:
    """Ordinary least squares of every column of `y` with HC3 errors (MacKinnon and White 1985).

    Args:
        y: finite numbers, shape ``[n]`` or ``[n, k]``.
        design: made by `make_design` from n rows; n must be above its width.

    Raises:
        ValueError: too few rows.
    """
    import statsmodels.api as sm

    values = np.asarray(y, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if len(values) <= design.matrix.shape[1]:
        raise ValueError(f"{len(values)} rows can't fit {design.matrix.shape[1]} coefficients")
    fits = [sm.OLS(column, design.matrix).fit(cov_type="HC3") for column in values.T]
    keys = ("intercept", *design.names)
    return Fit(
        {key: np.array([fit.params[i] for fit in fits]) for i, key in enumerate(keys)},
        {key: np.array([fit.bse[i] for fit in fits]) for i, key in enumerate(keys)},
        len(values),
    )


def coefficient_replicates(y: Floats, design: Design, counts: Floats) -> Floats:
    """Coefficients of every column of `y` in every bootstrap sample of the rows.

    Args:
        y: finite numbers, shape ``[n, k]``.
        design: made from the same n rows.
        counts: how often each row was drawn, shape ``[b, n]``.

    Returns:
        Shape ``[b, 1 + covariates, k]``; NaN where a sample's covariates are collinear.
    """
    x = design.matrix
    width = x.shape[1]
    products = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    gram = (counts @ products).reshape(len(counts), width, width)
    moments = counts @ (x[:, :, None] * y[:, None, :]).reshape(len(x), -1)
    solvable = np.linalg.cond(gram) < 1e14
    safe = np.where(solvable[:, None, None], gram, np.eye(width))
    solved = np.linalg.solve(safe, moments.reshape(len(counts), width, y.shape[1]))
    replicates: Floats = np.where(solvable[:, None, None], solved, np.nan)
    return replicates
