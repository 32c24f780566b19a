"""Results as tables for the terminal: they fit 80 columns, and are plain when piped."""

from __future__ import annotations

import sys
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from pessimal.gate.waivers import revision_of
from pessimal.text import show_text, show_token


def console() -> Console:
    """Stdout. Piped, lines are as long as they need to be."""
    found = Console(highlight=False, markup=False)
    return found if found.is_terminal else Console(highlight=False, markup=False, width=120)


def print_audit(document: dict[str, Any], *, quiet: bool) -> None:
    """Print the verdict table of an audit document, and where its run is."""
    from pessimal.gate.report_terminal import print_verdict

    print_verdict(document, sys.stdout, quiet=quiet)
    model = document["model"]
    revision = revision_of(model)
    at = "" if revision is None else f" at {show_text(revision)}"
    screen = console()
    screen.print(f"{show_text(model['id'])}{at}, {document['pipeline']}, run {document['run_id']}")
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
        f" {document['backward_passes']:,} gradients, {_duration(document['seconds'])}",
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


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
