"""What a judgement is made of: verdicts, the state of each audit, one line a rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pessimal.audit.spec import Bound, Severity

Verdict = Literal["ERROR", "FAIL", "INCONCLUSIVE", "WARN", "PASS"]
Kind = Literal["rule", "audit", "waiver", "integrity"]

VERDICTS: tuple[Verdict, ...] = ("ERROR", "FAIL", "INCONCLUSIVE", "WARN", "PASS")
"""Every verdict, worst first."""

EXIT_CODES: Mapping[Verdict, int] = {
    "PASS": 0, "WARN": 0, "FAIL": 1, "ERROR": 3, "INCONCLUSIVE": 4,
}  # fmt: skip


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst verdict; ERROR when there is none, since nothing was judged."""
    return min(verdicts, key=VERDICTS.index, default="ERROR")


def bound_document(bound: Bound | None) -> dict[str, float]:
    """The bound as it stands in documents: ``{"min": -0.1}``; empty for a line without one."""
    if bound is None:
        return {}
    return {name: value for name, value in vars(bound).items() if value is not None}


@dataclass(frozen=True)
class AuditStatus:
    """Whether an audit ran."""

    name: str
    """The audit's name."""
    status: Literal["RUN", "NOT_RUN", "ERROR"]
    """``NOT_RUN``: not planned, or an input is missing. ``ERROR``: it broke."""
    reason: str | None = None
    """Why it did not run."""


@dataclass(frozen=True)
class RuleVerdict:
    """One line of a judgement: a rule's, or a rule-like one about an audit, waiver or table."""

    metric: str
    """``<audit>.<metric>``; an audit's name, ``waivers`` or ``suite`` on a rule-like line."""
    slice: str
    """The slice that the rule is about."""
    bound: Bound | None
    """The rule's bound; None on a rule-like line."""
    severity: Severity
    """The rule's severity."""
    verdict: Verdict
    """The verdict; a waived failure keeps its FAIL (or its WARN) here."""
    reason: str
    """Why, in sentences with numbers."""
    waived: bool = False
    """Whether a waiver covers the failure."""
    source: str = ""
    """File and line that the rule stands on: ``expectations/default.yaml:12``."""
    why: str = ""
    """Why the rule exists, in its author's words."""
    kind: Kind = "rule"
    """``rule``, or what a rule-like line is about."""

    @property
    def counted(self) -> Verdict:
        """What the line adds to the run's verdict: a waived failure is a WARN, never a PASS."""
        return "WARN" if self.waived else self.verdict

    @property
    def label(self) -> str:
        """The verdict as it is shown."""
        return "WAIVED" if self.waived else self.verdict

    def document(self) -> dict[str, Any]:
        """The line as it stands under ``rules`` in an audit document."""
        return {
            "metric": self.metric, "slice": self.slice, "bound": bound_document(self.bound),
            "severity": self.severity, "verdict": self.verdict, "reason": self.reason,
            "waived": self.waived, "source": self.source, "why": self.why,
        }  # fmt: skip


@dataclass(frozen=True)
class Skipped:
    """A rule that does not count, because its audit did not run and nothing requires it."""

    metric: str
    """The rule's metric."""
    slice: str
    """The rule's slice."""
    source: str
    """File and line of the rule."""
    reason: str
    """Why its audit did not run."""


@dataclass(frozen=True)
class Judgement:
    """What the gate says about a run."""

    verdict: Verdict
    """The worst line's."""
    exit_code: int
    """0 PASS or WARN, 1 FAIL, 3 ERROR, 4 INCONCLUSIVE."""
    rules: tuple[RuleVerdict, ...]
    """Rule-like lines first, then the rules in the policy's order."""
    model: str
    """The model's id."""
    revision: str | None
    """The model's revision."""
    policy: str
    """The policy's name."""
    policy_sha256: str
    """Hash of the policy's files."""
    skipped: tuple[Skipped, ...] = ()
    """Rules that don't count, with the reason."""
    void: bool = False
    """Whether the numerics failed, so that no other value means anything."""
    suite: Mapping[str, Any] = field(default_factory=dict)
    """The Great Expectations suite, as JSON."""
    validation: Mapping[str, Any] = field(default_factory=dict)
    """Great Expectations' validation result, as JSON without NaN or infinity."""

    def document(self) -> dict[str, Any]:
        """What the judgement adds to an audit document."""
        return {
            "policy": self.policy, "policy_sha256": self.policy_sha256,
            "verdict": self.verdict, "exit_code": self.exit_code,
            "rules": [line.document() for line in self.rules],
            "skipped": [asdict(one) for one in self.skipped],
        }  # fmt: skip

    def summary(self) -> str:
        """The verdict and how many lines there are of each kind, in one line of plain text."""
        return summarise(self.document())


def summarise(document: Mapping[str, Any]) -> str:
    """`Judgement.summary` of an audit document."""
    labels = ["WAIVED" if rule["waived"] else rule["verdict"] for rule in document["rules"]]
    counts = [(label, labels.count(label)) for label in (*VERDICTS, "WAIVED")]
    parts = [f"{number} {label}" for label, number in counts if number]
    if document.get("skipped"):
        parts.append(f"{len(document['skipped'])} not judged")
    return f"{document['verdict']} under {document['policy']}: {', '.join(parts)}"
