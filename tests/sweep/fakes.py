"""A scorer without a model, and a program that sweeps with it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pessimal.models.records import ModelHashes, ReplySlot
from pessimal.scores.store import BlockStore
from pessimal.scores.table import ScoreTable, TableMetadata
from pessimal.sweep.runner import SweepOptions, SweepResult, sweep

HASHES = ModelHashes(weights="w", adapter=None, head="h", config="c", tokenizer="t", template="p")
SLOT = ReplySlot(
    prompt="What?",
    prefix_ids=(1, 2, 3),
    suffix_ids=(4,),
    rendered="What?<reply>",
    bos=1,
    pooled_index=-1,
    pooled_token="<end>",
)
PAD = 0


class FakeScorer:
    """Scores are a fixed function of the ids; it remembers what it was asked for."""

    def __init__(self, *, salt: float = 0.0, path: str = "shared", wait_s: float = 0.0) -> None:
        self.dtype = "torch.float32"
        self.device_type = "cpu"
        self.pad = PAD
        self.core = "core"
        self.path = path
        self.halvings: list[str] = []
        self.asked: list[tuple[int, ...]] = []
        self.calls = 0
        self._salt = salt
        self._wait_s = wait_s

    def score(
        self, slot: ReplySlot, replies: Sequence[Sequence[int]], batch_rows: int | None = None
    ) -> np.ndarray:
        return self.score_sequences(
            slot, [(*slot.prefix_ids, *reply, *slot.suffix_ids) for reply in replies], batch_rows
        )

    def score_sequences(
        self, slot: ReplySlot, sequences: Sequence[Sequence[int]], batch_rows: int | None = None
    ) -> np.ndarray:
        self.calls += 1
        self.asked += [tuple(ids) for ids in sequences]
        time.sleep(self._wait_s)
        return np.array([self.value(ids) for ids in sequences], np.float32)

    def value(self, ids: Sequence[int]) -> float:
        return self._salt + sum(np.sin(token * 1.7 + place) for place, token in enumerate(ids))


def run(
    scorer: FakeScorer,
    replies: Sequence[Sequence[int]],
    cache: Path,
    *,
    hashes: ModelHashes = HASHES,
    slot: ReplySlot = SLOT,
    duplicates: dict[int, int] | None = None,
    **options: object,
) -> SweepResult:
    return sweep(
        scorer,
        hashes,
        slot,
        replies,
        BlockStore(cache),
        prompt_id="greatest",
        duplicates=duplicates,
        options=SweepOptions(**{"block_rows": 8, **options}),
    )


def main(cache: Path, table: Path) -> None:
    """Sweep 200 tokens in 25 slow blocks, a dot a block on stdout, and write the table."""

    class Dots:
        def advance(self, candidates: int, *, reused: bool = False) -> None:
            if not reused:
                print(".", end="", flush=True)

    tokens = list(range(5, 205))
    found = run(FakeScorer(wait_s=0.01), [(token,) for token in tokens], cache, progress=Dots())
    ScoreTable.build(
        token_ids=tokens,
        tokens=[f"t{token}" for token in tokens],
        texts=[f"t{token}" for token in tokens],
        kinds=["subword"] * len(tokens),
        roundtrips=[True] * len(tokens),
        scores={"greatest": found.scores},
        metadata=TableMetadata(model="fake"),
    ).write(table)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
