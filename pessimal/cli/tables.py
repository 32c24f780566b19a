"""Results as tables for the terminal: they fit 80 columns, and are plain when piped."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from pessimal.gate.waivers import revision_of
from pessimal.text import show_text, show_token

NARROW = 80
"""Columns that every table fits."""
PIPED = 120


def console(piped: int = PIPED) -> Console:
    """Stdout, with the terminal's width and colours; `piped` columns and none where it is none."""
    found = Console(highlight=False, markup=False, emoji=False)
    if found.is_terminal:
        return found
    return Console(highlight=False, markup=False, emoji=False, width=piped)


def plain_table(screen: Console, *columns: str, header: bool = True) -> Table:
    """A table with a line under its head at a terminal, and nothing but text where it is piped.

    Args:
        screen: where it will be printed.
        columns: headings; those that begin with ``>`` are of numbers.
        header: whether the headings are shown.
    """
    table = Table(
        box=head_line(screen) if header else None,
        padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, show_header=header,
    )  # fmt: skip
    for column in columns:
        right = column.startswith(">")
        table.add_column(
            column.removeprefix(">"), justify="right" if right else "left", no_wrap=right,
            overflow="fold",
        )  # fmt: skip
    return table


def head_line(screen: Console) -> box.Box | None:
    """The line under a table's head: none where the table is piped."""
    return box.SIMPLE_HEAD if screen.is_terminal else None


def interval(low: float | None, high: float | None) -> str:
    """An interval to read, with three significant digits; nothing where there is none."""
    return "" if low is None or high is None else f"{low:.3g} to {high:.3g}"


def number(value: object) -> str:
    """A number to read, with four significant digits; nothing where there is none."""
    from pessimal.reports.view import number as shown

    return "" if value is None else shown(value)


def print_audit(document: dict[str, Any], *, quiet: bool) -> None:
    """Print the verdict table of an audit document, and where its run is."""
    from pessimal.gate.report_terminal import print_verdict

    print_verdict(document, sys.stdout, quiet=quiet)
    model = document["model"]
    revision = revision_of(model)
    at = "" if revision is None else f" at {show_text(revision)}"
    screen = console()
    # Piped or not, a run's id is copied whole.
    screen.print(
        f"{show_text(model['id'])}{at}, {document['pipeline']}, run {document['run_id']}",
        soft_wrap=True,
    )
    if not quiet:
        screen.print(
            "See it: pessimal ui, or pessimal report latest --out report.html", style="dim"
        )


def print_plan(document: dict[str, Any]) -> None:
    """Print what an audit would cost."""
    screen = console()
    table = plain_table(screen, "step", ">prompts", ">replies", ">forward tokens")
    for step in document["steps"]:
        table.add_row(
            step["step"],
            f"{step['prompts']:,}",
            f"{step['tokens']:,}",
            f"{step['forward_tokens']:,}",
        )
    screen.print(table)
    if document["time"]:
        times = plain_table(screen, "part", ">about")
        for part in document["time"]:
            times.add_row(part["part"].replace("_", " "), duration(part["seconds"]))
        screen.print(times)
    work = "" if document["flops"] is None else f" {document['flops']:.3g} FLOPs,"
    screen.print(
        f"{document['blocks']:,} blocks,{work} {document['disk_bytes'] / 2**20:.1f} MiB of scores,"
        f" {_takes(document)}"
    )
    if document["seconds"] is None and document["gpus"]:
        _print_gpus(screen, document)


def _takes(document: dict[str, Any]) -> str:
    if document["flops"] is None:
        return "in a time that is the server's to say (searches not counted)"
    if document["seconds"] is None:
        return "in a time that isn't known here: the weights aren't on this machine"
    how = "measured with the model" if document["calibration"] == "model" else "an estimate"
    return f"about {duration(document['seconds'])} on this machine ({how})"


def _print_gpus(screen: Any, document: dict[str, Any]) -> None:
    """What scoring would take on named GPUs: arithmetic, and said to be that."""
    table = plain_table(screen, "GPU (estimate)", "dtype", ">scoring", "fits")
    for one in document["gpus"]:
        seconds = duration(one["seconds"])
        table.add_row(one["name"], one["dtype"], seconds, "yes" if one["fits"] else "no")
    screen.print(table)
    for dtype, needs in document["memory"].items():
        screen.print(
            f"{dtype}: {needs['weight_bytes'] / 2**30:.1f} GiB of weights,"
            f" {needs['peak_bytes'] / 2**30:.1f} GiB at the peak (estimate)"
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
        f" ({document['computed']:,} scored in {duration(document['seconds'])},"
        f" {document['reused']:,} kept from before, {document['path']} path)"
    )


def print_search(document: dict[str, Any], *, quiet: bool) -> None:
    """Print the reply that a search found."""
    screen = console()
    best = document["best"]
    shown = " ".join(show_token(name) for name in best["tokens"])
    screen.print(f"{best['reward']:.6g}  {shown}  ids {' '.join(map(str, best['token_ids']))}")
    if quiet:
        return
    text = best["as_text_reward"]
    screen.print(
        f"as text {show_token(best['text'])}: "
        + ("not scored" if text is None else f"{text:.6g}")
        + (", the same ids" if best["as_text_same"] else ", other ids"),
        style="dim",
    )
    screen.print(
        f"{document['method']}, {document['forward_tokens']:,} forward tokens,"
        f" {document['evaluations']:,} replies scored,"
        f" {document['backward_passes']:,} gradients, {duration(document['seconds'])}",
        style="dim",
    )
    proof = document["certificate"]
    if proof is not None:
        known = {True: "no reply of this length is", False: "a better reply was found, so one is",
                 None: "whether any other reply is, was not checked for all"}  # fmt: skip
        screen.print(
            f"{'No' if proof['coordinate_optimal'] else 'A'} single change is better"
            f" ({proof['changes_checked']:,} checked); {known[proof['global_optimum']]}"
        )
    for note in document["notes"]:
        screen.print(show_text(note), style="dim")


def print_study(document: Mapping[str, Any], *, quiet: bool = False) -> None:
    """Say what tuning the search led to."""
    screen = console()
    study, best, held = document["study"], document["best"], document["held_out"]
    if not quiet:
        screen.print(
            f"{show_text(document['model']['id'])}: {study['complete']:,} trials complete,"
            f" {study['pruned']:,} pruned, {study['budget']:,} forward tokens a search"
        )
        settings = ", ".join(f"{name} {number(value)}" for name, value in best["settings"].items())
        screen.print(f"best: {settings}", style="dim")
    screen.print(
        f"{show_text(best['verdict'])} ({held['difference']:+.3f} SD, 95 % CI"
        f" {held['ci_low']:.3f} to {held['ci_high']:.3f}, {held['cases']} cases)"
    )
    if document["preset_file"]:
        screen.print(
            f"Audits of this project now search with {show_text(document['preset_file'])}",
            soft_wrap=True,
        )


def duration(seconds: float) -> str:
    """A time to read."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
