"""Join models on the words that they have in common: tokens by their bytes, words by their list.

A token's text can't tell tokens apart that are not UTF-8 alone, and some tokenizers drop a leading
space from it. So its bytes are read from its name, by the tokenizer's own spelling: GPT-2's byte
alphabet, SentencePiece's ``▁`` and ``<0x0A>``, or WordPiece's whole words. A token whose bytes
can't be told that way joins nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from pessimal.compare.records import Entry

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

Source = Literal["vocabulary", "words"]
SOURCES: tuple[Source, ...] = ("vocabulary", "words")
NOT_WORDS = ("carriers",)
"""Lists of phrases made of other lists' terms, which would count those terms many times."""
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def token_bytes(tokens: Sequence[str], texts: Sequence[str]) -> list[bytes | None]:
    """The bytes that each token stands for; None where its name doesn't tell.

    Args:
        tokens: all tokens of one tokenizer that were scored, as it names them, ``[n]``.
        texts: the same decoded, ``[n]``.
    """
    starts = {
        "byte_level": sum(
            name.startswith("Ġ") and text.startswith(" ")
            for name, text in zip(tokens, texts, strict=True)
        ),
        "space_mark": sum(name.startswith("▁") for name in tokens),
        "word_piece": sum(name.startswith("##") for name in tokens),
    }
    spelling = max(starts, key=lambda name: starts[name])
    if not starts[spelling]:
        return [_plain(text) for text in texts]
    if spelling == "byte_level":
        alphabet = _alphabet()
        return [
            bytes(alphabet[c] for c in name) if all(c in alphabet for c in name) else _plain(text)
            for name, text in zip(tokens, texts, strict=True)
        ]
    if spelling == "space_mark":
        return [_marked(name) for name in tokens]
    # The inside of a word isn't the word that is spelt the same.
    return [
        None if name.startswith("##") else _plain(text)
        for name, text in zip(tokens, texts, strict=True)
    ]


def _plain(text: str) -> bytes | None:
    return None if "\ufffd" in text else text.encode("utf-8", "surrogatepass")


def _marked(name: str) -> bytes | None:
    byte = _BYTE.fullmatch(name)
    return bytes([int(byte[1], 16)]) if byte else _plain(name.replace("▁", " "))


@cache
def _alphabet() -> dict[str, int]:
    """GPT-2's letters for bytes: printable ones stand for themselves, the rest follow at 256."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in own]
    letters = {chr(byte): byte for byte in own}
    return letters | {chr(256 + place): byte for place, byte in enumerate(rest)}


@dataclass(frozen=True)
class Joined:
    """One kind of table of all models, on one set of units."""

    source: Source
    """Which tables these are."""
    words: tuple[str, ...]
    """The distinct words: trimmed and lower-cased, invalid bytes as surrogate escapes."""
    word: Ints
    """Which word each unit (a token, or a word of a list) is a variant of, ``[units]``."""
    places: tuple[Ints | None, ...]
    """For each model, the unit of each of `rows`; None where it has no such table."""
    rows: tuple[pd.DataFrame | None, ...]
    """For each model, the rows of its table that are units."""

    def has(self, model: int, prompt: str) -> bool:
        """Whether a model has scores under a prompt."""
        rows = self.rows[model]
        return rows is not None and f"score:{prompt}" in rows.columns

    def scores(self, model: int, prompt: str) -> Floats:
        """A model's score of every unit, ``[units]``; NaN where it has none."""
        import numpy as np

        found = np.full(len(self.word), np.nan)
        rows, places = self.rows[model], self.places[model]
        if rows is not None and places is not None and self.has(model, prompt):
            values = rows[f"score:{prompt}"].to_numpy(dtype=np.float64)
            found[places] = np.where(np.isfinite(values), values, np.nan)
        return found

    def common(self, scores: Sequence[Floats]) -> tuple[Ints, Floats]:
        """Words that all of several models have, with their variants' mean score.

        Variants count only where every model has them.

        Args:
            scores: k models' scores of every unit, each ``[units]``.

        Returns:
            Places in `words`, ``[n]``, and scores, ``[n, k]``.
        """
        import numpy as np

        columns = np.stack(list(scores), axis=1)
        kept = np.isfinite(columns).all(axis=1)
        word, columns = self.word[kept], columns[kept]
        variants = np.bincount(word, minlength=len(self.words))
        there = np.flatnonzero(variants)
        sums = np.stack(
            [np.bincount(word, column, len(self.words))[there] for column in columns.T], axis=1
        )
        return there, sums / variants[there][:, None]

    def show(self, word: int) -> str:
        r"""A word as text that any file can hold: bytes that are not UTF-8 are ``\xNN``."""
        data = self.words[word].encode("utf-8", "surrogateescape")
        return data.decode("utf-8", "backslashreplace")


def join(entries: Sequence[Entry], source: Source) -> Joined:
    """Join the models' tables of one kind."""
    import numpy as np

    pick = _tokens if source == "vocabulary" else _words
    picked = [pick(getattr(entry, source)) for entry in entries]
    units: dict[tuple[str, str], int] = {}
    words: dict[str, int] = {}
    word: list[int] = []
    places: list[Ints | None] = []
    rows: list[pd.DataFrame | None] = []
    for one in picked:
        if one is None:
            places.append(None)
            rows.append(None)
            continue
        keys, frame = one
        for key in keys:
            if key not in units:
                units[key] = len(units)
                name = key[1].strip().lower() or key[1]
                word.append(words.setdefault(name, len(words)))
        places.append(np.array([units[key] for key in keys], dtype=np.int64))
        rows.append(frame)
    return Joined(source, tuple(words), np.array(word, dtype=np.int64), tuple(places), tuple(rows))


def _tokens(table: pd.DataFrame | None) -> tuple[list[tuple[str, str]], pd.DataFrame] | None:
    if table is None:
        return None
    # Control tokens have a meaning and no text.
    table = table[~table["kind"].isin(["special", "unused"])]
    # Where a byte has a token of its own beside a character's, text gives the one that survives.
    table = table.sort_values("roundtrips", ascending=False, kind="stable")
    data = token_bytes(table["token"].tolist(), table["text"].tolist())
    first: dict[bytes, int] = {}
    for place, token in enumerate(data):
        if token:
            first.setdefault(token, place)
    keys = [("", token.decode("utf-8", "surrogateescape")) for token in first]
    return keys, table.iloc[list(first.values())]


def _words(table: pd.DataFrame | None) -> tuple[list[tuple[str, str]], pd.DataFrame] | None:
    if table is None:
        return None
    table = table[~table["list"].isin(NOT_WORDS)]
    return list(zip(table["list"].astype(str), table["word"].astype(str), strict=True)), table
