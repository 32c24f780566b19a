"""Published score tables, put together by model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.audit import Prompt, suggest
from pessimal.errors import UsageError
from pessimal.inputs import EloFile, WordFile, read_elo, read_words
from pessimal.pipeline.spec import PromptBook
from pessimal.pipeline.work import HUMAN
from pessimal.text import show_text

if TYPE_CHECKING:
    import pandas as pd

    from pessimal.scores.table import WordTable

# What lists of these names hold is known to the audits: a folder's name must not claim it.
_RESERVED = ("valence", "identity", "carriers", "controls", HUMAN)


@dataclass(frozen=True)
class Published:
    """What was published of one model."""

    id: str
    """The model's id."""
    words: WordTable
    """Its scores, NaN where a word has none under a prompt."""
    prompts: dict[str, Prompt]
    """The prompts of the scores."""
    sources: list[dict[str, str]]
    """``file`` and ``sha256`` of each table."""
    notes: tuple[str, ...] = ()
    """What a reader should know of how the files were read."""
    human: pd.DataFrame | None = None
    """The human ranking that came with the scores."""
    reruns: dict[str, Any] | None = None
    """How far the scores of words that stand in two files lie apart; see `_reruns`."""

    @property
    def lists(self) -> dict[str, list[str]]:
        """The words by list."""
        frame = self.words.frame
        return {
            str(name): part["word"].tolist() for name, part in frame.groupby("list", sort=False)
        }


def publish_elo(files: Sequence[Path], book: PromptBook) -> list[Published]:
    """Join files of human columns and one column a model; a file's name is its prompt.

    Raises:
        UsageError: a file is wrong, two are of one prompt, or they differ in a human score.
    """
    import pandas as pd

    _refuse_twice(files)
    tables: dict[str, tuple[Prompt, EloFile]] = {}
    notes: list[str] = []
    for path in files:
        prompt, known = _elo_prompt(path, book)
        if prompt.id in tables:
            raise UsageError(
                "prompt_twice", f"{path} and {tables[prompt.id][1].path} are of one prompt.",
                "Give one file a prompt; its name is the prompt.",
            )  # fmt: skip
        if not known:
            notes.append(
                f"No known prompt is called {path.stem!r}: it was taken as a positive one."
            )
        tables[prompt.id] = (prompt, read_elo(path))
    human = _join_human([table for _, table in tables.values()])
    models = dict.fromkeys(model for _, table in tables.values() for model in table.scores)
    published = []
    for model in models:
        mine = {key: both for key, both in tables.items() if model in both[1].scores}
        frame = pd.DataFrame({
            key: pd.Series(table.scores[model], index=table.human["name"])
            for key, (_, table) in mine.items()
        }).reindex(pd.Index(human["name"]))  # fmt: skip
        frame = frame.dropna(how="all")
        published.append(Published(
            id=model,
            words=_table(model, list(frame.index), [HUMAN] * len(frame), frame),
            prompts={key: prompt for key, (prompt, _) in mine.items()},
            sources=[_source(table.path) for _, table in mine.values()],
            notes=tuple(notes),
            human=human,
        ))  # fmt: skip
    return published


def publish_words(files: Sequence[Path], book: PromptBook) -> list[Published]:
    """Join files of one column a prompt by the model that they are called after.

    Words are of a list that is called after their file's folder: the same word in two folders was
    scored in two runs.

    Raises:
        UsageError: a file is wrong, or has a column that is no known prompt.
    """
    import pandas as pd

    _refuse_twice(files)
    groups: dict[str, list[WordFile]] = {}
    for path in files:
        table = read_words(path)
        for name in table.scores:
            if name not in book.prompts:
                raise UsageError(
                    "prompt_unknown", f"{path}, row 1: the column {show_text(name, 60)!r} is no"
                    " known prompt.",
                    f"{suggest(name, list(book.prompts))[:300]} Name its text and framing in a"
                    " YAML file: --prompts FILE.",
                )  # fmt: skip
        groups.setdefault(table.model, []).append(table)
    published = []
    for model, tables in groups.items():
        names = _list_names([table.path for table in tables])
        frame = pd.concat(
            [pd.DataFrame(table.scores, index=table.words) for table in tables], keys=names
        )
        lists, words = (list(frame.index.get_level_values(level)) for level in (0, 1))
        published.append(Published(
            id=model,
            words=_table(model, words, lists, frame),
            prompts={key: book.prompts[key] for key in map(str, frame.columns)},
            sources=[_source(table.path) for table in tables],
            reruns=_reruns(frame),
        ))  # fmt: skip
    return published


def _elo_prompt(path: Path, book: PromptBook) -> tuple[Prompt, bool]:
    """The prompt that a file is called after, and whether the book knows it."""
    wanted = _plain(path.stem)
    for prompt in book.prompts.values():
        if wanted in (_plain(prompt.text), prompt.id.casefold()):
            return prompt, True
    slug = re.sub(r"\W+", "_", path.stem.casefold()).strip("_")[:60] or "prompt"
    return Prompt(slug, path.stem, "positive"), False


def _plain(text: str) -> str:
    return " ".join(text.casefold().removesuffix("?").split())


def _join_human(tables: Sequence[EloFile]) -> pd.DataFrame:
    """One ranking from the human columns of all files.

    Raises:
        UsageError: ``human_differs``, naming the entity and both files.
    """
    import pandas as pd

    whole = tables[0].human
    for table in tables[1:]:
        both = whole.merge(table.human, on="name", suffixes=("", "_other"))
        differ = (both["score"] != both["score_other"]) | (both["matches"] != both["matches_other"])
        if differ.any():
            name = show_text(both.loc[differ, "name"].iloc[0], 60)
            raise UsageError(
                "human_differs",
                f"{table.path} and {tables[0].path} give {name!r} different human scores.",
                "Import them apart, or with one ranking.",
            )
        new = table.human[~table.human["name"].isin(whole["name"])]
        whole = pd.concat([whole, new], ignore_index=True)
    return whole


def _refuse_twice(files: Sequence[Path]) -> None:
    for place, path in enumerate(files):
        if path.resolve() in [other.resolve() for other in files[:place]]:
            raise UsageError("file_twice", f"{path} is named twice.", "Name each file once.")


def _list_names(paths: Sequence[Path]) -> list[str]:
    """A name a file: its folder's, numbered where it is taken."""
    names: list[str] = []
    for path in paths:
        folder = path.resolve().parent.name or "words"
        name = f"{folder} words" if folder in _RESERVED else folder
        count = sum(other == name or other.startswith(f"{name} (") for other in names)
        names.append(name if not count else f"{name} ({count + 1})")
    return names


def _table(
    model: str, words: Sequence[object], lists: Sequence[object], scores: pd.DataFrame
) -> WordTable:
    import numpy as np

    from pessimal.scores.table import TableMetadata, WordTable

    return WordTable.build(
        words=[str(word) for word in words], lists=[str(name) for name in lists],
        ids=[()] * len(words),
        scores={str(key): scores[key].to_numpy(dtype=np.float32) for key in scores.columns},
        metadata=TableMetadata(model=model),
    )  # fmt: skip


def _reruns(frame: pd.DataFrame) -> dict[str, Any] | None:
    """RMS and largest difference of a word's scores between its runs, in SD of the prompt's scores.

    The first run of a word is compared with each later one.

    Args:
        frame: scores, indexed by list and word.

    Returns:
        ``words pairs rms largest unit``; None where no word occurs twice.
    """
    import numpy as np

    words = frame.index.get_level_values(1)
    first = frame[~words.duplicated()].droplevel(0)
    later = frame[words.duplicated()].droplevel(0)
    difference = (later - first.reindex(later.index)) / frame.std(ddof=0).replace(0, np.nan)
    values = difference.to_numpy(dtype=np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    return {
        "words": int(later.index.nunique()), "pairs": len(values),
        "rms": float(np.sqrt((values**2).mean())), "largest": float(np.abs(values).max()),
        "unit": "SD",
    }  # fmt: skip


def _source(path: Path) -> dict[str, str]:
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
