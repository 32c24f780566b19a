"""Figures of many things against each other: a matrix with its numbers, a map with its names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_POINT: Final = "#0072b2"
# On cells, so whatever the page's ink: not the figures' own, which a dark theme lightens.
_ON_DARK, _ON_LIGHT = "#ffffff", "#000000"


def draw_heatmap(
    axes: Axes, values: Floats, rows: Sequence[str], columns: Sequence[str]
) -> None:  # fmt: skip
    """A matrix from 0 (or its least number) to 1, each number in its cell; NaN stays empty."""
    import numpy as np

    low = min(0.0, float(np.nanmin(values))) if np.isfinite(values).any() else 0.0
    drawn = axes.pcolormesh(
        np.ma.masked_invalid(values), vmin=low, vmax=1, cmap="cividis", edgecolors="#ffffff", lw=1
    )
    size = 9.5 if len(columns) <= 10 else 95 / len(columns)
    for (row, column), value in np.ndenumerate(values):
        if math.isfinite(value):
            dark = (value - low) / (1 - low or 1) < 0.45
            axes.text(
                column + 0.5, row + 0.5, f"{value:.2f}", ha="center", va="center", fontsize=size,
                color=_ON_DARK if dark else _ON_LIGHT,
            )  # fmt: skip
    axes.set_yticks([row + 0.5 for row in range(len(rows))], list(rows))
    axes.set_xticks([column + 0.5 for column in range(len(columns))], list(columns))
    axes.tick_params(length=0)
    axes.tick_params(axis="x", rotation=40)
    for tick in axes.get_xticklabels():
        tick.set(ha="right", rotation_mode="anchor")
    axes.spines[:].set_visible(False)
    axes.invert_yaxis()
    canvas: Any = axes.get_figure()
    canvas.colorbar(drawn, ax=axes, shrink=0.7).outline.set_visible(False)
    canvas.set_figheight(2.6 + 0.36 * len(rows))


def draw_map(axes: Axes, points: Floats, labels: Sequence[str]) -> None:
    """Points with their names; a unit is as long across as up."""
    import numpy as np

    axes.scatter(points[:, 0], points[:, 1], s=36, color=_POINT, zorder=3)
    middle = float(np.mean(points[:, 0])) if len(points) else 0.0
    for (x, y), label in zip(points, labels, strict=True):
        # Names run inwards, where there is room.
        left = x <= middle
        axes.annotate(
            label, (x, y), xytext=(7 if left else -7, 4), textcoords="offset points",
            ha="left" if left else "right", fontsize=8.5,
        )  # fmt: skip
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    axes.grid(visible=True, alpha=0.25, lw=0.6)
    canvas: Any = axes.get_figure()
    canvas.set_figheight(5.4)
