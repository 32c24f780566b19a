"""How many threads a process may really run at once, where a container has a share of the cores."""

from __future__ import annotations

import math
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MINE = Path("/proc/self/cgroup")


def limit_threads() -> None:
    """Let torch use no more threads than the container's quota of CPU time feeds.

    torch counts the cores that it may run on, and doesn't know of a quota: with more threads than
    it feeds, all of them are stopped for the rest of each period. ``OMP_NUM_THREADS`` wins.
    """
    import torch

    quota = quota_cores()
    if quota is not None and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(min(torch.get_num_threads(), max(1, math.ceil(quota))))


def quota_cores(groups: Path = CGROUPS, mine: Path = MINE) -> float | None:
    """The quota of CPU time of this process's control groups, in cores; None without one.

    Args:
        groups: where control groups are mounted.
        mine: the file that names this process's own, a line a hierarchy.
    """
    try:
        lines = mine.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            top, read = groups, _of_version_2
        elif "cpu" in controllers.split(","):
            top, read = groups / "cpu", _of_version_1
        else:
            continue
        # A limit of any group above holds too. In a container's own view the path may not exist.
        inner = top / path.lstrip("/")
        for folder in (inner, *inner.parents):
            if folder == top or top in folder.parents:
                found.append(read(folder))
    return min((cores for cores in found if cores is not None), default=None)


def _of_version_2(folder: Path) -> float | None:
    quota, period = _numbers(folder / "cpu.max", 2)
    return quota / period if quota > 0 else None


def _of_version_1(folder: Path) -> float | None:
    (quota,) = _numbers(folder / "cpu.cfs_quota_us", 1)
    (period,) = _numbers(folder / "cpu.cfs_period_us", 1)
    return quota / period if quota > 0 and period > 0 else None


def _numbers(file: Path, count: int) -> list[float]:
    """The numbers of a file; zeros where it isn't there, or says that there is no limit."""
    try:
        found = [float(word) for word in file.read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        found = []
    return found if len(found) == count else [0.0] * count
