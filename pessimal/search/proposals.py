"""Which single changes of a reply are worth an exact score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pessimal.search.records import Ids

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
        self._place = {token: place for place, token in enumerate(self._allowed.tolist())}
        shape = ledger.config.length, len(self._allowed)
        self._prior = np.full(shape, -np.inf, np.float32)
        singles = ledger.space.singles
        if singles is not None:
            self._prior[:] = spread(ledger.config.sign * singles)

    def learn(self, replies: list[Ids]) -> None:
        """Let each scored reply's tokens stand, at their positions, for its value."""
        values = self._ledger.values
        if self._ledger.config.length == 1 or not replies:
            return
        seen = np.array([values[reply] for reply in replies], np.float32)
        centre, scale = self._scale()
        for reply, z in zip(replies, ((seen - centre) / scale).tolist(), strict=True):
            for position, token in enumerate(reply):
                place = self._place[token]
                self._prior[position, place] = max(self._prior[position, place], z)

    def _scale(self) -> tuple[float, float]:
        singles = self._ledger.space.singles
        known = None if singles is None else singles[np.isfinite(singles)]
        if known is None or len(known) < 2:
            values = np.array(list(self._ledger.values.values()))
            known = values[np.isfinite(values)]
            return (float(known.mean()), float(known.std()) or 1.0) if len(known) else (0.0, 1.0)
        return self._ledger.config.sign * float(known.mean()), float(known.std()) or 1.0

    def draw(self, base: Ids, slopes: Floats | None, count: int) -> list[Ids]:
        """At most `count` new candidates, best guesses first.

        Args:
            base: the reply that is changed.
            slopes: predicted gain of each token at each position, ``[n, A]``.
            count: how many.
        """
        settings = self._settings
        uniform = round(count * settings.uniform_share)
        prior = round(count * settings.prior_share) if np.isfinite(self._prior).any() else 0
        if slopes is None:
            uniform = count - prior
        taken: dict[Ids, None] = {}
        if slopes is not None:
            self._by_slope(taken, base, slopes, count - uniform - prior)
        self._by_prior(taken, base, len(taken) + prior)
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

    def _by_prior(self, taken: dict[Ids, None], base: Ids, until: int) -> None:
        """Take the best single tokens, and the best seen, of each position in turn."""
        each = until - len(taken)
        if each <= 0:
            return
        rows = [self._fresh(base, j, self._prior[j], each) for j in range(len(base))]
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
