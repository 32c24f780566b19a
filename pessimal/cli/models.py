"""The families of reward models: what is read how, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pessimal.cli.options import output_options
from pessimal.cli.output import print_document


def families_document() -> dict[str, Any]:
    """List the families as a ``pessimal.models/1`` document. Loads no heavy library."""
    from pessimal.models.families import FAMILIES

    return {
        "schema": "pessimal.models/1",
        "families": [
            {"name": row.name, "kind": row.kind, "status": row.status, "gradient": row.gradient,
             "remote_code": row.needs_remote_code, "notes": row.notes}
            for row in FAMILIES
        ],
    }  # fmt: skip


@click.command(
    epilog="\b\nExamples:\n  pessimal models\n  pessimal models --json | jq '.families[].name'"
)
@output_options
def models(project: Path | None, quiet: bool, as_json: bool) -> int:
    """List the families of reward models that can be audited, and those that are refused."""
    document = families_document()
    if as_json:
        print_document(document)
        return 0
    from pessimal.cli.tables import NARROW, console, plain_table

    screen = console(piped=NARROW)
    table = plain_table(screen, "family", "kind", "status", "gradient", "remote code", "notes")
    for row in document["families"]:
        yes = {True: "yes", False: "no"}
        table.add_row(
            row["name"], row["kind"], row["status"], yes[row["gradient"]], yes[row["remote_code"]],
            "" if quiet else row["notes"],
        )  # fmt: skip
    screen.print(table)
    return 0
