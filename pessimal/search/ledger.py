"""The books of a search: every reply scored once, what it cost, the best so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pessimal.errors import PessimalError, UsageError
from pessimal.search.log import SearchLog
from pessimal.search.records import Ids, Point, SearchConfig, Space

if TYPE_CHECKING:
    from pessimal.search.model import Floats, ReplyModel

Progress = Callable[[Point, Ids], None]
"""Is told of every step: where the search stands, and the best reply so far."""
BACKWARD = 2
"""A backward pass counts as so many forwards."""
KEPT_GRADIENTS = 256
"""The last so many gradients are remembered."""


class Spent(Exception):
    """The budget is spent, or the time is up; ends a method wherever it stands."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Ledger:
    """Scores replies for a method, within the budget.

    Values are rewards times the direction's sign: methods always seek the highest.

    Args:
        model: scores replies.
        config: direction and limits.
        space: the allowed tokens.
        log: what an interrupted run of the same search has left.
        progress: is told of every step.
    """

    def __init__(
        self, model: ReplyModel, config: SearchConfig, space: Space, log: SearchLog,
        progress: Progress | None = None,
    ) -> None:  # fmt: skip
        self.model, self.config, self.space = model, config, space
        self.values: dict[Ids, float] = {}
        self.best: Ids = ()
        self.trajectory: list[Point] = []
        self.tokens = self.backward_passes = 0
        self._log, self._progress = log, progress
        self._began = time.perf_counter()
        self._ran: Ids = ()
        self._gradients: dict[tuple[Ids, float], Floats] = {}
        self._prompt_ran = False

    @property
    def seconds(self) -> float:
        """Time this search has taken, that of an interrupted part included."""
        return self._log.seconds + time.perf_counter() - self._began

    @property
    def best_value(self) -> float:
        """The best value so far."""
        return self.values.get(self.best, -np.inf)

    @property
    def left(self) -> float:
        """Forward tokens that are left; infinite where time is the limit."""
        budget = self.config.budget
        return np.inf if budget is None else budget - self.tokens

    def score(self, replies: Sequence[Ids], base: Ids = ()) -> list[Ids]:
        """Score replies that weren't scored yet, as many as the budget allows, in this order.

        Args:
            replies: candidates, all of one length.
            base: the reply that they change; the first tokens that they share with it are run
                once.

        Returns:
            Those that were scored now; their values are in `values`.

        Raises:
            Spent: the budget doesn't allow one more.
        """
        wanted = [reply for reply in dict.fromkeys(replies) if reply not in self.values]
        affordable = self._affordable(wanted, base)
        if wanted and not affordable:
            raise Spent("budget")
        groups: dict[int, list[Ids]] = {}
        for reply in affordable:
            groups.setdefault(self._shared(reply, base), []).append(reply)
        # The longest beginning first: shorter ones are views of it.
        for shared in sorted(groups, reverse=True):
            group = groups[shared]
            if not self._has_run(group[0][:shared]):
                self._ran = group[0][:shared]
                self.tokens += shared
            self.tokens += len(group) * self._cost(group[0], shared)
            rewards = self._log.scores(len(group), lambda g=group, s=shared: self.model.score(g, s))  # type: ignore[misc]
            self._note(group, rewards)
        return affordable

    def slopes(self, reply: Ids, pull: float = 0.0) -> Floats:
        """Slopes of the value at a reply, ``[n, A]``; for `pull` see `Gradients.at`.

        A gradient that was taken not long ago costs nothing.

        Raises:
            Spent: the budget doesn't allow a gradient, or the model gives none.
        """
        return np.float32(self.config.sign) * self.model.slopes(self._gradient(reply, pull))

    def _gradient(self, reply: Ids, pull: float) -> Floats:
        if (reply, pull) in self._gradients:
            return self._gradients[reply, pull]
        model = self.model
        run = len(reply) + model.suffix_tokens
        if model.sharing == "nothing":
            run += model.prompt_tokens
        cost = run * (1 + BACKWARD) + self._prompt_cost()
        if cost > self.left:
            raise Spent("budget")
        self.tokens += cost
        self._prompt_ran = True
        self.backward_passes += 1
        gradient = self._log.gradient(lambda: _gradient_or_nothing(model, reply, pull))
        if not gradient.size:
            raise Spent("no_gradient")
        self._gradients[reply, pull] = gradient
        if len(self._gradients) > KEPT_GRADIENTS:
            del self._gradients[next(iter(self._gradients))]
        return gradient

    def step(self) -> None:
        """End a step: note where the search stands, and keep it.

        Raises:
            Spent: the time is up.
        """
        reward = self.config.sign * self.best_value
        point = Point(self.tokens, len(self.values), self.backward_passes, reward)
        # A beam has no whole reply before its last stage.
        if self.best and self.trajectory[-1:] != [point]:
            self.trajectory.append(point)
        replayed = self._log.replaying
        self._log.flush(self.seconds)
        if self._progress is not None and self.best and not replayed:
            self._progress(point, self.best)
        limit = self.config.seconds
        # What an interrupted run went on with is gone on with again, whatever the clock says.
        if limit is not None and not replayed and self.seconds >= limit:
            raise Spent("seconds")

    def know(self, singles: Floats) -> None:
        """Take rewards of single tokens, ``[A]``, as the sweep's that wasn't at hand."""
        self.space = replace(self.space, singles=singles)

    def require(self, cost: int) -> None:
        """Refuse a budget that the first step would break.

        Args:
            cost: forward tokens of the first step without the prompt's.

        Raises:
            UsageError: ``budget_too_small``.
        """
        least = cost + self._prompt_cost()
        if self.left < least:
            raise UsageError(
                "budget_too_small",
                f"A budget of {self.config.budget} forward tokens is below one step, which takes"
                f" {least}.",
                f"Give --budget at least {least}.",
            )

    def full_cost(self) -> int:
        """Forward tokens of one reply that shares nothing but what every candidate shares."""
        return self._cost((0,) * self.config.length, 0)

    def line_cost(self, position: int) -> int:
        """Forward tokens of one candidate that changes a position of the reply before it."""
        return self._cost((0,) * self.config.length, position)

    def _note(self, replies: Sequence[Ids], rewards: Floats) -> None:
        for reply, reward in zip(replies, rewards.tolist(), strict=True):
            value = self.config.sign * reward
            # A reply that scores NaN is never the best, and never scored again.
            self.values[reply] = value if np.isfinite(value) else -np.inf
            counts = len(reply) == self.config.length
            if counts and self.values[reply] > self.best_value:
                self.best = reply

    def _affordable(self, replies: list[Ids], base: Ids) -> list[Ids]:
        if not replies:
            return []
        shares = [self._shared(reply, base) for reply in replies]
        # Counted with the longest beginning, though the replies that fit may share less.
        beginning = base[: max(shares)]
        once = self._prompt_cost() + (0 if self._has_run(beginning) else len(beginning))
        costs = [self._cost(r, s) for r, s in zip(replies, shares, strict=True)]
        within = once + np.cumsum(costs) <= self.left
        kept = [reply for reply, fits in zip(replies, within.tolist(), strict=True) if fits]
        if kept:
            self.tokens += self._prompt_cost()
            self._prompt_ran = True
        return kept

    def _cost(self, reply: Ids, shared: int) -> int:
        whole = len(reply) + self.model.suffix_tokens
        if self.model.sharing == "tokens":
            return whole - shared
        return whole + (self.model.prompt_tokens if self.model.sharing == "nothing" else 0)

    def _prompt_cost(self) -> int:
        once = self.model.sharing != "nothing" and not self._prompt_ran
        return self.model.prompt_tokens if once else 0

    def _has_run(self, ids: Ids) -> bool:
        return self._ran[: len(ids)] == ids

    def _shared(self, reply: Ids, base: Ids) -> int:
        """How many first tokens of a reply don't run again."""
        if self.model.sharing != "tokens":
            return 0
        # The last token always runs: its state is what the suffix, or the head, reads.
        limit = max(min(len(reply) - 1, len(base)), 0)
        return next((i for i in range(limit) if reply[i] != base[i]), limit)


def _gradient_or_nothing(model: ReplyModel, reply: Ids, pull: float) -> Floats:
    # That there is none is an answer too, and kept like one.
    try:
        return model.gradient(reply, pull)
    except PessimalError as error:
        if error.code != "no_gradient":
            raise
        return np.zeros((0, 0), np.float32)
