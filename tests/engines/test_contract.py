"""What every engine must do; a further engine is added to ENGINES."""

import sys

import pytest

from pessimal.engines.local import LocalEngine
from pessimal.engines.protocol import Engine, ShardError
from pessimal.engines.ray import RayEngine


def ray_engine() -> RayEngine:
    # Workers have no test modules: what is defined here goes to them as it is.
    cloudpickle = pytest.importorskip("ray.cloudpickle")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return RayEngine(2)


ENGINES = [
    pytest.param(LocalEngine, id="local"),
    pytest.param(ray_engine, id="ray", marks=[pytest.mark.ray, pytest.mark.timeout(600)]),
]


class Doubler:
    def __call__(self, shard: list[int]) -> list[int]:
        if 13 in shard:
            raise ValueError("poisoned")
        return [2 * number for number in shard]


@pytest.fixture(params=ENGINES, scope="module")
def engine(request: pytest.FixtureRequest):
    engine = request.param()
    yield engine
    engine.close()
    engine.close()


def test_every_shard_comes_back_once_with_its_index(engine: Engine) -> None:
    shards = [[n, n + 1] for n in range(10)]
    found = dict(engine.map(shards, Doubler))
    assert found == {n: [2 * n, 2 * n + 2] for n in range(10)}
    assert len(list(engine.map(shards, Doubler))) == 10


def test_the_same_shard_twice_gives_the_same_result_twice(engine: Engine) -> None:
    assert sorted(engine.map([[4], [4]], Doubler)) == [(0, [8]), (1, [8])]


def test_no_shards_start_no_worker(engine: Engine) -> None:
    def never() -> Doubler:
        raise AssertionError("a worker was made")

    assert list(engine.map([], never)) == []


def test_a_poisoned_shard_is_named_and_the_rest_stays_good(engine: Engine) -> None:
    found: dict[int, list[int]] = {}
    with pytest.raises(ShardError) as caught:
        found.update(engine.map([[1], [2], [13], [4]], Doubler))
    assert caught.value.index == 2
    assert isinstance(caught.value.__cause__, ValueError)
    assert all(result == [2 * (index + 1)] for index, result in found.items())
    assert dict(engine.map([[5]], Doubler)) == {0: [10]}
