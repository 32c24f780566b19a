"""What goes with two models agreeing: a regression over pairs, tested by permuting models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pessimal.compare.covariates import Covariates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MINIMUM_MODELS = 10
PERMUTATIONS = 5000
_TERMS = (
    ("same_base", "base", "same pretrained model"),
    ("same_developer", "developer", "same developer"),
    ("near_size", "size", "1 / (1 + difference in billions of parameters)"),
    ("near_rank", "rank", "1 / (1 + difference in leaderboard rank)"),
)


@dataclass(frozen=True)
class Term:
    """One predictor."""

    name: str
    """Its name."""
    meaning: str
    """What it is, for readers."""
    coefficient: float
    """Change of tau with the predictor, the others held."""
    p: float
    """Two-sided permutation p."""


def predictors(known: Sequence[Covariates]) -> tuple[dict[str, Floats], list[dict[str, str]]]:
    """Every predictor that can be told, and those that can't with the reason.

    Args:
        known: what is known of each of k models.

    Returns:
        Symmetric matrices ``[k, k]`` by name, and ``name reason`` of the rest.
    """
    k = len(known)
    pairs = np.triu_indices(k, 1)
    found: dict[str, Floats] = {}
    dropped: list[dict[str, str]] = []
    for name, field, _ in _TERMS:
        values = [getattr(one, field) for one in known]
        unknown = sum(value is None for value in values)
        if unknown:
            dropped.append({"name": name, "reason": f"{field} is unknown for {unknown} of {k}"})
            continue
        column = np.array(values, dtype=object if isinstance(values[0], str) else np.float64)
        if column.dtype == object:
            near = (column[:, None] == column[None]).astype(np.float64)
        else:
            near = 1 / (1 + np.abs(column[:, None] - column[None]))
        rest = [np.ones(len(pairs[0])), *(one[pairs] for one in found.values())]
        design = np.column_stack([*rest, near[pairs]])
        if np.linalg.matrix_rank(design) < design.shape[1]:
            same = np.ptp(near[pairs]) == 0
            why = "it is the same for every pair" if same else "the predictors before it fix it"
            dropped.append({"name": name, "reason": why})
            continue
        found[name] = near
    return found, dropped


def permuted_regression(
    outcome: Floats, matrices: dict[str, Floats], seed: int = 0, permutations: int = PERMUTATIONS
) -> tuple[dict[str, tuple[float, float]], float]:
    """Least squares over pairs of nodes, tested by permuting nodes (MRQAP).

    Double semi-partialing (Dekker, Krackhardt and Snijders 2007): a predictor's residuals on the
    others are permuted by nodes, rows and columns together, and its t statistic is held against
    those of the permuted ones; p = (1 + exceedances) / (1 + permutations).

    Args:
        outcome: symmetric, ``[k, k]``.
        matrices: symmetric predictors, ``[k, k]``, none a combination of the others.
        seed: of the permutations.
        permutations: how many.

    Returns:
        Coefficient and two-sided p by predictor, and R squared.
    """
    k = len(outcome)
    pairs = np.triu_indices(k, 1)
    y = outcome[pairs]
    rng = np.random.default_rng(seed)
    orders = np.stack([np.arange(k), *(rng.permutation(k) for _ in range(permutations))])
    found: dict[str, tuple[float, float]] = {}
    for name, near in matrices.items():
        others = [one[pairs] for other, one in matrices.items() if other != name]
        rest = np.column_stack([np.ones(len(y)), *others])
        basis = np.linalg.qr(rest)[0]
        free = near[pairs] - basis @ (basis.T @ near[pairs])
        residual = np.zeros((k, k))
        residual[pairs] = free
        residual += residual.T
        shuffled = residual[orders[:, pairs[0]], orders[:, pairs[1]]]
        shuffled = shuffled - (shuffled @ basis) @ basis.T
        target = y - basis @ (basis.T @ y)
        power = (shuffled**2).sum(axis=1)
        slope = shuffled @ target / power
        left = (target**2).sum() - slope**2 * power
        degrees = len(y) - rest.shape[1] - 1
        t = np.abs(slope) / np.sqrt(np.maximum(left, 1e-300) / degrees / power)
        # A hair of slack: a permutation that changes nothing must count as no smaller.
        exceeding = int((t[1:] >= t[0] * (1 - 1e-9)).sum())
        found[name] = float(slope[0]), (1 + exceeding) / (1 + permutations)
    design = np.column_stack([np.ones(len(y)), *(one[pairs] for one in matrices.values())])
    fitted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return found, float(1 - ((y - fitted) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def explain(tau: Floats, known: Sequence[Covariates], seed: int = 0) -> dict[str, Any]:
    """Regress agreement on what models share; INCONCLUSIVE below ten models.

    Args:
        tau: symmetric, ``[k, k]``, NaN where two models weren't compared.
        known: what is known of each model.
        seed: of the permutations.

    Returns:
        ``status reason models pairs permutations r_squared terms dropped``.
    """
    from pessimal.statistics.permutation import holm

    k = len(tau)
    matrices, dropped = predictors(known)
    outcome: dict[str, Any] = {
        "status": "INCONCLUSIVE", "reason": None, "models": k, "pairs": k * (k - 1) // 2,
        "permutations": PERMUTATIONS, "r_squared": None, "terms": [], "dropped": dropped,
    }  # fmt: skip
    pairs = tau[np.triu_indices(k, 1)]
    if k < MINIMUM_MODELS:
        reason = f"A model is one sample: {k} models are too few, it takes {MINIMUM_MODELS}."
    elif not np.isfinite(pairs).all():
        reason = "Some models have too few words in common to compare them."
    elif np.ptp(pairs) == 0:
        reason = "Every two models agree equally well: there is nothing to explain."
    elif not matrices:
        reason = "Nothing is known to tell models by; name it with --covariates CSV."
    else:
        found, r_squared = permuted_regression(tau, matrices, seed)
        adjusted = holm([p for _, p in found.values()])
        meanings = {name: meaning for name, _, meaning in _TERMS}
        terms = [
            vars(Term(name, meanings[name], slope, p)) | {"p_holm": float(held)}
            for (name, (slope, p)), held in zip(found.items(), adjusted, strict=True)
        ]
        return outcome | {"status": "OK", "r_squared": r_squared, "terms": terms}
    return outcome | {"reason": reason}
