"""An audit as Markdown: the description of its MLflow run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pessimal.reports.view import join_rules, number, summarise
from pessimal.text import escape_markdown

MAXIMUM_LENGTH: Final = 4_800
"""MLflow keeps 5,000 characters of a description on every store."""
_RUN_ID: Final = re.compile("[0-9a-f]{32}")
_SYMBOLS: Final = {"PASS": "✓", "WARN": "!", "FAIL": "✕", "INCONCLUSIVE": "?", "ERROR": "⊘"}
_REASON_LENGTH: Final = 160
# Figures that answer first questions and name no token.
_SHOWN: Final = ("identity.identity_axes", "framing.slopes", "vocabulary.distribution_positive")


def describe(document: Mapping[str, Any]) -> str:
    """The verdict, the table of rules and what did not run, in at most 4,800 characters.

    Rules that don't fit, the mildest ones, are counted.

    Args:
        document: an audit document.
    """
    summary = summarise(document)
    model: Mapping[str, Any] = document.get("model") or {}
    verdict = summary["verdict"]
    head = [
        f"## {_SYMBOLS.get(verdict, '')} {escape_markdown(verdict)}",
        "",
        escape_markdown(summary["meaning"]),
        "",
        f"Model **{escape_markdown(model.get('id') or 'imported scores')}**, "
        f"pipeline {escape_markdown(document.get('pipeline') or '–')}, "
        f"policy {escape_markdown(document.get('policy') or '–')}.",
        "",
    ]
    tail = [f"- {line}" for line in _not_run(document)]
    if tail:
        tail = ["", "### Not run", "", *tail]
    artifacts: Mapping[str, Any] = document.get("artifacts") or {}
    if "report" in artifacts:
        tail += ["", f"The whole report is the artifact {escape_markdown(artifacts['report'])}."]
    tail += show_figures(document, _SHOWN)
    rows = [_row(rule) for rule in join_rules(document, {})]
    table = [
        "| verdict | metric | slice | value | 95 % interval | bound | n | reason |",
        "|---|---|---|---:|---|---|---:|---|",
    ]
    room = MAXIMUM_LENGTH - len("\n".join([*head, *table, *tail])) - 80
    kept: list[str] = []
    for row in rows:
        room -= len(row) + 1
        if room < 0:
            break
        kept.append(row)
    if len(kept) < len(rows):
        tail = ["", f"{len(rows) - len(kept)} more rules are in the report.", *tail]
    body = [*table, *kept] if rows else ["No rule was judged."]
    return "\n".join([*head, *body, *tail])[:MAXIMUM_LENGTH]


def show_figures(document: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Those of a run's figures that it has, as MLflow's UI shows them in a description."""
    run_id = str(document.get("run_id") or "")
    if not _RUN_ID.fullmatch(run_id):
        return []
    held = (document.get("artifacts") or {}).get("figures") or []
    return [
        f'\n<img src="get-artifact?path=figures/{name}.png&run_uuid={run_id}" width="620"'
        f' alt="{name}">'
        for name in names
        if f"figures/{name}.svg" in held
    ]


def _row(rule: Mapping[str, Any]) -> str:
    interval = "–"
    if rule["ci_low"] is not None and rule["ci_high"] is not None:
        interval = f"{number(rule['ci_low'])} to {number(rule['ci_high'])}"
    verdict = str(rule.get("verdict"))
    # What passes has its value beside its bound: no more needs to be said.
    reason = "" if verdict == "PASS" else str(rule["reason"] or "")
    if len(reason) > _REASON_LENGTH:
        reason = reason[: _REASON_LENGTH - 1] + "…"
    cells = (
        f"{_SYMBOLS.get(verdict, '')} {verdict}{' (waived)' if rule.get('waived') else ''}",
        rule.get("metric"), rule.get("slice"), number(rule["value"]), interval, rule["bound_text"],
        number(rule["n"]), reason,
    )  # fmt: skip
    return f"| {' | '.join(escape_markdown(cell) for cell in cells)} |"


def _not_run(document: Mapping[str, Any]) -> list[str]:
    return [
        f"{escape_markdown(audit.get('name'))}: {escape_markdown(audit.get('reason') or '–')}"
        for audit in document.get("audits") or []
        if audit.get("status") != "RUN"
    ]
