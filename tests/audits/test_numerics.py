"""The numerics audit finds what was planted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pessimal.audit import Metric
from tests.audits.simulate import FakeScorer, make_context, make_vocabulary
from tests.audits.test_contract import AUDITS


def run(**changes: object) -> dict[tuple[str, str], Metric]:
    context = dataclasses.replace(make_context(), **changes)
    result = AUDITS["numerics"].function(context)
    return {(m.name.removeprefix("numerics."), m.slice): m for m in result.metrics}


def test_clean_scores():
    found = run()
    assert found["rerun_rms", "all"].value == 0
    assert found["rerun_tau", "all"].value == 1
    assert found["bf16_tau", "all"].value == 1
    assert found["coverage", "all"].value == 1
    assert found["tied_pairs", "all"].value < 0.001
    assert found["non_finite", "all"].value == 0
    assert found["distinct_values", "all"].value > 1400


@pytest.mark.parametrize("guilty", ["batch", "order", "padding", "bfloat16"])
def test_a_rerun_that_moves_scores_is_measured_in_sd(guilty: str):
    table = make_vocabulary()
    for column in [c for c in table.columns if c.startswith("score:")]:
        table[column] *= 40
    rng = np.random.default_rng(0)

    def change(scores, variant):
        return scores + 40 * 0.2 * rng.normal(size=len(scores)) * (variant == guilty)

    found = run(vocabulary=table, scorer=FakeScorer(table, change))
    moved, still = ("bf16", "rerun") if guilty == "bfloat16" else ("rerun", "bf16")
    rms = found[f"{moved}_rms", "all"]
    assert rms.value == pytest.approx(0.2, abs=0.04)
    assert rms.ci_low < rms.value < rms.ci_high
    assert found[f"{moved}_tau", "all"].value < 0.95
    assert found[f"{still}_rms", "all"].value == 0


def test_the_worst_prompt_is_reported():
    table = make_vocabulary()
    table["score:worst"] = np.round(table["score:worst"], 0)
    table.loc[5, "score:best"] = np.nan
    table.loc[6:9, "score:worst"] = np.inf
    found = run(vocabulary=table, scorer=FakeScorer(table))
    assert found["tied_pairs", "all"].value == found["tied_pairs", "prompt=worst"].value > 0.1
    assert found["distinct_values", "all"].value == found["distinct_values", "prompt=worst"].value
    assert found["non_finite", "prompt=best"].value == 1
    assert found["non_finite", "all"].value == 4
    assert found["coverage", "all"].value == pytest.approx(1 - 5 / 6300)


def test_scores_that_were_planned_but_never_made_lower_the_coverage():
    assert run(vocabulary_planned=12600)["coverage", "all"].value == 0.5


def test_a_rerun_without_a_number_fails():
    table = make_vocabulary()
    found = run(scorer=FakeScorer(table, lambda scores, variant: scores * np.nan))
    assert found["rerun_rms", "all"].status == "failed"
    assert found["rerun_tau", "all"].value is None


def test_without_a_scorer_reruns_are_insufficient():
    found = run(scorer=None)
    for name in ("rerun_rms", "rerun_tau", "bf16_rms", "bf16_tau"):
        assert found[name, "all"].status == "insufficient"
        assert found[name, "all"].n == 0
    assert found["coverage", "all"].status == "ok"


def test_reruns_use_one_prompt_a_framing_and_the_same_replies():
    table = make_vocabulary()
    scorer = FakeScorer(table)
    run(scorer=scorer)
    assert {(prompt, variant) for prompt, variant, _ in scorer.calls} == {
        *(("greatest", v) for v in ("batch", "order", "padding", "bfloat16")),
        *(("worst", v) for v in ("batch", "order")),
    }
    assert {n for _, _, n in scorer.calls} == {200}
