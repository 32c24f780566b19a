"""Sweeps that are killed, and sweeps that run at once, end in the bytes of an undisturbed one."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BLOCKS = 25


def start(cache: Path, table: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.sweep.fakes", str(cache), str(table)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end; the number of blocks it scored, from what is unread of its output."""
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return len(output)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert finish(start(folder / "cache", folder / "t.parquet")) == BLOCKS
    return (folder / "t.parquet").read_bytes()


def manifests(cache: Path) -> list[Path]:
    return list((cache / "scores" / "manifests").glob("*"))


def test_killed_at_ten_random_moments(tmp_path: Path, undisturbed: bytes) -> None:
    chance = random.Random(0)
    killed = 0
    for moment in range(10):
        cache, table = tmp_path / f"cache{moment}", tmp_path / f"{moment}.parquet"
        process = start(cache, table)
        assert process.stdout is not None
        seen = len(process.stdout.read(chance.randrange(0, 18)))
        time.sleep(chance.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode == -signal.SIGKILL:
            killed += 1
            assert not table.exists()
            assert not manifests(cache)
        assert finish(start(cache, table)) <= BLOCKS - seen
        assert table.read_bytes() == undisturbed
        assert len(manifests(cache)) == 1
    # A busy machine may let one get through before the signal comes.
    assert killed >= 7


def test_two_at_once(tmp_path: Path, undisturbed: bytes) -> None:
    cache = tmp_path / "cache"
    processes = [start(cache, tmp_path / f"{n}.parquet") for n in range(2)]
    for process in processes:
        finish(process)
    for n in range(2):
        assert (tmp_path / f"{n}.parquet").read_bytes() == undisturbed
    files = [path for path in cache.rglob("*") if path.is_file()]
    assert len(files) == BLOCKS + 1
    (manifest,) = manifests(cache)
    assert len(json.loads(manifest.read_text())["keys"]) == BLOCKS
