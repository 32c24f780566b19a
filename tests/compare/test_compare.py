"""What a comparison says of runs whose agreement is known."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau

from pessimal.compare import compare_models
from pessimal.compare.tails import tail_estimate
from pessimal.errors import PessimalError, UsageError
from pessimal.statistics.ranks import rbo, tail_overlap
from tests.compare.simulate import byte_level, entry, metric, token_table, word_table

N = 1500
WORDS = [f"word {i}" for i in range(N)]


def correlated(seed: int, count: int, share: float = 0.6, n: int = N) -> np.ndarray:
    """Scores of `count` models, ``[n, count]``, that have a common part."""
    rng = np.random.default_rng(seed)
    return np.sqrt(share) * rng.normal(size=(n, 1)) + np.sqrt(1 - share) * rng.normal(
        size=(n, count)
    )


def entries(scores: np.ndarray, prompt: str = "greatest") -> list:
    return [
        entry(f"org/m{i}", word_table(WORDS[: len(scores)], {prompt: scores[:, i]}))
        for i in range(scores.shape[1])
    ]


def test_matrices_are_those_of_the_pairs_and_means_leave_the_diagonal_out() -> None:
    scores = np.round(correlated(0, 3), 1)  # ties
    document = compare_models(entries(scores)).document
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    for name, expected in (
        ("tau", lambda x, y: kendalltau(x, y).statistic), ("rbo", rbo),
        ("tail_overlap",
         lambda x, y: (tail_overlap(x, y) + tail_overlap(x, y, tail="bottom")) / 2),
    ):  # fmt: skip
        matrix = np.array(document[name]["greatest"])
        assert np.diag(matrix) == pytest.approx(1.0)
        assert matrix == pytest.approx(matrix.T)
        values = {
            (i, j): expected(scores[:, i], scores[:, j]) for i, j in combinations(range(3), 2)
        }
        for place, value in values.items():
            assert matrix[place] == pytest.approx(value)
        mean = document["off_diagonal_mean"][name]["greatest"]
        assert mean == pytest.approx(np.mean(list(values.values())))
    assert document["words"]["greatest"] == [[N] * 3] * 3


def test_the_mean_of_one_pair_has_the_interval_of_that_pair() -> None:
    document = compare_models(entries(correlated(1, 2))).document
    (pair,) = document["pairs"]
    ends = document["mean_tau_intervals"]["greatest"]
    assert (ends["ci_low"], ends["ci_high"]) == pytest.approx((pair["tau_low"], pair["tau_high"]))
    assert pair["tau_low"] < pair["tau"] < pair["tau_high"]


def test_the_interval_of_a_mean_covers_it() -> None:
    truth = 2 / np.pi * np.arcsin(0.6)
    held = 0
    for seed in range(100):
        found = compare_models(entries(correlated(seed, 3, n=300))).document
        ends = found["mean_tau_intervals"]["greatest"]
        held += ends["ci_low"] <= truth <= ends["ci_high"]
    assert 88 <= held <= 100


def test_the_same_scores_agree_wholly_and_reversed_ones_not_at_all() -> None:
    x = correlated(0, 1)[:, 0]
    document = compare_models(entries(np.stack([x, 3 * x + 7, -x], axis=1))).document
    assert np.array(document["tau"]["greatest"]) == pytest.approx(
        np.array([[1, 1, -1], [1, 1, -1], [-1, -1, 1]])
    )
    assert document["top_overlap"]["greatest"][0] == [1.0, 1.0, 0.0]
    # The map takes distances of 0 and 2.
    assert document["mds"]["stress"] == pytest.approx(0, abs=1e-3)


def test_pairs_take_the_words_that_both_have() -> None:
    scores = correlated(2, 3)
    tables = [word_table(WORDS[start:stop], {"p": scores[start:stop, i]})
              for i, (start, stop) in enumerate([(0, 1000), (500, 1500), (980, 1500)])]  # fmt: skip
    document = compare_models([entry(f"m{i}", t) for i, t in enumerate(tables)]).document
    assert document["words"]["p"] == [[1000, 500, 20], [500, 1000, 520], [20, 520, 520]]
    assert document["tau"]["p"][0][2] is None
    assert document["tau"]["p"][0][1] == pytest.approx(
        kendalltau(scores[500:1000, 0], scores[500:1000, 1]).statistic
    )
    assert "too few words" in document["mds"]["reason"]


def test_vocabularies_are_joined_where_all_have_one_and_words_where_more_do() -> None:
    scores = correlated(3, 3)
    names = [f" token{i}".encode() for i in range(N)]
    spellings = [[byte_level(name) for name in names],
                 [name.decode().replace(" ", "▁") for name in names]]  # fmt: skip
    both = [
        entry(
            f"m{i}", word_table(WORDS, {"p": scores[:, 2], "q": scores[:, 2]}),
            token_table(spellings[i], [name.decode() for name in names], scores[:, i], "p"),
        )
        for i in range(2)
    ]  # fmt: skip
    document = compare_models(both).document
    assert {one["id"]: one["source"] for one in document["prompts"]} == {
        "p": "vocabulary", "q": "words",
    }  # fmt: skip
    assert document["tau"]["p"][0][1] == pytest.approx(
        kendalltau(scores[:, 0], scores[:, 1]).statistic
    )
    third = entry("imported", word_table(WORDS, {"p": scores[:, 1]}))
    document = compare_models([*both, third]).document
    assert {one["id"]: one["source"] for one in document["prompts"]} == {"p": "words", "q": "words"}
    assert document["tau"]["q"][0][2] is None
    assert document["tau"]["q"][2] == [None, None, None]


def test_the_words_that_models_most_disagree_on_come_first() -> None:
    x = np.arange(N, dtype=float)
    planted = x.copy()
    planted[3], planted[N - 2] = N + 5, -5
    document = compare_models(entries(np.stack([x, x, planted], axis=1))).document
    most = document["disagreement"]["greatest"]["most"]
    assert {row["word"] for row in most[:2]} == {"word 3", f"word {N - 2}"}
    row = next(row for row in most if row["word"] == "word 3")
    assert row["highest"] == "m2"
    assert row["percentiles"][2] == pytest.approx((N - 0.5) / N)
    assert row["sd"] == pytest.approx(np.std(row["percentiles"]))


def test_metrics_stand_side_by_side_in_the_models_order() -> None:
    runs = entries(correlated(4, 3))
    for place, values in enumerate(([metric("framing.d_pos", 1.5)], [], [
        metric("framing.d_pos", 0.5), metric("own.only", 1.0),
    ])):  # fmt: skip
        runs[place].document["metrics"][:] = values
    found = compare_models(runs)
    (row,) = found.document["metrics"]
    assert row["name"] == "framing.d_pos"
    assert [one and one["value"] for one in row["values"]] == [1.5, None, 0.5]
    assert row["values"][0]["ci_low"] == pytest.approx(1.4)
    assert "metrics-1" in {figure.name for figure in found.figures}


def version(revision: str, day: int, scores: np.ndarray):
    return entry("org/m", word_table(WORDS, {"p": scores}), revision=revision,
                 finished=f"2026-01-{day:02}T00:00:00+00:00")  # fmt: skip


@pytest.mark.parametrize(("share", "verdict"), [(0.98, "PASS"), (0.1, "WARN")])
def test_drift_is_told_of_two_revisions_of_one_model(share: float, verdict: str) -> None:
    scores = correlated(5, 3, share)
    runs = [version("b" * 40, 9, scores[:, 0]), version("a" * 40, 2, scores[:, 1]),
            entry("org/other", word_table(WORDS, {"p": scores[:, 2]}))]  # fmt: skip
    document = compare_models(runs).document
    (drift,) = document["drift"]
    assert (drift["earlier"]["revision"], drift["later"]["revision"]) == ("a" * 40, "b" * 40)
    assert drift["verdict"] == verdict
    assert drift["tau"]["value"] == pytest.approx(document["tau"]["p"][0][1])
    assert len(drift["moved"]["p"]) == 20
    assert [model["label"] for model in document["models"]] == ["m@bbbbbbb", "m@aaaaaaa", "other"]


def test_two_runs_of_one_revision_are_no_drift() -> None:
    scores = correlated(6, 2)
    runs = [
        entry("org/m", word_table(WORDS, {"p": scores[:, i]}), revision="a" * 40, run=f"{i}" * 32)
        for i in range(2)
    ]
    document = compare_models(runs).document
    assert document["drift"] == []
    assert len({model["label"] for model in document["models"]}) == 2


def refused(runs: list, code: str) -> PessimalError:
    with pytest.raises(PessimalError) as caught:
        compare_models(runs)
    assert caught.value.code == code
    return caught.value


def test_one_run_is_refused() -> None:
    error = refused(entries(correlated(0, 1)), "one_run")
    assert isinstance(error, UsageError)


def test_a_run_that_is_named_twice_is_refused() -> None:
    (one,) = entries(correlated(0, 1))
    assert one.run_id in refused([one, one], "run_twice").message


def test_runs_without_a_common_prompt_are_refused() -> None:
    runs = [*entries(correlated(0, 1)), entry("b", word_table(WORDS, {"worst": WORDS}))]
    error = refused(runs, "no_common_prompt")
    assert "greatest" in error.message
    assert "worst" in error.message


def test_a_prompt_of_another_text_is_left_out() -> None:
    scores = correlated(0, 2)
    runs = [
        entry(f"m{i}", word_table(WORDS, {"p": scores[:, i], "q": scores[:, i]}),
              texts={"p": f"What is {i}?", "q": "WHAT is it" + "?" * i})
        for i in range(2)
    ]  # fmt: skip
    document = compare_models(runs).document
    assert list(document["tau"]) == ["q"]
    assert any("p has another text" in note for note in document["notes"])
    for run in runs:
        del run.words["score:q"]
    refused(runs, "no_common_prompt")


def test_runs_without_common_words_are_refused() -> None:
    scores = correlated(0, 2)
    runs = [
        entry(f"m{i}", word_table([f"{i} {word}" for word in WORDS], {"p": scores[:, i]}))
        for i in range(2)
    ]
    assert "at most 0" in refused(runs, "no_common_words").message


def test_constant_scores_are_refused() -> None:
    refused(entries(np.ones((N, 2))), "scores_constant")


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_the_interval_of_a_shared_tail_covers_it(share: float) -> None:
    large = correlated(7, 2, share, 1_000_000)
    truth = tail_overlap(large[:, 0], large[:, 1])
    rng = np.random.default_rng(0)
    held = 0
    for seed in range(100):
        x, y = correlated(seed, 2, share, 3000).T
        found = tail_estimate(x, y, "top", rng, 200)
        held += found.low <= truth <= found.high
    assert held >= 92


def test_ties_at_the_edge_of_a_tail_are_shared_out() -> None:
    x = np.repeat(np.arange(15.0), 100)
    found = tail_estimate(x, x, "top", np.random.default_rng(0))
    # Fifteen places among a hundred equals: two random draws of them share 15 in a hundred.
    assert found.value == pytest.approx(0.15)
    assert found.low < 0.15 < found.high
    few = tail_estimate(x[:900], x[:900], "top", np.random.default_rng(0))
    assert np.isnan(few.value)
