"""A human ranking of things, people and concepts, such as EloEverything's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pessimal.inputs.sheet import Sheet, read_sheet

if TYPE_CHECKING:
    import pandas as pd

NAME = ("name",)
SCORE = ("score", "elo_score")
MATCHES = ("matches", "elo_matches")


def read_human(path: Path) -> pd.DataFrame:
    """Read a human ranking; columns other than the three are ignored.

    Args:
        path: a CSV file with ``name``, ``score`` (higher is better) and ``matches`` (comparisons
            that the score rests on); ``elo_score`` and ``elo_matches`` mean the same.

    Returns:
        ``name``, ``score`` and ``matches``, one row an entity, in the file's order.

    Raises:
        UsageError: the file is not such a ranking; the message names the row.
    """
    return human_columns(read_sheet(path))


def human_columns(sheet: Sheet) -> pd.DataFrame:
    """The human columns of a file that may hold others."""
    import pandas as pd

    places = [sheet.column(*headings) for headings in (NAME, SCORE, MATCHES)]
    return pd.DataFrame(
        {
            "name": sheet.texts(places[0]),
            "score": sheet.numbers(places[1]),
            "matches": sheet.numbers(places[2], least=0),
        }
    )
