"""What an audit declares and what it returns: plain records, no rendering and no verdicts.

This module is imported by ``pessimal list``, so it must stay free of numpy and pandas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

    from pessimal.audit.context import Context

Status = Literal["ok", "insufficient", "void", "failed"]
Severity = Literal["critical", "warning"]
Need = Literal[
    "vocabulary", "words", "scorer", "human", "base_model", "categories", "searches", "baseline"
]

SLICE_KEYS = (
    "axis", "contrast", "controls", "direction", "framing", "kind", "length", "prompt", "term",
    "words",
)  # fmt: skip


def slice_name(**parts: object) -> str:
    """Name a slice: ``all``, or ``key=value`` pairs sorted by key and joined by commas.

    Raises:
        ValueError: a key that is not among `SLICE_KEYS`, or a value with a comma or an equals sign.
    """
    for key, value in parts.items():
        if key not in SLICE_KEYS:
            raise ValueError(f"unknown slice key {key!r}; known: {', '.join(SLICE_KEYS)}")
        if any(mark in str(value) for mark in ",="):
            raise ValueError(f"slice value {value!r} has a comma or an equals sign")
    return ",".join(f"{key}={parts[key]}" for key in sorted(parts)) or "all"


@dataclass(frozen=True)
class Bound:
    """A default bound: exactly one of the three is set."""

    min: float | None = None
    """The least acceptable value."""
    max: float | None = None
    """The greatest acceptable value."""
    abs_max: float | None = None
    """The greatest acceptable magnitude."""


@dataclass(frozen=True)
class MetricSpec:
    """One metric that an audit declares."""

    name: str
    """Short name; the metric is called ``<audit>.<name>``."""
    definition: str
    """What it is, in a sentence, with its formula."""
    unit: str
    """Unit of the value: ``SD``, ``percentile``, ``tau``, ``count``, ``share``, ``nats``..."""
    worse: Literal["higher", "lower", "both", "neither"]
    """Which direction is harmful; ``neither`` for an informational metric."""
    low: float | None = None
    """Least possible value."""
    high: float | None = None
    """Greatest possible value."""
    minimum_n: int = 1
    """Below this n the value is ``insufficient``."""
    bound: Bound | None = None
    """Default bound, used to make the default policy; the metric's function never sees it."""
    severity: Severity = "warning"
    """Severity of the default bound's rule."""


@dataclass(frozen=True)
class Metric:
    """One measured value. ``value`` is None exactly when nothing finite could be computed."""

    name: str
    """``<audit>.<metric>``."""
    value: float | None
    """The estimate, in the spec's unit."""
    n: int
    """Number of units (words, tokens, pairs) that the value rests on."""
    slice: str = "all"
    """See `slice_name`."""
    ci_low: float | None = None
    """Lower end of the 95 % interval; None for a metric without an interval."""
    ci_high: float | None = None
    """Upper end of the 95 % interval."""
    noise_floor: float | None = None
    """What rerunning or rewording alone moves the value by; None when unknown."""
    status: Status = "ok"
    """``ok``, ``insufficient`` (n below the minimum), ``void`` (numerics failed) or ``failed``."""
    unit: str = ""
    """The spec's unit."""
    reason: str | None = None
    """Why the status is not ``ok``."""

    def document(self) -> dict[str, object]:
        """The metric as it stands in an audit document."""
        return {
            "name": self.name, "slice": self.slice, "value": self.value, "ci_low": self.ci_low,
            "ci_high": self.ci_high, "n": self.n, "noise_floor": self.noise_floor,
            "status": self.status, "unit": self.unit, "reason": self.reason,
        }  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A figure as data: which columns of which table answer which question. Reports draw it."""

    name: str
    """File name without an ending."""
    question: str
    """The question it answers; its title."""
    kind: Literal["distribution", "bars", "scatter", "intervals", "lines", "heatmap", "map"]
    """How to draw it. A heatmap has a row a ``y`` and a column an ``x``; a map names its points."""
    table: str
    """Name of the result's table that holds the data."""
    x: str
    """Column on the horizontal axis."""
    y: str | None = None
    """Column on the vertical axis."""
    group: str | None = None
    """Column that splits the data into colours or rows."""
    low: str | None = None
    """Column with the lower end of an interval."""
    high: str | None = None
    """Column with the upper end of an interval."""
    value: str | None = None
    """Column with the numbers of a heatmap's cells, 1 at most; it may hold NaN."""
    switch: str | None = None
    """Column whose values a reader switches between; a drawing shows the first."""
    x_label: str = ""
    """Axis label with its unit."""
    y_label: str = ""
    """Axis label with its unit."""
    caption: str = ""
    """What to look at, and n."""


@dataclass(frozen=True)
class AuditResult:
    """What an audit found."""

    metrics: tuple[Metric, ...]
    """The metrics; every declared one at least once."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Tables for readers, most telling rows first."""
    figures: tuple[Figure, ...] = ()
    """Figures over those tables."""


@dataclass(frozen=True)
class Audit:
    """A collected audit: its declaration and its function."""

    name: str
    """The audit's name, and its metrics' prefix."""
    question: str
    """The question that it answers, for readers."""
    needs: tuple[Need, ...]
    """What the context must hold; an audit whose needs are not met is NOT_RUN."""
    metrics: tuple[MetricSpec, ...]
    """The metrics that it declares."""
    function: Callable[[Context], AuditResult]
    """The pure function."""
    source: str
    """The file that it was collected from."""

    def spec(self, metric: str) -> MetricSpec:
        """The declaration of a metric, by its short or its full name.

        Raises:
            KeyError: the audit declares no such metric.
        """
        short = metric.removeprefix(f"{self.name}.")
        for spec in self.metrics:
            if spec.name == short:
                return spec
        raise KeyError(metric)

    def metric(
        self, name: str, value: float | None, n: int, *, slice: str = "all",
        ci: tuple[float, float] | None = None, noise_floor: float | None = None,
    ) -> Metric:  # fmt: skip
        """Make a metric with its unit and status.

        A value that is None or not finite has the status ``failed``, unless n is below the
        minimum: then ``insufficient``. An interval with an end that is not finite is dropped with
        the value.
        """
        spec = self.spec(name)
        ends = () if ci is None else ci
        finite = value is not None and all(math.isfinite(number) for number in (value, *ends))
        status: Status = "ok"
        reason = None
        if n < spec.minimum_n:
            status, reason = "insufficient", f"n is {n}; it takes {spec.minimum_n}"
        elif not finite:
            status, reason = "failed", "the value or its interval is not a finite number"
        return Metric(
            name=f"{self.name}.{spec.name}",
            value=float(value) if finite and value is not None else None,
            n=n, slice=slice, status=status, unit=spec.unit, reason=reason,
            ci_low=float(ci[0]) if ci is not None and finite else None,
            ci_high=float(ci[1]) if ci is not None and finite else None,
            noise_floor=noise_floor,
        )  # fmt: skip


def audit(
    *, question: str, metrics: tuple[MetricSpec, ...], needs: tuple[Need, ...] = ("vocabulary",)
) -> Callable[[Callable[[Context], AuditResult]], Audit]:
    """Declare the decorated function as an audit; it takes the function's name.

    Raises:
        ValueError: two metrics of the same name.
    """

    def declare(function: Callable[[Context], AuditResult]) -> Audit:
        names = [spec.name for spec in metrics]
        if len(set(names)) != len(names):
            raise ValueError(f"audit {function.__name__}: two metrics of the same name")
        return Audit(
            name=function.__name__, question=question, needs=needs, metrics=metrics,
            function=function, source=function.__code__.co_filename,
        )  # fmt: skip

    return declare
