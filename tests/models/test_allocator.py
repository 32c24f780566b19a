"""Freed memory is kept where the C library can be told to, and nothing breaks where it can't."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import pytest

from pessimal.models import allocator
from pessimal.models.allocator import keep_freed_memory


def test_glibc_is_told_what_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    library = SimpleNamespace(mallopt=lambda name, value: told.append((name, value)))
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _: library)
    monkeypatch.setattr(sys, "platform", "linux")
    keep_freed_memory()
    assert told == [(-1, 1 << 30), (-3, 32 << 20)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc is a Linux library")
def test_glibc_takes_both() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        pytest.skip("this C library has no mallopt")
    assert mallopt(allocator.TRIM_THRESHOLD, allocator.KEPT_BYTES) == 1
    assert mallopt(allocator.MMAP_THRESHOLD, allocator.LARGEST_KEPT) == 1


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _: pytest.fail("it was opened"))
    keep_freed_memory()


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _: SimpleNamespace())
    keep_freed_memory()
