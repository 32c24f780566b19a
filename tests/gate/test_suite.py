"""Great Expectations' side: it agrees with the decision rule, and its traps stay shut."""

from __future__ import annotations

import importlib
import itertools
import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pessimal.audit import Metric
from pessimal.errors import PessimalError
from pessimal.gate import score_table_suite
from pessimal.gate.suite import _trouble, evaluate_rules, is_sound
from pessimal.gate.verdict import weigh
from tests.gate.builders import METRICS, RAN, SPECS, policy, rule, run, shipped

POINTS = (-0.5, -0.25, 0.0, 0.25, 0.5)
SUITE = importlib.import_module("pessimal.gate.suite")


def test_it_agrees_with_the_decision_rule() -> None:
    arrangements = itertools.product(
        itertools.combinations_with_replacement(POINTS, 3),
        ({"min": -0.25}, {"max": 0.25}, {"abs_max": 0.25}),
        (None, 0.25),
    )
    rules, metrics, verdicts = [], [], []
    telling = 0
    for number, ((low, value, high), bound, floor) in enumerate(arrangements):
        judged_by = rule("vocabulary.mean", f"term=t{number}", **bound)
        with_floor, without = (
            weigh(judged_by.bound, value, low, high, one, n=9, minimum_n=1, status="ok")[0]
            for one in (floor, None)
        )
        # All of them would take a minute: those that the noise floor decides, and some others.
        telling += with_floor != without
        if with_floor == without and number % 7:
            continue
        rules.append(judged_by)
        metrics.append(Metric("vocabulary.mean", value, 9, judged_by.slice, low, high, floor))
        verdicts.append(with_floor)
    assert telling == 4  # min, max, and both sides of abs_max
    assert {"PASS", "WARN", "INCONCLUSIVE", "FAIL"} == set(verdicts)
    evaluation = evaluate_rules(rules, metrics, SPECS, ["vocabulary.mean"])
    assert not evaluation.broken()
    for judged_by, verdict in zip(rules, verdicts, strict=True):
        assert evaluation.agrees(judged_by, verdict), judged_by
        others = {"PASS", "FAIL", "WARN"} - {verdict}
        if verdict == "INCONCLUSIVE":
            others -= {"WARN"}  # the two differ by the value, which no aggregate looks at
        assert not any(evaluation.agrees(judged_by, other) for other in others)


@pytest.mark.parametrize(
    "place",
    ["term=it's", 'term="quoted"', "term=both'\"", "term=`x`", "term=@x", "term=a\\b",
     "term=née", "term=黒", "term=a b", "term={0}", "term=%s", "term=' or '1'='1"],
)  # fmt: skip
def test_a_hostile_slice_matches_its_row_or_is_an_error(place: str) -> None:
    metrics = [
        Metric("vocabulary.mean", 1.0, 9, place),
        Metric("vocabulary.mean", 9.0, 9, "term=other"),
        Metric("vocabulary.quantile_skew", 0.0, 9),
    ]
    bad, good = (
        run(policy(rule("vocabulary.mean", place, max=limit)), metrics,
            RAN[2:])
        for limit in (0.5, 2.0)
    )  # fmt: skip
    assert bad.verdict in ("FAIL", "ERROR")
    assert good.verdict in ("PASS", "ERROR")
    if "`" not in place and "@" not in place:
        assert (bad.verdict, good.verdict) == ("FAIL", "PASS")


def test_it_counts_what_was_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    import great_expectations as gx

    validate = gx.datasource.fluent.interfaces.Batch.validate

    def short(self: Any, suite: Any, **settings: Any) -> Any:
        result = validate(self, suite, **settings)
        result.results.pop()
        return result

    monkeypatch.setattr(gx.datasource.fluent.interfaces.Batch, "validate", short)
    judgement = run()
    assert judgement.exit_code == 3
    assert "evaluated" in judgement.rules[0].reason
    with pytest.raises(PessimalError) as caught:
        score_table_suite(table(), range(4), ["best"])
    assert caught.value.code == "gate_broken"


def test_an_exception_inside_great_expectations_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import great_expectations as gx

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(gx.datasource.fluent.interfaces.Batch, "validate", broken)
    judgement = run()
    assert judgement.exit_code == 3
    assert "boom" in judgement.rules[0].reason


def test_a_critical_failure_that_no_rule_shows_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluate = SUITE.evaluate_rules

    def alarmed(*arguments: Any) -> Any:
        found = evaluate(*arguments)
        return SimpleNamespace(**{**vars(found), "max_severity_failure": "critical",
                                  "agrees": found.agrees, "broken": found.broken})  # fmt: skip

    monkeypatch.setattr(importlib.import_module("pessimal.gate.judge"), "evaluate_rules", alarmed)
    assert run().exit_code == 3


def test_both_shapes_of_exception_are_found() -> None:
    one = {"raised_exception": True, "exception_message": "boom", "exception_traceback": "..."}
    fine = {"raised_exception": False, "exception_message": None, "exception_traceback": None}
    assert _trouble(one) == "boom"
    assert _trouble({"a": fine, "b": one}) == "boom"
    assert _trouble(fine) is _trouble({"a": fine}) is _trouble(None) is None


def test_the_suites_are_json_and_keep_their_thresholds() -> None:
    judgement = run(metrics=[*METRICS[:6], Metric("vocabulary.quantile_skew", math.nan, 3000),
                             *METRICS[7:]])  # fmt: skip
    json.dumps([judgement.suite, judgement.validation], allow_nan=False)
    limits = [
        one["kwargs"][bound]
        for one in judgement.suite["expectations"] for bound in ("min_value", "max_value")
        if bound in one["kwargs"] and "row_condition" in one["kwargs"]
    ]  # fmt: skip
    assert sorted(limits) == sorted(
        value for each in shipped().rules for value in 2 * [*filter(
            lambda number: number is not None, vars(each.bound).values())]
    )  # fmt: skip


def test_a_metric_that_honestly_failed_is_sound_and_a_contradiction_is_not() -> None:
    assert is_sound(Metric("a.b", None, 0, status="failed"))
    assert is_sound(Metric("a.b", None, 0, status="insufficient"))
    assert is_sound(Metric("a.b", 1.0, 5, status="void"))
    assert not is_sound(Metric("a.b", None, 5))
    assert not is_sound(Metric("a.b", math.nan, 5, status="failed"))
    assert not is_sound(Metric("a.b", 1.0, 5, ci_low=2.0, ci_high=1.0))


def table(**columns: Any) -> pd.DataFrame:
    scores = np.array([0.1, 0.2, 0.3, 0.2], dtype="float32")
    return pd.DataFrame({"token_id": np.arange(4, dtype="int32"), "score:best": scores, **columns})


def test_a_whole_score_table_is_in_order() -> None:
    evaluation = score_table_suite(table(), range(4), ["best"])
    assert evaluation.broken() == []
    assert evaluation.max_severity_failure is None


NAN = float("nan")


@pytest.mark.parametrize(
    ("frame", "planned", "expected"),
    [
        (table().iloc[:3], range(4), "every planned id is scored"),
        (table(), range(3), "every scored id is planned"),
        (table(token_id=[0, 1, 1, 3]), range(4), "token ids are unique"),
        (table(token_id=[0, 1, 2, 9]), range(4), "every planned id is scored"),
        (pd.concat([table(), table()]), range(4), "row count"),
        (table().iloc[:0], range(4), "every planned id is scored"),
        (table(**{"score:best": [0.1, NAN, 0.3, 0.2]}), range(4), "score:best is never null"),
        (table(**{"score:best": [0.1, np.inf, 0.3, 0.2]}), range(4), "finite above"),
        (table(**{"score:best": [0.1, -np.inf, 0.3, 0.2]}), range(4), "finite below"),
        (table(**{"score:best": [0.1] * 4}), range(4), "score:best is not constant"),
        (table(**{"score:best": [NAN] * 4}), range(4), "score:best is never null"),
        (table().drop(columns="score:best"), range(4), "score:best is there"),
        (table(), [], "row count"),
    ],
)
def test_a_broken_score_table_says_what_is_wrong(
    frame: pd.DataFrame, planned: Any, expected: str
) -> None:
    evaluation = score_table_suite(frame, planned, ["best"])
    assert any(expected in sentence for sentence in evaluation.broken())
    assert evaluation.max_severity_failure == "critical"
    json.dumps([evaluation.suite, evaluation.validation], allow_nan=False)


def test_an_empty_plan_over_an_empty_table_is_no_pass() -> None:
    assert score_table_suite(table().iloc[:0], [], ["best"]).broken()


def test_a_large_vocabulary_is_checked_in_seconds_and_leaves_a_small_suite() -> None:
    ids = np.arange(130_000, dtype="int32")
    frame = pd.DataFrame({"token_id": ids, "score:best": np.sin(ids).astype("float32")})
    evaluation = score_table_suite(frame, range(130_000), ["best"])
    assert evaluation.broken() == []
    assert len(json.dumps([evaluation.suite, evaluation.validation])) < 20_000
