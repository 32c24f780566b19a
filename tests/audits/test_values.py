"""The values audit finds what was planted, and what was published."""

from __future__ import annotations

import pandas as pd
import pytest

from pessimal.audit import Context, Metric
from pessimal.lexicons import controls
from pessimal.statistics.effects import cliffs_delta
from tests.audits import published
from tests.audits.simulate import make_prompts, make_words
from tests.audits.test_contract import AUDITS


def run(context: Context) -> dict[tuple[str, str], Metric]:
    result = AUDITS["values"].function(context)
    return {(m.name.removeprefix("values."), m.slice): m for m in result.metrics}


def planted(shift: float) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    groups = {name: [c.word for c in controls() if c.category == name][:120]
              for name in ("person", "thing")}  # fmt: skip
    words = make_words(valence_slope=0.0)
    chosen = words["word"].isin(groups["person"])
    for column in words.columns[3:]:
        words.loc[chosen, column] += 3 * shift
    return words, groups


def test_a_preferred_category_ranks_higher():
    words, groups = planted(1.0)
    found = run(Context(prompts=make_prompts(), seed=0, words=words, categories=groups))
    person = found["median_rank", "framing=positive,words=person"]
    thing = found["median_rank", "framing=positive,words=thing"]
    assert person.ci_high < thing.ci_low
    assert person.n == thing.n == 120
    assert found["delta", "contrast=person vs thing,framing=positive"].ci_low > 0.2


def test_delta_is_cliffs_delta():
    words, groups = planted(0.3)
    found = run(Context(prompts=make_prompts(1), seed=0, words=words, categories=groups))
    scores = words.set_index("word")["score:best_ever_one"]
    expected = cliffs_delta(scores[groups["person"]], scores[groups["thing"]])
    delta = found["delta", "contrast=person vs thing,framing=positive"]
    assert delta.value == pytest.approx(expected)
    assert delta.ci_low < expected < delta.ci_high


def test_prefixes_and_names_with_signs():
    words, groups = planted(0.0)
    categories = {"a,b=c": ["zebra*", "chai*", "TABLE"], "things": groups["thing"]}
    found = run(Context(prompts=make_prompts(), seed=0, words=words, categories=categories))
    metric = found["median_rank", "framing=positive,words=a b c"]
    assert metric.n == sum(w == "table" or w.startswith(("zebra", "chai")) for w in words["word"])
    assert metric.status == "insufficient"


@pytest.mark.parametrize(("category", "expected"), [("Agency", 119.4907), ("Communion", 142.9630)])
def test_published_ranks(category: str, expected: float):
    nouns = pd.read_csv(published.folder() / "value_words" / "big_two_nouns.csv")
    groups = {name: list(part["token_decoded"]) for name, part in nouns.groupby("Category")}
    context = published.value_words("RLHFlow/ArmoRM-Llama3-8B-v0.1", categories=groups)
    # A noun can be a moral-foundation term too: the published ranks are of the nouns' own run.
    words = context.words.query("list == 'big_two'")
    found = run(Context(prompts=context.prompts, seed=0, words=words, categories=groups))
    metric = found["median_rank", f"framing=positive,words={category}"]
    assert metric.value == pytest.approx(expected, abs=5e-4)
