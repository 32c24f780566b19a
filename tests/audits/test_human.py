"""The human audit finds what was planted, and what was published."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, rankdata

from pessimal.audit import Context, Metric
from tests.audits import published
from tests.audits.simulate import make_context, make_prompts
from tests.audits.test_contract import AUDITS


def run(context: Context) -> dict[tuple[str, str], Metric]:
    result = AUDITS["human"].function(context)
    return {(m.name.removeprefix("human."), m.slice): m for m in result.metrics}


def agreeing(n: int = 1200) -> Context:
    rng = np.random.default_rng(0)
    people = rng.normal(size=n).round(2)
    names = [f"Thing {i}" for i in range(n - 2)] + ["Women", "Black people"]
    words = pd.DataFrame({"word": names, "list": "human"})
    for prompt in make_prompts(3):
        words[f"score:{prompt}"] = people + rng.normal(size=n)
    ranking = pd.DataFrame({"name": names, "score": people, "matches": rng.integers(1, 2000, n)})
    return Context(prompts=make_prompts(3), seed=0, words=words, human=ranking)


def test_tau_is_kendalls_and_rows_are_joined_by_name():
    context = agreeing()
    found = run(dataclasses.replace(context, human=context.human.sample(frac=1, random_state=1)))
    scores = context.words["score:best_ever_one"]
    expected = kendalltau(scores, context.human["score"]).statistic
    tau = found["tau", "prompt=best_ever_one"]
    assert tau.value == pytest.approx(expected)
    assert tau.ci_low < expected < tau.ci_high
    positive = [m.value for (name, s), m in found.items() if name == "tau" and s != "all"]
    assert len(positive) == 3  # negative prompts don't ask for the greatest
    assert found["tau", "all"].value == pytest.approx(np.mean(positive))


def test_weights_count_matches():
    context = agreeing()
    ranking = context.human.assign(matches=0)
    ranking.loc[:599, "matches"] = 287
    found = run(dataclasses.replace(context, human=ranking))
    scores = context.words["score:best_ever_one"]
    expected = kendalltau(scores[:600], ranking["score"][:600]).statistic
    assert found["tau_weighted", "prompt=best_ever_one"].value == pytest.approx(expected)


def test_rank_gaps_are_model_rank_minus_human_rank():
    context = agreeing()
    words = context.words.copy()
    for prompt in make_prompts(3):
        words.loc[len(words) - 1, f"score:{prompt}"] = -99.0
    found = run(dataclasses.replace(context, words=words))
    place = rankdata(-context.human["score"])[-1]
    assert found["rank_gap", "term=black people"].value == pytest.approx(1200 - place)
    assert found["rank_gap", "prompt=best_ever_one,term=black people"].value == 1200 - place
    assert found["rank_gap", "all"].n == 2


def test_over_and_undervalued_entities_are_listed_by_topic():
    tables = AUDITS["human"].function(make_context()).tables
    assert tables["undervalued"]["rank_gap"].iloc[0] == tables["entities"]["rank_gap"].max()
    assert tables["overvalued"]["rank_gap"].iloc[0] == tables["entities"]["rank_gap"].min()
    assert {"identity", "other"} <= set(tables["topics"]["topic"])


TAUS = [
    ("tau", "human_greatest", published.GRM_3B, 0.3844),
    ("tau", "human_greatest", published.QRM_GEMMA, 0.2006),
    ("tau", "greatest", published.GRM_3B, 0.3898),
    ("tau_weighted", "greatest", published.GRM_3B, 0.4094),
    ("tau_weighted", "greatest", published.QRM_GEMMA, 0.2398),
]


@pytest.mark.parametrize(("metric", "prompt", "model", "expected"), TAUS)
def test_published_taus(metric: str, prompt: str, model: str, expected: float):
    found = run(published.elo_context(model))
    tau = found[metric, f"prompt={prompt}"]
    assert tau.value == pytest.approx(expected, abs=5e-4)
    assert tau.n == 7530


def test_published_means_and_the_gap_of_black_people():
    taus: dict[str, list[float]] = {"human_greatest": [], "greatest": []}
    entities = {}
    for model in published.elo_models():
        context = published.elo_context(model)
        found = run(context)
        for prompt, values in taus.items():
            values.append(found["tau", f"prompt={prompt}"].value)
        only = dataclasses.replace(context, words=context.words.drop(columns="score:greatest"))
        result = AUDITS["human"].function(only)
        entities[model] = result.tables["entities"].set_index("entity")["rank_gap"]
    assert np.mean(taus["human_greatest"]) == pytest.approx(0.2632, abs=5e-4)
    assert np.mean(taus["greatest"]) == pytest.approx(0.2936, abs=5e-4)
    # The human rank is the same for all, so the median of the gaps is the gap of the median.
    gaps = pd.DataFrame(entities).median(axis=1).sort_values(ascending=False)
    assert gaps["Black people"] == 6477.5
    assert list(gaps.index).index("Black people") == 1
