"""How many threads to score with: what a container feeds, and what a trial shows to pay."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MINE = Path("/proc/self/cgroup")
ROUNDS = 9
"""Trials of each number of threads; their median is compared."""
SLACK = 1.1
"""More threads are kept while they take at most this many times as long as the fastest."""


def choose_threads() -> None:
    """Let torch use as many threads as pay, measured once a process.

    torch counts the cores that it may run on. It doesn't know of a container's quota of CPU time:
    with more threads than that feeds, all are stopped for the rest of each period. Nor does it know
    of other work on the cores: threads wait for each other at every matmul, and where one gets no
    core, all stand still. ``OMP_NUM_THREADS`` wins.
    """
    import torch

    if "OMP_NUM_THREADS" in os.environ:
        return
    quota, most = quota_cores(), torch.get_num_threads()
    if quota is not None:
        most = min(most, max(1, math.ceil(quota)))
    torch.set_num_threads(_paying(most))


@cache
def _paying(most: int) -> int:
    return paying_threads(most, _trial)


def paying_threads(most: int, trial: Callable[[int], float]) -> int:
    """The largest number of threads that is about as fast as any: `most`, its half, ... 1.

    Args:
        most: threads at most.
        trial: seconds that some work takes with a number of threads.
    """
    numbers = [most]
    while numbers[-1] > 1:
        numbers.append(numbers[-1] // 2)
    if len(numbers) == 1:
        return most
    rounds = [[trial(number) for number in numbers] for _ in range(ROUNDS)]
    medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
    return next(
        number
        for number, seconds in zip(numbers, medians, strict=True)
        if seconds <= SLACK * min(medians)
    )


def _trial(threads: int) -> float:
    """Seconds for some matmuls of a batch's size, one after the other as in a layer."""
    import torch

    torch.set_num_threads(threads)
    batch, weight = torch.ones(1024, 512), torch.ones(512, 512)
    began = time.perf_counter()
    for _ in range(4):
        batch @ weight
    return time.perf_counter() - began


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
