"""Run the audits over a context, and say of each why it did not run."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pessimal.audit import Audit, AuditResult, Context, Metric

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
        One outcome an audit, ``numerics`` first, then in the order expected, then by name.
    """
    names = list(dict.fromkeys(["numerics", *expected, *audits]))
    return [
        _run(name, audits.get(name), context)
        for name in names
        if name in audits or name in expected
    ]


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
