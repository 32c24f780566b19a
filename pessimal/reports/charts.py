"""Figures to point at: what plotly.js draws in a report, in place of a figure's SVG.

A chart is JSON: ``title``, ``caption``, and ``views``, of which one is shown at a time, each with
``name``, plotly's ``data`` and ``layout``. Colours named ``ink`` are the page's own.

Plotly reads a few tags and entities in every text, so all text here is made visible and escaped for
it. No text stands where plotly replaces ``%{...}``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pessimal.audit import Figure
from pessimal.reports.places import (
    COLOURS,
    NOTES,
    RIDGE_HEIGHT,
    Ridge,
    group_ridges,
    rows,
    show_name,
    split,
    views,
    y_column,
)
from pessimal.text import show_text

if TYPE_CHECKING:
    import pandas as pd

MAXIMUM_ROWS: Final = 200
MAXIMUM_POINTS: Final = 3_000
"""Points of a scatter: beyond them a chart is slow and a report large."""
_SYMBOLS: Final = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")
_DASHES: Final = ("solid", "dash", "dashdot", "dot")
# Columns that name a point, the best first.
_NAMES: Final = ("text", "word", "term", "entity", "model", "pair", "bin")
_LINE_PX: Final = 24
_FRAME_PX: Final = 110

Trace = dict[str, Any]


def make_chart(figure: Figure, table: pd.DataFrame) -> str:
    """The chart of a figure as JSON; the same input gives the same text.

    Args:
        figure: which columns to draw, and how.
        table: its table, without rows that can't be drawn.
    """
    # A distribution's lines are its groups; how high each rises has no scale.
    y_label = "" if figure.kind == "distribution" else figure.y_label
    shown = [
        view(show_text(name, 120), *_KINDS[figure.kind](figure, part), figure.x_label, y_label)
        for name, part in views(figure, table)
        if len(part)
    ]
    caption = f"{figure.caption} {NOTES.get(figure.kind, '')}".strip()
    found = chart(figure.question, caption, shown)
    return json.dumps(found, allow_nan=False, separators=(",", ":"))


def chart(title: str, caption: str, shown: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A chart of what is shown, one view at a time."""
    return {"title": show_text(title, 200), "caption": show_text(caption, 600), "views": shown}


def view(
    name: str, data: list[Trace], layout: dict[str, Any], x_label: str, y_label: str
) -> dict[str, Any]:
    """What a reader switches to by its name."""
    for axis, label in (("xaxis", x_label), ("yaxis", y_label)):
        layout.setdefault(axis, {})["title"] = {"text": _safe(label)}
    named = [trace.setdefault("showlegend", False) for trace in data]
    layout["showlegend"] = sum(map(bool, named)) > 1
    return {"name": name, "data": data, "layout": layout}


def ridge_traces(found: Sequence[Ridge]) -> tuple[list[Trace], dict[str, Any]]:
    """A distribution's traces and layout."""
    data: list[Trace] = []
    labels = []
    for row, ridge in enumerate(found):
        n = f"n = {ridge.n:,}"
        name = _name(ridge.name)
        labels.append(f"{name}  ({n})" if name else n)
        said = (
            f"{name or 'all'}, {n}<br>median {_shown(ridge.median)}<br>"
            f"1st to 99th percentile {_shown(ridge.low)} to {_shown(ridge.high)}"
        )
        top = [height - row for height in ridge.heights.tolist()]
        xs = ridge.x.tolist()
        data.append({
            "type": "scatter", "mode": "lines", "x": _numbers([*xs, *xs[::-1]]),
            "y": _numbers([*top, *([-row] * len(top))]), "fill": "toself", "hoveron": "fills",
            "line": {"width": 0, "color": COLOURS[0]}, "fillcolor": f"{COLOURS[0]}73",
            "hoverinfo": "text", "text": said,
        })  # fmt: skip
        data.append({
            "type": "scatter", "mode": "lines", "x": _numbers([ridge.low, ridge.high]),
            "y": [-row, -row], "line": {"width": 1, "color": "ink"}, "hoverinfo": "skip",
        })  # fmt: skip
        data.append({
            "type": "scatter", "mode": "markers", "x": _numbers([ridge.median]), "y": [-row],
            "marker": {"size": 8, "color": "ink"}, "hoverinfo": "text", "hovertext": [said],
        })  # fmt: skip
    return data, _lines_of(labels, 40, 1.0 - RIDGE_HEIGHT)


def _distribution(figure: Figure, table: pd.DataFrame) -> tuple[list[Trace], dict[str, Any]]:
    return ridge_traces(group_ridges(figure, table, MAXIMUM_ROWS))


def _rows(figure: Figure, table: pd.DataFrame) -> tuple[list[Trace], dict[str, Any]]:
    placed = rows(figure, table, MAXIMUM_ROWS)
    bars = figure.kind == "bars"
    label_of_value = figure.x_label if placed.value == figure.x else figure.y_label
    data = []
    for index, (name, part) in enumerate(placed.groups):
        colour = COLOURS[index % len(COLOURS)]
        said = [
            _said([
                _name(label), _name(name) if placed.grouped else "",
                _with_interval(figure, label_of_value, row, placed.value),
            ], row)
            for label, row in zip(
                _categories(figure, part, placed.value), part.to_dict("records"), strict=True
            )
        ]  # fmt: skip
        trace: Trace = {
            "x": _numbers(part[placed.value]), "y": _numbers(part["_place"]),
            "hoverinfo": "text", "hovertext": said, "name": _name(name),
            "showlegend": placed.grouped,
        }  # fmt: skip
        errors = _errors(figure, part, placed.value, "ink" if bars else colour)
        if errors:
            trace["error_x"] = errors
        if bars:
            trace |= {"type": "bar", "orientation": "h", "width": 0.9 * placed.height,
                      "marker": {"color": colour, "opacity": 0.85}}  # fmt: skip
            if index >= len(COLOURS):
                trace["marker"]["pattern"] = {"shape": "/"}
        else:
            symbol = _SYMBOLS[(index + index // len(COLOURS)) % len(_SYMBOLS)]
            trace |= {"type": "scatter", "mode": "markers",
                      "marker": {"color": colour, "size": 8, "symbol": symbol}}  # fmt: skip
        data.append(trace)
    room = max(1.0, 0.4 / placed.height)
    labels = [_name(label) for label in placed.labels]
    layout = _lines_of(labels, _LINE_PX * room, 0.4) | {"barmode": "overlay"}
    layout["xaxis"] = {"zeroline": True}
    return data, layout


def _scatter(figure: Figure, table: pd.DataFrame) -> tuple[list[Trace], dict[str, Any]]:
    groups = list(split(figure, table))
    step = max(1, -(-len(table) // MAXIMUM_POINTS))
    naming = next((name for name in _NAMES if name in table.columns), None)
    data = []
    for index, (name, part) in enumerate(groups):
        part = part.iloc[::step]
        y = y_column(figure)
        said = [
            _said([
                _name(row[naming]) if naming else "", _name(name) if figure.group else "",
                f"{_safe(figure.x_label or figure.x)}: {_shown(row[figure.x])}",
                f"{_safe(figure.y_label or y)}: {_shown(row[y])}",
            ], row)
            for row in part.to_dict("records")
        ]  # fmt: skip
        data.append({
            "type": "scatter", "mode": "markers", "x": _numbers(part[figure.x]),
            "y": _numbers(part[y]), "name": _name(name), "showlegend": True,
            "marker": {
                "color": COLOURS[index % len(COLOURS)], "size": 5, "opacity": 0.6,
                "symbol": _SYMBOLS[(index + index // len(COLOURS)) % len(_SYMBOLS)],
            },
            "hoverinfo": "text", "hovertext": said,
        })  # fmt: skip
    return data, {"height": 460}


def _lines(figure: Figure, table: pd.DataFrame) -> tuple[list[Trace], dict[str, Any]]:
    y = y_column(figure)
    data: list[Trace] = []
    for index, (name, part) in enumerate(split(figure, table)):
        ordered = part.sort_values(figure.x, kind="stable")
        colour = COLOURS[index % len(COLOURS)]
        if figure.low and figure.high:
            known = ordered[ordered[[figure.low, figure.high]].notna().all(axis=1)]
            ends = [*known[figure.high], *known[figure.low].iloc[::-1]]
            data.append({
                "type": "scatter", "mode": "lines", "fill": "toself", "line": {"width": 0},
                "x": _numbers([*known[figure.x], *known[figure.x].iloc[::-1]]),
                "y": _numbers(ends), "fillcolor": f"{colour}2e", "hoverinfo": "skip",
            })  # fmt: skip
        said = [
            _said([
                _name(name) if figure.group else "",
                f"{_safe(figure.x_label or figure.x)}: {_shown(row[figure.x])}",
                _with_interval(figure, figure.y_label, row, y),
            ], row)
            for row in ordered.to_dict("records")
        ]  # fmt: skip
        data.append({
            "type": "scatter", "mode": "lines+markers", "x": _numbers(ordered[figure.x]),
            "y": _numbers(ordered[y]), "name": _name(name), "showlegend": True,
            "line": {"color": colour, "width": 2, "dash": _DASHES[index % len(_DASHES)]},
            "marker": {"size": 4, "color": colour}, "hoverinfo": "text", "hovertext": said,
        })  # fmt: skip
    return data, {"height": 420}


def _heatmap(figure: Figure, table: pd.DataFrame) -> tuple[list[Trace], dict[str, Any]]:
    lines, columns = (list(dict.fromkeys(table[name])) for name in (figure.y, figure.x))
    cells = table.set_index([figure.y, figure.x])[figure.value].to_dict()
    numbers = [[_number(cells.get((line, column))) for column in columns] for line in lines]
    names = [[_name(name) for name in side] for side in (columns, lines)]
    said = [
        [f"{line}<br>{column}<br>{_shown(n)}" for column, n in zip(names[0], row, strict=True)]
        for line, row in zip(names[1], numbers, strict=True)
    ]  # fmt: skip
    low = min([0.0, *(n for row in numbers for n in row if n is not None)])
    trace = {
        "type": "heatmap", "z": numbers, "zmin": low, "zmax": 1, "colorscale": "Cividis",
        "xgap": 1, "ygap": 1, "hoverinfo": "text", "hovertext": said,
        "text": [["" if n is None else f"{n:.2f}" for n in row] for row in numbers],
        "colorbar": {"thickness": 12, "outlinewidth": 0},
    }  # fmt: skip
    if len(columns) <= 20:
        trace["texttemplate"] = "%{text}"
    ticks: list[dict[str, Any]] = [
        {"tickvals": list(range(len(side))), "ticktext": side, "automargin": True,
         "showgrid": False} for side in names
    ]  # fmt: skip
    layout = {"height": _FRAME_PX + 90 + 34 * len(lines), "xaxis": ticks[0] | {"tickangle": -40},
              "yaxis": ticks[1] | {"autorange": "reversed"}}  # fmt: skip
    return [trace], layout


def _map(figure: Figure, table: pd.DataFrame) -> tuple[list[Trace], dict[str, Any]]:
    names = [_name(name) for name in table[figure.group]] if figure.group else []
    trace = {
        "type": "scatter", "mode": "markers+text", "x": _numbers(table[figure.x]),
        "y": _numbers(table[y_column(figure)]), "text": names, "textposition": "top center",
        "hovertext": names, "hoverinfo": "text", "marker": {"size": 11, "color": COLOURS[0]},
        "cliponaxis": False,
    }  # fmt: skip
    return [trace], {"height": 520, "yaxis": {"scaleanchor": "x"}}


_KINDS: Final[Mapping[str, Callable[[Figure, Any], tuple[list[Trace], dict[str, Any]]]]] = {
    "distribution": _distribution,
    "bars": _rows,
    "scatter": _scatter,
    "intervals": _rows,
    "lines": _lines,
    "heatmap": _heatmap,
    "map": _map,
}


def _lines_of(labels: Sequence[str], line_px: float, room: float) -> dict[str, Any]:
    """The layout of lines of which each has a label."""
    axis = {
        "tickvals": [-row for row in range(len(labels))], "ticktext": list(labels),
        "range": [room - len(labels), 1.0 - room if room < 0.4 else 0.6], "showgrid": False,
        "zeroline": False, "automargin": True,
    }  # fmt: skip
    return {"height": round(_FRAME_PX + line_px * len(labels)), "yaxis": axis}


def _categories(figure: Figure, part: pd.DataFrame, value: str) -> list[Hashable]:
    column = figure.y if value == figure.x else figure.x
    if column is None:
        column = figure.group
    return list(part[column]) if column is not None else [""] * len(part)


def _errors(figure: Figure, part: pd.DataFrame, value: str, colour: str) -> Trace | None:
    if not (figure.low and figure.high) or not part[[figure.low, figure.high]].notna().any().any():
        return None
    above = (part[figure.high] - part[value]).clip(lower=0)
    below = (part[value] - part[figure.low]).clip(lower=0)
    return {
        "type": "data", "symmetric": False, "array": _numbers(above), "arrayminus": _numbers(below),
        "color": colour, "thickness": 1.2, "width": 0,
    }  # fmt: skip


def _with_interval(figure: Figure, label: str, row: Mapping[Hashable, Any], value: str) -> str:
    text = f"{_safe(label or value)}: {_shown(row[value])}"
    if figure.low and figure.high and _number(row[figure.low]) is not None:
        text += f" ({_shown(row[figure.low])} to {_shown(row[figure.high])})"
    return text


def _said(lines: Iterable[str], row: Mapping[Hashable, Any]) -> str:
    """What stands beside the pointer: with n, where the table tells it."""
    n = _number(row.get("n"))
    return "<br>".join([*filter(None, lines), *([] if n is None else [f"n = {n:,.0f}"])])


def _name(name: object) -> str:
    return _safe(show_name(name, 48))


def _safe(text: object) -> str:
    """Text that plotly shows as it is."""
    return show_text(text, 200).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _shown(value: object) -> str:
    number = _number(value)
    return "–" if number is None else f"{number:.4g}"


def _numbers(values: Iterable[Any]) -> list[float | None]:
    return [_number(value) for value in values]


def _number(value: object) -> float | None:
    """Five significant digits: more than a screen shows."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return float(f"{number:.5g}") if math.isfinite(number) else None
