"""Reward functions with a known optimum that stand in for a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pessimal.errors import PessimalError

Ids = tuple[int, ...]
Floats = NDArray[np.float32]


class FakeModel:
    """A `ReplyModel` over a function of ids; it counts what it is asked."""

    prompt_tokens = 10
    suffix_tokens = 1

    def __init__(
        self,
        reward: Callable[[Ids], float],
        slopes: Callable[[Ids], Floats] | None = None,
        sharing: str = "tokens",
    ) -> None:
        self.reward, self._slopes, self.sharing = reward, slopes, sharing
        self.asked: list[Ids] = []
        self.beginnings: list[tuple[Ids, int]] = []
        self.gradients = 0

    def score(self, replies: Sequence[Ids], shared: int) -> Floats:
        assert len({reply[:shared] for reply in replies}) == 1
        assert len({len(reply) for reply in replies}) == 1
        self.asked += replies
        self.beginnings.append((replies[0][:shared], len(replies)))
        return np.array([self.reward(reply) for reply in replies], np.float32)

    def gradient(self, reply: Ids, pull: float = 0.0) -> Floats:
        if self._slopes is None:
            raise PessimalError("no_gradient", "None.", "Do without.")
        self.gradients += 1
        return self._slopes(reply)

    def slopes(self, gradient: Floats) -> Floats:
        return gradient

    def tokens(self) -> int:
        """Forward tokens of what it was asked, counted apart from the search's own books."""
        run, total = (), self.prompt_tokens
        length = 0
        at = 0
        for beginning, rows in self.beginnings:
            length = len(self.asked[at])
            at += rows
            if run[: len(beginning)] != beginning:
                run = beginning
                total += len(beginning)
            total += rows * (length - len(beginning) + self.suffix_tokens)
        return total + 3 * self.gradients * (length + self.suffix_tokens)


def additive(vocabulary: int, length: int, seed: int = 0) -> FakeModel:
    """A reward that is a sum of a table's entries, with its exact slopes."""
    table = np.random.default_rng(seed).normal(size=(length, vocabulary)).astype(np.float32)

    def reward(reply: Ids) -> float:
        return float(sum(table[j, token] for j, token in enumerate(reply)))

    return FakeModel(reward, lambda reply: table[: len(reply)])


def needle(vocabulary: int, target: Ids, seed: int = 0, wide: float = 2.5) -> FakeModel:
    """Rough ground, and one reply far above all others, on a hill that nears feel a little.

    Tokens are points in eight dimensions; the reward is a sum of a table's entries and a hill that
    falls with the squared distance from the target's points. Slopes are the exact ones.
    """
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(vocabulary, 8))
    table = 0.5 * rng.normal(size=(len(target), vocabulary))
    top = points[list(target)]

    def hill(places: NDArray[np.float64]) -> float:
        return float(10 * np.exp(-((places - top[: len(places)]) ** 2).sum() / (2 * wide**2)))

    def reward(reply: Ids) -> float:
        ground = sum(float(table[j, token]) for j, token in enumerate(reply))
        return ground + hill(points[list(reply)]) + (10.0 if reply == target else 0.0)

    def slopes(reply: Ids) -> Floats:
        places = points[list(reply)]
        pull = -hill(places) * (places - top[: len(reply)]) / wide**2
        return (table[: len(reply)] + pull @ points.T).astype(np.float32)

    return FakeModel(reward, slopes)
