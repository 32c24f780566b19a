"""Policies and score tables as Great Expectations suites.

Great Expectations passes row-wise expectations when a row condition matches no row, and on NaN.
Aggregates fail in both cases, so a rule is two aggregates over the metrics table: ``beyond`` (the
interval isn't wholly beyond the bound) and ``within`` (it is wholly within it).
"""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from pessimal.audit.spec import Bound, Metric, MetricSpec
from pessimal.errors import PessimalError
from pessimal.gate.policy import Rule
from pessimal.gate.records import Verdict, bound_document
from pessimal.gate.verdict import reach, record_fault

if TYPE_CHECKING:
    import pandas as pd

Outcome = Literal["pass", "fail", "error"]

# An interval that says nothing; infinity can't stand in JSON.
WIDEST = sys.float_info.max

# Scores are float32: a limit beyond its range would turn infinite, and let infinity pass.
GREATEST_SCORE = (2 - 2**-23) * 2.0**127

# What the two aggregates of a rule must give for a verdict that rests on the bound.
AGREES: Mapping[Verdict, tuple[Outcome, Outcome]] = {
    "PASS": ("pass", "pass"), "WARN": ("pass", "fail"), "INCONCLUSIVE": ("pass", "fail"),
    "FAIL": ("fail", "fail"),
}  # fmt: skip


@dataclass(frozen=True)
class Evaluation:
    """What a suite gave."""

    suite: dict[str, Any]
    """The suite as JSON."""
    validation: dict[str, Any]
    """The validation result as JSON."""
    outcomes: Mapping[str, Outcome]
    """Outcome by check id; a rule's checks are ``beyond|<metric>|<slice>`` and ``within|...``."""
    details: Mapping[str, str]
    """What was observed or went wrong, by the id of each check that did not pass."""
    max_severity_failure: str | None
    """The highest severity among failed expectations: ``critical``, ``warning`` or None."""

    def broken(self) -> list[str]:
        """Sentences about the checks of the table itself that did not pass."""
        return [
            f"{check.removeprefix('table|')}: {self.details[check]}"
            for check, outcome in self.outcomes.items()
            if check.startswith("table|") and outcome != "pass"
        ]

    def agrees(self, rule: Rule, verdict: Verdict) -> bool:
        """Whether the rule's two aggregates say the same as `verdict` (before severity)."""
        given = tuple(self.outcomes[f"{check}|{rule.metric}|{rule.slice}"] for check in _CHECKS)
        return AGREES.get(verdict) == given


_CHECKS = ("beyond", "within")


def evaluate_rules(
    rules: Sequence[Rule], metrics: Sequence[Metric], specs: Mapping[str, MetricSpec],
    expected: Iterable[str],
) -> Evaluation:  # fmt: skip
    """Evaluate rules over the metrics table.

    Args:
        rules: the rules to judge.
        metrics: every metric of the run.
        specs: every declared metric by its full name.
        expected: full names of the metrics that the run's audits declare.

    Raises:
        PessimalError: Great Expectations broke, or evaluated fewer expectations than there are.
    """
    gxe = _expectations()
    checks: dict[str, Any] = {}
    for rule in rules:
        limits = (f"{name} {limit:g}" for name, limit in bound_document(rule.bound).items())
        title = f"{rule.metric} [{rule.slice}] {' '.join(limits)}"
        for check, severity in zip(_CHECKS, (rule.severity, "warning"), strict=True):
            kind, settings = _aggregate(check, rule.bound)
            checks[f"{check}|{rule.metric}|{rule.slice}"] = getattr(gxe, kind)(
                **settings, severity=severity, row_condition=_condition(rule.metric, rule.slice),
                description=f"{title} {check}; {rule.source}: {rule.why}".removesuffix(": "),
            )  # fmt: skip
    table_checks = {
        "the metrics are the declared ones": gxe.ExpectColumnDistinctValuesToEqualSet(
            column="metric", value_set=sorted(set(expected))
        ),
        "row count": gxe.ExpectTableRowCountToEqual(value=len(metrics)),
        "one row for a metric and slice": gxe.ExpectCompoundColumnsToBeUnique(
            column_list=["metric", "slice"]
        ),
        "every row is sound": gxe.ExpectColumnMinToBeBetween(column="sound", min_value=1),
    }
    for column in ("metric", "slice", "status", "n"):
        table_checks[f"{column} is never null"] = gxe.ExpectColumnValuesToNotBeNull(column=column)
    checks.update({f"table|{check}": one for check, one in table_checks.items()})
    return _evaluate("metrics", metrics_table(metrics, specs), checks, "COMPLETE")


def score_table_suite(
    table: pd.DataFrame, planned_ids: Sequence[int], prompts: Sequence[str]
) -> Evaluation:
    """Check a score table: every planned token once, every score a finite number, none constant.

    Args:
        table: ``token_id`` and a column ``score:<prompt id>`` a prompt.
        planned_ids: the token ids that the sweep set out to score.
        prompts: the prompt ids that it set out to score them under.

    Returns:
        The evaluation; `Evaluation.broken` lists what is wrong.

    Raises:
        PessimalError: Great Expectations broke, or evaluated fewer expectations than there are.
    """
    import pandas as pd

    gxe = _expectations()
    planned = pd.DataFrame({"token_id": pd.Series(list(planned_ids), dtype="int64"), "planned": 1})
    # Aggregates over flags, since a set of a whole vocabulary's ids has no place in a suite.
    frame = table.assign(scored=1).merge(planned, on="token_id", how="outer")
    frame[["scored", "planned"]] = frame[["scored", "planned"]].fillna(0).astype("int64")
    checks = {
        "row count": gxe.ExpectTableRowCountToEqual(value=len(planned)),
        "token ids are unique": gxe.ExpectColumnValuesToBeUnique(column="token_id"),
        "every planned id is scored": gxe.ExpectColumnMinToBeBetween(column="scored", min_value=1),
        "every scored id is planned": gxe.ExpectColumnMinToBeBetween(column="planned", min_value=1),
    }
    finite = {"min_value": -GREATEST_SCORE, "max_value": GREATEST_SCORE}
    for column in (f"score:{prompt}" for prompt in prompts):
        checks[f"{column} is there"] = gxe.ExpectColumnToExist(column=column)
        if column in table.columns:
            checks |= {
                f"{column} is never null": gxe.ExpectColumnValuesToNotBeNull(column=column),
                f"{column} is not constant": gxe.ExpectColumnUniqueValueCountToBeBetween(
                    column=column, min_value=2
                ),
                f"{column} is finite below": gxe.ExpectColumnMinToBeBetween(
                    column=column, **finite
                ),
                f"{column} is finite above": gxe.ExpectColumnMaxToBeBetween(
                    column=column, **finite
                ),
            }
    named = {f"table|{check}": one for check, one in checks.items()}
    return _evaluate("scores", frame, named, "BASIC")


def metrics_table(metrics: Sequence[Metric], specs: Mapping[str, MetricSpec]) -> pd.DataFrame:
    """The metrics as a table that aggregates can judge: one row a metric and slice.

    Beside the metric's own fields: ``ci_low ci_high`` (the value where there is no interval; as
    wide as can be where n is too low to judge; null where nothing can be judged), ``reach_low
    reach_high`` (widened by the noise floor), ``farthest`` (greatest magnitude in the interval),
    ``nearest`` (least magnitude in the reach; negative if zero lies inside), ``sound`` (0 for a
    record that contradicts itself).
    """
    import pandas as pd

    rows = []
    for metric in metrics:
        low, high, reach_low, reach_high = _interval(metric, specs.get(metric.name))
        rows.append(
            {
                "metric": metric.name, "slice": metric.slice, "value": metric.value,
                "ci_low": low, "ci_high": high, "reach_low": reach_low, "reach_high": reach_high,
                "farthest": max(abs(low), abs(high)), "nearest": max(reach_low, -reach_high),
                "n": metric.n, "status": metric.status, "sound": int(is_sound(metric)),
            }
        )  # fmt: skip
    numbers = ("value", "ci_low", "ci_high", "reach_low", "reach_high", "farthest", "nearest")
    columns = ["metric", "slice", *numbers, "n", "status", "sound"]
    table = pd.DataFrame(rows, columns=columns)
    for column in numbers:
        table[column] = pd.to_numeric(table[column], errors="coerce").astype("float64")
    return table


def is_sound(metric: Metric) -> bool:
    """Whether the record keeps its own rules; a metric that honestly failed does."""
    if metric.status in ("failed", "void"):  # no longer to be judged, but still finite or null
        metric = replace(metric, status="insufficient")
    return _fault(metric) is None


def _fault(metric: Metric) -> str | None:
    return record_fault(
        metric.value, metric.ci_low, metric.ci_high, metric.noise_floor,
        n=metric.n, status=metric.status,
    )  # fmt: skip


def _interval(metric: Metric, spec: MetricSpec | None) -> tuple[float, float, float, float]:
    if spec is None or _fault(metric):
        return (math.nan,) * 4
    if metric.n < spec.minimum_n or metric.status != "ok" or metric.value is None:
        return -WIDEST, WIDEST, -WIDEST, WIDEST
    low = metric.value if metric.ci_low is None else metric.ci_low
    high = metric.value if metric.ci_high is None else metric.ci_high
    return low, high, *reach(metric.value, low, high, metric.noise_floor)


def _aggregate(check: str, bound: Bound) -> tuple[str, dict[str, Any]]:
    """The expectation that passes when the interval isn't ``beyond``, or is ``within``, T."""
    at_least, at_most = "ExpectColumnMaxToBeBetween", "ExpectColumnMinToBeBetween"
    beyond = check == "beyond"
    if bound.min is not None:
        kind, column = (at_least, "reach_high") if beyond else (at_most, "ci_low")
        return kind, {"column": column, "min_value": bound.min}
    if bound.max is not None:
        kind, column = (at_most, "reach_low") if beyond else (at_least, "ci_high")
        return kind, {"column": column, "max_value": bound.max}
    return at_least, {"column": "nearest" if beyond else "farthest", "max_value": bound.abs_max}


def _expectations() -> Any:
    # Read by releases of Great Expectations that still send usage statistics.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings():
        # Its own dependencies import modules that Python has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        import great_expectations

    return great_expectations.expectations


def _condition(metric: str, slice: str) -> Any:
    from great_expectations.expectations.row_conditions import Column

    return (Column("metric") == metric) & (Column("slice") == slice)


def _evaluate(
    name: str, table: pd.DataFrame, checks: Mapping[str, Any], result_format: Any
) -> Evaluation:
    import great_expectations as gx

    for check, expectation in checks.items():
        expectation.meta = {"check": check}
    try:
        context: Any = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        asset = context.data_sources.add_pandas(name).add_dataframe_asset(name)
        batch = asset.add_batch_definition_whole_dataframe(name).get_batch({"dataframe": table})
        suite = gx.ExpectationSuite(name=name, expectations=list(checks.values()))
        result = batch.validate(suite, result_format=result_format)
    except Exception as error:
        raise PessimalError(
            "gate_broken", f"Great Expectations failed: {type(error).__name__}: {error}",
            "The run can't be judged; check the installed great-expectations.",
        ) from error  # fmt: skip
    outcomes: dict[str, Outcome] = {}
    details: dict[str, str] = {}
    for one in result.results:
        check = one.expectation_config.meta["check"]
        trouble = _trouble(one.exception_info)
        outcomes[check] = "error" if trouble else "pass" if one.success is True else "fail"
        if outcomes[check] != "pass":
            details[check] = trouble or _observed(one.result)
    if outcomes.keys() != checks.keys():
        raise PessimalError(
            "gate_broken",
            f"Great Expectations evaluated {len(result.results)} of {len(checks)} expectations.",
            "The run can't be judged; check the installed great-expectations.",
        )
    severity = result.get_max_severity_failure()
    return Evaluation(
        suite=_plain(suite.to_json_dict()), validation=_plain(result.to_json_dict()),
        outcomes=outcomes, details=details,
        max_severity_failure=None if severity is None else str(severity.value),
    )  # fmt: skip


def _trouble(info: Any) -> str | None:
    """The error inside a result, which is one record, or one for each metric that was computed."""
    if not isinstance(info, Mapping):
        return None
    records = [info] if "raised_exception" in info else list(info.values())
    for record in records:
        if isinstance(record, Mapping) and record.get("raised_exception"):
            return str(record.get("exception_message") or "it raised an exception")
    return None


def _observed(result: Mapping[str, Any]) -> str:
    for key in ("observed_value", "unexpected_count"):
        if result.get(key) is not None:
            return f"{key.replace('_', ' ')} {result[key]}"
    return "nothing was observed"


def _plain(document: Any) -> Any:
    """JSON without NaN or infinity, which are not JSON."""
    if isinstance(document, Mapping):
        return {str(key): _plain(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [_plain(value) for value in document]
    if isinstance(document, float):
        return float(document) if math.isfinite(document) else None
    return json.loads(json.dumps(document, default=str))
