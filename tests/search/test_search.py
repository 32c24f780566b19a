"""The search core from outside, on reward functions whose optimum is known."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pessimal.errors import PessimalError, UsageError
from pessimal.search import SearchConfig, SearchResult, Settings, Space
from pessimal.search.peers import SHARING
from pessimal.search.records import METHODS
from pessimal.search.run import search
from tests.search.fakes import FakeModel, additive, needle

V = 60
SPACE = Space(np.arange(V))
SMALL = Settings(width=16, top_k=16)


def config(**changes: Any) -> SearchConfig:
    given = {"length": 3, "direction": "optimal", "budget": 3000, "settings": SMALL}
    return SearchConfig(**(given | changes))  # type: ignore[arg-type]


def plain_facts(result: SearchResult) -> tuple[Any, ...]:
    return result.token_ids, result.reward, result.trajectory, dict(result.scored)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "exhaustive"])
@pytest.mark.parametrize("direction", ["optimal", "pessimal"])
@pytest.mark.parametrize("length", [1, 2, 4, 8])
def test_every_method_keeps_its_books(method: str, direction: str, length: int) -> None:
    model = additive(V, length)
    asked = config(length=length, direction=direction, method=method)
    result = search(model, asked, SPACE)
    assert len(model.asked) == len(set(model.asked)) == result.evaluations
    assert result.forward_tokens == model.tokens() <= 3000
    assert result.trajectory[-1].backward_passes == model.gradients
    values = {reply: model.reward(reply) for reply in model.asked if len(reply) == length}
    pick = max if direction == "optimal" else min
    assert result.reward == pytest.approx(pick(values.values()), abs=1e-5)
    assert values[result.token_ids] == pytest.approx(result.reward, abs=1e-5)
    rewards = [asked.sign * point.reward for point in result.trajectory]
    assert rewards == sorted(rewards)
    again = search(additive(V, length), asked, SPACE)
    assert plain_facts(again) == plain_facts(result)


def test_another_seed_searches_otherwise() -> None:
    one, two = (search(additive(V, 3), config(seed=seed, budget=200), SPACE) for seed in (0, 1))
    assert one.scored != two.scored


@pytest.mark.parametrize("method", ["gcg", "coordinate"])
def test_the_optimum_of_a_sum_is_found(method: str) -> None:
    model = additive(V, 5)
    result = search(model, config(length=5, method=method, budget=6000), SPACE)
    best = max(range(V), key=lambda token: model.reward((token,)))
    assert result.token_ids[0] == best
    assert not [
        j for j in range(5) for token in range(V)
        if model.reward((*result.token_ids[:j], token, *result.token_ids[j + 1 :]))
        > result.reward + 1e-5
    ]  # fmt: skip


def test_planted_needles_are_found_more_often_than_by_any_baseline() -> None:
    found = dict.fromkeys(("gcg", "random", "beam", "plain", "fork"), 0)
    for seed in range(16):
        target = tuple(np.random.default_rng(1000 + seed).integers(0, 500, 3).tolist())
        for method in found:
            model = needle(500, target, seed)
            model.sharing = SHARING.get(method, "tokens")
            asked = config(method=method, budget=4000, seed=seed, settings=Settings())
            result = search(model, asked, Space(np.arange(500)))
            found[method] += result.token_ids == target
    ours = found.pop("gcg")
    assert ours > max(found.values()), (ours, found)


def test_the_sweep_is_used_where_it_is_there() -> None:
    # Tokens that are good alone are good together, and slopes say nothing.
    worth = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    model = FakeModel(
        lambda reply: float(sum(worth[token] for token in reply)),
        lambda reply: np.full((len(reply), 1000), 1.0, np.float32),
    )
    cold = search(model, config(budget=400), Space(np.arange(1000)))
    warm = search(model, config(budget=400), Space(np.arange(1000), worth))
    assert warm.reward == pytest.approx(3 * worth.max(), abs=1e-5)
    assert cold.reward < warm.reward


@pytest.mark.parametrize("method", ["gcg", "plain", "fork", "random", "coordinate"])
@pytest.mark.parametrize(("tokens", "length"), [(1, 2), (3, 2), (4, 1), (2, 4)])
def test_a_space_that_is_used_up_ends_the_search(method: str, tokens: int, length: int) -> None:
    model = additive(tokens, length)
    asked = config(method=method, length=length, budget=10**9)
    result = search(model, asked, Space(np.arange(tokens)))
    best = sum(max(model.reward((*[0] * j, token)) - model.reward((*[0] * j, 0))
                   for token in range(tokens)) for j in range(length))  # fmt: skip
    assert result.reward == pytest.approx(best + model.reward((0,) * length), abs=1e-4)
    assert result.stopped == "done"


@pytest.mark.parametrize(("method", "pull"), [("gcg", 0.25), ("plain", 0.0), ("fork", 0.0)])
def test_no_gradient_is_taken_twice(method: str, pull: float) -> None:
    model, taken = additive(V, 2), []
    own = model.gradient

    def gradient(reply: tuple[int, ...], pull: float = 0.0) -> Any:
        taken.append((reply, pull))
        return own(reply, pull)

    model.gradient = gradient  # type: ignore[method-assign]
    settings = replace(SMALL, pull=0.25)
    result = search(model, config(length=2, method=method, settings=settings), SPACE)
    assert len(taken) == len(set(taken)) == result.trajectory[-1].backward_passes
    assert {one for _, one in taken} == {pull}


def test_only_allowed_tokens_are_tried() -> None:
    allowed = np.array([3, 9, 27, 50])
    for method in ("gcg", "coordinate", "random", "beam"):
        model = additive(V, 3)
        model._slopes = lambda reply, own=model._slopes: own(reply)[:, allowed]  # type: ignore[misc]
        search(model, config(method=method, budget=600), Space(allowed))
        assert {token for reply in model.asked for token in reply} <= set(allowed.tolist())


class Killed(Exception):
    """Stands in for a kill."""


@pytest.mark.parametrize("method", ["gcg", "coordinate", "random", "beam", "plain", "fork"])
@pytest.mark.parametrize("after", [1, 4])
def test_a_killed_search_ends_as_if_it_had_not_been(
    tmp_path: Path, method: str, after: int
) -> None:
    whole = search(additive(V, 3), config(method=method), SPACE)
    steps = 0

    def kill(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps == after:
            raise Killed

    model = additive(V, 3)
    with pytest.raises(Killed):
        search(model, config(method=method), SPACE, folder=tmp_path, progress=kill)
    rest = additive(V, 3)
    resumed = search(rest, config(method=method), SPACE, folder=tmp_path)
    assert plain_facts(resumed) == plain_facts(whole)
    assert len(rest.asked) == resumed.evaluations - len(model.asked)
    third = additive(V, 3)
    assert plain_facts(search(third, config(method=method), SPACE, folder=tmp_path)) == (
        plain_facts(whole)
    )
    assert third.asked == []


def test_a_damaged_log_costs_time_and_nothing_else(tmp_path: Path) -> None:
    whole = search(additive(V, 3), config(), SPACE, folder=tmp_path)
    (tmp_path / "000003.npz").write_bytes(b"PK nonsense")
    model = additive(V, 3)
    assert plain_facts(search(model, config(), SPACE, folder=tmp_path)) == plain_facts(whole)
    assert 0 < len(model.asked) < whole.evaluations
    assert plain_facts(search(additive(V, 3), config(), SPACE, folder=tmp_path)) == (
        plain_facts(whole)
    )


def test_a_search_ends_when_its_time_is_up_and_again_at_the_same_step(tmp_path: Path) -> None:
    timed = config(length=8, budget=None, seconds=0.3)
    result = search(additive(V, 8), timed, SPACE, folder=tmp_path)
    assert result.stopped == "seconds"
    assert 0.3 <= result.seconds < 5
    again = search(additive(V, 8), timed, SPACE, folder=tmp_path)
    assert plain_facts(again) == plain_facts(result)


def test_without_gradients_it_steps_down_and_says_so(tmp_path: Path) -> None:
    model = additive(V, 3)
    model._slopes = None
    result = search(model, config(), SPACE, folder=tmp_path)
    assert result.config.method == "coordinate"
    assert "no gradient" in result.notes[0]
    assert result.trajectory[-1].backward_passes > 0
    again = search(model, config(), SPACE, folder=tmp_path)
    assert (again.notes, plain_facts(again)) == (result.notes, plain_facts(result))
    with pytest.raises(PessimalError) as caught:
        search(model, config(), SPACE, step_down=False)
    assert caught.value.code == "no_gradient"


@pytest.mark.parametrize("sharing", ["tokens", "prompt", "nothing"])
def test_forward_tokens_count_what_is_not_shared(sharing: str) -> None:
    model = FakeModel(additive(V, 4).reward, sharing=sharing)
    asked = config(length=4, method="coordinate", budget=10**6)
    result = search(model, replace(asked, budget=11000), SPACE)
    least = {"tokens": 1 + 1, "prompt": 4 + 1, "nothing": 10 + 4 + 1}[sharing]
    most = {"tokens": 4 + 1 + 0.1, "prompt": 5 + 0.1, "nothing": 15}[sharing]
    assert least <= result.forward_tokens / result.evaluations <= most


def test_exhaustive_search_tries_everything() -> None:
    model = additive(12, 3)
    asked = config(method="exhaustive", budget=10**5)
    result = search(model, asked, Space(np.arange(12)))
    assert result.evaluations == 12**3
    assert result.stopped == "done"
    with pytest.raises(UsageError) as caught:
        search(model, replace(asked, budget=1000), Space(np.arange(12)))
    assert caught.value.code == "space_too_large"


def crossed(vocabulary: int, seed: int) -> FakeModel:
    """A reward of two tokens in which every pair has its own."""
    table = np.random.default_rng(seed).normal(size=(vocabulary, vocabulary))
    return FakeModel(lambda r: float(table[r[0], r[1]] if len(r) == 2 else table[0, r[0]]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("budget", [200, 3000])
@pytest.mark.parametrize("direction", ["optimal", "pessimal"])
def test_the_certificate_is_right(seed: int, budget: int, direction: str) -> None:
    model = crossed(40, seed)
    asked = config(
        length=2, method="coordinate", budget=budget, certify=True, direction=direction, seed=seed
    )
    result = search(model, asked, Space(np.arange(40)))
    said = result.certificate
    assert said is not None
    values = {(a, b): asked.sign * model.reward((a, b)) for a in range(40) for b in range(40)}
    own = values[result.token_ids]
    a, b = result.token_ids
    line = [values[a, other] for other in range(40)] + [values[other, b] for other in range(40)]
    assert said["coordinate_optimal"] == (max(line) <= own + 1e-6)
    assert said["global_optimum"] == (max(values.values()) <= own + 1e-6)
    assert said["changes_checked"] == 80
    assert said["first_tokens"] == 40
    assert result.forward_tokens <= budget
    if said["better"]:
        assert asked.sign * said["better"]["reward"] == pytest.approx(
            max(values.values()), abs=1e-5
        )


def test_an_interrupted_certificate_goes_on(tmp_path: Path) -> None:
    asked = config(length=2, method="coordinate", budget=300, certify=True)
    whole = search(crossed(40, 1), asked, Space(np.arange(40)))
    broken = crossed(40, 1)
    score, limit = broken.score, 700

    def dies(replies: Any, shared: int) -> Any:
        if len(broken.asked) > limit:
            raise Killed
        return score(replies, shared)

    broken.score = dies  # type: ignore[method-assign]
    with pytest.raises(Killed):
        search(broken, asked, Space(np.arange(40)), folder=tmp_path)
    rest = crossed(40, 1)
    resumed = search(rest, asked, Space(np.arange(40)), folder=tmp_path)
    assert resumed.certificate == whole.certificate
    assert 0 < len(rest.asked) < 40 * 40 - limit + 40


def test_a_certificate_does_not_claim_what_it_did_not_check() -> None:
    result = search(additive(V, 3), config(certify=True), SPACE)
    assert result.certificate is not None
    assert result.certificate["global_optimum"] in (None, False)
    assert result.certificate["pairs_checked"] == 0


def test_replies_without_a_finite_reward_are_never_the_best() -> None:
    def reward(reply: tuple[int, ...]) -> float:
        return math.nan if reply[0] % 2 else float(sum(reply))

    model = FakeModel(reward, lambda reply: np.ones((len(reply), V), np.float32))
    assert search(model, config(), SPACE).token_ids[0] % 2 == 0
    bad = FakeModel(lambda reply: math.nan, model._slopes)
    with pytest.raises(PessimalError) as caught:
        search(bad, config(), SPACE)
    assert caught.value.code == "nothing_scored"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"length": 0}, "length_invalid"),
        ({"length": 9}, "length_invalid"),
        ({"direction": "best"}, "direction_invalid"),
        ({"method": "magic"}, "method_unknown"),
        ({"budget": 0}, "budget_invalid"),
        ({"budget": None}, "budget_invalid"),
        ({"budget": None, "seconds": -1.0}, "budget_invalid"),
    ],
)
def test_what_is_no_search_is_refused(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        config(**changes)
    assert caught.value.code == code
    assert caught.value.remedy


@pytest.mark.parametrize("method", ["gcg", "coordinate", "random", "beam", "plain", "fork"])
def test_a_budget_below_one_step_is_refused_and_told(method: str) -> None:
    model = additive(V, 3)
    with pytest.raises(UsageError) as caught:
        search(model, config(method=method, budget=12), SPACE)
    assert caught.value.code == "budget_too_small"
    least = int(caught.value.remedy.rstrip(".").split()[-1])
    assert search(model, config(method=method, budget=least), SPACE).forward_tokens <= least


def test_no_token_left_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        search(additive(V, 3), config(), Space(np.array([], np.int64)))
    assert caught.value.code == "no_token_allowed"


@pytest.mark.parametrize(
    "values", [{"width": 0}, {"momentum": 1.5}, {"widht": 3}, {"prior_share": 0.9,
     "uniform_share": 0.5}, {"width": "64"}, {"top_k": 1.5}],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        Settings.read(values)
    assert caught.value.code == "settings_invalid"
