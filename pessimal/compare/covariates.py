"""What is known of a model beside its scores: base, developer, size and leaderboard rank."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from pessimal.errors import UsageError
from pessimal.inputs.sheet import Sheet, read_sheet
from pessimal.text import show_text

_NUMBERS = ("size", "rank")


@dataclass(frozen=True)
class Covariates:
    """Facts about a model; None where unknown."""

    base: str | None = None
    """The pretrained model that it was made from."""
    developer: str | None = None
    """Who trained it."""
    size: float | None = None
    """Billions of parameters."""
    rank: float | None = None
    """Rank on a leaderboard, 1 = best."""

    def document(self) -> dict[str, Any]:
        """The facts by name."""
        return asdict(self)

    @staticmethod
    def of(model: Mapping[str, Any]) -> Covariates:
        """What an audit document says of its model: nothing is guessed from a model's name.

        Args:
            model: the document's ``model``.
        """
        hub = re.fullmatch(r"(\w[\w.-]*)/[\w.-]+", str(model.get("id")), re.ASCII)
        # A folder that was loaded can look like a hub id, but has no commit.
        folder = model.get("class") is not None and model.get("revision") is None
        parameters = model.get("parameters")
        return Covariates(
            base=(model.get("base") or {}).get("id"),
            developer=hub[1] if hub and not folder else None,
            size=None if not parameters else parameters / 1e9,
        )

    def updated(self, other: Covariates | None) -> Covariates:
        """These facts, with those that `other` knows in their place."""
        known = {} if other is None else other.document()
        return replace(self, **{key: value for key, value in known.items() if value is not None})


def read_covariates(path: Path) -> dict[str, Covariates]:
    """Read a CSV file with a row a model: ``model``, then any of base, developer, size, rank.

    An empty cell is unknown. Size is in billions of parameters, rank 1 is the best.

    Returns:
        The facts by model id.

    Raises:
        UsageError: the file can't be read, a column is unknown, a model stands in it twice, or a
            number isn't one.
    """
    sheet = read_sheet(path)
    models = sheet.texts(sheet.column("model"))
    known = [field.name for field in fields(Covariates)]
    for heading in sheet.header:
        if heading.lower() not in ("model", *known):
            raise UsageError(
                "csv_columns",
                f"{path}, row 1: the column {show_text(heading, 40)!r} is not a covariate.",
                f"Name the columns model, {', '.join(known)}.",
            )
    columns = {name: _column(sheet, name) for name in known}
    return {
        model: Covariates(**{name: values[row] for name, values in columns.items()})
        for row, model in enumerate(models)
    }


def _column(sheet: Sheet, name: str) -> list[Any]:
    place = sheet.find(name)
    if place is None:
        return [None] * len(sheet.rows)
    cells = [row[place] or None for row in sheet.rows]
    if name not in _NUMBERS:
        return list(cells)
    return [
        None if cell is None else _number(sheet.path, line, name, cell)
        for cell, line in zip(cells, sheet.lines, strict=True)
    ]


def _number(path: Path, line: int, name: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(
            "csv_number",
            f"{path}, row {line}: {show_text(cell, 40)!r} in the column {name} is not a positive"
            " number.",
            "Write numbers such as 8.03, without units; leave unknown cells empty.",
        )
    return value
