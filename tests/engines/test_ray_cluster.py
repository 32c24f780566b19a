"""The Ray engine on a cluster that loses a machine."""

from __future__ import annotations

import os
import sys
import time

import pytest

from pessimal.engines.ray import RayEngine

# Workers have no test modules: what is defined here goes to them as it is.
pytest.importorskip("ray.cloudpickle").register_pickle_by_value(sys.modules[__name__])
pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

SHARDS = [[n] for n in range(30)]


class Slow:
    """Doubles numbers, slowly enough to be caught at it; tells the process it does so in."""

    def __call__(self):
        def double(shard: list[int]) -> tuple[list[int], int]:
            time.sleep(0.1)
            return [2 * number for number in shard], os.getpid()

        return double


def test_a_lost_node_loses_nothing():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    node = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    engine = RayEngine(2)
    try:
        found, removed, workers = {}, False, set()
        for index, (result, worker) in engine.map(SHARDS, Slow()):
            found[index] = result
            workers.add(worker)
            if len(workers) == 2 and not removed:
                cluster.remove_node(node)
                removed = True
        assert removed, "both nodes worked"
        assert found == {n: [2 * n] for n in range(30)}
    finally:
        engine.close()
        ray.shutdown()
        cluster.shutdown()
