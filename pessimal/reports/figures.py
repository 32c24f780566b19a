"""Draw the figures that audits declare, as PNG and as SVG.

The SVG takes its ink from the page around it (``currentColor``), so it follows a dark theme, and
carries its own colours for when it is opened alone.
"""

from __future__ import annotations

import io
import re
import textwrap
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pessimal.audit import Figure
from pessimal.reports.charts import make_chart
from pessimal.reports.matrices import draw_heatmap, draw_map
from pessimal.reports.places import (
    COLOURS,
    INK,
    NOTES,
    checked,
    group_ridges,
    rows,
    show_name,
    split,
    views,
    y_column,
)
from pessimal.text import show_text

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
DASHES: Final = ("-", "--", "-.", ":")
MAXIMUM_ROWS: Final = 40
"""Categories that a figure has room for; the table holds the rest."""
_RASTER_ABOVE: Final = 1_000
_STYLE: Final[dict[str, Any]] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": False,
    "axes.formatter.use_mathtext": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "pessimal",
    "savefig.dpi": 160,
}
_ALONE: Final = (
    "<style>:root{color:#1b1b1f;background:#fff}@media(prefers-color-scheme:dark)"
    "{:root{color:#e9e7e2;background:#17171a}}</style>"
)
# Matplotlib's settings are one dictionary for the whole process.
_SETTINGS_LOCK = threading.Lock()


@dataclass(frozen=True)
class Drawing:
    """A drawn figure."""

    name: str
    """File name without an ending."""
    title: str
    """The question that it answers, safe to show."""
    caption: str
    """What to look at, and n; safe to show."""
    svg: str
    """A standalone SVG document."""
    png: bytes
    """The same as PNG, 160 dots an inch."""
    chart: str
    """The same to point at, for the report: JSON; see `pessimal.reports.charts`."""


def draw(figure: Figure, tables: Mapping[str, pd.DataFrame]) -> Drawing:
    """Draw one figure from an audit's tables; the same input gives the same bytes.

    Rows whose value is missing or not finite are left out.

    Args:
        figure: which columns of which table to draw, and how.
        tables: the tables of the audit's result.

    Raises:
        PessimalError: the figure names a table or a column that isn't there.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    whole = checked(figure, tables)
    shown, *others = views(figure, whole)
    view, table = shown
    title = _fit(show_text(figure.question, 200))
    said = [show_text(figure.caption, 600), NOTES.get(figure.kind, "")]
    said += [f"Shown: {show_text(view, 80)}."] if others else []
    caption = _fit(" ".join(filter(None, said)))
    settings: dict[Any, Any] = {**mpl.rcParamsDefault, **_STYLE}
    with _SETTINGS_LOCK, mpl.rc_context(settings):
        canvas = Canvas(figsize=(7.2, 3.6), layout="constrained")
        axes = canvas.add_subplot()
        if len(table):
            _KINDS[figure.kind](axes, figure, table)
        else:
            axes.text(0.5, 0.5, "no finite values", ha="center", transform=axes.transAxes)
        axes.set_xlabel(_fit(figure.x_label))
        axes.set_ylabel(_fit(figure.y_label))
        canvas.suptitle(
            textwrap.fill(title, 78), x=0.01, ha="left", fontsize=11.5, fontweight="bold"
        )
        if caption:
            canvas.supxlabel(textwrap.fill(caption, 104), x=0.01, ha="left", fontsize=8.5)
        png, svg = io.BytesIO(), io.StringIO()
        canvas.savefig(png, format="png", metadata={"Software": None})
        metadata: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}
        metadata["Title"] = f"{title} {caption}".strip()
        canvas.savefig(svg, format="svg", metadata=metadata)
    # A scatter's chart names each point's token to the pointer.
    written = set(table.columns) if figure.kind == "scatter" else {figure.x, figure.y}
    kind = "tokens" if written & {"text", "token"} else "measures"
    return Drawing(
        figure.name, title, caption, _themed(svg.getvalue(), kind), png.getvalue(),
        make_chart(figure, whole),
    )  # fmt: skip


def _distribution(axes: Axes, figure: Figure, table: pd.DataFrame) -> None:
    """A ridge a group, with the median and the 1st to 99th percentile."""
    found = group_ridges(figure, table, MAXIMUM_ROWS)
    labels: list[str] = []
    for row, ridge in enumerate(found):
        base = float(-row)
        axes.fill_between(ridge.x, base, base + ridge.heights, color=COLOURS[0], alpha=0.45)
        axes.plot([ridge.low, ridge.high], [base, base], color=INK, lw=1)
        axes.plot([ridge.median], [base], "o", color=INK, ms=4)
        n = f"n = {ridge.n:,}"
        labels.append(f"{_label(ridge.name)}  ({n})" if ridge.name else n)
    _categories(axes, labels)
    axes.set_ylim(-len(found) + 0.65, 0.95)
    axes.get_figure().set_figheight(1.7 + 0.42 * len(found))  # type: ignore[union-attr]


def _bars(axes: Axes, figure: Figure, table: pd.DataFrame) -> None:
    _rows(axes, figure, table, bars=True)


def _intervals(axes: Axes, figure: Figure, table: pd.DataFrame) -> None:
    _rows(axes, figure, table, bars=False)


def _rows(axes: Axes, figure: Figure, table: pd.DataFrame, *, bars: bool) -> None:
    """One row a category, first on top: a bar or a dot, with its interval."""
    placed = rows(figure, table, MAXIMUM_ROWS)
    for index, (name, part) in enumerate(placed.groups):
        y = part["_place"].to_numpy(dtype=float)
        values = part[placed.value].to_numpy(dtype=float)
        colour = COLOURS[index % len(COLOURS)]
        label = _label(name) if placed.grouped else None
        if bars:
            axes.barh(
                y, values, height=placed.height * 0.9, color=colour, alpha=0.85, label=label,
                hatch="///" if index >= len(COLOURS) else None, edgecolor="#ffffff", linewidth=0,
            )  # fmt: skip
        else:
            marker = _marker(index)
            axes.plot(values, y, marker, color=colour, ms=5, label=label)
        errors = _errors(figure, part, values)
        if errors is not None:
            axes.errorbar(values, y, xerr=errors, fmt="none", ecolor=INK if bars else colour, lw=1)
    axes.axvline(0, color=INK, lw=0.7, alpha=0.6)
    _categories(axes, [_label(name) for name in placed.labels])
    lines = len(placed.labels)
    axes.set_ylim(-lines + 0.4, 0.6)
    room = lines * max(1.0, 0.4 / placed.height)
    axes.get_figure().set_figheight(1.7 + 0.24 * room)  # type: ignore[union-attr]
    _legend(axes, len(placed.groups))


def _scatter(axes: Axes, figure: Figure, table: pd.DataFrame) -> None:
    groups = list(split(figure, table))
    for index, (name, part) in enumerate(groups):
        axes.scatter(
            part[figure.x], part[y_column(figure)], s=9, alpha=0.55, linewidths=0,
            color=COLOURS[index % len(COLOURS)], marker=_marker(index),
            label=_label(name), rasterized=len(table) > _RASTER_ABOVE,
        )  # fmt: skip
    _legend(axes, len(groups))


def _lines(axes: Axes, figure: Figure, table: pd.DataFrame) -> None:
    groups = list(split(figure, table))
    for index, (name, part) in enumerate(groups):
        ordered = part.sort_values(figure.x, kind="stable")
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(
            ordered[figure.x], ordered[y_column(figure)], color=colour, lw=1.6, label=_label(name),
            ls=DASHES[index % len(DASHES)],
        )  # fmt: skip
        if figure.low and figure.high:
            low, high = ordered[figure.low], ordered[figure.high]
            axes.fill_between(ordered[figure.x], low, high, color=colour, alpha=0.18, lw=0)
    _legend(axes, len(groups))


def _heatmap(axes: Axes, figure: Figure, table: pd.DataFrame) -> None:
    """A cell a pair, coloured by its number, which stands in it."""
    values = table.pivot(index=figure.y, columns=figure.x, values=figure.value or "")
    rows, columns = (list(dict.fromkeys(table[name])) for name in (figure.y, figure.x))
    numbers = values.loc[rows, columns].to_numpy(dtype=float)
    draw_heatmap(axes, numbers, [_label(r) for r in rows], [_label(c) for c in columns])


def _map(axes: Axes, figure: Figure, table: pd.DataFrame) -> None:
    labels = [_label(name) for name in table[figure.group]] if figure.group else []
    draw_map(axes, table[[figure.x, y_column(figure)]].to_numpy(dtype=float), labels)


_KINDS: Final[Mapping[str, Callable[[Axes, Figure, Any], None]]] = {
    "distribution": _distribution,
    "bars": _bars,
    "scatter": _scatter,
    "intervals": _intervals,
    "lines": _lines,
    "heatmap": _heatmap,
    "map": _map,
}


def _marker(index: int) -> str:
    # A second round of colours meets other shapes.
    return MARKERS[(index + index // len(COLOURS)) % len(MARKERS)]


def _errors(
    figure: Figure, part: pd.DataFrame, values: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    import numpy as np

    if not (figure.low and figure.high):
        return None
    low = values - part[figure.low].to_numpy(dtype=np.float64)
    high = part[figure.high].to_numpy(dtype=np.float64) - values
    # Matplotlib refuses negative lengths: an interval that excludes its value has no whisker.
    lengths: NDArray[np.float64] = np.clip(np.nan_to_num(np.stack([low, high])), 0, None)
    return lengths


def _categories(axes: Axes, labels: list[str]) -> None:
    axes.set_yticks([-float(row) for row in range(len(labels))], labels)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _legend(axes: Axes, count: int) -> None:
    if count > 1:
        labels = axes.get_legend_handles_labels()[1]
        columns = max(1, min(count, 4, 80 // (6 + max(map(len, labels), default=0))))
        axes.legend(fontsize=8.5, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1))
        canvas: Any = axes.get_figure()
        canvas.set_figheight(canvas.get_figheight() + 0.17 * (-(-count // columns) - 1))


def _label(name: object) -> str:
    return _fit(show_name(name, 32))


def _fit(text: str) -> str:
    """Text with the characters that the figure's font lacks as code points."""
    known = _glyphs()
    return "".join(c if ord(c) in known or c == "\n" else f"U+{ord(c):04X}" for c in text)


@cache
def _glyphs() -> frozenset[int]:
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf").get_charmap())


def _themed(svg: str, kind: str) -> str:
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = svg.replace("'DejaVu Sans'", "system-ui, sans-serif")
    # The page behind shows through.
    svg = re.sub(r'(<g id="patch_1">\s*<path [^>]*?style=")fill: #ffffff', r"\1fill: none", svg)
    svg = re.sub(r'(<g id="patch_2">\s*<path [^>]*?style=")fill: #ffffff', r"\1fill: none", svg)
    # The class tells a report which figures name tokens, to fold them.
    svg = svg.replace("<svg ", f'<svg class="{kind}" ', 1)
    return re.sub(r"(<svg[^>]*>)", lambda match: match.group() + _ALONE, svg, count=1)
