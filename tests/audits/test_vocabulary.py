"""The vocabulary audit finds what was planted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import skew

from pessimal.audit import Metric
from tests.audits.simulate import make_context, make_vocabulary
from tests.audits.test_contract import AUDITS


def run(**changes: object) -> tuple[dict[tuple[str, str], Metric], dict]:
    context = dataclasses.replace(make_context(), **changes)
    result = AUDITS["vocabulary"].function(context)
    found = {(m.name.removeprefix("vocabulary."), m.slice): m for m in result.metrics}
    return found, dict(result.tables)


def test_the_moments_are_those_of_the_scores():
    table = make_vocabulary()
    table["score:best"] = np.exp(table["score:best"])
    found, _ = run(vocabulary=table)
    values = table["score:best"].to_numpy(dtype=float)
    assert found["mean", "prompt=best"].value == pytest.approx(values.mean())
    assert found["variance", "prompt=best"].value == pytest.approx(values.var())
    assert found["skew", "prompt=best"].value == pytest.approx(skew(values))
    low, middle, high = np.quantile(values, [0.01, 0.5, 0.99])
    expected = (high + low - 2 * middle) / (high - low)
    assert found["quantile_skew", "prompt=best"].value == pytest.approx(expected)
    assert found["quantile_skew", "all"].value == pytest.approx(expected)
    assert found["skew", "all"].value == pytest.approx(skew(values))
    means = [found["mean", f"prompt={p}"].value for p in ("greatest", "best", "worst")]
    assert found["mean", "all"].value == pytest.approx(np.mean(means))


def test_tokens_pushed_to_the_bottom_are_counted_there():
    table = make_vocabulary(n=2000)
    code = table.index[table["kind"] == "code"][:15]
    for column in ("score:greatest", "score:best", "score:worst"):
        table.loc[code, column] = -50.0
        table.loc[0, column] = -60.0  # " Muslims"
        table.loc[1, column] = -70.0  # "porn"
    found, tables = run(vocabulary=table, vocabulary_planned=6000)
    assert found["bottom_code", "all"].value >= 0.75
    assert found["bottom_identity", "prompt=best"].value == pytest.approx(1 / 20)
    assert found["bottom_sexual", "prompt=best"].value == pytest.approx(1 / 20)
    assert found["bottom_code", "all"].n == 20
    shares = tables["bottom_shares"].set_index(["group", "prompt"])
    base = (table["kind"] == "code").mean()
    assert shares.loc[("code", "best"), "base_rate"] == pytest.approx(base)
    assert tables["pessimal"].query("prompt == 'best'")["text"].tolist()[:2] == ["porn", " Muslims"]


def test_the_ends_are_ordered_and_standardised():
    table = make_vocabulary()
    _, tables = run(vocabulary=table)
    rows = tables["optimal"].query("prompt == 'best'")
    expected = table.sort_values("score:best", ascending=False).head(50)
    assert rows["token_id"].tolist() == expected["token_id"].tolist()
    assert rows["rank"].tolist() == list(range(1, 51))
    column = table["score:best"].to_numpy(dtype=float)
    assert rows["z"].iloc[0] == pytest.approx((column.max() - column.mean()) / column.std())
    lowest = tables["pessimal"].query("prompt == 'worst'")
    assert lowest["token_id"].iloc[0] == table["score:worst"].idxmin()


def test_best_and_worst_are_combined():
    table = make_vocabulary()
    table.loc[7, ["score:best", "score:worst"]] = 30.0
    table.loc[8, "score:best"], table.loc[8, "score:worst"] = 30.0, -30.0
    _, tables = run(vocabulary=table)
    tops = tables["optimal"].groupby("prompt").first()
    assert tops.loc["best+worst", "token_id"] == 7
    assert tops.loc["best-worst", "token_id"] == 8
    _, tables = run(vocabulary=make_vocabulary(prompts=("greatest",)))
    assert set(tables["optimal"]["prompt"]) == {"greatest"}


def test_every_kind_is_described_with_its_own_ends():
    table = make_vocabulary()
    _, tables = run(vocabulary=table)
    rows = tables["by_kind"].query("prompt == 'best'").set_index("kind")
    assert rows["n"].to_dict() == table["kind"].value_counts().to_dict()
    assert rows["share"].sum() == pytest.approx(1)
    ends = tables["ends_by_kind"].query("prompt == 'best' and kind == 'code' and rank == 1")
    code = table[table["kind"] == "code"]["score:best"]
    assert ends.set_index("end")["token_id"].to_dict() == {
        "top": code.idxmax(), "bottom": code.idxmin(),
    }  # fmt: skip


def test_case_and_space_variants_are_one_word():
    table = make_vocabulary()
    words = int((table["kind"] == "word").sum())
    found, _ = run(vocabulary=table)
    assert found["distinct_words", "all"].value == words - 1  # " Love" and "love"
    assert found["distinct_words", "all"].n == words


def test_the_text_mode_is_compared():
    found, tables = run()
    assert found["as_text_changed", "all"].value == 0.25
    assert 0.9 < found["as_text_tau", "prompt=best"].value < 1
    assert tables["as_text"].set_index("reason")["n"].to_dict() == {"same": 300, "trimmed": 100}
    found, _ = run(as_text=None)
    assert found["as_text_changed", "all"].status == "insufficient"


def test_a_sample_is_labelled():
    context = dataclasses.replace(make_context(), sampled=True)
    result = AUDITS["vocabulary"].function(context)
    assert all("sample" in figure.caption for figure in result.figures)
    assert len(result.figures) == 7
