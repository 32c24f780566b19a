"""``pessimal compare``: finished runs side by side."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pessimal.cli.options import output_options, tracking_options

_WIDEST = 14
"""Models whose matrix fits 80 columns."""


@click.command(
    epilog="\b\nExamples:\n"
    "  pessimal compare 3f2a9c 81d0e4 --out comparison.html\n"
    "  pessimal compare --last 10 --covariates models.csv\n"
    "  pessimal compare 3f2a9c latest --json > comparison.json"
)
@click.argument("runs", nargs=-1, metavar="RUN...")
@click.option("--last", type=click.IntRange(min=1), metavar="N",
              help="Take the newest N finished audits too.")  # fmt: skip
@click.option("--covariates", type=click.Path(path_type=Path), metavar="CSV",
              help="What is known of the models: model, base, developer, size, rank.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), metavar="F.html",
              help="Write the report here too.")  # fmt: skip
@tracking_options
@output_options
def compare(**flags: Any) -> int:
    """Compare finished runs: how far do their models agree on the same words?

    RUN is a run id, the beginning of one, or latest. Nothing is judged: the exit code is 0.
    """
    from pessimal.cli.flags import content_root, speaker
    from pessimal.cli.output import print_document
    from pessimal.pipeline.comparison import CompareRequest, run_compare

    request = CompareRequest(
        runs=flags["runs"], content=content_root(flags), last=flags["last"],
        covariates=flags["covariates"], out=flags["out"], tracking_uri=flags["tracking_uri"],
        command=shlex.join(["pessimal", *sys.argv[1:]]),
    )  # fmt: skip
    document = run_compare(request, speaker(flags))
    if flags["as_json"]:
        print_document(document)
    else:
        print_comparison(document, quiet=flags["quiet"])
    return 0


def print_comparison(document: Mapping[str, Any], *, quiet: bool) -> None:
    """Print a comparison in 80 columns: the matrix of tau, then a line a prompt."""
    from rich.table import Table

    from pessimal.cli.tables import console, head_line
    from pessimal.text import show_text

    screen = console()
    models = document["models"]
    if not quiet:
        if len(models) <= _WIDEST:
            _print_matrix(document)
        table = Table(box=head_line(screen), pad_edge=False, show_edge=False)
        table.add_column("prompt", max_width=26, overflow="ellipsis", no_wrap=True)
        for heading in ("tau", "95 % interval", "RBO", "best 1 %", "worst 1 %"):
            table.add_column(heading, justify="right", no_wrap=True)
        means = document["off_diagonal_mean"]
        for prompt in document["prompts"]:
            name = prompt["id"]
            ends = document["mean_tau_intervals"][name]
            low, high = _number(ends["ci_low"]), _number(ends["ci_high"])
            table.add_row(
                show_text(name), _number(means["tau"][name]), f"{low} to {high}",
                *(_number(means[what][name]) for what in ("rbo", "top_overlap", "bottom_overlap")),
            )  # fmt: skip
        screen.print(table)
        screen.print("Means over pairs of different models.", style="dim")
        for drift in document["drift"]:
            screen.print(
                f"{show_text(drift['model'])}, two versions: {drift['verdict'] or 'not judged'}."
                f" {show_text(drift['reason'])}"
            )
        if document["mds"]["reason"]:
            screen.print(f"No map: {document['mds']['reason']}", style="dim")
        rsa = document["rsa"]
        for term in rsa["terms"]:
            screen.print(
                f"{term['meaning']}: tau {term['coefficient']:+.3f}, Holm's p {term['p_holm']:.3g}"
            )
        if rsa["reason"]:
            screen.print(f"{rsa['status']}: {rsa['reason']}", style="dim")
        for note in document["notes"]:
            screen.print(show_text(note), style="dim")
    screen.print(f"{len(models)} models, {len(document['prompts'])} prompts, run"
                 f" {document['run_id']}")  # fmt: skip


def _print_matrix(document: Mapping[str, Any]) -> None:
    from rich.table import Table

    from pessimal.cli.tables import console, head_line
    from pessimal.text import show_text

    screen = console()
    table = Table(box=head_line(screen), pad_edge=False, show_edge=False, padding=(0, 0, 0, 1))
    table.add_column("tau")
    for place in range(len(document["models"])):
        table.add_column(str(place + 1), justify="right", no_wrap=True, min_width=4)
    for place, model in enumerate(document["models"]):
        row = document["mean_tau"][place]
        cells = ["" if i == place else _number(cell) for i, cell in enumerate(row)]
        table.add_row(str(place + 1), *cells)
        screen.print(f"{place + 1:>2} {show_text(model['label'], 60)}")
    screen.print()
    screen.print(table)
    screen.print()


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
