"""The gate: policies, the decision rule, waivers, verdicts and their reports.

Importing it imports no Great Expectations; judging does.
"""

from pessimal.gate.judge import judge
from pessimal.gate.policy import Policy, Rule, load_policy, policy_from_document
from pessimal.gate.records import EXIT_CODES, AuditStatus, Judgement, RuleVerdict, Skipped, Verdict
from pessimal.gate.report_card import render_model_card
from pessimal.gate.report_junit import render_junit
from pessimal.gate.report_markdown import render_markdown
from pessimal.gate.report_sarif import render_sarif
from pessimal.gate.report_terminal import print_verdict
from pessimal.gate.suite import Evaluation, score_table_suite
from pessimal.gate.verdict import decide
from pessimal.gate.waivers import Waiver, load_waivers

__all__ = [
    "EXIT_CODES",
    "AuditStatus",
    "Evaluation",
    "Judgement",
    "Policy",
    "Rule",
    "RuleVerdict",
    "Skipped",
    "Verdict",
    "Waiver",
    "decide",
    "judge",
    "load_policy",
    "load_waivers",
    "policy_from_document",
    "print_verdict",
    "render_junit",
    "render_markdown",
    "render_model_card",
    "render_sarif",
    "score_table_suite",
]
