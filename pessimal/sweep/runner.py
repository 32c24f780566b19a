"""Exhaustive scoring of replies, block by block, going on where an earlier run was stopped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.engines.local import LocalEngine
from pessimal.engines.protocol import Engine, ShardError
from pessimal.errors import PessimalError
from pessimal.models.protocol import ReplyScorer
from pessimal.models.records import ModelHashes, ReplySlot
from pessimal.scores.store import Block, BlockContext, BlockStore, Mode
from pessimal.sweep.blocks import BLOCK_ROWS, Ids, Shard, cut_blocks, forward_tokens, is_mine
from pessimal.sweep.progress import Progress
from pessimal.sweep.worker import BlockWorker

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scored = tuple[NDArray[np.float32], int]

MANIFEST_SCHEMA = "pessimal.sweep/1"


@dataclass(frozen=True)
class SweepOptions:
    """How a sweep is run; none of it changes a score."""

    block_rows: int = BLOCK_ROWS
    """Rows of a block. Another number finds none of the blocks of an earlier sweep."""
    batch_rows: int | None = None
    """Rows of a forward; by default the scorer's choice."""
    shard: Shard | None = None
    """Score only the i-th of N shares of the blocks, ``(i, N)`` with i from 1."""
    progress: Progress | None = None
    """Is told of every block that is done."""
    engine: Engine | None = None
    """Runs the blocks; in this process by default."""


@dataclass(frozen=True)
class SweepResult:
    """Scores, and what they cost."""

    scores: NDArray[np.float32]
    """float32, ``[n]``, in the order of the replies; NaN where another shard isn't done yet."""
    rows: int
    """Different replies among them; those that embed alike count once."""
    computed: int
    """How many of `rows` were scored now."""
    reused: int
    """How many of `rows` came from the store."""
    forward_tokens: int
    """Tokens pushed through the model now. Rows that fill up a batch aren't counted."""
    planned_tokens: int
    """Tokens that scoring everything takes."""
    seconds: float
    """Wall-clock time."""
    blocks: int
    """How many blocks there are."""
    halvings: int
    """How often running out of memory halved a batch, now and in the runs before."""
    complete: bool
    """Whether every reply has its score."""
    manifest: Path | None
    """The manifest; None while the sweep isn't complete."""


def sweep(
    scorer: ReplyScorer,
    hashes: ModelHashes,
    slot: ReplySlot,
    replies: Sequence[Sequence[int]],
    store: BlockStore,
    *,
    prompt_id: str,
    duplicates: Mapping[int, int] | None = None,
    options: SweepOptions | None = None,
) -> SweepResult:
    """Score replies under one prompt; what the store holds already is not scored again.

    Args:
        scorer: scores a block.
        hashes: of the parts of the model that `scorer` holds.
        slot: where the reply goes.
        replies: token ids of each reply, of any length, ``[n]``.
        store: where blocks are kept.
        prompt_id: the prompt's id, for the manifest.
        duplicates: for ids whose embedding row is identical to another's, that other id; such
            replies are scored once.
        options: block and batch size, shard, progress, engine.

    Raises:
        PessimalError: ``disk_full``, ``cache_not_writable``, or what the scorer refuses.
        ShardError: the scorer failed in an unexpected way; finished blocks are kept.
    """
    options = options or SweepOptions()
    same = _mergeable(scorer, duplicates or {})
    return score_blocks(
        [tuple(same.get(token, token) for token in reply) for reply in replies],
        slot,
        scorer=scorer,
        context=block_context(scorer, hashes, slot, "ids"),
        store=store,
        prompt_id=prompt_id,
        tail=lambda reply: len(reply) + len(slot.suffix_ids),
        options=options,
    )


def score_blocks(
    sequences: Sequence[Ids],
    slot: ReplySlot,
    *,
    scorer: ReplyScorer,
    context: BlockContext,
    store: BlockStore,
    prompt_id: str,
    tail: Callable[[Ids], int],
    options: SweepOptions,
) -> SweepResult:
    """Score sequences block by block, in the context's mode; the part that both modes share.

    Args:
        sequences: ids, ``[n]``; repeated ones are scored once.
        slot: the prompt's reply slot.
        scorer: scores a block.
        context: what the scores depend on beside the sequences.
        store: where blocks are kept.
        prompt_id: the prompt's id, for the manifest.
        tail: tokens of a sequence behind the prefix that the path shares.
        options: see `sweep`.
    """
    began = time.perf_counter()
    blocks = cut_blocks(sequences, options.block_rows)
    keys = [context.key(block) for block in blocks]
    wanted = Counter(sequences)
    report = _reporter(options.progress, wanted)
    found = [store.get(key, len(block)) for key, block in zip(keys, blocks, strict=True)]
    todo = []
    for number, block in enumerate(blocks):
        if found[number] is None and is_mine(number, options.shard):
            todo.append(number)
        else:
            report(block, True)

    engine = options.engine or LocalEngine()
    factory = _factory(engine, scorer, slot, context, store, options)
    try:
        for index, (scores, halvings) in engine.map([blocks[n] for n in todo], factory):
            number = todo[index]
            found[number] = store.put(keys[number], scores, halvings)
            report(blocks[number], False)
    except ShardError as error:
        if isinstance(error.__cause__, PessimalError):
            raise error.__cause__ from None
        raise

    # Other shards may have finished theirs meanwhile: the last one to end sees all blocks.
    found = [
        block or store.get(key, len(ids))
        for block, key, ids in zip(found, keys, blocks, strict=True)
    ]
    manifest = _write_manifest(store, prompt_id, keys, found, context, options, bool(todo))
    computed = [ids for number in todo for ids in blocks[number]]
    tokens = _token_counter(context, tail)
    return SweepResult(
        scores=_in_order(sequences, blocks, found),
        rows=len(wanted),
        computed=len(computed),
        reused=sum(len(block.scores) for block in found if block) - len(computed),
        forward_tokens=tokens(computed),
        planned_tokens=tokens(list(wanted)),
        seconds=time.perf_counter() - began,
        blocks=len(blocks),
        halvings=sum(block.halvings for block in found if block),
        complete=manifest is not None,
        manifest=manifest,
    )


def score_block(
    scorer: ReplyScorer, slot: ReplySlot, mode: Mode, block: Sequence[Ids], batch_rows: int | None
) -> Scored:
    """Score a block: replies that are spliced in, or whole sequences where `mode` is as text.

    Returns:
        The scores, and how often running out of memory halved a batch.
    """
    before = len(scorer.halvings)
    score = scorer.score if mode == "ids" else scorer.score_sequences
    return score(slot, block, batch_rows), len(scorer.halvings) - before


def block_context(
    scorer: ReplyScorer, hashes: ModelHashes, slot: ReplySlot, mode: Mode
) -> BlockContext:
    """What the scores of a prompt depend on beside the replies."""
    from importlib.metadata import version

    return BlockContext(
        parts=hashes.items(),
        prefix_ids=slot.prefix_ids,
        suffix_ids=slot.suffix_ids,
        token_types=slot.token_types,
        prefix_types=slot.prefix_types,
        pooled_index=slot.pooled_index,
        mode=mode,
        dtype=str(scorer.dtype).removeprefix("torch."),
        device_type=scorer.device_type,
        path=scorer.path,
        versions={name: version(name) for name in ("torch", "transformers")},
        core=scorer.core,
    )


def _factory(
    engine: Engine, scorer: ReplyScorer, slot: ReplySlot, context: BlockContext, store: BlockStore,
    options: SweepOptions,
) -> Callable[[], Callable[[tuple[Ids, ...]], Scored]]:  # fmt: skip
    """What makes the worker: over this process's scorer, or one that is opened elsewhere."""
    if not engine.in_process:
        request = scorer.model.source.request
        return BlockWorker(request, store.folder.parent, slot, context, options.batch_rows)

    def work(block: tuple[Ids, ...]) -> Scored:
        return score_block(scorer, slot, context.mode, block, options.batch_rows)

    return lambda: work


def _mergeable(scorer: ReplyScorer, duplicates: Mapping[int, int]) -> dict[int, int]:
    # Models treat the pad by its number (where the last id is, which position comes next), so a
    # row that looks the same doesn't make its score the same.
    return {token: other for token, other in duplicates.items() if scorer.pad not in (token, other)}


def _reporter(
    progress: Progress | None, wanted: Mapping[Ids, int]
) -> Callable[[Sequence[Ids], bool], None]:
    def report(block: Sequence[Ids], reused: bool) -> None:
        if progress is not None:
            progress.advance(sum(wanted[ids] for ids in block), reused=reused)

    return report


def _token_counter(
    context: BlockContext, tail: Callable[[Ids], int]
) -> Callable[[Sequence[Ids]], int]:
    def count(sequences: Sequence[Ids]) -> int:
        return forward_tokens(
            [tail(ids) for ids in sequences],
            len(context.prefix_ids),
            shares_prefix=context.path != "full",
        )

    return count


def _in_order(
    sequences: Sequence[Ids], blocks: Sequence[Sequence[Ids]], found: Sequence[Block | None]
) -> NDArray[np.float32]:
    import numpy as np

    by_ids: dict[Ids, Any] = {}
    for ids, block in zip(blocks, found, strict=True):
        if block is not None:
            by_ids.update(zip(ids, block.scores, strict=True))
    missing = np.float32(np.nan)
    return np.array([by_ids.get(ids, missing) for ids in sequences], dtype=np.float32)


def _write_manifest(
    store: BlockStore,
    prompt_id: str,
    keys: Sequence[str],
    found: Sequence[Block | None],
    context: BlockContext,
    options: SweepOptions,
    changed: bool,
) -> Path | None:
    """Write the manifest where every block is there; a good one is left alone."""
    whole = [block for block in found if block is not None]
    if len(whole) < len(found):
        return None
    path = store.manifest_path(prompt_id, keys)
    if changed or not path.is_file():
        store.put_manifest(
            path,
            {
                "schema": MANIFEST_SCHEMA,
                "prompt_id": prompt_id,
                "keys": list(keys),
                "sha256": [block.sha256 for block in whole],
                "rows": [len(block.scores) for block in whole],
                "halvings": [block.halvings for block in whole],
                "block_rows": options.block_rows,
                "settings": asdict(context),
            },
        )
    return path
