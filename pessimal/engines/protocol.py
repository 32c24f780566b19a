"""What runs shards of work: two methods, so that every engine gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Shard = TypeVar("Shard")
Result = TypeVar("Result")
Worker = Callable[[Shard], Result]


class ShardError(RuntimeError):
    """A worker raised; ``__cause__`` is what it raised.

    Args:
        index: position of the shard in the sequence that was mapped.
    """

    def __init__(self, index: int) -> None:
        super().__init__(f"shard {index} failed")
        self.index = index


class Engine(Protocol):
    """Runs a worker over shards, here or elsewhere."""

    in_process: bool
    """Whether workers live in this process; elsewhere a factory is pickled."""

    def map(
        self,
        shards: Sequence[Shard],
        worker_factory: Callable[[], Worker[Shard, Result]],
    ) -> Iterator[tuple[int, Result]]:
        """Yield ``(index, result)`` for every shard, each once, as results come in.

        Args:
            shards: the work; nothing is started for an empty sequence.
            worker_factory: makes what a shard is given to. It is called where the work is done,
                once a worker, so that a worker can keep what is dear to make.

        Raises:
            ShardError: a worker raised. Results yielded before stay good.
        """
        ...

    def close(self) -> None:
        """Let go of the workers. Closing twice is fine."""
        ...
