"""The frequency audit finds what was planted, and what was published."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pessimal.audit import AuditResult, Context, Metric
from pessimal.lexicons import ValenceLexicon
from tests.audits import published
from tests.audits.simulate import make_prompts, make_words
from tests.audits.test_contract import AUDITS

SETS = ("none", "valence", "full")


def metrics(result: AuditResult) -> dict[str, Metric]:
    return {m.slice: m for m in result.metrics}


def simulated(**planted: float) -> dict[str, Metric]:
    context = Context(prompts=make_prompts(), seed=0, words=make_words(**planted))
    return metrics(AUDITS["frequency"].function(context))


def test_a_planted_slope_is_found_under_every_control_set():
    none = simulated(valence_slope=0.0)
    planted = simulated(valence_slope=0.0, zipf_slope=0.5)
    for name in SETS:
        where = f"controls={name},framing=positive"
        assert none[where].ci_low < 0 < none[where].ci_high
        assert planted[where].ci_low > 0.15
        assert planted[where].n >= 590
    assert planted["all"].ci_low > 0.15
    assert none["all"].ci_low < 0 < none["all"].ci_high


def test_the_size_of_the_slope_is_in_sd_per_decade():
    words = make_words(valence_slope=0.0, zipf_slope=0.5, noise=1.0)
    found = metrics(
        AUDITS["frequency"].function(Context(prompts=make_prompts(), seed=0, words=words))
    )
    # z = (0.5 zipf + noise) / SD, with the SD that half a point a decade gives these words.
    expected = 0.5 / np.sqrt(1 + 0.2**2 + 0.25 * 0.95**2)
    assert found["controls=none,framing=positive"].value == pytest.approx(expected, abs=0.06)


def test_overall_spans_the_three_sets():
    found = simulated(zipf_slope=0.3)
    three = [found[f"controls={name},framing=positive"] for name in SETS]
    assert abs(found["all"].value) == min(abs(metric.value) for metric in three)
    assert found["all"].ci_low == min(metric.ci_low for metric in three)
    assert found["all"].ci_high == max(metric.ci_high for metric in three)


def test_constant_covariates_are_named_and_inflation_reported():
    context = Context(prompts=make_prompts(), seed=0, words=make_words())
    table = AUDITS["frequency"].function(context).tables["models"]
    full = table.query("controls == 'full' and framing == 'positive'").iloc[0]
    assert full["dropped"] == "n_tokens"
    assert full["covariates"] == "zipf valence length"
    assert full["vif_zipf"] > 1


def test_words_without_a_covariate_are_dropped():
    words = make_words()
    extra = words.iloc[:50].assign(word=[f"zzqx{i}" for i in range(50)])
    context = Context(prompts=make_prompts(), seed=0, words=pd.concat([words, extra]))
    table = AUDITS["frequency"].function(context).tables["models"]
    same = Context(prompts=make_prompts(), seed=0, words=words)
    assert table.equals(AUDITS["frequency"].function(same).tables["models"])


def test_too_few_words_are_insufficient():
    words = make_words().query("list == 'valence'").iloc[::2]
    context = Context(prompts=make_prompts(), seed=0, words=words)
    found = metrics(AUDITS["frequency"].function(context))
    assert found["all"].status == "insufficient"


@pytest.mark.parametrize(
    ("model", "expected"),
    [(published.QRM_GEMMA, 0.2232), ("RLHFlow/ArmoRM-Llama3-8B-v0.1", 0.0962)],
)
def test_published_slopes(model: str, expected: float):
    root = published.folder() / "value_words"
    terms = pd.read_csv(root / "moral_foundations_2.dicx", keep_default_na=False)
    nouns = pd.read_csv(root / "big_two_nouns.csv")["token_decoded"]
    scores = dict.fromkeys(map(str, nouns), 1.0)
    virtue = [c for c in terms.columns if c.endswith("Virtue")]
    for row in terms.itertuples(index=False):
        marked = any(getattr(row, name) for name in virtue)
        scores[row.DicTerm] = 1.0 if marked else -1.0
    lexicon = ValenceLexicon("categories", scores)
    context = published.value_words(model, lexicons={"valence": lexicon})
    found = metrics(AUDITS["frequency"].function(context))
    assert found["controls=full,framing=positive"].value == pytest.approx(expected, abs=5e-4)
