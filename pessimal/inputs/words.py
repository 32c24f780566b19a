"""Word categories and valence that a user brings."""

from __future__ import annotations

from pathlib import Path

from pessimal.errors import UsageError
from pessimal.inputs.sheet import Sheet, columns_but, read_sheet
from pessimal.text import show_text

_WORD = ("word", "term", "token", "response", "dicterm", "token_decoded", "name")
_MARKS = ("x", "1")


def read_categories(path: Path) -> dict[str, list[str]]:
    """Read word categories.

    Args:
        path: a LIWC-style ``.dicx`` file (CSV: a term, then a column a category with an X for
            membership), or a CSV file with the columns ``word`` and ``category``.

    Returns:
        Terms by category, lower-cased, in the file's order. A ``*`` at a term's end stands for any
        ending.

    Raises:
        UsageError: the file is neither, a cell is neither empty nor X, or a category has no word.
    """
    sheet = read_sheet(path)
    category = sheet.find("category")
    return _marked(sheet) if category is None else _listed(sheet, category)


def read_valence(path: Path) -> dict[str, float]:
    """Read a valence lexicon: a CSV file with the columns ``word`` and ``valence``.

    Returns:
        Valence by lower-case word or phrase; words with a valence of zero are left out.

    Raises:
        UsageError: the file is not such a list, or has no word of one sign.
    """
    sheet = read_sheet(path)
    words = [word.lower() for word in sheet.texts(sheet.column(*_WORD))]
    values = sheet.numbers(sheet.column("valence", "value", "score"))
    scores = {word: value for word, value in zip(words, values, strict=True) if value}
    for sign, name in ((1, "positive"), (-1, "negative")):
        if not any(value * sign > 0 for value in scores.values()):
            raise UsageError(
                "lexicon_one_sided",
                f"{path}, rows {sheet.lines[0]} to {sheet.lines[-1]}: no word is {name}.",
                "Give a lexicon with words above and below zero.",
            )
    return scores


def _marked(sheet: Sheet) -> dict[str, list[str]]:
    """A term in the first column, a category in each other."""
    if len(sheet.header) < 2:
        raise UsageError(
            "csv_columns", f"{sheet.path}, row 1: there is no column of a category.",
            "Add a column a category with an X for membership, or columns word and category.",
        )  # fmt: skip
    terms = [term.lower() for term in sheet.texts(0)]
    found: dict[str, list[str]] = {name: [] for name in sheet.header[1:]}
    for line, term, row in zip(sheet.lines, terms, sheet.rows, strict=True):
        for name, cell in zip(sheet.header[1:], row[1:], strict=True):
            if cell.lower() in _MARKS:
                found[name].append(term)
            elif cell:
                raise UsageError(
                    "categories_invalid",
                    f"{sheet.path}, row {line}: {show_text(cell, 40)!r} under"
                    f" {show_text(name, 40)} is neither empty nor X.",
                    "Mark membership with an X, or give the columns word and category.",
                )
    for name, members in found.items():
        if not members:
            raise UsageError(
                "categories_invalid",
                f"{sheet.path}, row 1: the category {show_text(name, 40)} has no word.",
                "Mark its words with an X, or remove the column.",
            )
    return found


def _listed(sheet: Sheet, category: int) -> dict[str, list[str]]:
    """A word and its category in each row; a word can be in several."""
    others = columns_but(sheet, category)
    word = others[0] if len(others) == 1 else sheet.column(*_WORD)
    found: dict[str, list[str]] = {}
    for line, row in zip(sheet.lines, sheet.rows, strict=True):
        name, term = row[category], row[word].lower()
        members = found.setdefault(name, [])
        if not name or not term or term in members:
            problem = (
                f"{show_text(term, 40)!r} stands twice in the category {show_text(name, 40)}"
                if name and term
                else "the word or its category is empty"
            )
            raise UsageError(
                "categories_invalid", f"{sheet.path}, row {line}: {problem}.",
                "Fill the cell, or remove the row.",
            )  # fmt: skip
        members.append(term)
    return found
