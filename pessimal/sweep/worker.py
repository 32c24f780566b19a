"""What scores blocks in another process: it opens the model there and proves it the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pessimal.errors import PessimalError
from pessimal.models.records import ModelRequest, ReplySlot
from pessimal.scores.store import BlockContext
from pessimal.sweep.blocks import Ids

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pessimal.models.protocol import ReplyScorer


@dataclass(frozen=True)
class BlockWorker:
    """Makes a worker for the blocks of one prompt; can be pickled."""

    request: ModelRequest
    """Which model, and how to load it."""
    cache: Path
    """Pessimal's cache folder, for converted models; a worker elsewhere has its own there."""
    slot: ReplySlot
    """Where the reply goes."""
    context: BlockContext
    """What the scores depend on, as the process that asks for them has it."""
    batch_rows: int | None
    """Rows of a forward; by default the scorer's choice."""

    def __call__(self) -> Callable[[Sequence[Ids]], tuple[NDArray[np.float32], int]]:
        """Open the model, once a process, and give what scores a block.

        Raises:
            PessimalError: ``worker_differs``: scores made here wouldn't be those asked for; or
                the model is refused.
        """
        from pessimal.sweep.runner import block_context, score_block

        scorer = _open(self.request, self.cache)
        here = asdict(block_context(scorer, scorer.model.hashes, self.slot, self.context.mode))
        there = asdict(self.context)
        other = [name for name in there if here[name] != there[name]]
        if other:
            raise PessimalError(
                "worker_differs",
                f"A worker's {', '.join(other)} differ from those of the process that asks:"
                f" {here[other[0]]} and {there[other[0]]}.",
                "Give every node the same model files, libraries and kind of device.",
            )
        return lambda block: score_block(
            scorer, self.slot, self.context.mode, block, self.batch_rows
        )


@lru_cache(maxsize=1)
def _open(request: ModelRequest, cache: Path) -> ReplyScorer:
    from pessimal.models.opening import open_scorer
    from pessimal.models.slot import PROBE_PROMPT, find_slot
    from pessimal.models.source import open_source

    source = open_source(request, cache)
    scorer = open_scorer(source, cache)
    # Here too the fastest path that agrees with the model's own forward is found by trying.
    scorer.self_test(find_slot(source, PROBE_PROMPT))
    return scorer
