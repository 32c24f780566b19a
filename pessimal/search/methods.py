"""The methods: each scores replies through the ledger until the budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import TYPE_CHECKING

import numpy as np

from pessimal.errors import UsageError
from pessimal.search.proposals import Proposals, changed, spread
from pessimal.search.records import Ids, Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pessimal.search.ledger import Ledger

Rng = np.random.Generator
BATCH = 256
"""Candidates a step of the methods that have no width of their own."""
BEAM = 8
IDLE = 10
"""Steps without a new candidate after which random hill climbing starts again."""
MAXIMUM_STARTS = 100
"""Starts without a new candidate after which it ends: the space is used up."""


def gcg(ledger: Ledger, settings: Settings, rng: Rng) -> None:
    """Greedy coordinate gradient: exact scores of what slopes and all scores so far propose.

    A step takes the slopes at the walk's reply (with momentum), scores a few whole replies that an
    additive model of all scores so far thinks best, then single changes of the walk's reply, then
    joins of the best of them. The walk goes to the best reply that the step found, if it is better
    than its own; after `patience` steps without that it restarts from the best one not yet walked.
    """
    ledger.require(4 * ledger.full_cost())
    _probe_singles(ledger, settings, rng)
    proposals = Proposals(ledger, settings, rng)
    starts = _starts(ledger, rng)
    walk = next(starts)
    proposals.learn(ledger.score([walk]))
    ledger.step()
    memory: NDArray[np.float32] | None = None
    walked, stall = {walk}, 0
    while True:
        slopes = ledger.slopes(walk, settings.pull)
        memory = slopes if memory is None else settings.momentum * memory + slopes
        leaps = ledger.score(proposals.leaps(slopes), walk)
        proposals.learn(leaps)
        found = ledger.score(proposals.draw(walk, memory, settings.width), walk)
        proposals.learn(found)
        joined = ledger.score(_joins(ledger, walk, found, settings.merge), walk)
        proposals.learn(joined)
        ledger.step()
        if not (leaps or found) and _all_scored(ledger):
            return
        best = max([*leaps, *found, *joined], key=ledger.values.__getitem__, default=walk)
        if ledger.values[best] > ledger.values[walk]:
            walk, stall = best, 0
        else:
            stall += 1
        if stall >= settings.patience:
            walk, memory, stall = _restart(ledger, walked, starts), None, 0
            proposals.learn(ledger.score([walk]))
        walked.add(walk)


def coordinate(ledger: Ledger, settings: Settings, rng: Rng) -> None:
    """Exact coordinate ascent: score every token at one position, best-first over replies.

    A line is a reply with one position free. The best reply that has an unscored line gives the
    next one; each time it has none, a restart from the next best single tokens takes a turn.
    """
    ledger.require(2 * ledger.full_cost())
    starts, lines = _starts(ledger, rng), set[tuple[int, Ids]]()
    length = ledger.config.length
    allowed = ledger.space.allowed.tolist()
    walk = next(starts)
    ledger.score([walk])
    fresh = True
    while True:
        # The cheapest line first: the last positions share the most.
        free = [j for j in reversed(range(length)) if _line(walk, j) not in lines]
        if not free:
            fresh = not fresh
            walk = next(starts) if fresh else _open_reply(ledger, lines, walk)
            if not _open_line(walk, lines):
                if len(lines) >= len(allowed) ** (length - 1) * length:
                    return
                walk = _open_reply(ledger, lines, walk)
            ledger.score([walk])
            continue
        lines.add(_line(walk, free[0]))
        for batch in _batches(changed(walk, free[0], token) for token in allowed):
            ledger.score(batch, walk)
            ledger.step()
        line = (changed(walk, free[0], token) for token in allowed)
        walk = max(line, key=lambda reply: ledger.values.get(reply, -np.inf))


def random(ledger: Ledger, settings: Settings, rng: Rng) -> None:
    """Random hill climbing: `width` random single changes a step; the best one if it is better.

    Where a reply's changes are used up it starts again from a random reply.
    """
    ledger.require(2 * ledger.full_cost())
    allowed, length = ledger.space.allowed, ledger.config.length
    starts = 0
    while starts < MAXIMUM_STARTS:
        walk: Ids = tuple(rng.choice(allowed, length).tolist())
        ledger.score([walk])
        starts, idle = starts + 1, 0
        while idle < IDLE:
            places = rng.integers(length, size=settings.width).tolist()
            tokens = rng.choice(allowed, settings.width).tolist()
            found = ledger.score(
                [changed(walk, j, token) for j, token in zip(places, tokens, strict=True)], walk
            )
            ledger.step()
            idle = 0 if found else idle + 1
            walk = max([walk, *found], key=ledger.values.__getitem__)
            starts = 0 if found else starts


def beam(ledger: Ledger, settings: Settings, rng: Rng) -> None:
    """Beam search over the best single tokens: the best beginnings, extended token by token.

    The stages share what is left evenly; the candidates of a stage are the best singles.
    """
    length, cost = ledger.config.length, 1 + ledger.model.suffix_tokens
    ledger.require((length + 1) * ledger.full_cost())
    _probe_singles(ledger, settings, rng)
    order = _best_singles(ledger, rng)
    beginnings: list[Ids] = [(token,) for token in order]
    for size in range(min(2, length), length + 1):
        share = ledger.left / (length + 1 - size)
        if not np.isfinite(share):
            share = cost * BEAM * len(order)
        # A budget for more than every token after each of a few beginnings widens the beam.
        width = max(BEAM, int(share / cost / len(order)))
        width = max(min(width, int(share / (size - 1 + cost))), 1)
        each = max(int((share / width - (size - 1)) / cost), 1)
        stage: list[Ids] = []
        for beginning in beginnings[:width]:
            longer = [(*beginning[: size - 1], token) for token in order[:each]]
            for batch in _batches(iter(longer)):
                stage += ledger.score(batch, beginning[: size - 1])
                ledger.step()
        beginnings = sorted(stage, key=ledger.values.__getitem__, reverse=True)
        if not beginnings:
            return


def exhaustive(ledger: Ledger, settings: Settings, rng: Rng) -> None:
    """Every reply there is, in order of ids.

    Raises:
        UsageError: ``space_too_large``: the budget doesn't allow it.
    """
    allowed, length = ledger.space.allowed.tolist(), ledger.config.length
    least = len(allowed) ** length * ledger.line_cost(length - 1)
    if least > ledger.left:
        raise UsageError(
            "space_too_large",
            f"{len(allowed):,} tokens make {len(allowed) ** length:,} replies of {length}, which"
            f" take {least:,} forward tokens.",
            "Give a larger --budget, or search with --method gcg.",
        )
    for beginning in product(allowed, repeat=length - 1):
        for batch in _batches((*beginning, token) for token in allowed):
            ledger.score(batch, batch[0])
            ledger.step()


def _probe_singles(ledger: Ledger, settings: Settings, rng: Rng) -> None:
    """Where no sweep is at hand, score some single tokens within the budget."""
    space = ledger.space
    if space.singles is not None or ledger.config.length == 1:
        return
    cost = 1 + ledger.model.suffix_tokens
    count = len(space.allowed)
    if np.isfinite(ledger.left):
        count = min(count, int(ledger.left * settings.start_share / cost))
    else:
        count = min(count, 4 * BATCH)
    drawn = rng.permutation(space.allowed)[:count].tolist()
    singles = np.full(len(space.allowed), np.nan, np.float32)
    place = {token: at for at, token in enumerate(space.allowed.tolist())}
    for batch in _batches((token,) for token in drawn):
        for reply in ledger.score(batch):
            singles[place[reply[0]]] = ledger.config.sign * ledger.values[reply]
    ledger.know(singles)


def _best_singles(ledger: Ledger, rng: Rng) -> list[int]:
    """Allowed tokens, the best single ones first; those without a score in random order."""
    allowed = ledger.space.allowed
    order = rng.permutation(len(allowed))
    if ledger.space.singles is not None:
        prior = spread(ledger.config.sign * ledger.space.singles)
        order = order[np.argsort(-prior[order], kind="stable")]
    return [int(token) for token in allowed[order]]


def _starts(ledger: Ledger, rng: Rng) -> Iterator[Ids]:
    """Replies to start from: one of the best single tokens at every position, then mixtures."""
    order = _best_singles(ledger, rng)
    length = ledger.config.length
    yield (order[0],) * length
    for rank in range(1, len(order)):
        top = order[: rank + 1]
        mixed = [int(token) for token in rng.choice(top, length)]
        mixed[rank % length] = order[rank]
        yield tuple(mixed)
    while True:
        yield tuple(int(token) for token in rng.choice(order, length))


def _joins(ledger: Ledger, base: Ids, found: list[Ids], count: int) -> list[Ids]:
    """Replies that join single changes of different positions, the most promising first."""
    if len(base) == 1 or count == 0:
        return []
    gains: list[list[tuple[float, int]]] = [[] for _ in base]
    for reply in found:
        places = [j for j in range(len(base)) if reply[j] != base[j]]
        if len(places) == 1:
            gain = ledger.values[reply] - ledger.values[base]
            gains[places[0]].append((gain, reply[places[0]]))
    options = [[(0.0, base[j]), *sorted(row, reverse=True)[:4]] for j, row in enumerate(gains)]
    ranked = sorted(
        product(*options), key=lambda picks: sum(gain for gain, _ in picks), reverse=True
    )
    joined = [tuple(token for _, token in picks) for picks in ranked]
    changes = ((sum(a != b for a, b in zip(reply, base, strict=True)), reply) for reply in joined)
    return [
        reply for number, reply in changes if number > 1 and reply not in ledger.values
    ][:count]  # fmt: skip


def _all_scored(ledger: Ledger) -> bool:
    """Whether there is no reply left to score."""
    length = ledger.config.length
    scored = sum(len(reply) == length for reply in ledger.values)
    return bool(scored == len(ledger.space.allowed) ** length)


def _restart(ledger: Ledger, walked: set[Ids], starts: Iterator[Ids]) -> Ids:
    """The best reply not yet walked; every other time, a new start."""
    if len(walked) % 2:
        left = (r for r in ledger.values if len(r) == ledger.config.length and r not in walked)
        best = max(left, key=ledger.values.__getitem__, default=None)
        if best is not None:
            return best
    return next(start for start in starts if start not in walked)


def _line(reply: Ids, position: int) -> tuple[int, Ids]:
    return position, (*reply[:position], *reply[position + 1 :])


def _open_line(reply: Ids, lines: set[tuple[int, Ids]]) -> bool:
    return any(_line(reply, j) not in lines for j in range(len(reply)))


def _open_reply(ledger: Ledger, lines: set[tuple[int, Ids]], otherwise: Ids) -> Ids:
    """The best reply of the full length that has an unscored line."""
    length = ledger.config.length
    replies = (r for r in ledger.values if len(r) == length and _open_line(r, lines))
    return max(replies, key=ledger.values.__getitem__, default=otherwise)


def _batches(replies: Iterator[Ids], size: int = BATCH) -> Iterator[list[Ids]]:
    while batch := list(islice(replies, size)):
        yield batch


Strategy = Callable[["Ledger", Settings, Rng], None]
