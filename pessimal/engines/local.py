"""The engine that does the work in this process, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pessimal.engines.protocol import Result, Shard, ShardError, Worker


class LocalEngine:
    """One worker in this process; results come in the order of the shards."""

    in_process = True

    def map(
        self,
        shards: Sequence[Shard],
        worker_factory: Callable[[], Worker[Shard, Result]],
    ) -> Iterator[tuple[int, Result]]:
        """Yield ``(index, result)`` in order; a shard is started when its result is asked for.

        Raises:
            ShardError: the worker raised on the shard with that index.
        """
        if not shards:
            return
        worker = worker_factory()
        for index, shard in enumerate(shards):
            try:
                result = worker(shard)
            except Exception as error:
                raise ShardError(index) from error
            yield index, result

    def close(self) -> None:
        """Nothing to let go of."""
