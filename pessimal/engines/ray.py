"""The engine that spreads shards over Ray actors: the cores or GPUs of one machine or of many."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from pessimal.engines.protocol import Result, Shard, ShardError, Worker
from pessimal.errors import PessimalError

ATTEMPTS = 3
"""Workers that one shard may take down before it is given up."""
WAIT_S = 300.0
"""How long to wait for a worker to start while none works."""
OBJECT_STORE_BYTES = 100_000_000


class RayEngine:
    """Actors that keep what their worker factory makes; a lost one's shard goes to another.

    Joins the cluster that ``RAY_ADDRESS`` names or that this process is connected to, else starts
    Ray on this machine. Ray starts with the first shard.

    Args:
        workers: how many actors; by default one a GPU of the cluster, one a CPU where it has none.
    """

    in_process = False

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers
        self._actors: list[Any] = []
        self._owns = False

    def map(
        self,
        shards: Sequence[Shard],
        worker_factory: Callable[[], Worker[Shard, Result]],
    ) -> Iterator[tuple[int, Result]]:
        """Yield ``(index, result)`` as results come in; the factory is pickled.

        Raises:
            ShardError: the worker raised on the shard with that index, or the shard took down
                three workers.
            PessimalError: ``ray_missing``; ``workers_lost``: no worker is left, or none starts.
        """
        if not shards:
            return
        ray = self._start()
        waiting = list(reversed(range(len(shards))))
        losses: Counter[int] = Counter()
        factory = ray.put(worker_factory)
        running: dict[Any, tuple[Any, int | None]] = {
            actor.ready.remote(): (actor, None) for actor in self._actors
        }
        while waiting or any(index is not None for _, index in running.values()):
            done, _ = ray.wait(list(running), timeout=WAIT_S)
            if not done and all(index is None for _, index in running.values()):
                raise _lost(f"No worker started within {WAIT_S:.0f} seconds.")
            for reference in done:
                actor, index = running.pop(reference)
                try:
                    outcome = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    # It never ran: what it was given couldn't be read there.
                    raise ShardError(index or 0) from error
                except ray.exceptions.RayError as error:
                    self._actors.remove(actor)
                    if index is not None:
                        losses[index] += 1
                        if losses[index] == ATTEMPTS:
                            raise ShardError(index) from _lost(f"A worker died: {error}.")
                        waiting.append(index)
                    if sum(losses.values()) > ATTEMPTS * len(shards) or not self._add(ray):
                        raise _lost(f"A worker died: {error}.") from None
                    running[self._actors[-1].ready.remote()] = self._actors[-1], None
                    continue
                if waiting:
                    following = waiting.pop()
                    running[actor.work.remote(factory, shards[following])] = actor, following
                if index is not None:
                    result, failure = outcome
                    if failure is not None:
                        raise ShardError(index) from failure
                    yield index, result

    def close(self) -> None:
        """Stop the actors, and Ray where this engine started it."""
        if not self._actors and not self._owns:
            return
        ray: Any = import_module("ray")
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []
        if self._owns:
            ray.shutdown()
            self._owns = False

    def _start(self) -> Any:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Actors see the GPU that is theirs; one without a GPU keeps its view of the machine.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise PessimalError(
                "ray_missing",
                "--engine ray needs Ray, which isn't installed.",
                "Run: pip install 'pessimal[ray]'.",
            ) from None
        quiet = {"log_to_driver": False, "logging_level": "error"}
        if not ray.is_initialized():
            address = os.environ.get("RAY_ADDRESS")
            if address:
                ray.init(address=address, **quiet)
            else:
                ray.init(
                    address="local", num_cpus=max(self._workers or 0, os.cpu_count() or 1),
                    include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet,
                )  # fmt: skip
            self._owns = True
        if not self._actors:
            resources = ray.cluster_resources()
            wanted = self._workers or int(resources.get("GPU", 0)) or int(resources.get("CPU", 1))
            for _ in range(wanted):
                self._add(ray)
        return ray

    def _add(self, ray: Any) -> bool:
        """Ask for one more actor; false where the cluster has no place for any."""
        resources = ray.cluster_resources()
        if resources.get("CPU", 0) < 1:
            return False
        gpus = 1 if resources.get("GPU", 0) >= 1 else 0
        self._actors.append(ray.remote(_Actor).options(num_cpus=1, num_gpus=gpus).remote())
        return True


class _Actor:
    """Lives in a worker process; keeps the last worker that it made."""

    def __init__(self) -> None:
        self._made: tuple[Any, Any] = None, None

    def ready(self) -> None:
        """Answer once the process is up."""

    def work(self, factory: Any, shard: Any) -> tuple[Any, Exception | None]:
        """The worker's result for a shard, or what it raised."""
        try:
            if self._made[1] is None or self._made[0] != factory:
                self._made = factory, factory()
            return self._made[1](shard), None
        except Exception as error:
            return None, error


def _lost(what: str) -> PessimalError:
    return PessimalError(
        "workers_lost",
        " ".join(what.split())[:400],
        "Look at the cluster's state and memory; the same command goes on where this one stopped.",
    )
