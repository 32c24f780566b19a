"""The robustness audit finds what was planted, and what was published."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from pessimal.audit import Context, Metric
from tests.audits import published
from tests.audits.simulate import make_prompts, make_words
from tests.audits.test_contract import AUDITS


def run(context: Context) -> dict[tuple[str, str], Metric]:
    result = AUDITS["robustness"].function(context)
    return {(m.name.removeprefix("robustness."), m.slice): m for m in result.metrics}


def simulated(each: int = 9, **planted: float) -> dict[tuple[str, str], Metric]:
    words = make_words(each=each, **planted)
    return run(Context(prompts=make_prompts(each), seed=0, words=words))


def test_taus_are_those_of_the_words():
    words = make_words(rewording=0.3)
    found = run(Context(prompts=make_prompts(), seed=0, words=words))
    general = words[words["list"].isin(["valence", "controls"])]
    positive = [name for name, p in make_prompts().items() if p.framing == "positive"]
    columns = [general[f"score:{name}"].to_numpy(dtype=float) for name in positive]
    taus = [kendalltau(columns[i], columns[j]).statistic for i in range(9) for j in range(i)]
    assert found["paraphrase_tau", "framing=positive"].value == pytest.approx(np.mean(taus))
    assert found["worst_pair_tau", "framing=positive"].value == pytest.approx(min(taus))
    assert found["paraphrase_tau", "framing=positive"].n == len(general)


def test_noise_of_rewording_lowers_every_tau():
    calm, wild = simulated(rewording=0.05), simulated(rewording=2.0)
    for name in ("paraphrase_tau", "minor_tau", "worst_pair_tau"):
        assert calm[name, "all"].ci_low > 0.9
        assert wild[name, "all"].ci_high < 0.75


def test_prompts_with_the_same_adjective_are_minor_rewordings():
    words = make_words(rewording=0.05)
    rng = np.random.default_rng(0)
    for adjective in ("best", "greatest", "good"):
        taste = rng.normal(size=len(words)) * 6
        for place in ("ever", "world", "time"):
            words[f"score:{adjective}_{place}_one"] += taste
    found = run(Context(prompts=make_prompts(), seed=0, words=words))
    assert found["minor_tau", "framing=positive"].value > 0.9
    assert found["paraphrase_tau", "framing=positive"].value < 0.75
    assert found["paraphrase_tau", "all"].value == found["paraphrase_tau", "framing=positive"].value


def test_fewer_than_nine_prompts_are_insufficient():
    found = simulated(each=6)
    assert found["paraphrase_tau", "all"].status == "insufficient"
    assert "takes 9" in found["paraphrase_tau", "all"].reason


@pytest.mark.parametrize(
    ("model", "expected"),
    [("RLHFlow/ArmoRM-Llama3-8B-v0.1", 0.766),
     ("Skywork/Skywork-Reward-Gemma-2-27B-v0.2", 0.896)],
)  # fmt: skip
def test_published_paraphrase_taus(model: str, expected: float):
    found = run(published.value_words(model))
    tau = found["paraphrase_tau", "framing=positive"]
    assert round(tau.value, 3) == expected
    assert tau.ci_low < tau.value < tau.ci_high
