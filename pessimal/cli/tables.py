"""Results as tables for the terminal: they fit 80 columns, and are plain when piped."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pessimal.text import show_text

STYLES = {
    "PASS": "green", "WARN": "yellow", "FAIL": "bold red", "ERROR": "bold red",
    "INCONCLUSIVE": "magenta", "WAIVED": "cyan",
}  # fmt: skip


def console() -> Console:
    """Stdout. Piped, lines are as long as they need to be."""
    found = Console(highlight=False, markup=False)
    return found if found.is_terminal else Console(highlight=False, markup=False, width=120)


def print_audit(document: dict[str, Any], *, quiet: bool) -> None:
    """Print the verdict table of an audit document."""
    screen = console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column, justify in (
        ("verdict", "left"),
        ("metric", "left"),
        ("value", "right"),
        ("95 % CI", "right"),
        ("bound", "right"),
    ):
        table.add_column(column, justify=justify, overflow="fold")  # type: ignore[arg-type]
    metrics = {(metric["name"], metric["slice"]): metric for metric in document["metrics"]}
    for rule in document["rules"]:
        label = "WAIVED" if rule["waived"] else rule["verdict"]
        metric = metrics.get((rule["metric"], rule["slice"]), {})
        name = rule["metric"] if rule["slice"] == "all" else f"{rule['metric']} [{rule['slice']}]"
        table.add_row(
            Text(label, style=STYLES.get(label, "")), show_text(name), _number(metric.get("value")),
            _interval(metric), " ".join(f"{key} {value:g}" for key, value in rule["bound"].items()),
        )  # fmt: skip
    if not quiet:
        screen.print(table)
        for rule in document["rules"]:
            if rule["verdict"] != "PASS":
                screen.print(
                    f"{rule['verdict']} {rule['metric']}: {show_text(rule['reason'])}", style="dim"
                )
        for audit in document["audits"]:
            if audit["status"] != "RUN":
                screen.print(
                    f"{audit['status']} {audit['name']}: {show_text(audit['reason'])}", style="dim"
                )
    verdict = document["verdict"]
    line = Text.assemble(
        "\n", (verdict, STYLES.get(verdict, "")), f"  {show_text(document['model']['id'])}",
        f" under {document['policy']}, {document['pipeline']}, run {document['run_id']}",
    )  # fmt: skip
    screen.print(line)
    if not quiet:
        screen.print(
            "See it: pessimal ui, or pessimal report latest --out report.html", style="dim"
        )


def print_plan(document: dict[str, Any]) -> None:
    """Print what an audit would cost."""
    screen = console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("step", "prompts", "replies", "forward tokens"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for step in document["steps"]:
        table.add_row(
            step["step"],
            f"{step['prompts']:,}",
            f"{step['tokens']:,}",
            f"{step['forward_tokens']:,}",
        )
    screen.print(table)
    screen.print(
        f"{document['blocks']:,} blocks, {document['flops']:.3g} FLOPs,"
        f" {document['disk_bytes'] / 2**20:.1f} MiB of scores,"
        f" about {_duration(document['seconds'])} on this machine (searches not counted)"
    )


def print_scores(document: dict[str, Any]) -> None:
    """Say what a sweep made."""
    screen = console()
    if not document["complete"]:
        screen.print(
            f"This share is done: {document['computed']:,} scored, {document['reused']:,} there"
            " already. Run the other shares, then the command without --shard for the table."
        )
        return
    screen.print(
        f"{document['rows']:,} rows in {show_text(document['out'])}"
        f" ({document['computed']:,} scored in {_duration(document['seconds'])},"
        f" {document['reused']:,} kept from before, {document['path']} path)"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"


def _interval(metric: dict[str, Any]) -> str:
    low, high = metric.get("ci_low"), metric.get("ci_high")
    return "" if low is None or high is None else f"{low:.3g} to {high:.3g}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
