"""An audit document for people at a terminal: a table, plain when it is piped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from pessimal.gate.plain import plain, rule_title
from pessimal.gate.records import summarise

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

STYLES: Mapping[str, str] = {
    "ERROR": "bold red", "FAIL": "bold red", "INCONCLUSIVE": "yellow", "WARN": "yellow",
    "WAIVED": "magenta", "PASS": "green",
}  # fmt: skip
PIPED_WIDTH = 80


def print_verdict(
    document: Mapping[str, Any], file: TextIO, width: int | None = None, *, quiet: bool = False
) -> None:
    """Print the table of rules, the reasons of those that did not pass, and the verdict last.

    Args:
        document: an audit document.
        file: where to; colours only if it is a terminal.
        width: columns; the terminal's by default, 80 when there is none.
        quiet: the verdict's line only.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    if width is None and not console.is_terminal:
        console = Console(file=file, width=PIPED_WIDTH, highlight=False, markup=False, emoji=False)
    if not quiet:
        console.print(rules_table(console, document, document["rules"]))
        for line in reasons(document["rules"]):
            console.print(line)
        for skipped in document.get("skipped", []):
            text = f"Not judged: {plain(rule_title(skipped))}: {plain(skipped['reason'])}"
            console.print(Text(text, "dim"))
    verdict = document["verdict"]
    console.print(Text(plain(summarise(document)), STYLES[verdict]))


def reasons(rules: Sequence[Mapping[str, Any]]) -> list[Text]:
    """A line for each rule that did not pass."""
    from rich.text import Text

    return [
        Text(f"{label} {plain(rule_title(rule))}: {plain(rule['reason'])}", "dim")
        for rule in rules
        if (label := rule_label(rule)) != "PASS"
    ]


def rules_table(
    console: Console, document: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]
) -> Table:
    """A table of some of a document's rules, with what was measured; only text where piped."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD if console.is_terminal else None,
        padding=(0, 1, 0, 0), pad_edge=False, show_edge=False,
    )  # fmt: skip
    table.add_column("verdict", no_wrap=True)
    table.add_column("rule", overflow="fold", max_width=30)
    for heading in ("value", "95 % interval", "bound"):
        table.add_column(heading, no_wrap=True, justify="right")
    metrics = {(one["name"], one["slice"]): one for one in document.get("metrics", [])}
    for rule in rules:
        metric = metrics.get((rule["metric"], rule["slice"]), {})
        bound = " ".join(f"{name} {value:g}" for name, value in rule["bound"].items())
        label = rule_label(rule)
        table.add_row(
            Text(label, STYLES[label]), Text(plain(rule_title(rule))),
            _number(metric.get("value")), _interval(metric), bound,
        )  # fmt: skip
    return table


def rule_label(rule: Mapping[str, Any]) -> str:
    """The verdict of a rule in a document, as it is shown."""
    return "WAIVED" if rule["waived"] else str(rule["verdict"])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"


def _interval(metric: Mapping[str, Any]) -> str:
    low, high = metric.get("ci_low"), metric.get("ci_high")
    return "" if low is None or high is None else f"{low:.3g} to {high:.3g}"
