"""What a measurement ran on, and whether other work disturbed it."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

OTHERS_LIMIT = 0.1
"""Share of the machine that other work may take; beyond it a run gives no verdict."""
PACKAGES = ("torch", "transformers", "numpy", "ray")


def describe() -> dict[str, Any]:
    """The machine, the versions and the date."""
    import psutil
    import torch

    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "logical_cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "cpu": _cpu_model(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "date": datetime.now(UTC).date().isoformat(),
    }


@dataclass
class Watch:
    """Watches what else the machine does, from before the first to after the last round.

    A load average can't tell: the measured work itself raises it.
    """

    others: list[float] = field(default_factory=list)
    """Of each round: the machine's share that other processes took while it ran, and in the
    moment before it, whichever is more."""

    @contextmanager
    def round(self) -> Iterator[None]:
        """Watch one round."""
        before = _others(*_idle_moment())
        start = _clocks()
        yield
        self.others.append(round(max(before, _others(start, _clocks())), 3))

    def document(self) -> dict[str, Any]:
        """``others`` and ``fair``; a run without rounds is no fair one."""
        fair = bool(self.others) and max(self.others) <= OTHERS_LIMIT
        return {"others": self.others, "others_limit": OTHERS_LIMIT, "fair": fair}


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Median and quartiles of measured values."""
    low, middle, high = (
        statistics.quantiles(values, n=4, method="inclusive")
        if len(values) > 1
        else [values[0]] * 3
    )
    return {"median": middle, "low": low, "high": high, "n": len(values)}


def target(text: str, value: float, *, least: float | None = None, most: float | None = None,
           unit: str = "") -> dict[str, Any]:  # fmt: skip
    """One wanted figure beside the measured one."""
    met = (least is None or value >= least) and (most is None or value <= most)
    bound = {name: limit for name, limit in (("least", least), ("most", most)) if limit is not None}
    return {"target": text, **bound, "value": round(value, 4), "unit": unit, "met": met}


def wanted(one: dict[str, Any]) -> str:
    """What a target asks for, in words."""
    return " and ".join(
        f"{word} {one[name]:g}{one['unit']}"
        for name, word in (("least", "at least"), ("most", "at most"))
        if name in one
    )


def verdict(one: dict[str, Any], *, fair: bool) -> str:
    """What became of a target: nothing is said of a run that wasn't fair."""
    return ("met" if one["met"] else "MISSED") if fair else "no verdict"


def verdicts(document: dict[str, Any]) -> list[str]:
    """A document's targets as lines; none of them says met or missed where the run wasn't fair."""
    lines = []
    for one in document["targets"]:
        end = verdict(one, fair=document["fair"])
        lines.append(
            f"{one['target']}: {one['value']:.3g}{one['unit']}, wanted {wanted(one)}: {end}"
        )
    if not document["fair"]:
        worst = max(document["others"], default=1.0)
        lines.append(
            f"NOT A FAIR RUN: other work took up to {worst:.0%} of the machine. Run it again when"
            " the machine is quiet."
        )
    return lines


def exit_code(document: dict[str, Any]) -> int:
    """1 where a target is missed on a quiet machine."""
    return int(document["fair"] and not all(one["met"] for one in document["targets"]))


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model nam")
            ]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def _idle_moment() -> tuple[tuple[float, float], tuple[float, float]]:
    start = _clocks()
    time.sleep(0.2)
    return start, _clocks()


def _clocks() -> tuple[float, float]:
    """CPU seconds of everything but this process and its children, and wall seconds."""
    import psutil

    times = psutil.cpu_times()
    # Time that a host took away (steal) disturbs like any other process.
    busy = sum(times) - times.idle - getattr(times, "iowait", 0.0)
    busy -= getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    me = psutil.Process()
    own = sum(me.cpu_times()[:4])
    for child in me.children(recursive=True):
        try:
            own += sum(child.cpu_times()[:4])
        except psutil.Error:
            continue
    return busy - own, time.perf_counter()


def _others(start: tuple[float, float], end: tuple[float, float]) -> float:
    # The clocks tick in hundredths of a second.
    return max(0.0, (end[0] - start[0]) / ((end[1] - start[1]) * (os.cpu_count() or 1)))
