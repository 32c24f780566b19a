"""Which single changes of a reply are worth an exact score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pessimal.search.records import Ids
from pessimal.search.surrogate import Surrogate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pessimal.search.ledger import Ledger
    from pessimal.search.records import Settings

    Floats = NDArray[np.float32]


class Proposals:
    """Draws candidates that differ from a reply in one token.

    Args:
        ledger: tells the allowed tokens, their single scores and what was scored.
        settings: shares of the three kinds of picks.
        rng: seeded generator.
    """

    def __init__(self, ledger: Ledger, settings: Settings, rng: np.random.Generator) -> None:
        self._ledger, self._settings, self._rng = ledger, settings, rng
        self._allowed = ledger.space.allowed
        singles = ledger.space.singles
        known = None if singles is None else spread(ledger.config.sign * singles)
        self._surrogate = Surrogate(ledger.config.length, self._allowed, known)

    def learn(self, replies: list[Ids]) -> None:
        """Take the exact values of scored replies into account."""
        self._surrogate.learn(replies, [self._ledger.values[reply] for reply in replies])

    def leaps(self, slopes: Floats) -> list[Ids]:
        """The whole replies that all scores so far speak for, new ones, best first.

        Args:
            slopes: predicted gain of each token at each position, ``[n, A]``.
        """
        self._surrogate.fit(slopes)
        return self._surrogate.best(self._settings.leaps, self._ledger.values)

    def draw(self, base: Ids, slopes: Floats, count: int) -> list[Ids]:
        """At most `count` new candidates, best guesses first.

        Args:
            base: the reply that is changed.
            slopes: predicted gain of each token at each position, ``[n, A]``.
            count: how many.
        """
        settings = self._settings
        uniform = round(count * settings.uniform_share)
        worth = round(count * settings.prior_share) if self._surrogate.tells else 0
        taken: dict[Ids, None] = {}
        self._by_slope(taken, base, slopes, count - uniform - worth)
        self._by_worth(taken, base, len(taken) + worth)
        self._uniform(taken, base, len(taken) + uniform)
        return list(taken)

    def _by_slope(self, taken: dict[Ids, None], base: Ids, slopes: Floats, count: int) -> None:
        """Draw from the `top_k` steepest new tokens of each position, steep ones more often."""
        ranked = [self._fresh(base, j, slopes[j], self._settings.top_k) for j in range(len(base))]
        pool = [(rank, j, token) for j, row in enumerate(ranked) for rank, token in enumerate(row)]
        if not pool:
            return
        weights = np.array([1.0 / (1 + rank) ** 0.5 for rank, _, _ in pool])
        size = min(count, len(pool))
        for pick in self._rng.choice(len(pool), size, replace=False, p=weights / weights.sum()):
            _, j, token = pool[pick]
            taken[changed(base, j, token)] = None

    def _by_worth(self, taken: dict[Ids, None], base: Ids, until: int) -> None:
        """Take the tokens worth most at each position, in turn."""
        each = until - len(taken)
        if each <= 0:
            return
        rows = [self._fresh(base, j, self._surrogate.worth[j], each) for j in range(len(base))]
        for rank in range(each):
            for j, row in enumerate(rows):
                if rank < len(row) and len(taken) < until:
                    taken[changed(base, j, row[rank])] = None

    def _uniform(self, taken: dict[Ids, None], base: Ids, until: int) -> None:
        for _ in range(4 * max(until - len(taken), 0)):
            if len(taken) >= until:
                return
            j = int(self._rng.integers(len(base)))
            reply = changed(base, j, int(self._rng.choice(self._allowed)))
            if reply not in self._ledger.values:
                taken[reply] = None

    def _fresh(self, base: Ids, position: int, row: Floats, count: int) -> list[int]:
        """The `count` tokens with the highest finite entries whose change wasn't scored yet."""
        wanted = min(len(row), count + 64)
        while True:
            top = np.argpartition(-row, wanted - 1)[:wanted]
            top = top[np.argsort(-row[top], kind="stable")]
            tokens = self._allowed[top[np.isfinite(row[top])]].tolist()
            values = self._ledger.values
            fresh = [token for token in tokens if changed(base, position, token) not in values]
            if len(fresh) >= count or wanted == len(row):
                return fresh[:count]
            wanted = min(len(row), 4 * wanted)


def changed(reply: Ids, position: int, token: int) -> Ids:
    """The reply with another token at a position."""
    return (*reply[:position], token, *reply[position + 1 :])


def spread(values: Floats) -> Floats:
    """Values as z-scores over the finite ones; others become minus infinity."""
    finite = np.isfinite(values)
    if not finite.any():
        return np.full(len(values), -np.inf, np.float32)
    scale = float(values[finite].std()) or 1.0
    found = np.where(finite, (values - values[finite].mean()) / scale, -np.inf)
    return found.astype(np.float32)
