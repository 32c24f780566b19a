"""Scores made again with one thing changed, to measure how far scores can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pessimal.errors import UsageError
from pessimal.models import trunk
from pessimal.models.batches import CPU_TOKENS, ROW_STEP, equal_lengths
from pessimal.models.protocol import ReplyScorer
from pessimal.models.records import ReplySlot
from pessimal.models.scorer import Scorer

Variant = Literal["batch", "order", "padding", "bfloat16"]
PADDING = 5
"""Pad ids behind the longest reply, so that every row of a padded batch has some."""


class RescoringScorer:
    """Scores replies again, otherwise than a sweep did, by prompt id.

    Args:
        scorer: the scorer of the sweep.
        slots: the reply slot of each prompt id.
    """

    def __init__(self, scorer: ReplyScorer, slots: Mapping[str, ReplySlot]) -> None:
        self._scorer = scorer
        self._slots = slots

    def rescore(
        self, prompt: str, replies: Sequence[Sequence[int]], *, variant: Variant
    ) -> NDArray[np.float32] | None:
        """Score replies under a prompt with one thing changed.

        Args:
            prompt: the prompt's id.
            replies: token ids of each reply.
            variant: ``batch`` another batch size; ``order`` reversed order; ``padding`` the
                model's own batched forward with padding on the right; ``bfloat16`` the model's
                own forward with its parameters in bfloat16.

        Returns:
            float32 scores, shape ``[len(replies)]``, in the order of `replies`; None for
            ``padding`` and ``bfloat16`` where there is no single forward of the model's own.

        Raises:
            UsageError: ``unknown_prompt`` or ``unknown_variant``.
            PessimalError: as `Scorer.score`.
        """
        if prompt not in self._slots:
            raise UsageError(
                "unknown_prompt",
                f"There is no prompt {prompt!r}.",
                f"The prompts are: {', '.join(self._slots)}.",
            )
        if variant not in get_args(Variant):
            raise UsageError(
                "unknown_variant",
                f"There is no variant {variant!r}.",
                f"The variants are: {', '.join(get_args(Variant))}.",
            )
        slot = self._slots[prompt]
        if variant == "batch":
            usual = self._scorer.rows(slot, 1)
            return self._scorer.score(slot, replies, batch_rows=max(ROW_STEP, usual // 3))
        if variant == "order":
            return self._scorer.score(slot, replies[::-1])[::-1].copy()
        if not isinstance(self._scorer, Scorer):
            return None
        if variant == "padding":
            return self._padded(self._scorer, slot, replies)
        return self._in_bfloat16(self._scorer, slot, replies)

    @torch.inference_mode()
    def _padded(
        self, scorer: Scorer, slot: ReplySlot, replies: Sequence[Sequence[int]]
    ) -> NDArray[np.float32]:
        sequences = [(*slot.prefix_ids, *reply, *slot.suffix_ids) for reply in replies]
        if not sequences:
            return np.empty(0, np.float32)
        width = max(map(len, sequences)) + PADDING
        ids = np.full((len(sequences), width), scorer.pad or 0, np.int64)
        mask = np.zeros_like(ids)
        for row, sequence in enumerate(sequences):
            ids[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        rows = max(ROW_STEP, CPU_TOKENS // width)
        found = [
            self._padded_batch(scorer, slot, ids[start : start + rows], mask[start : start + rows])
            for start in range(0, len(ids), rows)
        ]
        scores: NDArray[np.float32] = torch.cat(found).cpu().numpy()
        return scores

    def _padded_batch(
        self, scorer: Scorer, slot: ReplySlot, ids: NDArray[np.int64], mask: NDArray[np.int64]
    ) -> Tensor:
        given, seen = scorer.batcher.to_device(ids), scorer.batcher.to_device(mask)
        if scorer.pad is not None or scorer.pool is None or scorer.model.family.own_head:
            return scorer.own_forward(slot, given, seen)
        # Without a pad id the library's heads take no batch: read the last real position.
        backbone = trunk.headless(scorer.model)
        output = backbone(input_ids=given, attention_mask=seen, use_cache=False)
        rows = torch.arange(len(given), device=given.device)
        return scorer.pool(output.last_hidden_state[rows, seen.sum(1) - 1])

    @torch.inference_mode()
    def _in_bfloat16(
        self, scorer: Scorer, slot: ReplySlot, replies: Sequence[Sequence[int]]
    ) -> NDArray[np.float32]:
        module = trunk.skeleton(scorer.model.module, torch.bfloat16)
        sequences = [(*slot.prefix_ids, *reply, *slot.suffix_ids) for reply in replies]
        scores = np.empty(len(sequences), np.float32)
        for indexes in equal_lengths(sequences):
            ids = np.array([sequences[index] for index in indexes], np.int64)
            rows = scorer.batcher.rows("full", 0, ids.shape[1])
            scores[indexes] = scorer.batcher.run(
                lambda batch: scorer.whole(slot, batch, module), ids, rows
            )
        return scores
