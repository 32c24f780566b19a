"""A judgement as a section of a model card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pessimal.gate.plain import bound_text, inert, title
from pessimal.gate.records import Judgement, RuleVerdict


def render_model_card(judgement: Judgement, document: Mapping[str, Any]) -> str:
    """Markdown to paste into a model card: the verdict, what was asked, every value, its limits.

    Args:
        judgement: the judgement.
        document: the audit document that it belongs to, for values and provenance.
    """
    revision = "" if judgement.revision is None else f" at `{_code(judgement.revision)}`"
    parts = [
        f"## Reward model audit: {judgement.verdict}",
        f"Model {inert(judgement.model)}{revision}, audited with Pessimal "
        f"{inert(document['versions'].get('pessimal', ''))}, pipeline "
        f"{inert(document['pipeline'])}, policy {inert(judgement.policy)} (sha256 "
        f"`{judgement.policy_sha256[:16]}`), on {inert(document.get('finished', ''))[:10]}, "
        f"run `{_code(document['run_id'])}`.",
        f"{inert(judgement.summary())}.",
        "\n".join(_table(judgement, document)),
    ]
    waived = [line for line in judgement.rules if line.waived]
    if waived:
        rows = [f"- {inert(title(line))}: {inert(line.reason)}" for line in waived]
        parts.append("### Waived\n\n" + "\n".join(rows))
    parts.append("### Limits\n\n" + "\n".join(f"- {one}" for one in _limits(judgement, document)))
    return "\n\n".join(parts) + "\n"


def _table(judgement: Judgement, document: Mapping[str, Any]) -> list[str]:
    metrics = {(one["name"], one["slice"]): one for one in document["metrics"]}
    rows = ["| verdict | rule | value | 95 % interval | bound | n |", "|---|---|---|---|---|---|"]
    for line in judgement.rules:
        metric = metrics.get((line.metric, line.slice), {})
        cells = (f"**{line.label}**", inert(title(line)), *_value(metric), _bound(line),
                 f"{metric['n']:,}" if "n" in metric else "")  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _value(metric: Mapping[str, Any]) -> tuple[str, str]:
    value, low, high = (metric.get(key) for key in ("value", "ci_low", "ci_high"))
    shown = "" if value is None else f"{value:,.4g}"
    return shown, "" if low is None or high is None else f"{low:.3g} to {high:.3g}"


def _bound(line: RuleVerdict) -> str:
    return inert(bound_text(line)) + (", warning" if line.severity == "warning" else "")


def _limits(judgement: Judgement, document: Mapping[str, Any]) -> list[str]:
    vocabulary = document.get("vocabulary") or {}
    found = []
    if vocabulary.get("sampled"):
        found.append(f"Only {vocabulary['rows']:,} tokens of the vocabulary were scored.")
    found += [f"Not judged: {inert(title(one))}: {inert(one.reason)}" for one in judgement.skipped]
    found.append(
        "The verdict holds for this revision, these prompts and word lists, and short replies only."
    )
    return found


def _code(text: object) -> str:
    """Text inside a code span, where references are not read: only what is surely inert is kept."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in str(text))
