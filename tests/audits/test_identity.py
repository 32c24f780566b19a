"""The identity audit finds what was planted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from pessimal.audit import AuditResult, Context, Metric
from pessimal.lexicons import controls, identity_terms
from tests.audits import published
from tests.audits.simulate import make_context, make_prompts, make_words
from tests.audits.test_contract import AUDITS


def metrics(result: AuditResult) -> dict[tuple[str, str], Metric]:
    return {(m.name.removeprefix("identity."), m.slice): m for m in result.metrics}


def simulated(each: int = 9, **planted: object) -> AuditResult:
    words = make_words(each=each, **planted)  # type: ignore[arg-type]
    return AUDITS["identity"].function(Context(prompts=make_prompts(each), seed=0, words=words))


def test_without_a_bias_there_is_no_gap():
    found = metrics(simulated(valence_slope=0.0))
    gap = found["gap", "all"]
    assert gap.ci_low < 0 < gap.ci_high
    assert gap.ci_low > -0.10
    assert gap.n == 100
    assert found["contrast", "all"].ci_low < 0 < found["contrast", "all"].ci_high


def test_a_shift_of_every_group_is_measured():
    found = metrics(simulated(valence_slope=0.0, identity_shift=-1.0))
    # Phi(-1 / sqrt 2) - 1/2: how often a term a point lower is above a control.
    assert found["gap", "all"].value == pytest.approx(-0.26, abs=0.06)
    assert found["gap", "all"].ci_high < -0.10
    assert found["gap_negative", "all"].value == pytest.approx(-0.26, abs=0.06)
    assert found["gap", "controls=valence"].ci_high < -0.10
    assert found["gap", "words=unambiguous"].n < 100


def test_a_shift_of_one_axis_is_found_there_only():
    found = metrics(simulated(valence_slope=0.0, identity_shift=-2.5, axis="religion"))
    assert found["gap", "axis=religion"].ci_high < -0.20
    for axis in {term.axis for term in identity_terms()} - {"religion"}:
        assert found["gap", f"axis={axis}"].ci_high > -0.20, axis
    assert found["contrast", "axis=religion"].value < found["contrast", "axis=gender"].value


def test_devalued_terms_are_listed_with_their_controls():
    result = simulated(valence_slope=0.0, identity_shift=-4.0, axis="age")
    table = result.tables["terms"]
    age = table["axis"] == "age"
    assert table[age]["devalued"].all()
    assert table[~age]["devalued"].mean() < 0.15  # one in twenty by chance
    assert table["term"].iloc[0] in {t.term for t in identity_terms() if t.axis == "age"}
    assert len(table["controls"].iloc[0].split(", ")) == 5
    matches = result.tables["matches"]
    assert len(matches) == 50 * len(table)
    assert not (matches["term"] == matches["control"]).any()


def test_the_jackknife_is_the_gap_without_the_term():
    result = simulated()
    table = result.tables["terms"]
    term = table["term"].iloc[0]
    words = make_words()
    context = Context(
        prompts=make_prompts(), seed=0,
        words=words[~((words["word"] == term) & (words["list"] == "identity"))],
    )  # fmt: skip
    alone = metrics(AUDITS["identity"].function(context))
    assert table["gap_without"].iloc[0] == pytest.approx(alone["gap", "all"].value)


def test_few_prompts_terms_or_controls_are_insufficient():
    assert metrics(simulated(each=2))["gap", "all"].status == "insufficient"
    words = make_words()
    for drop, reason in (("controls", "controls"), ("identity", "n is")):
        rows = words[words["list"] == drop].index[30:]
        context = Context(prompts=make_prompts(), seed=0, words=words.drop(rows))
        gap = metrics(AUDITS["identity"].function(context))["gap", "all"]
        assert gap.status == "insufficient"
        assert gap.value is not None or reason == "n is"


def test_a_human_score_is_matched_on():
    rng = np.random.default_rng(0)
    names = [t.term for t in identity_terms() if t.role == "minority"][:40]
    names += [control.word for control in controls()][:900]
    human = rng.normal(size=940)
    human[:40] -= 1
    words = pd.DataFrame({"word": names, "list": "human", "ids": [[1]] * 940})
    for prompt in make_prompts(3):
        # The model only repeats what the humans said, who devalue the groups.
        words[f"score:{prompt}"] = human + rng.normal(size=940) * 0.3
    ranking = pd.DataFrame({"name": names, "score": human, "matches": 500})
    context = Context(prompts=make_prompts(3), seed=0, words=words, human=ranking)
    found = metrics(AUDITS["identity"].function(context))
    # Unmatched, a point in human SDs is a gap of a quarter.
    assert abs(found["gap_given_human", "all"].value) < 0.13
    assert found["gap_given_human", "all"].n == 40
    worse = words.copy()
    for prompt in make_prompts(3):
        worse.loc[:39, f"score:{prompt}"] -= 2
    context = dataclasses.replace(context, words=worse)
    assert metrics(AUDITS["identity"].function(context))["gap_given_human", "all"].ci_high < -0.15


def test_only_carriers_and_bare_forms_of_the_same_kind_are_contrasted():
    pairs = AUDITS["identity"].function(make_context()).tables["pairs"]
    people = pairs.query("form == 'people'")
    assert people["minority"].str.endswith(" people").all()
    assert people["majority"].str.endswith(" people").all()
    assert len(people) < len(pairs.query("form == 'bare'"))


def test_published_models_put_groups_below_what_humans_say():
    found = metrics(AUDITS["identity"].function(published.elo_context(published.GRM_3B)))
    given = found["gap_given_human", "all"]
    assert given.ci_high < 0
    assert given.status == "insufficient"  # seven of the terms are among the entities
    assert given.n == 7
    assert found["gap", "all"].status == "insufficient"
