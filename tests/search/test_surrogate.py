"""The additive model that proposes replies: it learns what it should, and only that."""

from __future__ import annotations

import numpy as np
import pytest

from pessimal.search.surrogate import Surrogate

TOKENS = np.arange(10, 60)
FLAT = np.zeros((2, 50), np.float32)


def table(seed: int = 0) -> np.ndarray:
    """What each token is worth at each of two positions."""
    return np.random.default_rng(seed).normal(size=(2, 50))


def replies(count: int, seed: int = 1) -> list[tuple[int, ...]]:
    drawn = np.random.default_rng(seed).choice(TOKENS, (count, 2))
    return [tuple(row) for row in drawn.tolist()]


def value(worth: np.ndarray, reply: tuple[int, ...]) -> float:
    return float(sum(worth[j, token - 10] for j, token in enumerate(reply)))


def test_a_sum_is_learned_from_few_of_its_replies() -> None:
    worth, surrogate = table(), Surrogate(2, TOKENS)
    seen = replies(400)
    surrogate.learn(seen, [7 + value(worth, reply) for reply in seen])
    surrogate.fit(FLAT)
    for j in range(2):
        assert np.corrcoef(surrogate.worth[j], worth[j])[0, 1] > 0.9
    known = dict.fromkeys(seen)
    best = surrogate.best(5, known)
    assert len(best) == 5
    assert not set(best) & set(known)
    unseen = [(a, b) for a in TOKENS.tolist() for b in TOKENS.tolist() if (a, b) not in known]
    values = sorted((value(worth, reply) for reply in unseen), reverse=True)
    assert value(worth, best[0]) >= values[20]


@pytest.mark.parametrize("known", ["singles", "slopes"])
def test_tokens_that_were_never_scored_are_judged_by_what_is_known(known: str) -> None:
    worth = np.tile(table()[0], (2, 1))
    singles = worth[0].astype(np.float32) if known == "singles" else None
    slopes = worth.astype(np.float32) if known == "slopes" else FLAT
    surrogate = Surrogate(2, TOKENS, singles)
    seen = [reply for reply in replies(400) if max(reply) < 35]
    surrogate.learn(seen, [-3 * value(worth, reply) for reply in seen])
    surrogate.fit(slopes)
    # Here what is known counts the wrong way round, and the scores say so.
    assert np.corrcoef(surrogate.worth[0, 25:], worth[0, 25:])[0, 1] < -0.9


def test_what_is_not_finite_teaches_nothing() -> None:
    worth, one, two = table(), Surrogate(2, TOKENS), Surrogate(2, TOKENS)
    seen = replies(60)
    values = [value(worth, reply) for reply in seen]
    one.learn(seen, values)
    two.learn([*seen, (10, 10), (11, 11)], [*values, -np.inf, np.nan])
    one.fit(FLAT)
    two.fit(FLAT)
    assert np.array_equal(one.worth, two.worth)


def test_unknown_singles_count_as_average() -> None:
    singles = np.full(50, np.nan, np.float32)
    assert not Surrogate(2, TOKENS, singles).tells
    singles[3] = 2.0
    assert Surrogate(2, TOKENS, singles).best(1, {}) == [(13, 13)]


def test_nothing_known_gives_no_reply() -> None:
    surrogate = Surrogate(3, TOKENS)
    surrogate.fit(np.zeros((3, 50), np.float32))
    assert surrogate.best(4, {}) == []


def test_all_of_a_small_space_are_offered_once() -> None:
    surrogate = Surrogate(2, TOKENS[:3], np.array([0.0, 1.0, 2.0], np.float32))
    offered = surrogate.best(100, {(12, 12): 1.0})
    assert len(offered) == len(set(offered)) == 8
    assert offered[0] in {(11, 12), (12, 11)}
