"""Rules of published searches, restated from their descriptions to be measured against.

Both are spared their repeats: a reply that was scored is looked up and costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pessimal.search.proposals import changed
from pessimal.search.records import Ids, Settings

if TYPE_CHECKING:
    from pessimal.search.ledger import Ledger
    from pessimal.search.model import Sharing

SHARING: dict[str, Sharing] = {"plain": "prompt", "fork": "nothing"}
"""What each rule doesn't run again, where that is less than the model allows."""
_IDLE = 100
"""Steps without a new candidate after which a rule has nothing left to try."""


def plain(ledger: Ledger, settings: Settings, rng: np.random.Generator) -> None:
    """GCG as nanoGCG has it: the walk follows each step's best candidate, better or worse.

    A candidate changes one position, drawn evenly, to a token drawn evenly from its `top_k`
    steepest. The prompt's cache is shared, the reply's own tokens always run.
    """
    ledger.require(4 * ledger.full_cost())
    walk = _random_start(ledger, rng)
    allowed = ledger.space.allowed
    idle = 0
    while idle < _IDLE:
        slopes = ledger.slopes(walk)
        top = np.argsort(-slopes, axis=1, kind="stable")[:, : settings.top_k]
        places = rng.integers(len(walk), size=settings.width)
        ranks = rng.integers(top.shape[1], size=settings.width)
        candidates = [
            changed(walk, int(j), int(allowed[top[j, rank]]))
            for j, rank in zip(places, ranks, strict=True)
        ]
        idle = 0 if ledger.score(candidates, walk) else idle + 1
        ledger.step()
        walk = _best_known(ledger, candidates, walk)


def fork(ledger: Ledger, settings: Settings, rng: np.random.Generator) -> None:
    """The rule that the published reward-model search follows: the steepest changes, in order.

    Nothing is drawn at random after the start, the incumbent's own tokens are offered again, the
    whole prompt runs for every candidate. Its direction is corrected: it follows the reward itself.
    """
    ledger.require(4 * ledger.full_cost())
    walk = _random_start(ledger, rng)
    allowed = ledger.space.allowed
    visited = {walk}
    idle = 0
    while idle < _IDLE:
        slopes = ledger.slopes(walk)
        own = np.searchsorted(allowed, walk)
        gains = slopes - slopes[np.arange(len(walk)), own][:, None]
        order = np.argsort(-gains, axis=None, kind="stable")[: settings.width]
        candidates = [
            changed(walk, int(flat) // len(allowed), int(allowed[int(flat) % len(allowed)]))
            for flat in order
        ]
        idle = 0 if ledger.score(candidates, walk) else idle + 1
        ledger.step()
        # Visited replies are stepped over, so that the walk can't circle.
        fresh = [reply for reply in candidates if reply not in visited]
        walk = _best_known(ledger, fresh, walk)
        if walk in visited:
            walk = _random_start(ledger, rng)
        visited.add(walk)


def _random_start(ledger: Ledger, rng: np.random.Generator) -> Ids:
    walk: Ids = tuple(rng.choice(ledger.space.allowed, ledger.config.length).tolist())
    ledger.score([walk])
    return walk


def _best_known(ledger: Ledger, replies: list[Ids], otherwise: Ids) -> Ids:
    known = [reply for reply in replies if reply in ledger.values]
    return max(known, key=ledger.values.__getitem__, default=otherwise)
