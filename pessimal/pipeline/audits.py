"""Run the audits over a context, and say of each why it did not run."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pessimal.audit import Audit, AuditResult, Context, Metric

if TYPE_CHECKING:
    import pandas as pd

MISSING = {
    "vocabulary": "no vocabulary was scored",
    "words": "no word list was scored",
    "scorer": "there is no model to score again with",
    "human": "no human ranking was given (--human CSV with name, score, matches)",
    "base_model": "no base model was given (--base-model)",
    "categories": "no word categories were given (--categories FILE)",
    "searches": "no search was run",
    "baseline": "no earlier run was given (--baseline RUN)",
}
RERUN = ("numerics.rerun_rms", "all")
"""The metric that says how far a rerun moves scores, in SD."""
NO_SUCH_AUDIT = "no audit of this name is installed"


@dataclass(frozen=True)
class AuditOutcome:
    """What became of one audit."""

    name: str
    """The audit's name."""
    status: Literal["RUN", "NOT_RUN", "ERROR"]
    """NOT_RUN when it wasn't planned or an input is missing."""
    reason: str | None = None
    """Why it isn't RUN."""
    result: AuditResult | None = None
    """What it found, when it ran."""

    def document(self) -> dict[str, object]:
        """The outcome as it stands in an audit document."""
        return {"name": self.name, "status": self.status, "reason": self.reason}


def run_audits(
    audits: Mapping[str, Audit], context: Context, expected: Sequence[str]
) -> list[AuditOutcome]:
    """Run every audit whose needs the context meets.

    Args:
        audits: the collected audits by name.
        context: what they see.
        expected: names that a pipeline plans; one that is not collected is NOT_RUN.

    Returns:
        One outcome an audit, ``numerics`` first, then in the order expected, then by name. A
        noise floor is the larger of the audit's own, which is that of rewording, and of what
        scores that differ as much as those of `numerics` reruns do move the value by.
    """
    names = list(dict.fromkeys(["numerics", *expected, *audits]))
    outcomes = [
        _run(name, audits.get(name), context)
        for name in names
        if name in audits or name in expected
    ]
    rms = next(
        (m.value for m in metrics_of(outcomes) if (m.name, m.slice) == RERUN and m.value), None
    )
    if rms is None:
        return outcomes
    rerun = _rerun(context, rms)
    return [_with_rerun(outcome, audits, rerun) for outcome in outcomes]


def metrics_of(outcomes: Sequence[AuditOutcome]) -> list[Metric]:
    """All metrics of the audits that ran, in order."""
    return [metric for outcome in outcomes if outcome.result for metric in outcome.result.metrics]


def _run(name: str, audit: Audit | None, context: Context) -> AuditOutcome:
    if audit is None:
        return AuditOutcome(name, "NOT_RUN", NO_SUCH_AUDIT)
    missing = [need for need in audit.needs if not _has(context, need)]
    if missing:
        return AuditOutcome(name, "NOT_RUN", "; ".join(MISSING[need] for need in missing))
    try:
        result = audit.function(context)
        _check(audit, result)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return AuditOutcome(
            name, "ERROR", f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
        )
    return AuditOutcome(name, "RUN", result=result)


def _rerun(context: Context, rms: float) -> Context:
    """The context as a rerun would give it: every score moved by normal noise of `rms` SD."""
    import numpy as np

    rng = np.random.default_rng(context.seed)

    def moved(table: pd.DataFrame | None) -> pd.DataFrame | None:
        if table is None:
            return None
        changed = {}
        for column in context.score_columns(table).values():
            scores = table[column].to_numpy(dtype=np.float64)
            spread = float(np.std(scores[np.isfinite(scores)])) if len(scores) else 0.0
            changed[column] = scores + rng.normal(scale=rms, size=len(scores)) * spread
        return table.assign(**changed)

    return replace(context, words=moved(context.words), vocabulary=moved(context.vocabulary))


def _with_rerun(outcome: AuditOutcome, audits: Mapping[str, Audit], rerun: Context) -> AuditOutcome:
    """The outcome with noise floors no lower than what the rerun moves its values by."""
    result = outcome.result
    if result is None or all(metric.noise_floor is None for metric in result.metrics):
        return outcome
    again = {
        (metric.name, metric.slice): metric.value
        for metric in audits[outcome.name].function(rerun).metrics
    }

    def floored(metric: Metric) -> Metric:
        there = again.get((metric.name, metric.slice))
        if metric.noise_floor is None or metric.value is None or there is None:
            return metric
        return replace(metric, noise_floor=max(metric.noise_floor, abs(there - metric.value)))

    metrics = tuple(map(floored, result.metrics))
    return replace(outcome, result=replace(result, metrics=metrics))


def _has(context: Context, need: str) -> bool:
    field = {"base_model": "base_logprobs"}.get(need, need)
    return getattr(context, field, None) is not None


def _check(audit: Audit, result: AuditResult) -> None:
    declared = {f"{audit.name}.{spec.name}" for spec in audit.metrics}
    returned = {metric.name for metric in result.metrics}
    if declared != returned:
        raise ValueError(f"the metrics declared and returned differ: {sorted(declared ^ returned)}")
    rows = [(metric.name, metric.slice) for metric in result.metrics]
    if len(set(rows)) != len(rows):
        twice = sorted({row for row in rows if rows.count(row) > 1})
        raise ValueError(f"returned twice: {twice}")
