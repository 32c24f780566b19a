"""Other ways to the same scores, and the plain matmul that none can pass."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from pessimal.models import trunk
from pessimal.models.records import LoadedModel, ReplySlot
from pessimal.models.scorer import Scorer

Way = Callable[[Sequence[int], int], Any]
"""Takes token ids and rows of a batch, returns a score a token."""


def retokenised(model: LoadedModel, prompt: str) -> Way:
    """The paper's way: text through the template, whole sequences, padded batches."""
    tokenizer: Any = model.tokenizer
    module = _with_attention(model, "sdpa")

    @torch.inference_mode()
    def score(tokens: Sequence[int], rows: int) -> Any:
        found = []
        for start in range(0, len(tokens), rows):
            texts = [
                tokenizer.apply_chat_template(
                    [
                        {"role": "user", "content": prompt},
                        {"role": "assistant", "content": tokenizer.decode([token])},
                    ],
                    tokenize=False,
                )
                for token in tokens[start : start + rows]
            ]
            batch = tokenizer(texts, padding=True, add_special_tokens=False, return_tensors="pt")
            given = {name: batch[name] for name in ("input_ids", "attention_mask")}
            found.append(module(**given).logits[:, 0])
        return torch.cat(found).numpy()

    return score


def repeated(model: LoadedModel, slot: ReplySlot, attention: str) -> Way:
    """The prompt's cache copied for every row of every batch."""
    module = _with_attention(model, attention)
    return through(
        Scorer(dataclasses.replace(model, module=module, head=module.score), "copied"), slot
    )


def cropped(model: LoadedModel, slot: ReplySlot, attention: str) -> Way:
    """The prompt's cache expanded to the rows of a batch once, and cropped after each batch."""
    module = _with_attention(model, attention)
    names = inspect.signature(type(module.model).forward).parameters
    argument = "cache" if "cache" in names else "past_key_values"
    start, suffix = len(slot.prefix_ids), list(slot.suffix_ids)
    kept: dict[int, Any] = {}

    def cache_of(rows: int) -> Any:
        if rows not in kept:
            kept.clear()
            ids = torch.tensor([slot.prefix_ids])
            cache = getattr(module.model(input_ids=ids, use_cache=True), argument)
            for layer in cache.layers:
                layer.keys = layer.keys.expand(rows, -1, -1, -1)
                layer.values = layer.values.expand(rows, -1, -1, -1)
            kept[rows] = cache
        return kept[rows]

    @torch.inference_mode()
    def score(tokens: Sequence[int], rows: int) -> Any:
        found = []
        for first in range(0, len(tokens), rows):
            tails = torch.tensor([[token, *suffix] for token in tokens[first : first + rows]])
            cache = cache_of(len(tails))
            positions = torch.arange(start, start + tails.shape[1]).expand(len(tails), -1)
            states = module.model(
                input_ids=tails, position_ids=positions, use_cache=True, **{argument: cache}
            ).last_hidden_state
            cache.crop(-tails.shape[1])
            found.append(module.score(states[:, -1])[:, 0])
        return torch.cat(found).numpy()

    return score


def through(scorer: Scorer, slot: ReplySlot) -> Way:
    """A scorer's way: replies as ids."""
    return lambda tokens, rows: scorer.score(slot, [(token,) for token in tokens], rows)


def multiply(rows: int, hidden: int, inner: int) -> tuple[Way, float]:
    """A plain matmul, and its floating-point operations."""
    left, right = torch.randn(rows, hidden), torch.randn(hidden, inner)
    out = torch.empty(rows, inner)
    return lambda tokens, _: torch.mm(left, right, out=out), 2.0 * rows * hidden * inner


def _with_attention(model: LoadedModel, name: str) -> Any:
    module = trunk.skeleton(model.module)
    module.set_attn_implementation(name)
    return module
