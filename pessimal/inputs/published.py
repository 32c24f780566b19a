"""Score tables that others published: rewards of many models, or of one, for given words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pessimal.errors import UsageError
from pessimal.inputs.human import MATCHES, NAME, SCORE, human_columns
from pessimal.inputs.sheet import columns_but, read_sheet

if TYPE_CHECKING:
    import pandas as pd

_OWNER = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)_(.+)")


@dataclass(frozen=True)
class EloFile:
    """Human scores of entities, and the rewards of some models under one prompt."""

    path: Path
    """The file; its name is the prompt, less the question mark."""
    human: pd.DataFrame
    """``name score matches``, one row an entity."""
    scores: dict[str, list[float]]
    """Rewards by model id, in the order of the rows."""


@dataclass(frozen=True)
class WordFile:
    """Rewards of one model for words under some prompts."""

    path: Path
    """The file; its name is the model, with an underscore for the slash."""
    model: str
    """The model's id."""
    words: list[str]
    """The words, each once."""
    scores: dict[str, list[float]]
    """Rewards by prompt id, in the order of the words."""


def read_elo(path: Path) -> EloFile:
    """Read human columns followed by one column a model.

    Args:
        path: a CSV file with ``name``, ``score`` and ``matches`` (or ``elo_score`` and
            ``elo_matches``); ``rank`` or ``elo_rank`` is ignored, each other column is a model.

    Raises:
        UsageError: the file is not such a table; the message names the row.
    """
    sheet = read_sheet(path)
    human = human_columns(sheet)
    taken = [sheet.find(*headings) for headings in (NAME, SCORE, MATCHES, ("elo_rank", "rank"))]
    models = columns_but(sheet, *taken)
    if not models:
        raise UsageError(
            "csv_columns", f"{path}, row 1: there is no column of a model's scores.",
            "Add a column a model, headed by the model's id.",
        )  # fmt: skip
    return EloFile(path, human, {sheet.header[place]: sheet.numbers(place) for place in models})


def read_words(path: Path) -> WordFile:
    """Read ``response`` followed by one column a prompt.

    Raises:
        UsageError: the file is not such a table; the message names the row.
    """
    sheet = read_sheet(path)
    response = sheet.column("response")
    prompts = columns_but(sheet, response)
    if not prompts:
        raise UsageError(
            "csv_columns", f"{path}, row 1: there is no column of a prompt's scores.",
            "Add a column a prompt, headed by the prompt's id.",
        )  # fmt: skip
    scores = {sheet.header[place]: sheet.numbers(place) for place in prompts}
    return WordFile(path, model_of(path), sheet.texts(response), scores)


def model_of(path: Path) -> str:
    """A model's id by its file's name: ``owner_model.csv`` is ``owner/model``."""
    match = _OWNER.fullmatch(path.stem)
    return f"{match[1]}/{match[2]}" if match else path.stem
