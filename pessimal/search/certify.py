"""What can be proved of a reply that was found; it has its own count, outside the budget."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pessimal.search.log import SearchLog
from pessimal.search.proposals import changed
from pessimal.search.records import Ids, SearchConfig, Space

if TYPE_CHECKING:
    from pessimal.search.model import ReplyModel

BATCH = 1024
PAIRS = 250_000
"""Replies of two tokens that are checked one by one; where there are more, those of the best first
tokens."""
ROUNDING = 1e-5
"""A reply isn't better by less than this share of the spread of what was checked."""


def certify(
    model: ReplyModel, config: SearchConfig, space: Space, best: Ids, scored: dict[Ids, float],
    log: SearchLog,
) -> dict[str, Any]:  # fmt: skip
    """Check every single change of a reply, and for two tokens as many pairs as are affordable.

    Args:
        model: scores replies.
        config: direction.
        space: the allowed tokens.
        best: the reply.
        scored: rewards of the replies that the search scored, by ids.
        log: what an interrupted check of the same reply has left.

    Returns:
        ``coordinate_optimal``: no single change is better; ``changes_checked``;
        ``global_optimum``: True where every reply was checked and none is better, False where one
        is, None where not all were checked; ``first_tokens``: of how many every second token was
        checked; ``pairs_checked``; ``better``: the best reply found that is better, or None;
        ``forward_tokens``.
    """
    check = _Checker(model, config, space, best, scored, log)
    for position in range(len(best)):
        check.line(best, position)
    changes = check.checked
    single = check.found()
    first_tokens = 0
    if len(best) == 2:
        allowed = space.allowed.tolist()
        first_tokens = min(len(allowed), max(PAIRS // len(allowed), 1))
        for token in _first_tokens(config, space, check.rewards)[:first_tokens]:
            check.line((token, best[1]), 1)
    found = check.found()
    whole = len(best) == 1 or first_tokens == len(space.allowed)
    return {
        "coordinate_optimal": single is None,
        "changes_checked": changes,
        "first_tokens": first_tokens,
        "pairs_checked": check.checked - changes,
        "global_optimum": False if found is not None else (True if whole else None),
        "better": found,
        "forward_tokens": check.tokens,
    }


class _Checker:
    def __init__(
        self, model: ReplyModel, config: SearchConfig, space: Space, best: Ids,
        scored: dict[Ids, float], log: SearchLog,
    ) -> None:  # fmt: skip
        self.model, self.config, self.space, self.best = model, config, space, best
        self.log = log
        self.rewards = dict(scored)
        self.checked = self.tokens = 0

    def line(self, reply: Ids, position: int) -> None:
        """Score every token at a position of a reply, where that wasn't done."""
        line = (changed(reply, position, token) for token in self.space.allowed.tolist())
        shares = self.model.sharing == "tokens"
        self.tokens += position if shares else 0
        cost = len(reply) + self.model.suffix_tokens - (position if shares else 0)
        if self.model.sharing == "nothing":
            cost += self.model.prompt_tokens
        while batch := list(islice(line, BATCH)):
            self.checked += len(batch)
            new = [candidate for candidate in batch if candidate not in self.rewards]
            if new:
                shared = position if shares else 0
                rewards = self.log.scores(
                    len(new),
                    lambda new=new, shared=shared: self.model.score(new, shared),  # type: ignore[misc]
                )
                self.log.flush(0.0)
                self.tokens += len(new) * cost
                self.rewards.update(zip(new, rewards.tolist(), strict=True))

    def found(self) -> dict[str, Any] | None:
        """The best reply of this length, if it is better than the one to be certified."""
        replies = [reply for reply in self.rewards if len(reply) == len(self.best)]
        rewards = np.array([self.rewards[reply] for reply in replies])
        values = np.where(np.isfinite(rewards), self.config.sign * rewards, -np.inf)
        top = int(np.argmax(values))
        spread = float(np.std(rewards[np.isfinite(rewards)]))
        gain = values[top] - self.config.sign * self.rewards[self.best]
        if gain <= ROUNDING * spread:
            return None
        return {"token_ids": list(replies[top]), "reward": float(rewards[top])}


def _first_tokens(config: SearchConfig, space: Space, rewards: dict[Ids, float]) -> Sequence[int]:
    """Allowed tokens, those that stood first in the best replies of two first."""
    best = dict.fromkeys(space.allowed.tolist(), -np.inf)
    for reply, reward in rewards.items():
        value = config.sign * reward
        if len(reply) == 2 and value > best[reply[0]]:
            best[reply[0]] = value
    return sorted(best, key=best.__getitem__, reverse=True)
