"""The second mode: a token's text goes through the chat template, as a policy's string would.

The template may trim it, the tokenizer may cut it otherwise: what is scored then isn't the token.
Scores of both modes are reported side by side with the reason why they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pessimal.models.protocol import ReplyScorer
from pessimal.models.records import ModelHashes, ReplySlot
from pessimal.scores.store import BlockStore
from pessimal.sweep.blocks import Ids
from pessimal.sweep.runner import (
    SweepOptions,
    SweepResult,
    block_context,
    score_blocks,
)

Reason = Literal["same", "special", "unused", "invalid_utf8", "trimmed", "merged"]
Encode = Callable[[str], Sequence[int]]
_BY_KIND: Mapping[str, Reason] = {
    "special": "special",
    "unused": "unused",
    "bytes": "invalid_utf8",
}


@dataclass(frozen=True)
class AsTextResult:
    """Scores of tokens given as text."""

    sweep: SweepResult
    """The scores, ``[n]`` in the order of the tokens, and what they cost."""
    reasons: tuple[Reason, ...]
    """Why the text gave other ids than the token spliced in, ``[n]``; ``same`` where it didn't."""


def as_text(
    scorer: ReplyScorer,
    hashes: ModelHashes,
    slot: ReplySlot,
    token_ids: Sequence[int],
    texts: Sequence[str],
    kinds: Sequence[str],
    encode: Encode,
    store: BlockStore,
    *,
    prompt_id: str,
    options: SweepOptions | None = None,
) -> AsTextResult:
    """Score tokens as text under one prompt.

    Args:
        scorer: scores a block.
        hashes: of the parts of the model that `scorer` holds.
        slot: where the reply goes.
        token_ids: the tokens, ``[n]``.
        texts: their decoded texts, ``[n]``.
        kinds: their kinds, ``[n]``.
        encode: ids of the whole sequence when the reply is this text.
        store: where blocks are kept.
        prompt_id: the prompt's id.
        options: see `pessimal.sweep.runner.sweep`.

    Raises:
        PessimalError: as `pessimal.sweep.runner.sweep`.
    """
    options = options or SweepOptions()
    sequences: list[Ids] = [tuple(map(int, encode(text))) for text in texts]
    reasons = tuple(
        difference((*slot.prefix_ids, int(token), *slot.suffix_ids), sequence, text, kind, encode)
        for token, sequence, text, kind in zip(token_ids, sequences, texts, kinds, strict=True)
    )
    prefix = len(slot.prefix_ids)
    result = score_blocks(
        sequences,
        slot,
        scorer=scorer,
        context=block_context(scorer, hashes, slot, "as_text"),
        store=store,
        prompt_id=prompt_id,
        # A sequence that begins otherwise than the prompt can't share its prefix.
        tail=lambda ids: len(ids) - (prefix if ids[:prefix] == slot.prefix_ids else 0),
        options=options,
    )
    return AsTextResult(result, reasons)


def difference(spliced: Ids, sequence: Ids, text: str, kind: str, encode: Encode) -> Reason:
    """Why a token's text gives other ids than the token spliced in.

    ``special``, ``unused`` and ``invalid_utf8`` go by the token's kind; ``trimmed`` if the same
    text without the spaces around it gives the same ids; ``merged`` if the tokenizer cuts it
    otherwise, alone or with its neighbours.

    Args:
        spliced: prefix, token and suffix.
        sequence: what `encode` gives for the text.
        text: the token's text.
        kind: its kind.
        encode: ids of the whole sequence when the reply is a text.
    """
    if sequence == spliced:
        return "same"
    by_kind = _BY_KIND.get(kind)
    if by_kind is not None:
        return by_kind
    trimmed = text.strip()
    if trimmed != text and tuple(encode(trimmed)) == sequence:
        return "trimmed"
    return "merged"
