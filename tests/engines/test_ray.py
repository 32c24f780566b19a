"""The Ray engine: the contract is in test_engines; here what only it can lose."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from pessimal.cli.app import app
from pessimal.engines.protocol import ShardError
from pessimal.engines.ray import ATTEMPTS, RayEngine
from pessimal.errors import PessimalError
from tests.builders import build_model

# Workers have no test modules: what is defined here goes to them as it is.
pytest.importorskip("ray.cloudpickle").register_pickle_by_value(sys.modules[__name__])
pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]


class Fragile:
    """Doubles numbers; dies on a shard that holds 13 until the marker says that it died enough."""

    def __init__(self, marker: Path, deaths: int) -> None:
        self.marker, self.deaths = marker, deaths

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fragile) and other.marker == self.marker

    def __hash__(self) -> int:
        return hash(self.marker)

    def __call__(self):
        def double(shard: list[int]) -> list[int]:
            died = len(self.marker.read_text()) if self.marker.exists() else 0
            if 13 in shard and died < self.deaths:
                self.marker.write_text("x" * (died + 1))
                os._exit(1)
            return [2 * number for number in shard]

        return double


@pytest.fixture(scope="module")
def engine() -> Iterator[RayEngine]:
    engine = RayEngine(2)
    yield engine
    engine.close()


def test_a_killed_worker_loses_nothing(engine: RayEngine, tmp_path: Path):
    shards = [[n] for n in range(20)]
    found = list(engine.map(shards, Fragile(tmp_path / "deaths", 2)))
    assert sorted(found) == [(n, [2 * n]) for n in range(20)]
    assert (tmp_path / "deaths").read_text() == "xx"


def test_a_shard_that_kills_every_worker_is_given_up(engine: RayEngine, tmp_path: Path):
    with pytest.raises(ShardError) as caught:
        list(engine.map([[1], [13]], Fragile(tmp_path / "deaths", 99)))
    assert caught.value.index == 1
    assert isinstance(caught.value.__cause__, PessimalError)
    assert caught.value.__cause__.code == "workers_lost"
    assert len((tmp_path / "deaths").read_text()) == ATTEMPTS
    assert dict(engine.map([[5]], Fragile(tmp_path / "none", 0))) == {0: [10]}


def score(folder: Path, name: str, *flags: str) -> pd.DataFrame:
    """One sweep from the command line, with a cache of its own."""
    out = folder / f"{name}.parquet"
    found = CliRunner().invoke(
        app,
        ["score", "--model", str(folder / "rm"), "--prompt", "Why?", "--out", str(out),
         "--cache", str(folder / name), "--quiet", *flags],
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    return pd.read_parquet(out)


def test_two_workers_give_the_same_bytes_as_none(tmp_path: Path):
    build_model(tmp_path / "rm", "llama", vocabulary=3000)
    here = score(tmp_path, "here")
    there = score(tmp_path, "there", "--engine", "ray", "--workers", "2")
    pd.testing.assert_frame_equal(here, there, check_exact=True)
    halves = tmp_path / "halves"
    score_half = ["score", "--model", str(tmp_path / "rm"), "--prompt", "Why?", "--quiet",
                  "--out", str(tmp_path / "halves.parquet"), "--cache", str(halves)]  # fmt: skip
    for share in ("1/2", "2/2"):
        assert CliRunner().invoke(app, [*score_half, "--shard", share]).exit_code == 0
    pd.testing.assert_frame_equal(
        here, pd.read_parquet(tmp_path / "halves.parquet"), check_exact=True
    )
