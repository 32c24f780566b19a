"""How far each two models agree under each prompt: tau-b, rank-biased overlap and shared tails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from pessimal.compare.join import Joined, Source
from pessimal.compare.tails import tail_estimate
from pessimal.statistics.ranks import Estimate, interval, rbo, tau_influence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MINIMUM_WORDS = 50
"""Fewer words in common say nothing about two rankings."""
PERSISTENCE = 0.9
NOTHING = Estimate(float("nan"), float("nan"), float("nan"), 0)


@dataclass(frozen=True)
class PairAgreement:
    """Two models under one prompt; NaN where there are too few words."""

    first: int
    """Place of the one model."""
    second: int
    """Place of the other, after the first."""
    words: int
    """Words that both have."""
    tau: Estimate
    """Kendall's tau-b."""
    rbo: float
    """Rank-biased overlap from the best word down, p = .9, averaged over ways to break ties."""
    top: Estimate
    """Share of the best 1 % that is the same."""
    bottom: Estimate
    """Share of the worst 1 % that is the same."""


@dataclass(frozen=True)
class PromptAgreement:
    """All models under one prompt."""

    prompt: str
    """The prompt's id."""
    source: Source
    """``vocabulary`` or ``words``: the tables that were joined."""
    models: tuple[int, ...]
    """Places of the models that have scores under this prompt in these tables."""
    own_words: tuple[int, ...]
    """Words that each model has, 0 for one without scores."""
    pairs: tuple[PairAgreement, ...]
    """Every two of `models`."""
    mean_tau: Estimate
    """Mean tau over the pairs that have one; its interval resamples words, never models."""

    @property
    def compared(self) -> list[PairAgreement]:
        """The pairs with words enough."""
        return [pair for pair in self.pairs if np.isfinite(pair.tau.value)]

    def mean(self, what: str) -> float | None:
        """Mean over pairs of ``rbo``, ``top`` or ``bottom``; None where no pair has it."""
        values = [getattr(pair, what) for pair in self.pairs]
        numbers = [one.value if isinstance(one, Estimate) else one for one in values]
        finite = [number for number in numbers if np.isfinite(number)]
        return float(np.mean(finite)) if finite else None


def agree(joined: Joined, prompt: str, models: Sequence[int], seed: int = 0) -> PromptAgreement:
    """Compare every two models under one prompt.

    Args:
        joined: the models' tables.
        prompt: the prompt's id.
        models: places of the models that have scores under it.
        seed: of the bootstrap.
    """
    scores = {model: joined.scores(model, prompt) for model in models}
    own = [0] * len(joined.rows)
    for model in models:
        own[model] = len(joined.common([scores[model]])[0])
    pairs: list[PairAgreement] = []
    influence = np.zeros(len(joined.words))
    used = np.zeros(len(joined.words), dtype=bool)
    rng = np.random.default_rng(seed)
    for first, second in combinations(models, 2):
        words, columns = joined.common([scores[first], scores[second]])
        pair, terms = _pair(first, second, columns, rng)
        pairs.append(pair)
        if np.isfinite(pair.tau.value):
            # A mean's jackknife terms are the mean of its parts' terms, word by word.
            influence[words] += terms
            used[words] = True
    taus = [pair.tau.value for pair in pairs if np.isfinite(pair.tau.value)]
    mean = NOTHING
    if taus:
        mean = interval(float(np.mean(taus)), influence[used] / len(taus), int(used.sum()))
    return PromptAgreement(prompt, joined.source, tuple(models), tuple(own), tuple(pairs), mean)


def _pair(
    first: int, second: int, columns: Floats, rng: np.random.Generator
) -> tuple[PairAgreement, Floats]:
    n = len(columns)
    x, y = columns.T
    value, influence = tau_influence(x, y) if n >= MINIMUM_WORDS else (float("nan"), np.zeros(n))
    if not np.isfinite(value):
        return PairAgreement(first, second, n, NOTHING, float("nan"), NOTHING, NOTHING), influence
    return PairAgreement(
        first, second, n, interval(value, influence, n), rbo(x, y, PERSISTENCE),
        tail_estimate(x, y, "top", rng), tail_estimate(x, y, "bottom", rng),
    ), influence  # fmt: skip


def matrix(
    agreement: PromptAgreement, size: int, values: Sequence[float | None]
) -> list[list[float | None]]:
    """A symmetric matrix in the models' order: ones for a model with itself, None for the unknown.

    Args:
        agreement: the prompt's.
        size: number of models.
        values: one a pair.
    """
    found: list[list[float | None]] = [[None] * size for _ in range(size)]
    for model in agreement.models:
        found[model][model] = 1.0
    for pair, value in zip(agreement.pairs, values, strict=True):
        known = value if value is not None and np.isfinite(value) else None
        found[pair.first][pair.second] = found[pair.second][pair.first] = known
    return found


def mean_matrix(agreements: Sequence[PromptAgreement], size: int) -> Floats:
    """Tau of every two models, averaged over prompts, ``[size, size]``; NaN where there is none."""
    total, count = np.zeros((size, size)), np.zeros((size, size))
    for agreement in agreements:
        for pair in agreement.compared:
            for place in ((pair.first, pair.second), (pair.second, pair.first)):
                total[place] += pair.tau.value
                count[place] += 1
    with np.errstate(invalid="ignore"):
        found: Floats = total / count
    np.fill_diagonal(found, 1.0)
    return found
