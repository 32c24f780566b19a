"""A judgement for people at a terminal: a table, plain when it is piped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from pessimal.gate.plain import bound_text, plain, title
from pessimal.gate.records import Judgement

STYLES: Mapping[str, str] = {
    "ERROR": "bold red", "FAIL": "bold red", "INCONCLUSIVE": "yellow", "WARN": "yellow",
    "WAIVED": "magenta", "PASS": "green",
}  # fmt: skip


def print_judgement(judgement: Judgement, file: TextIO, width: int | None = None) -> None:
    """Print the verdict table, what was not judged, and the run's verdict last.

    Args:
        judgement: the judgement.
        file: where to; colours only if it is a terminal.
        width: columns; the terminal's by default, 80 when there is none.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    table = Table(box=box.SIMPLE, padding=(0, 1), pad_edge=False, expand=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("rule", overflow="fold", max_width=28)
    table.add_column("why", overflow="fold")
    for line in judgement.rules:
        rule = Text(plain(title(line)))
        if line.bound is not None:
            rule.append(f"\n{bound_text(line)}", style="dim")
        if line.severity == "warning":
            rule.append(", warning", style="dim")
        table.add_row(Text(line.label, STYLES[line.label]), rule, Text(plain(line.reason)))
    console.print(table)
    for skipped in judgement.skipped:
        console.print(Text(f"Not judged: {plain(title(skipped))}: {plain(skipped.reason)}", "dim"))
    console.print(Text(plain(judgement.summary()), STYLES[judgement.verdict]))
