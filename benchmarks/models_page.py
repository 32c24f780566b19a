"""Write docs/models.md: the families of reward models, from the table that the loader uses."""

from __future__ import annotations

from pathlib import Path

from pessimal.models.families import FAMILIES, PUBLISHED, STOCK, Family, Published

PAGE = Path(__file__).parent.parent / "docs" / "models.md"

HEAD = """\
# Reward models

Which reward models can be audited, how each is read, and what to use instead of those that are
refused. `pessimal models` lists the same families; this page is made from their table by
`.venv/bin/python -m benchmarks.models_page`.

A model is recognised by its config (`model_type`, `architectures`, `auto_map`) and by the names
of its weights, never by its own name. Its head is proved before anything is scored: it is
compared with the file's bytes and loaded twice under two seeds, and the score is read at the
position that its own forward reads. Nothing that a repository brings is run without
`--trust-remote-code` and a 40-digit `--revision`.

"""

STOCK_HEAD = """\
## Read by transformers' own classes

Sequence classifiers with one output.

"""

OWN_HEAD = """\
## Read by heads of our own

Published formulas over published weight names, on transformers' backbones: the code that such a
repository brings isn't needed. A checkpoint whose weights aren't exactly those of the head is
refused. `own code` says that the repository brings code, which runs instead with
`--trust-remote-code`.

"""

WAYS_HEAD = """\
## Other ways to a score

"""

OTHER_HEAD = """\
## Not read here

Unverified families can be scored by their own code, or behind a server; refused ones give no
score to a single reply.

"""

PUBLISHED_HEAD = """\
## Published models

What is known of single models. The score range is that over the 7,530 rated entities published
with the method's paper; a first score far outside it is noted as a warning, never as an error. A
golden pair is that of the model's card: the scores of its better and its worse reply.

"""


def page() -> str:
    """The whole page."""
    ways = [
        row
        for row in FAMILIES
        if row.status == "supported" and not row.own_head and row not in STOCK
    ]
    own = [row for row in FAMILIES if row.own_head]
    other = [row for row in FAMILIES if row.status != "supported"]
    return (
        HEAD
        + STOCK_HEAD
        + table(
            ("family", "model types", "score is read at", "template", "BOS", "attention", "notes"),
            [
                (row.name, types(row), row.pooled, row.template, row.bos, row.attention, row.notes)
                for row in STOCK
            ],
        )
        + OWN_HEAD
        + table(
            ("family", "class", "model types", "score is read at", "sign", "gradient", "own code",
             "dtype", "notes"),
            [
                (row.name, ", ".join(f"`{name}`" for name in row.classes), types(row), row.pooled,
                 "turned" if row.sign < 0 else "as published", yes(row.gradient),
                 yes(row.remote_code), row.dtype, row.notes)
                for row in own
            ],
        )
        + WAYS_HEAD
        + table(
            ("family", "model types", "score is read at", "gradient", "notes"),
            [(row.name, types(row), row.pooled, yes(row.gradient), row.notes) for row in ways],
        )
        + OTHER_HEAD
        + table(
            ("family", "status", "recognised by", "why, and what instead"),
            [(row.name, row.status, marks(row), row.notes) for row in other],
        )
        + PUBLISHED_HEAD
        + table(
            ("model", "family", "score range", "golden pair", "notes"),
            [(row.id, row.family, span(row), golden(row), row.notes) for row in PUBLISHED],
        ).rstrip("\n")
        + "\n"
    )  # fmt: skip


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [heads, ("---",) * len(heads), *rows]
    text = "\n".join("| " + " | ".join(cell(part) for part in line) + " |" for line in lines)
    return text.replace("| --- ", "|---").replace("--- |", "---|") + "\n\n"


def cell(text: str) -> str:
    """Text that stays in its cell."""
    return text.replace("|", "&#124;").replace("<", "&lt;").replace("\n", " ")


def types(row: Family) -> str:
    """The model types of a row."""
    return ", ".join(row.model_types) or "any"


def marks(row: Family) -> str:
    """What a row that isn't read is recognised by."""
    named = [f"class `{name}`" for name in row.classes]
    return ", ".join(named or [f"weights `{key}*`" for key in row.keys] or ["its head or class"])


def span(row: Published) -> str:
    """A score range in words."""
    return "" if row.scores is None else f"{row.scores[0]:g} to {row.scores[1]:g}"


def golden(row: Published) -> str:
    """A golden pair in words."""
    pair = row.golden
    return "" if pair is None else f"{pair.chosen:g} and {pair.rejected:g} ({pair.where})"


def yes(value: bool) -> str:
    """Yes or no."""
    return "yes" if value else "no"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
