"""A container's quota of CPU time is found, more threads run only where they pay."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from pessimal.models import threads
from pessimal.models.threads import choose_threads, paying_threads, quota_cores

# It puts torch's own number back.
pytestmark = pytest.mark.usefixtures("one_thread")


def write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("lines", "files", "cores"),
    [
        ("0::/", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/", {"cpu.max": "max 100000\n"}, None),
        ("0::/", {}, None),
        ("0::/not/in/this/view", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/a/b", {"a/cpu.max": "200000 100000\n", "a/b/cpu.max": "max 100000\n"}, 2.0),
        ("0::/a/b", {"a/cpu.max": "400000 100000\n", "a/b/cpu.max": "300000 100000\n"}, 3.0),
        ("4:memory:/x\n3:cpu,cpuacct:/x",
         {"cpu/x/cpu.cfs_quota_us": "250000", "cpu/x/cpu.cfs_period_us": "100000"}, 2.5),
        ("3:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("3:cpuset:/", {"cpu/cpu.cfs_quota_us": "1000", "cpu/cpu.cfs_period_us": "1000"}, None),
    ],
)  # fmt: skip
def test_the_tightest_quota_is_found(
    tmp_path: Path, lines: str, files: dict[str, str], cores: float | None
) -> None:
    groups, mine = tmp_path / "groups", tmp_path / "mine"
    mine.write_text(lines + "\n")
    for name, text in files.items():
        write((groups / name).parent, {Path(name).name: text})
    assert quota_cores(groups, mine) == cores


def test_no_control_groups_no_quota(tmp_path: Path) -> None:
    assert quota_cores(tmp_path, tmp_path / "nowhere") is None


@pytest.mark.parametrize(("quota", "named", "left"), [
    (None, None, 3), (1.2, None, 2), (0.3, None, 1), (8.0, None, 3), (1.0, "3", 3),
])  # fmt: skip
def test_threads_are_only_ever_fewer(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, named: str | None, left: int
) -> None:
    monkeypatch.setattr(threads, "quota_cores", lambda: quota)
    monkeypatch.setattr(threads, "_paying", lambda most: most)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if named is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", named)
    torch.set_num_threads(3)
    choose_threads()
    assert torch.get_num_threads() == left


@pytest.mark.parametrize(("seconds", "chosen"), [
    ({8: 1.0, 4: 1.9, 2: 3.7, 1: 7.0}, 8),
    ({8: 1.05, 4: 1.0, 2: 1.8, 1: 3.0}, 8),
    ({8: 1.3, 4: 1.0, 2: 1.8, 1: 3.0}, 4),
    ({3: 4.0, 1: 1.0}, 1),
    ({1: 1.0}, 1),
])  # fmt: skip
def test_the_most_threads_that_are_about_as_fast_as_any(
    seconds: dict[int, float], chosen: int
) -> None:
    rounds = 0

    def trial(number: int) -> float:
        nonlocal rounds
        rounds += 1
        # One round in nine is disturbed; the median doesn't see it.
        return 50.0 if rounds == len(seconds) else seconds[number]

    assert paying_threads(max(seconds), trial) == chosen


def test_the_trial_is_made_once_and_keeps_to_what_torch_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "quota_cores", lambda: None)
    monkeypatch.setattr(threads, "_trial", lambda number: tried.append(number) or float(number))
    monkeypatch.setattr(threads, "_paying", cache(threads._paying.__wrapped__))
    for _ in range(2):
        torch.set_num_threads(3)
        choose_threads()
        assert torch.get_num_threads() == 1
        assert tried == [3, 1] * threads.ROUNDS


def test_a_real_trial_takes_a_moment() -> None:
    assert paying_threads(2, threads._trial) in (1, 2)
