"""Charts hold what their drawings hold, and hostile labels as text."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pessimal.audit import Figure
from pessimal.errors import PessimalError
from pessimal.reports import draw, render_report
from pessimal.reports.charts import MAXIMUM_POINTS
from tests.reports.test_figures import BARS, FIGURES, TABLES


def chart(figure: Figure, tables: dict[str, pd.DataFrame] = TABLES) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(draw(figure, tables).chart)
    return found


def texts(value: Any) -> list[str]:
    """Every text of a chart that plotly shows."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in texts(part)]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_no_label_is_mark_up_to_plotly(figure: Figure) -> None:
    for view in chart(figure)["views"]:
        for text in texts(view):
            assert "<" not in text.replace("<br>", "")
            assert not any(mark in text for mark in "\u202e\0\ud800")


def test_a_bar_tells_its_value_interval_and_n() -> None:
    table = pd.DataFrame({"term": ["<b>"], "gap": [0.25], "low": [0.125], "high": [0.5], "n": [40]})
    figure = Figure(
        "gap", "Gap?", "bars", "t", "gap", "term", low="low", high="high", x_label="gap (SD)"
    )
    (view,) = chart(figure, {"t": table})["views"]
    (bar,) = view["data"]
    assert bar["hovertext"] == ["&lt;b&gt;<br>gap (SD): 0.25 (0.125 to 0.5)<br>n = 40"]
    assert (bar["x"], bar["y"]) == ([0.25], [0.0])
    assert (bar["error_x"]["array"], bar["error_x"]["arrayminus"]) == ([0.25], [0.125])
    assert view["layout"]["xaxis"]["title"]["text"] == "gap (SD)"
    assert view["layout"]["yaxis"]["ticktext"] == ["&lt;b&gt;"]


def test_a_switch_makes_a_view_of_each_value_and_the_drawing_shows_the_first() -> None:
    table = pd.DataFrame({"x": [0, 1, 0, 1], "y": [1.0, 2.0, 3.0, 4.0], "search": list("aabb")})
    figure = Figure("way", "Way?", "lines", "t", "x", "y", switch="search")
    drawing = draw(figure, {"t": table})
    views = json.loads(drawing.chart)["views"]
    assert [view["name"] for view in views] == ["a", "b"]
    assert [view["data"][0]["y"] for view in views] == [[1.0, 2.0], [3.0, 4.0]]
    assert drawing.caption.endswith("Shown: a.")
    alone = draw(replace(figure, switch=None), {"t": table[table["search"] == "a"]})
    assert drawing.png != draw(replace(figure, switch=None), {"t": table}).png
    assert len(json.loads(alone.chart)["views"]) == 1


def test_a_distribution_tells_median_and_percentiles_of_its_values() -> None:
    values = np.linspace(-1, 3, 4001)
    figure = Figure("all", "All?", "distribution", "t", "x", x_label="z")
    (view,) = chart(figure, {"t": pd.DataFrame({"x": values})})["views"]
    (said,) = view["data"][2]["hovertext"]
    assert said == "all, n = 4,001<br>median 1<br>1st to 99th percentile -0.96 to 2.96"
    assert view["layout"]["yaxis"]["ticktext"] == ["n = 4,001"]


def test_a_large_scatter_is_thinned_and_names_its_points() -> None:
    n = 4 * MAXIMUM_POINTS
    table = pd.DataFrame(
        {"x": np.arange(n), "y": np.arange(n), "word": [f"w{i}" for i in range(n)]}
    )
    (view,) = chart(Figure("s", "S?", "scatter", "t", "x", "y"), {"t": table})["views"]
    (points,) = view["data"]
    assert len(points["x"]) == len(points["hovertext"]) == MAXIMUM_POINTS
    assert points["hovertext"][1].startswith("w4<br>x: 4")


def test_a_matrix_tells_each_cell_by_its_row_and_column() -> None:
    table = pd.DataFrame(
        {"row": list("aabb"), "column": list("abab"), "tau": [1.0, 0.5, np.nan, 1.0]}
    )
    figure = Figure("m", "M?", "heatmap", "t", x="column", y="row", value="tau")
    (view,) = chart(figure, {"t": table})["views"]
    (cells,) = view["data"]
    assert cells["z"] == [[1.0, 0.5], [None, 1.0]]
    assert cells["hovertext"] == [["a<br>a<br>1", "a<br>b<br>0.5"], ["b<br>a<br>–", "b<br>b<br>1"]]


@pytest.mark.parametrize("text", ["{", "[]", '{"views": 1}'])
def test_a_chart_that_is_none_is_a_named_error(text: str) -> None:
    drawing = draw(BARS, TABLES)
    with pytest.raises(PessimalError) as caught:
        render_report({}, {}, None, {"bars": drawing.svg}, charts={"bars": text})
    assert caught.value.code == "figure_invalid"


def test_a_page_without_charts_carries_no_library() -> None:
    drawing = draw(BARS, TABLES)
    bare = render_report({}, {}, None, {"bars": drawing.svg})
    rich = render_report({}, {}, None, {"bars": drawing.svg}, charts={"bars": drawing.chart})
    assert len(bare) < 200_000 < 1_500_000 < len(rich)
    assert 'data-chart="' not in bare
    assert 'data-chart="1"' in rich
