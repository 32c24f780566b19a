"""MLflow's own validation agrees with the gate's verdicts."""

from __future__ import annotations

import itertools
import math

import pytest

from pessimal.audit import Bound, Metric
from pessimal.gate.suite import metrics_table
from tests.gate.builders import METRICS, SPECS, policy, rule, run

mlflow = pytest.importorskip("mlflow")

BOUNDS = (Bound(min=-0.1), Bound(max=0.2), Bound(abs_max=0.15))
CENTRES = (-0.4, -0.15, -0.1, -0.05, 0.0, 0.1, 0.15, 0.2, 0.5)
HALVES = (0.0, 0.03, 0.3)
FLOORS = (None, 0.01, 0.2)


def agrees(column_within: str, bound: Bound, row: dict[str, float]) -> bool:
    """Whether MLflow lets a number through that stands in the gate's metrics table."""
    from mlflow.models import MetricThreshold
    from mlflow.models.evaluation import EvaluationResult
    from mlflow.models.evaluation.validation import ModelValidationFailedException

    limit = next(value for value in vars(bound).values() if value is not None)
    threshold = MetricThreshold(threshold=limit, greater_is_better=bound.min is not None)
    value = row[column_within]
    # A void or missing number isn't logged: MLflow has no NaN.
    metrics = {} if math.isnan(value) else {"m": value}
    result = EvaluationResult(metrics=metrics, artifacts={})
    try:
        mlflow.validate_evaluation_results({"m": threshold}, result)
    except ModelValidationFailedException:
        return False
    return True


def columns(bound: Bound) -> tuple[str, str]:
    """The end that a FAIL rests on, and the end that a PASS rests on."""
    if bound.min is not None:
        return "reach_high", "ci_low"
    return ("reach_low", "ci_high") if bound.max is not None else ("nearest", "farthest")


@pytest.mark.parametrize("bound", BOUNDS, ids=["min", "max", "abs_max"])
def test_mlflow_gives_the_same_verdicts(bound: Bound) -> None:
    cells = list(itertools.product(CENTRES, HALVES, FLOORS))
    metrics = [
        Metric(
            "vocabulary.mean", centre, 3000, slice=f"term={i}", noise_floor=floor,
            ci_low=centre - half, ci_high=centre + half,
        )
        for i, (centre, half, floor) in enumerate(cells)
    ]  # fmt: skip
    limits = {name: value for name, value in vars(bound).items() if value is not None}
    rules = policy(*(rule("vocabulary.mean", one.slice, **limits) for one in metrics))
    others = [one for one in METRICS if one.name != "vocabulary.mean"]
    judgement = run(rules, [*others, *metrics])
    table = metrics_table(metrics, SPECS).set_index("slice")
    beyond, within = columns(bound)
    seen = set()
    for line in judgement.rules:
        row = table.loc[line.slice].to_dict()
        seen.add(line.verdict)
        assert (line.verdict == "FAIL") == (not agrees(beyond, bound, row)), line
        assert (line.verdict == "PASS") == agrees(within, bound, row), line
    assert seen == {"PASS", "WARN", "INCONCLUSIVE", "FAIL"}


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_neither_lets_a_number_through_that_is_none(value: float | None) -> None:
    broken = Metric("vocabulary.mean", value, 3000)
    others = [one for one in METRICS if one.name != "vocabulary.mean"]
    judgement = run(policy(rule("vocabulary.mean", max=0.5)), [*others, broken])
    assert judgement.verdict == "ERROR"
    row = metrics_table([broken], SPECS).iloc[0].to_dict()
    assert not agrees("ci_high", Bound(max=0.5), row)
