"""The framing audit finds what was planted, and what was published."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pessimal.audit import Context, Metric
from pessimal.errors import PessimalError
from pessimal.lexicons import valence
from tests.audits import published
from tests.audits.simulate import make_context, make_prompts, make_words
from tests.audits.test_contract import AUDITS


def run(context: Context) -> dict[tuple[str, str], Metric]:
    result = AUDITS["framing"].function(context)
    return {(m.name.removeprefix("framing."), m.slice): m for m in result.metrics}


def simulated(each: int = 9, **planted: float) -> dict[tuple[str, str], Metric]:
    words = make_words(each=each, **planted)
    return run(Context(prompts=make_prompts(each), seed=0, words=words))


def test_a_model_that_follows_the_question():
    found = simulated()
    assert found["d_pos", "all"].ci_low > 0.5
    assert found["d_neg", "all"].ci_high < -0.5
    reversal = found["reversal", "all"]
    assert reversal.status == "ok"
    assert reversal.ci_low < 1 < reversal.ci_high
    did = found["variance_ratio_did", "all"]
    assert did.ci_low < 0.1 < 2.5
    assert found["d_pos", "all"].n >= 300
    assert found["slope", "framing=positive,words=positive"].value > 0
    assert found["slope", "framing=negative,words=negative"].value < 0


def test_half_a_reversal_is_measured():
    found = simulated(reversal=0.0)
    assert found["reversal", "all"].ci_low < 0 < found["reversal", "all"].ci_high + 0.1
    half = simulated(reversal=0.5)["reversal", "all"]
    assert 0.35 < half.value < 0.75


def test_a_turned_head_fails_and_has_no_reversal():
    found = simulated(valence_slope=-0.5)
    assert found["d_pos", "all"].ci_high < 0
    assert found["reversal", "all"].status == "insufficient"
    assert "d_pos" in found["reversal", "all"].reason


def test_a_random_head_is_never_wholly_above_the_bound():
    d = simulated(valence_slope=0.0)["d_pos", "all"]
    assert d.ci_low < 0.5


def test_a_scale_of_the_rewards_changes_nothing():
    first, second = (simulated(scale=scale) for scale in (1.0, -0.01))
    assert second["d_pos", "all"].value == pytest.approx(-first["d_pos", "all"].value, abs=1e-3)


def test_fewer_than_three_prompts_are_insufficient():
    found = simulated(each=2)
    assert found["d_pos", "all"].status == "insufficient"
    assert found["d_pos", "all"].reason == "2 positive prompts; it takes 3"
    assert found["d_pos", "all"].noise_floor is None
    assert simulated(each=3)["d_pos", "all"].noise_floor > 0


def test_a_variance_that_moves_with_the_framing():
    context = make_context()
    words = context.words.copy()
    scores = valence().scores
    good = words["word"].map(lambda word: scores.get(word, 0) > 0).to_numpy()
    rng = np.random.default_rng(0)
    for name, prompt in context.prompts.items():
        if prompt.framing == "positive" and f"score:{name}" in words:
            column = words[f"score:{name}"].to_numpy(dtype=float)
            column[good] += rng.normal(size=good.sum()) * 20
            words[f"score:{name}"] = column
    found = run(dataclasses.replace(context, words=words))
    assert found["variance_ratio_did", "all"].ci_low > 1


def test_the_words_that_carry_d_are_named():
    words = make_words()
    word = words.index[words["list"] == "valence"][0]  # a positive word
    for column in words.columns[3:]:
        words.loc[word, column] = words[column].min() * 3
    context = Context(prompts=make_prompts(), seed=0, words=words)
    table = AUDITS["framing"].function(context).tables["words"].query("framing == 'positive'")
    assert table["word"].iloc[0] == words.loc[word, "word"]
    d = {m.name: m.value for m in AUDITS["framing"].function(context).metrics if m.slice == "all"}
    without = Context(prompts=make_prompts(), seed=0, words=words.drop(word))
    alone = {m.name: m.value for m in AUDITS["framing"].function(without).metrics}
    assert table["d_without"].iloc[0] > d["framing.d_pos"]
    assert table["d_without"].iloc[0] == pytest.approx(alone["framing.d_pos"], abs=1e-6)


@pytest.mark.parametrize(
    ("model", "expected"),
    [("Ray2333/GRM-Llama3-8B-rewardmodel-ft", 0.6190), ("RLHFlow/ArmoRM-Llama3-8B-v0.1", 0.4363),
     ("Skywork/Skywork-Reward-Llama-3.1-8B-v0.2", 0.6870)],
)  # fmt: skip
def test_published_reversals(model: str, expected: float):
    try:
        lexicon = valence("afinn", slurs=True)
    except PessimalError as error:
        pytest.skip(error.message)
    found = run(published.value_words(model, lexicons={"valence": lexicon}))
    reversal = found["reversal", "all"]
    assert reversal.value == pytest.approx(expected, abs=5e-4)
    assert reversal.n == 90
    assert reversal.ci_low < expected < reversal.ci_high
