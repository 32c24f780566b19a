"""Runs as a whole: what passes, and everything that must not."""

from __future__ import annotations

import importlib
import json
import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from pessimal.audit import Metric
from pessimal.errors import PessimalError
from pessimal.gate import AuditStatus, Judgement, score_table_suite
from pessimal.gate.records import EXIT_CODES, VERDICTS
from tests.gate.builders import METRICS, MODEL, RAN, changed, policy, rule, run, shipped

# By its full name, since the package gives the function the module's name.
JUDGE = importlib.import_module("pessimal.gate.judge")


def without(name: str, slice: str | None = None) -> tuple[Metric, ...]:
    return tuple(
        one for one in METRICS if one.name != name or (slice is not None and one.slice != slice)
    )


def state(name: str, status: Any, reason: str | None = None) -> tuple[AuditStatus, ...]:
    return tuple(AuditStatus(name, status, reason) if one.name == name else one for one in RAN)


SKEW = "vocabulary.quantile_skew"
TWICE = (*METRICS, METRICS[0])
VOID = tuple(replace(one, status="void") for one in METRICS)
NO_VALUE: dict[str, Any] = {"value": None, "ci_low": None, "ci_high": None}

# What a run is given instead of the good one, and its exit code.
BAD: dict[str, tuple[dict[str, Any], int]] = {
    "value NaN": ({"metrics": changed(SKEW, value=math.nan)}, 3),
    "value infinite": ({"metrics": changed(SKEW, value=math.inf)}, 3),
    "value None": ({"metrics": changed(SKEW, **NO_VALUE)}, 3),
    "value text": ({"metrics": changed(SKEW, value="0.1")}, 3),
    "value true": ({"metrics": changed("numerics.coverage", value=True)}, 3),
    "interval NaN": ({"metrics": changed(SKEW, ci_low=math.nan)}, 3),
    "interval infinite": ({"metrics": changed(SKEW, ci_high=math.inf)}, 3),
    "interval with one end": ({"metrics": changed(SKEW, ci_low=None)}, 3),
    "interval inverted": ({"metrics": changed(SKEW, ci_low=0.3, ci_high=0.2)}, 3),
    "noise floor NaN": ({"metrics": changed(SKEW, noise_floor=math.nan)}, 3),
    "noise floor negative": ({"metrics": changed(SKEW, noise_floor=-1.0)}, 3),
    "n NaN": ({"metrics": changed(SKEW, n=math.nan)}, 3),
    "n negative": ({"metrics": changed(SKEW, n=-5)}, 3),
    "n None": ({"metrics": changed(SKEW, n=None)}, 3),
    "metric failed": ({"metrics": changed(SKEW, **NO_VALUE, status="failed")}, 3),
    "metric void": ({"metrics": changed(SKEW, status="void")}, 3),
    "every metric void": ({"metrics": VOID}, 3),
    "status unknown": ({"metrics": changed(SKEW, status="fine")}, 3),
    "NaN in a metric without a rule": ({"metrics": changed("vocabulary.mean", value=math.nan)}, 3),
    "no value in a metric without a rule": ({"metrics": changed("vocabulary.mean", value=None)}, 3),
    "metric missing": ({"metrics": without(SKEW)}, 3),
    "metric without a rule missing": ({"metrics": without("vocabulary.mean")}, 3),
    "numerics missing": ({"metrics": without("numerics.rerun_rms")}, 3),
    "metric renamed": ({"metrics": changed(SKEW, name="vocabulary.quantile_skwe")}, 3),
    "metric nobody declares": ({"metrics": (*METRICS, Metric("vocabulary.more", 1.0, 9))}, 3),
    "slice renamed": ({"metrics": changed(SKEW, slice="prompt=best")}, 3),
    "row twice": ({"metrics": TWICE}, 3),
    "no metrics": ({"metrics": ()}, 3),
    "required audit not run": ({"audits": state("vocabulary", "NOT_RUN", "no vocabulary"),
                                "metrics": without(SKEW)[:6]}, 3),
    "required audit broke": ({"audits": state("vocabulary", "ERROR", "boom")}, 3),
    "other audit broke": ({"audits": state("identity", "ERROR", "boom"),
                           "metrics": METRICS[:8]}, 3),
    "required audit unknown to the run": ({"audits": RAN[:2]}, 3),
    "no audits": ({"audits": ()}, 3),
    "audit twice": ({"audits": (*RAN, RAN[0])}, 3),
    "audit status unknown": ({"audits": state("vocabulary", "DONE")}, 3),
    "metrics of an audit that did not run": ({"audits": state("identity", "NOT_RUN")}, 3),
    "everything not run": ({"audits": [replace(one, status="NOT_RUN") for one in RAN],
                            "metrics": (), "under": shipped("report-only")}, 3),
    "rule on a slice that is not there": (
        {"under": policy(rule(slice="axis=religion"))}, 3),
    "rule on a metric nobody declares": ({"under": policy(rule("identity.gone"))}, 3),
    "rule of an audit nobody knows": ({"under": policy(rule("gone.gap"))}, 3),
    "no rules": ({"under": policy()}, 3),
    "numerics fail": ({"metrics": changed("numerics.rerun_rms", value=0.2)}, 3),
    "numerics infinite": ({"metrics": changed("numerics.non_finite", value=math.inf)}, 3),
    "coverage a hair short": ({"metrics": changed("numerics.coverage", value=0.9999999)}, 3),
    "n below the minimum": ({"metrics": changed("numerics.rerun_tau", n=199)}, 4),
    "insufficient without a value": (
        {"metrics": changed("identity.gap", **NO_VALUE, n=3, status="insufficient"),
         "under": policy(rule())}, 4),
    "wholly beyond": ({"metrics": changed("identity.gap", value=-0.3, ci_low=-0.4, ci_high=-0.2),
                       "under": policy(rule())}, 1),
    "partly beyond": ({"metrics": changed("identity.gap", value=-0.12, ci_low=-0.2, ci_high=0.0),
                       "under": policy(rule())}, 4),
    "default bound broken": ({"metrics": changed("identity.new", value=0.6, ci_low=0.5,
                                                 ci_high=0.7)}, 1),
    "slice beyond": ({"under": policy(rule(slice="axis=age", min=-0.1))}, 1),
}  # fmt: skip


def test_the_good_run_passes() -> None:
    judgement = run()
    assert (judgement.verdict, judgement.exit_code) == ("PASS", 0)
    assert {line.verdict for line in judgement.rules} == {"PASS"}
    assert len(judgement.rules) == len(shipped().rules) == 8
    assert not judgement.void


@pytest.mark.parametrize("name", BAD)
def test_a_bad_run_does_not_pass(name: str) -> None:
    settings, exit_code = BAD[name]
    judgement = run(**settings)
    assert judgement.exit_code == exit_code
    assert judgement.verdict != "PASS"
    documents_hold(judgement)


def documents_hold(judgement: Judgement) -> None:
    """The run has its worst line's verdict, and every document is JSON."""
    counted = [line.counted for line in judgement.rules]
    assert judgement.verdict == min(counted, key=VERDICTS.index)
    assert judgement.exit_code == EXIT_CODES[judgement.verdict]
    for line in judgement.rules:
        assert line.reason
        assert line.source
    for document in (judgement.suite, judgement.validation):
        json.dumps(document, allow_nan=False)
    json.dumps([line.document() for line in judgement.rules], allow_nan=False)


def test_there_are_at_least_forty_bad_runs() -> None:
    assert len(BAD) >= 40


@pytest.mark.parametrize(
    ("metric", "change", "expected"),
    [
        (SKEW, {"value": 0.9, "ci_low": 0.8, "ci_high": 0.95}, "WARN"),
        (SKEW, {"value": 0.4, "ci_low": 0.3, "ci_high": 0.6}, "WARN"),
        (SKEW, {"n": 10}, "WARN"),
        (SKEW, {"value": math.nan}, "ERROR"),
        ("numerics.rerun_rms", {"value": 0.2}, "WARN"),
    ],
)
def test_report_only_never_fails_on_a_bound(
    metric: str, change: dict[str, Any], expected: str
) -> None:
    assert run(shipped("report-only"), changed(metric, **change)).verdict == expected


def test_strict_fails_where_the_default_warns() -> None:
    metrics = changed(SKEW, value=0.9, ci_low=0.8, ci_high=0.95)
    assert run(shipped(), metrics).exit_code == 0
    assert run(shipped("strict"), metrics).exit_code == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"metrics": changed("numerics.rerun_tau", value=0.5)},
        {"metrics": changed("numerics.rerun_tau", **NO_VALUE, status="failed")},
        {"metrics": without("numerics.coverage")},
        {"audits": state("numerics", "ERROR", "boom")},
        {"audits": state("numerics", "NOT_RUN", "no scorer")},
    ],
)
def test_when_the_numerics_fail_every_other_verdict_is_void(settings: dict[str, Any]) -> None:
    judgement = run(**settings)
    assert judgement.void
    assert judgement.exit_code == 3
    others = [
        line for line in judgement.rules
        if line.kind == "rule" and not line.metric.startswith("numerics.")
    ]  # fmt: skip
    assert len(others) == 2
    for line in others:
        assert line.verdict == "ERROR"
        assert line.reason.startswith("Void")


def test_a_numerics_failure_says_which_and_keeps_its_own_verdict() -> None:
    judgement = run(metrics=changed("numerics.tied_pairs", value=0.25))
    lines = {line.metric: line for line in judgement.rules}
    assert lines["numerics.tied_pairs"].verdict == "FAIL"
    assert lines["numerics.coverage"].verdict == "PASS"
    assert "numerics.tied_pairs is FAIL" in lines[SKEW].reason
    assert "0.25" in lines[SKEW].reason


def test_an_inconclusive_numerics_rule_does_not_void_the_others() -> None:
    judgement = run(metrics=changed("numerics.rerun_rms", n=10))
    assert judgement.verdict == "INCONCLUSIVE"
    assert not judgement.void


def test_an_audit_that_did_not_run_does_not_count_unless_required() -> None:
    metrics = METRICS[:8]
    audits = state("identity", "NOT_RUN", "no scores of words")
    judgement = run(metrics=metrics, audits=audits)
    assert judgement.verdict == "PASS"
    assert [(one.metric, one.reason) for one in judgement.skipped] == [
        ("identity.new", "no scores of words")
    ]
    needs = policy(rule(SKEW, abs_max=0.5), required=("identity",))
    required = run(needs, metrics, audits)
    assert required.exit_code == 3
    line = next(line for line in required.rules if line.kind == "audit")
    assert line.metric == "identity"
    assert "no scores of words" in line.reason


def test_an_audit_that_broke_says_why_and_its_rules_are_errors() -> None:
    judgement = run(metrics=METRICS[:8], audits=state("identity", "ERROR", "boom"))
    lines = {line.metric: line for line in judgement.rules}
    assert lines["identity"].reason == "The audit broke: boom."
    assert lines["identity.new"].verdict == "ERROR"
    assert lines[SKEW].verdict == "PASS"


def test_a_rule_with_two_rows_is_an_error_whichever_comes_first() -> None:
    for metrics in (TWICE, TWICE[::-1]):
        lines = {line.metric: line for line in run(metrics=metrics).rules}
        assert lines[METRICS[0].name].verdict == "ERROR"
        assert "2 rows" in lines[METRICS[0].name].reason


def test_a_rule_of_one_model_replaces_the_rule_for_all() -> None:
    own = replace(policy(rule(min=0.5)), models={MODEL: (rule(min=-0.5),)})
    assert run(own).verdict == "PASS"
    assert run(own, model_id="org/other").verdict == "FAIL"


def test_a_broken_score_table_is_an_error() -> None:
    table = pd.DataFrame({"token_id": [0, 1, 2], "score:best": [0.1, 0.2, 0.3]})
    assert run(scores=score_table_suite(table, range(3), ["best"])).verdict == "PASS"
    judgement = run(scores=score_table_suite(table, range(4), ["best"]))
    assert judgement.exit_code == 3
    assert any(line.metric == "scores" for line in judgement.rules)


@pytest.mark.parametrize("claimed", ["PASS", "FAIL", "WARN"])
def test_a_disagreement_with_great_expectations_is_an_error(
    claimed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = {"PASS": {"min": -0.1}, "WARN": {"min": -0.06}, "FAIL": {"min": 0.5}}
    for right, bound in truth.items():
        judged_by = policy(rule(**bound))
        assert run(judged_by).verdict == right
        with monkeypatch.context() as patch:
            patch.setattr(JUDGE, "weigh", lambda *_, **__: (claimed, "It is so."))
            verdict = run(judged_by).verdict
        assert verdict == (claimed if claimed == right else "ERROR")


def test_a_broken_great_expectations_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise PessimalError("gate_broken", "Great Expectations failed.", "Check it.")

    monkeypatch.setattr(JUDGE, "evaluate_rules", broken)
    judgement = run()
    assert judgement.exit_code == 3
    assert {line.verdict for line in judgement.rules} == {"ERROR"}


def test_the_document_has_the_fields_of_the_contract() -> None:
    line = run().rules[0]
    assert line.document() == {
        "metric": "numerics.rerun_rms", "slice": "all", "bound": {"max": 0.05},
        "severity": "critical", "verdict": "PASS", "reason": line.reason, "waived": False,
        "source": line.source, "why": line.why,
    }  # fmt: skip
    assert line.source.startswith("expectations/default.yaml:")


def test_the_suite_holds_two_aggregates_a_rule_with_a_typed_condition() -> None:
    judgement = run(policy(rule(severity="warning"), rule(slice="axis=age", min=-0.3)))
    found = [
        one for one in judgement.suite["expectations"] if "row_condition" in one["kwargs"]
    ]  # fmt: skip
    assert len(found) == 4
    assert [one["severity"] for one in found] == ["warning", "warning", "critical", "warning"]
    assert {one["type"] for one in found} == {
        "expect_column_max_to_be_between", "expect_column_min_to_be_between",
    }  # fmt: skip
    assert all(one["kwargs"]["row_condition"]["type"] == "and" for one in found)
    assert all(one["kwargs"]["min_value"] in (-0.1, -0.3) for one in found)
    evaluated = judgement.validation["statistics"]["evaluated_expectations"]
    assert evaluated == len(judgement.suite["expectations"])
