"""Finds the one score of each sequence in what a forward returns, whatever its class calls it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def find_scores(output: Any, mask: Tensor) -> Tensor | None:
    """The scores of a batch in a model's output.

    Classes of published reward models return ``logits``; ``score`` beside ``logits`` of all their
    objectives; ``end_scores`` beside ``scores`` of every token; a tuple; or a bare tensor.

    Args:
        output: what the forward returned.
        mask: the attention mask it was given, ``[B, T]``, padded on either side.

    Returns:
        float32 ``[B]``; None where the output doesn't hold one number a sequence.
    """
    named = [getattr(output, name, None) for name in ("end_scores", "score", "logits")]
    if isinstance(output, Tensor):
        named = [output]
    elif not any(isinstance(found, Tensor) for found in named) and isinstance(output, tuple | list):
        named = list(output[:1])
    for found in named:
        if not isinstance(found, Tensor):
            continue
        if found.numel() == len(mask):
            return found.reshape(len(mask)).float()
        if found.shape == (*mask.shape, 1):
            # One score a token: the reply's is the one at its last token.
            places = torch.arange(mask.shape[1], device=mask.device)
            last = (mask * places).argmax(dim=1)
            return found[torch.arange(len(mask), device=found.device), last, 0].float()
    return None


def describe_output(output: Any) -> str:
    """What was returned instead of scores, in a few words."""
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if isinstance(logits, Tensor):
        return f"logits of shape {tuple(logits.shape)}"
    return "no logits"
