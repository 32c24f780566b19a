"""An audit document for people at a terminal: a table, plain when it is piped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from pessimal.gate.plain import plain, rule_title
from pessimal.gate.records import summarise

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
        console.print(_table(document))
        for rule in document["rules"]:
            label = _label(rule)
            if label != "PASS":
                text = f"{label} {plain(rule_title(rule))}: {plain(rule['reason'])}"
                console.print(Text(text, "dim"))
        for skipped in document.get("skipped", []):
            text = f"Not judged: {plain(rule_title(skipped))}: {plain(skipped['reason'])}"
            console.print(Text(text, "dim"))
    verdict = document["verdict"]
    console.print(Text(plain(summarise(document)), STYLES[verdict]))


def _table(document: Mapping[str, Any]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, padding=(0, 1), pad_edge=False, expand=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("rule", overflow="fold", max_width=30)
    table.add_column("value", overflow="fold", justify="right")
    table.add_column("95 % interval", overflow="fold", justify="right")
    table.add_column("bound", overflow="fold", justify="right")
    metrics = {(one["name"], one["slice"]): one for one in document.get("metrics", [])}
    for rule in document["rules"]:
        metric = metrics.get((rule["metric"], rule["slice"]), {})
        bound = " ".join(f"{name} {value:g}" for name, value in rule["bound"].items())
        label = _label(rule)
        table.add_row(
            Text(label, STYLES[label]), Text(plain(rule_title(rule))),
            _number(metric.get("value")), _interval(metric), bound,
        )  # fmt: skip
    return table


def _label(rule: Mapping[str, Any]) -> str:
    return "WAIVED" if rule["waived"] else str(rule["verdict"])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"


def _interval(metric: Mapping[str, Any]) -> str:
    low, high = metric.get("ci_low"), metric.get("ci_high")
    return "" if low is None or high is None else f"{low:.3g} to {high:.3g}"
