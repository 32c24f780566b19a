"""A rule's picture: its value, its interval and the side of the bound that isn't acceptable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

WIDTH: Final = 168
HEIGHT: Final = 26
_MARGIN: Final = 8


def draw_interval(rule: Mapping[str, Any]) -> str:
    """An inline SVG of one rule; empty for a rule without a finite value.

    Args:
        rule: ``value ci_low ci_high`` and ``bound`` (``min``, ``max`` or ``abs_max``).
    """
    value = _finite(rule.get("value"))
    if value is None:
        return ""
    ends = [_finite(rule.get("ci_low")), _finite(rule.get("ci_high"))]
    low, high = (value if end is None else end for end in ends)
    lower, upper = _limits(rule.get("bound") or {})
    shown = [value, low, high, *(limit for limit in (lower, upper) if limit is not None)]
    spread = max(shown) - min(shown) or abs(value) or 1.0
    start, stop = min(shown) - 0.25 * spread, max(shown) + 0.25 * spread

    def x(number: float) -> float:
        return _MARGIN + (number - start) / (stop - start) * (WIDTH - 2 * _MARGIN)

    middle = HEIGHT / 2
    parts = [f'<line class="axis" x1="0" x2="{WIDTH}" y1="{middle}" y2="{middle}"/>']
    if lower is not None:
        parts += _forbidden(0, x(lower), x(lower))
    if upper is not None:
        parts += _forbidden(x(upper), WIDTH, x(upper))
    if low != high:
        parts.append(
            f'<line class="ci" x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{middle}" y2="{middle}"/>'
        )
    parts.append(f'<circle class="value" cx="{x(value):.1f}" cy="{middle}" r="4"/>')
    return (
        f'<svg class="interval" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'aria-hidden="true">{"".join(parts)}</svg>'
    )


def _forbidden(start: float, stop: float, edge: float) -> list[str]:
    return [
        f'<rect class="beyond" x="{start:.1f}" width="{max(0.0, stop - start):.1f}" y="3" '
        f'height="{HEIGHT - 6}"/>',
        f'<line class="bound" x1="{edge:.1f}" x2="{edge:.1f}" y1="1" y2="{HEIGHT - 1}"/>',
    ]


def _limits(bound: Mapping[str, Any]) -> tuple[float | None, float | None]:
    if (magnitude := _finite(bound.get("abs_max"))) is not None:
        return -magnitude, magnitude
    return _finite(bound.get("min")), _finite(bound.get("max"))


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None
