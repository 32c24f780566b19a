"""How a line of a judgement reads in any report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pessimal.gate.records import RuleVerdict, Skipped, bound_document
from pessimal.text import escape_markdown, show_text


def plain(text: object) -> str:
    """Hostile text on one line, in which no CI system finds a command such as ``::error``."""
    shown = show_text(text)
    while "::" in shown or "##" in shown:
        shown = shown.replace("::", ": :").replace("##", "# #")
    return shown


def inert(text: object) -> str:
    """Hostile text for Markdown: `plain`, with every mark escaped."""
    return escape_markdown(plain(text))


def title(line: RuleVerdict | Skipped) -> str:
    """``identity.gap [axis=age]``; the slice is left out where it is ``all``."""
    return rule_title({"metric": line.metric, "slice": line.slice})


def rule_title(rule: Mapping[str, Any]) -> str:
    """The same of a rule in an audit document."""
    metric: str = rule["metric"]
    return metric if rule["slice"] == "all" else f"{metric} [{rule['slice']}]"


def bound_text(line: RuleVerdict) -> str:
    """``min -0.1``, or nothing for a line without a bound."""
    return " ".join(f"{name} {value:g}" for name, value in bound_document(line.bound).items())


def split_source(source: str) -> tuple[str, int]:
    """File and line of ``expectations/default.yaml:12``; line 1 where none is given."""
    file, _, line = source.rpartition(":")
    return (file, int(line)) if file and line.isdecimal() else (source, 1)
