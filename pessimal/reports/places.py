"""What a figure shows and where: its drawing and its interactive chart agree on it."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pessimal.audit import Figure
from pessimal.errors import PessimalError
from pessimal.text import show_token

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

INK: Final = "#1b1b1f"
# Okabe and Ito's palette, told apart with any of the common colour-vision deficiencies.
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a")
NOTES: Final = {"distribution": "Dot: median; line: 1st to 99th percentile."}
"""What a reader needs to know of a kind of figure."""
RIDGE_HEIGHT: Final = 0.8
_BINS: Final = 121


@dataclass(frozen=True)
class Ridge:
    """The distribution of one group."""

    name: Hashable
    """The group."""
    n: int
    """Values in it."""
    x: Floats
    """Where `heights` stand; the same for all groups, ``[bins]``."""
    heights: Floats
    """The smoothed counts over their largest, times `RIDGE_HEIGHT`, ``[bins]``."""
    low: float
    """1st percentile."""
    median: float
    """Median."""
    high: float
    """99th percentile."""


@dataclass(frozen=True)
class Rows:
    """Values in lines, the first on top at 0 and the next at -1."""

    value: str
    """The column of values."""
    labels: list[Hashable]
    """The category of each line."""
    groups: list[tuple[Hashable, pd.DataFrame]]
    """The rows of each group, with their place in the column ``_place``."""
    height: float
    """The room of one value in a line: less than a line's where groups share lines."""
    grouped: bool
    """Whether groups are told apart."""


def ridges(groups: Iterable[tuple[Hashable, Floats]]) -> list[Ridge]:
    """The distributions of finite values by group, over one axis."""
    import numpy as np

    parts = [(name, values) for name, values in groups if len(values)]
    if not parts:
        return []
    low, high = np.quantile(np.concatenate([v for _, v in parts]), [0.0005, 0.9995])
    edges = np.linspace(low, high if high > low else low + 1, _BINS)
    middles = (edges[1:] + edges[:-1]) / 2
    found = []
    for name, values in parts:
        heights = _smoothed(np.histogram(values, edges)[0].astype(float))
        first, median, last = np.quantile(values, [0.01, 0.5, 0.99])
        found.append(Ridge(
            name, len(values), middles, RIDGE_HEIGHT * heights / (heights.max() or 1.0),
            float(first), float(median), float(last),
        ))  # fmt: skip
    return found


def group_ridges(figure: Figure, table: pd.DataFrame, limit: int) -> list[Ridge]:
    """The ridges of a distribution's first groups."""
    groups = list(split(figure, table))[:limit]
    return ridges((name, part[figure.x].to_numpy(dtype=float)) for name, part in groups)


def rows(figure: Figure, table: pd.DataFrame, limit: int) -> Rows:
    """One line a category, and at most `limit` lines.

    A category that is once in each group has one line; rows that only look alike never merge.
    """
    import numpy as np

    value, category = value_and_category(figure, table)
    if category is None:
        table = table.assign(_row=[str(n + 1) for n in range(len(table))])
        category = "_row"
    grouped = figure.group is not None and figure.group != category
    key = [category, figure.group] if grouped else [category]
    shared = grouped and bool(
        table[category].duplicated().any() and not table.duplicated(key).any()
    )
    order = dict.fromkeys(table[category]) if shared else range(len(table))
    line = {name: place for place, name in enumerate(order)}
    places = [line[name] for name in (table[category] if shared else range(len(table)))]
    shown = table.assign(_line=places)[np.array(places, dtype=int) < limit]
    groups = list(split(figure, shown)) if grouped else [("", shown)]
    height = RIDGE_HEIGHT / (len(groups) if shared else 1)
    placed = [
        (name, part.assign(
            _place=-part["_line"].to_numpy(dtype=float)
            + ((len(groups) - 1) / 2 - index) * height * shared
        ))
        for index, (name, part) in enumerate(groups)
    ]  # fmt: skip
    labels = list(shown.drop_duplicates("_line")[category])
    return Rows(value, labels, placed, height, grouped)


def views(figure: Figure, table: pd.DataFrame) -> list[tuple[Hashable, pd.DataFrame]]:
    """What a reader can switch between; a figure without a switch has one view."""
    if figure.switch is None or not len(table):
        return [("", table)]
    return [(name, table[table[figure.switch] == name]) for name in dict.fromkeys(
        table[figure.switch])]  # fmt: skip


def show_name(name: object, limit: int) -> str:
    """A label with the spaces at its ends visible, and those between words left alone."""
    if not isinstance(name, str):
        return str(name)
    return re.sub("(?<=[^␣])␣+(?=[^␣])", lambda m: " " * len(m.group()), show_token(name, limit))


def checked(figure: Figure, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The figure's table, without the rows that can't be drawn."""
    import numpy as np

    table = tables.get(figure.table)
    named = (figure.x, figure.y, figure.group, figure.low, figure.high, figure.value,
             figure.switch)  # fmt: skip
    columns = [c for c in named if c]
    missing = columns if table is None else [c for c in columns if c not in table.columns]
    if figure.y is None and figure.kind in ("scatter", "lines", "heatmap", "map"):
        missing.append("y")
    if figure.value is None and figure.kind == "heatmap":
        missing.append("value")
    if table is None or missing:
        raise PessimalError(
            "figure_invalid",
            f"The figure {figure.name!r} needs the table {figure.table!r} with "
            f"{', '.join(missing)}.",
            "Mend the audit that declares it.",
        )
    if not len(table) or figure.kind == "heatmap":
        # A heatmap's empty cells are drawn so; an empty table's columns have no type to tell
        # numbers by.
        return table
    drawn = [c for c in (figure.x, figure.y) if c and _numeric(table, c)]
    if not drawn:
        raise PessimalError(
            "figure_invalid", f"The figure {figure.name!r} has no numeric column to draw.",
            "Mend the audit that declares it.",
        )  # fmt: skip
    finite = np.isfinite(table[drawn].to_numpy(dtype=float)).all(axis=1)
    kept: pd.DataFrame = table[finite]
    return kept


def _numeric(table: pd.DataFrame, column: str) -> bool:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    return is_numeric_dtype(table[column]) and not is_bool_dtype(table[column])


def value_and_category(figure: Figure, table: pd.DataFrame) -> tuple[str, str | None]:
    """The column of values, and that of the categories they belong to."""
    if figure.y is None:
        return (figure.x, figure.group)
    # Of two numeric columns the vertical one is the value, as the axes say.
    if _numeric(table, figure.y):
        return (figure.y, figure.x)
    return (figure.x, figure.y)


def split(figure: Figure, table: pd.DataFrame) -> Iterator[tuple[Hashable, pd.DataFrame]]:
    """The groups in the order of the table."""
    if figure.group is None:
        yield "", table
        return
    for name in dict.fromkeys(table[figure.group]):
        yield name, table[table[figure.group] == name]


def y_column(figure: Figure) -> str:
    """The vertical column, of a figure that has one."""
    return figure.y or figure.x


def _smoothed(counts: Floats) -> Floats:
    import numpy as np

    kernel = np.exp(-0.5 * (np.arange(-6, 7) / 2.0) ** 2)
    return np.convolve(counts, kernel / kernel.sum(), mode="same")
