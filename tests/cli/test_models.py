"""pessimal models: the families, for people and for scripts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from pessimal.cli import app
from pessimal.models.families import FAMILIES


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["models", *arguments])


def test_the_document_has_every_family() -> None:
    result = run("--json")
    assert result.exit_code == 0
    document = json.loads(result.output)
    assert document["schema"] == "pessimal.models/1"
    assert [row["name"] for row in document["families"]] == [row.name for row in FAMILIES]
    fields = {"name", "kind", "status", "gradient", "remote_code", "notes"}
    assert all(set(row) == fields for row in document["families"])
    armorm = next(row for row in document["families"] if row["name"] == "armorm")
    assert (armorm["status"], armorm["remote_code"], armorm["gradient"]) == (
        "supported",
        False,
        True,
    )
    needing = {row["name"] for row in document["families"] if row["remote_code"]}
    assert needing & {row.name for row in FAMILIES if row.own_head} == set()
    assert "remote" in needing


@pytest.mark.parametrize("flags", [(), ("--quiet",)])
def test_the_table_fits_eighty_columns(flags: tuple[str, ...]) -> None:
    lines = run(*flags).output.splitlines()
    assert max(map(len, lines)) <= 80
    first = {line.split()[0] for line in lines if line[:1].strip()}
    assert {row.name for row in FAMILIES} <= first


def test_help_has_an_example() -> None:
    assert "pessimal models --json" in run("--help").output
