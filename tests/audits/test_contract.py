"""What every collected audit must do, whatever it measures."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pessimal.audit import AuditResult, Context, collect_audits
from pessimal.audit.spec import SLICE_KEYS
from tests.audits.simulate import FakeScorer, make_context, make_searches, make_vocabulary

FOLDER = Path(__file__).resolve().parents[2] / "audits"
AUDITS = collect_audits(FOLDER)
STATUSES = {"ok", "insufficient", "void", "failed"}


def without_scores(table: pd.DataFrame | None) -> pd.DataFrame | None:
    """The table with every score made NaN, infinite in the first row."""
    assert table is not None
    changed = table.copy()
    for column in changed.columns:
        if str(column).startswith(("score:", "logprob:")):
            changed[column] = np.float32(np.nan)
            changed.loc[changed.index[:1], column] = np.float32(np.inf)
    return changed


def patched(value: pd.DataFrame | None, number: float, rows: slice) -> pd.DataFrame | None:
    assert value is not None
    changed = value.copy()
    for column in changed.columns:
        if str(column).startswith("score:"):
            changed.iloc[rows, changed.columns.get_loc(column)] = number
    return changed


def contexts() -> dict[str, Context]:
    """Inputs from whole to hopeless."""
    whole = make_context()
    small = make_vocabulary(n=3)
    tables = "vocabulary", "words", "as_text", "human", "base_logprobs"
    empty = {name: getattr(whole, name).iloc[:0] for name in tables}
    constant = {name: patched(getattr(whole, name), 2.0, slice(None))
                for name in ("vocabulary", "words")}  # fmt: skip
    holes = {name: patched(getattr(whole, name), math.nan, slice(0, 50))
             for name in ("vocabulary", "words")}  # fmt: skip
    bare = {
        name: getattr(whole, name)[
            [c for c in getattr(whole, name).columns if not str(c).startswith("score:")]
        ]
        for name in ("vocabulary", "words")
    }
    unsearched = make_searches(seeds=0)
    gone = {name: without_scores(getattr(whole, name)) for name in ("vocabulary", "words")}
    return {
        "whole": whole,
        "with holes": dataclasses.replace(whole, **holes),
        "no finite score": dataclasses.replace(
            whole, **gone, base_logprobs=without_scores(whole.base_logprobs), searches=unsearched,
            scorer=FakeScorer(whole.vocabulary, lambda scores, _: scores * math.nan),
        ),
        "constant": dataclasses.replace(whole, **constant),
        "empty tables": dataclasses.replace(
            whole, **empty, categories={"a": [], "b": []}, searches=unsearched
        ),
        "no prompts": dataclasses.replace(whole, **bare, prompts={}, searches=unsearched),
        "three tokens": dataclasses.replace(
            whole, vocabulary=small, words=whole.words.iloc[:3], human=whole.human.iloc[:3],
            scorer=FakeScorer(small),
        ),
        "nothing optional": dataclasses.replace(whole, as_text=None, scorer=None),
    }  # fmt: skip


CONTEXTS = contexts()


@cache
def run(name: str, case: str) -> AuditResult:
    """What an audit finds in a context; run once for all the tests that look at it."""
    return AUDITS[name].function(CONTEXTS[case])


def check(audit, result: AuditResult) -> None:
    """The result is well formed, whatever its numbers."""
    declared = {f"{audit.name}.{spec.name}": spec for spec in audit.metrics}
    assert {metric.name for metric in result.metrics} == set(declared)
    keys = [(metric.name, metric.slice) for metric in result.metrics]
    assert len(set(keys)) == len(keys)
    for name in declared:
        assert any(key == name for key, _ in keys)
    for metric in result.metrics:
        spec = declared[metric.name]
        assert metric.status in STATUSES
        assert metric.unit == spec.unit
        assert metric.n >= 0
        assert isinstance(metric.n, int)
        if metric.slice != "all":
            parts = [part.split("=") for part in metric.slice.split(",")]
            assert all(len(part) == 2 and part[1] for part in parts), metric.slice
            assert [part[0] for part in parts] == sorted({part[0] for part in parts})
            assert {part[0] for part in parts} <= set(SLICE_KEYS)
        if metric.status == "ok":
            assert metric.value is not None
            assert metric.n >= spec.minimum_n
            assert math.isfinite(metric.value)
            assert spec.low is None or metric.value >= spec.low - 1e-9
            assert spec.high is None or metric.value <= spec.high + 1e-9
        else:
            assert metric.reason
        if metric.ci_low is not None:
            assert metric.ci_low <= metric.value + 1e-9
            assert metric.value <= metric.ci_high + 1e-9
        if metric.noise_floor is not None:
            assert metric.noise_floor >= 0
    for name, table in result.tables.items():
        assert isinstance(table, pd.DataFrame), name
    for figure in result.figures:
        columns = result.tables[figure.table].columns
        named = (figure.x, figure.y, figure.group, figure.low, figure.high)
        assert {column for column in named if column} <= set(columns), figure.name


def test_audits_are_collected():
    assert {"numerics", "vocabulary"} <= set(AUDITS)


@pytest.mark.parametrize("name", AUDITS)
def test_declarations_are_complete(name: str):
    audit = AUDITS[name]
    assert audit.question.endswith("?")
    assert audit.metrics
    for spec in audit.metrics:
        assert spec.definition
        assert spec.unit
        if spec.bound is not None:
            given = [v for v in dataclasses.astuple(spec.bound) if v is not None]
            assert len(given) == 1
            harm = {"min": "lower", "max": "higher", "abs_max": "both"}
            kind = next(k for k, v in dataclasses.asdict(spec.bound).items() if v is not None)
            assert spec.worse == harm[kind], spec.name


@pytest.mark.parametrize("case", CONTEXTS)
@pytest.mark.parametrize("name", AUDITS)
def test_any_input_gives_a_well_formed_result(name: str, case: str):
    check(AUDITS[name], run(name, case))


@pytest.mark.parametrize("name", AUDITS)
def test_whole_input_gives_numbers(name: str):
    result = run(name, "whole")
    overall = [metric for metric in result.metrics if metric.status == "ok"]
    assert {metric.name for metric in overall} == {metric.name for metric in result.metrics}


@pytest.mark.parametrize("case", ["no finite score", "empty tables", "no prompts"])
@pytest.mark.parametrize("name", AUDITS)
def test_without_scores_no_measure_of_scores_is_ok(name: str, case: str):
    result = run(name, case)
    counts = {"coverage", "non_finite", "distinct_values", "distinct_words",
              "as_text_changed", "as_text_tau"}  # fmt: skip
    good = [m for m in result.metrics if m.status == "ok" and m.name.split(".")[1] not in counts]
    assert good == []


@pytest.mark.parametrize("name", AUDITS)
def test_a_seed_decides_everything_and_nothing_is_changed(name: str):
    context = make_context()
    before = {k: v.copy() for k, v in vars(context).items() if isinstance(v, pd.DataFrame)}
    first, again = run(name, "whole"), AUDITS[name].function(context)
    assert first.metrics == again.metrics
    assert list(first.tables) == list(again.tables)
    for table in first.tables:
        pd.testing.assert_frame_equal(first.tables[table], again.tables[table])
    for key, table in before.items():  # nor is the context changed by it
        pd.testing.assert_frame_equal(getattr(context, key), table)


def test_collecting_is_light():
    heavy = ("numpy", "pandas", "torch", "scipy", "nltk", "wordfreq")
    code = (
        "import sys; from pathlib import Path; from pessimal.audit import collect_audits; "
        f"collect_audits(Path({str(FOLDER)!r})); "
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
