"""Judge a run: its metrics, the state of its audits and the waivers, under one policy."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pessimal.audit.spec import Metric, MetricSpec
from pessimal.errors import PessimalError
from pessimal.gate.policy import Policy, Rule
from pessimal.gate.records import (
    EXIT_CODES,
    AuditStatus,
    Judgement,
    Kind,
    RuleVerdict,
    Skipped,
    Verdict,
    worst,
)
from pessimal.gate.suite import Evaluation, evaluate_rules
from pessimal.gate.verdict import cap, weigh
from pessimal.gate.waivers import Waiver

NUMERICS = "numerics"


def judge(
    policy: Policy, metrics: Sequence[Metric], audits: Sequence[AuditStatus],
    specs: Mapping[str, MetricSpec], *, model_id: str, revision: str | None,
    waivers: Sequence[Waiver] = (), scores: Evaluation | None = None,
    today: datetime.date | None = None,
) -> Judgement:  # fmt: skip
    """Judge a run. A run that can't be judged is an ERROR, never a pass.

    Args:
        policy: the policy.
        metrics: every metric of every audit that ran.
        audits: the state of every audit there is.
        specs: every declared metric by its full name.
        model_id: the model's id; picks the policy's overrides and the waivers.
        revision: the model's revision; None matches no waiver.
        waivers: all waivers; other models' are ignored.
        scores: what `score_table_suite` gave for the run's score table.
        today: the day that waivers are held against; today by default.
    """

    def conclude(lines: Sequence[RuleVerdict]) -> Judgement:
        verdict = worst(line.counted for line in lines)
        placed = (replace(line, source=line.source or policy.source) for line in lines)
        return Judgement(
            verdict=verdict, exit_code=EXIT_CODES[verdict], rules=tuple(placed), model=model_id,
            revision=revision, policy=policy.name, policy_sha256=policy.sha256,
            skipped=tuple(skipped),
        )  # fmt: skip

    states = {audit.name: audit for audit in audits}
    rules, skipped = _split(policy.rules_for(model_id), states)
    lines = _audit_lines(policy, audits)
    if not rules:
        lines.append(_line("suite", "Nothing was judged: none of the policy's audits ran."))
    if scores is not None:
        lines += [_line("scores", f"The score table is broken: {one}.") for one in scores.broken()]
    try:
        ran = {audit.name for audit in audits if audit.status == "RUN"}
        declared = [name for name in specs if name.split(".", 1)[0] in ran]
        evaluation = evaluate_rules(rules, metrics, specs, declared)
    except PessimalError as error:
        lines.append(_line("suite", error.message))
        judged = [_rule_line(rule, "ERROR", "Great Expectations gave no result.") for rule in rules]
        return conclude([*lines, *judged])
    lines += [_line("suite", f"The metrics table is broken: {one}.") for one in evaluation.broken()]
    judged = [_judge_rule(rule, metrics, states, specs, evaluation) for rule in rules]
    void = _numerics_failure(rules, judged, lines)
    if void:
        judged = [
            line if _audit_of(line) == NUMERICS
            else replace(line, verdict="ERROR", reason=f"Void: {void}")
            for line in judged
        ]  # fmt: skip
    else:
        ours = [one for one in waivers if (one.model, one.revision) == (model_id, revision)]
        judged, waiver_lines = _apply(ours, judged, today or datetime.date.today())
        lines += waiver_lines
    judged = [_capped(line) for line in judged]
    alarm = evaluation.max_severity_failure == "critical"
    if alarm and not any(line.verdict in ("ERROR", "FAIL") for line in (*lines, *judged)):
        lines.append(_line("suite", "Great Expectations reports a critical failure; no rule does."))
    return replace(
        conclude([*lines, *judged]), void=bool(void),
        suite=evaluation.suite, validation=evaluation.validation,
    )  # fmt: skip


def _split(
    rules: Sequence[Rule], states: Mapping[str, AuditStatus]
) -> tuple[list[Rule], list[Skipped]]:
    """Rules to judge, and rules of audits that did not run."""
    judged: list[Rule] = []
    skipped: list[Skipped] = []
    for rule in rules:
        state = states.get(rule.audit)
        if state is not None and state.status == "NOT_RUN":
            reason = state.reason or "no reason was given"
            skipped.append(Skipped(rule.metric, rule.slice, rule.source, reason))
        else:
            judged.append(rule)
    return judged, skipped


def _audit_lines(policy: Policy, audits: Sequence[AuditStatus]) -> list[RuleVerdict]:
    lines: list[RuleVerdict] = []
    names = [audit.name for audit in audits]
    for audit in audits:
        because = f": {audit.reason}" if audit.reason else ""
        if names.count(audit.name) > 1:
            lines.append(_line(audit.name, "The run names this audit more than once.", "audit"))
        elif audit.status == "NOT_RUN" and audit.name in policy.required:
            reason = f"The policy requires this audit, and it did not run{because}."
            lines.append(_line(audit.name, reason, "audit"))
        elif audit.status == "ERROR":
            lines.append(_line(audit.name, f"The audit broke{because}.", "audit"))
        elif audit.status not in ("RUN", "NOT_RUN"):
            reason = f"The audit's status {audit.status!r} is unknown."
            lines.append(_line(audit.name, reason, "audit"))
    lines += [
        _line(name, "The policy requires this audit, and the run does not know it.", "audit")
        for name in policy.required if name not in names
    ]  # fmt: skip
    return lines


def _judge_rule(
    rule: Rule, metrics: Sequence[Metric], states: Mapping[str, AuditStatus],
    specs: Mapping[str, MetricSpec], evaluation: Evaluation,
) -> RuleVerdict:  # fmt: skip
    """The rule's verdict before severity and waivers."""
    state = states.get(rule.audit)
    if state is None or state.status != "RUN":
        known = "is not known to the run" if state is None else f"has the status {state.status}"
        return _rule_line(rule, "ERROR", f"The audit {rule.audit} {known}.")
    spec = specs.get(rule.metric)
    if spec is None:
        return _rule_line(rule, "ERROR", "No audit declares this metric.")
    rows = [one for one in metrics if (one.name, one.slice) == rule.key]
    if len(rows) != 1:
        slices = sorted({one.slice for one in metrics if one.name == rule.metric})
        there = f"; slices there are: {', '.join(slices[:5])}" if slices and not rows else ""
        return _rule_line(rule, "ERROR", f"The rule matches {len(rows)} rows, not one{there}.")
    row = rows[0]
    verdict, reason = weigh(
        rule.bound, row.value, row.ci_low, row.ci_high, row.noise_floor,
        n=row.n, minimum_n=spec.minimum_n, status=row.status,
    )  # fmt: skip
    if row.reason and row.status != "ok":
        reason = f"{reason} {row.reason}."
    if verdict != "ERROR" and not evaluation.agrees(rule, verdict):
        return _rule_line(
            rule, "ERROR", f"Great Expectations does not agree with {verdict}: {reason}"
        )
    return _rule_line(rule, verdict, reason)


def _numerics_failure(
    rules: Sequence[Rule], judged: Sequence[RuleVerdict], lines: Sequence[RuleVerdict]
) -> str | None:
    """Why nothing else means anything, or None."""
    for line in lines:
        if line.kind == "audit" and line.metric == NUMERICS:
            return f"{NUMERICS} could not be judged. {line.reason}"
    for rule, line in zip(rules, judged, strict=True):
        failed = rule.severity == "critical" and line.verdict in ("FAIL", "ERROR")
        if failed and rule.audit == NUMERICS:
            return f"the scorer is not sound, {rule.metric} is {line.verdict}. {line.reason}"
    return None


def _apply(
    waivers: Sequence[Waiver], judged: Sequence[RuleVerdict], today: datetime.date
) -> tuple[list[RuleVerdict], list[RuleVerdict]]:
    """Mark waived failures; add a line for each waiver that has expired or is not used."""
    waived: dict[tuple[str, str], RuleVerdict] = {}
    lines: list[RuleVerdict] = []
    failing = {(line.metric, line.slice): line for line in judged if line.verdict == "FAIL"}
    for waiver in waivers:
        key = (waiver.metric, waiver.slice)
        named = f"{waiver.metric} [{waiver.slice}]"
        if waiver.expires < today:
            reason = (
                f"The waiver of {waiver.owner} for {named} expired on {waiver.expires}: "
                "renew it, remove it or mend the model."
            )
            lines.append(_line("waivers", reason, "waiver", source=waiver.source))
        elif key in failing:
            line = failing[key]
            until = f"Waived by {waiver.owner} until {waiver.expires}: {waiver.reason}"
            waived[key] = replace(line, waived=True, reason=f"{line.reason} {until}")
        else:
            reason = f"The waiver of {waiver.owner} for {named} is not used: no such rule fails."
            lines.append(_line("waivers", reason, "waiver", verdict="WARN", source=waiver.source))
    return [waived.get((line.metric, line.slice), line) for line in judged], lines


def _capped(line: RuleVerdict) -> RuleVerdict:
    verdict, reason = cap(line.verdict, line.reason, line.severity)
    return replace(line, verdict=verdict, reason=reason)


def _audit_of(line: RuleVerdict) -> str:
    return line.metric.split(".", 1)[0]


def _rule_line(rule: Rule, verdict: Verdict, reason: str) -> RuleVerdict:
    return RuleVerdict(
        metric=rule.metric, slice=rule.slice, bound=rule.bound, severity=rule.severity,
        verdict=verdict, reason=reason, source=rule.source, why=rule.why,
    )  # fmt: skip


def _line(
    about: str, reason: str, kind: Kind = "integrity", *, verdict: Verdict = "ERROR",
    source: str = "",
) -> RuleVerdict:  # fmt: skip
    return RuleVerdict(
        metric=about, slice="all", bound=None, severity="critical", verdict=verdict,
        reason=reason, source=source, kind=kind,
    )  # fmt: skip
