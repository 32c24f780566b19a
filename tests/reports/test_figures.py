"""Figures show what the table holds, whatever the labels are."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from pessimal.audit import Figure
from pessimal.errors import PessimalError
from pessimal.reports import draw
from pessimal.reports.svg import embed
from tests.reports.hostile import HOSTILE

GENERATOR = np.random.default_rng(0)
LABELS = pd.Series([text[:300] for text in HOSTILE], dtype=object)
TABLES = {
    "labels": pd.DataFrame(
        {
            "token": LABELS,
            "score": GENERATOR.normal(size=len(LABELS)),
            "axis": ["one", "$x_1$", "<script>"] * 5,
        }
    ),
    "numbers": pd.DataFrame(
        {
            "x": GENERATOR.normal(size=3000),
            "y": GENERATOR.normal(size=3000),
            "kind": GENERATOR.choice(["word", "code", "爱"], 3000),
        }
    ),
    "empty": pd.DataFrame({"x": [np.nan], "y": [np.inf]}),
}
TABLES["labels"]["low"] = TABLES["labels"]["score"] - 1
TABLES["labels"]["high"] = TABLES["labels"]["score"] + 1
BARS = Figure(
    "bars", "Which </svg><script> tokens?", "bars", "labels", "score", "token",
    low="low", high="high", x_label="score (SD)", caption="n = 15 & 95 % CI",
)  # fmt: skip
FIGURES = (
    BARS,
    replace(BARS, name="intervals", kind="intervals", group="axis"),
    replace(BARS, name="upright", kind="intervals", x="token", y="score"),
    Figure("by_kind", "Kinds?", "distribution", "numbers", "x", group="kind", x_label="z (SD)"),
    Figure("all", "All?", "distribution", "numbers", "x"),
    Figure("scatter", "Scatter?", "scatter", "numbers", "x", "y", group="kind"),
    Figure("lines", "Lines?", "lines", "numbers", "x", "y", group="kind", low="y", high="y"),
    Figure("empty", "Nothing?", "scatter", "empty", "x", "y"),
)


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [
        "".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")
    ]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_every_kind_draws_the_same_each_time(figure: Figure) -> None:
    drawing = draw(figure, TABLES)
    assert draw(figure, TABLES) == drawing
    assert drawing.png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", drawing.png[16:24])
    assert width == 1152
    assert height > 250
    shown = " ".join(texts(drawing.svg))
    assert figure.question.split()[-1] in shown
    assert figure.x_label in shown
    assert "<script" not in drawing.svg


def test_labels_units_and_n_are_in_the_figure() -> None:
    shown = texts(draw(BARS, TABLES).svg)
    assert "score (SD)" in shown
    assert "n = 15 & 95 % CI" in shown
    assert "␣love" in shown
    assert "⟨U+202E⟩gnp.exe" in shown
    assert "U+7231" in shown, "the font lacks it"
    assert any("marks" in text for text in shown)
    kinds = texts(draw(FIGURES[3], TABLES).svg)
    assert "Dot: median; line: 1st to 99th percentile." in kinds
    counts = TABLES["numbers"]["kind"].value_counts()
    assert any(f"word (n = {counts['word']:,})" in text.replace("  ", " ") for text in kinds)


def test_dollars_are_not_mathematics() -> None:
    table = {"labels": pd.DataFrame({"token": ["$\\frac{1}$", "a_b"], "score": [1.0, 2.0]})}
    shown = texts(draw(replace(BARS, low=None, high=None), table).svg)
    assert "$\\\\frac{1}$" in shown


@pytest.mark.parametrize(
    "change",
    [{"table": "none"}, {"x": "none"}, {"low": "none"}, {"x": "token", "y": "axis"},
     {"kind": "scatter", "y": None}],
)  # fmt: skip
def test_a_figure_that_cannot_be_drawn_is_a_named_error(change: dict[str, Any]) -> None:
    with pytest.raises(PessimalError) as caught:
        draw(replace(BARS, **change), TABLES)
    assert caught.value.code == "figure_invalid"


def test_an_embedded_figure_keeps_nothing_that_runs_or_calls_out() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        'onload="x()"><title>Title &amp; n</title><script>x()</script><style>a{}</style>'
        "<foreignObject/>"
        '<a xlink:href="javascript:x()"><text>in</text></a><clipPath id="c"/>'
        '<g clip-path="url(#c)" style="fill:url(http://host/x)" onclick="x()">'
        "<text>Title</text></g>"
        '<use xlink:href="#c"/><image xlink:href="http://host/x.png"/></svg>'
    )
    figure = embed("a figure", svg)
    embedded = figure.markup
    assert figure.label == "Title & n"
    for bad in ("script", "style>", "foreignObject", "javascript", "onload", "onclick", "host"):
        assert bad not in embedded
    assert 'id="a-figure-c"' in embedded
    assert "url(#a-figure-c)" in embedded
    assert 'href="#a-figure-c"' in embedded
    assert 'aria-label="Title &amp; n"' in embedded


def test_a_broken_figure_is_a_named_error() -> None:
    with pytest.raises(PessimalError) as caught:
        embed("x", "<svg>")
    assert caught.value.code == "figure_invalid"


def test_figures_that_write_tokens_are_told_apart() -> None:
    assert embed("bars", draw(BARS, TABLES).svg).names_tokens
    assert not embed("by_kind", draw(FIGURES[3], TABLES).svg).names_tokens
    pointed = TABLES["numbers"].assign(text="a slur")
    assert embed("scatter", draw(FIGURES[5], {"numbers": pointed}).svg).names_tokens
    assert not embed("scatter", draw(FIGURES[5], TABLES).svg).names_tokens


def test_rows_that_only_look_alike_are_both_drawn() -> None:
    table = pd.DataFrame(
        {
            "text": ["\ufffd", "\ufffd", "b"],
            "z": [1.0, 2.0, 3.0],
            "kind": ["bytes", "bytes", "word"],
        }
    )
    alike = Figure("alike", "Alike?", "bars", "t", "z", "text", group="kind")
    shown = texts(draw(alike, {"t": table}).svg)
    assert shown.count("\ufffd") == 2
    once = pd.DataFrame({"sign": ["+", "-"] * 2, "z": [1.0, 2, 3, 4], "framing": list("aabb")})
    split = Figure("split", "Split?", "intervals", "t", "z", "sign", group="framing")
    assert texts(draw(split, {"t": once}).svg).count("+") == 1


def test_an_empty_table_is_drawn_as_having_no_values() -> None:
    empty = pd.DataFrame({"tau": [], "framing": []}, dtype=object)
    figure = Figure("pairs", "How alike?", "distribution", "pairs", x="tau", group="framing")
    assert "no finite values" in draw(figure, {"pairs": empty}).svg
