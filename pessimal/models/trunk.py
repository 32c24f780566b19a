"""Copies of a model's module tree that share its tensors, and the float32 end of a decoder."""

from __future__ import annotations

import copy
import inspect
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from pessimal.models.families import Family
from pessimal.models.records import LoadedModel


def skeleton(module: nn.Module, dtype: torch.dtype | None = None) -> Any:
    """A copy of a module tree in eval mode that shares every tensor with the original.

    The copy has its own config, switches and submodules, so changing them never shows in the
    original, nor in another thread that uses it.

    Args:
        module: the module.
        dtype: convert floating-point parameters to this dtype, which copies those; buffers keep
            theirs, as in a checkpoint loaded with that dtype.

    Returns:
        The copy, of the module's class, without gradients.
    """
    memo: dict[int, Any] = {id(t): t for t in chain(module.parameters(), module.buffers())}
    if dtype is not None:
        for parameter in module.parameters():
            if parameter.is_floating_point():
                converted = nn.Parameter(parameter.detach().to(dtype), requires_grad=False)
                memo[id(parameter)] = converted
    return copy.deepcopy(module, memo).eval()


def is_library_code(module: nn.Module) -> bool:
    """Whether a model's class is transformers' own or ours, and not a repository's code."""
    return type(module).__module__.startswith(("transformers.", "pessimal."))


class Pooling:
    """The final norm and the head in float32, at the pooled position only.

    Args:
        model: a decoder.
    """

    def __init__(self, model: LoadedModel) -> None:
        backbone = getattr(model.module, model.family.backbone)
        self._norm = _float32(getattr(backbone, model.family.norm))
        self._head = _float32(model.head)
        self._own = bool(model.family.own_head)

    def __call__(self, hidden: Tensor, gate: Tensor | None = None) -> Tensor:
        """Scores, float32 ``[B]``, of the last layer's outputs ``[B, hidden]``.

        Args:
            hidden: at the pooled position.
            gate: at the prompt's position that steers a gated head, ``[1, hidden]``.
        """
        normed: Tensor = self._norm(hidden.float())
        if self._own:
            scores: Tensor = self._head(normed, None if gate is None else self._norm(gate.float()))
            return scores
        if isinstance(self._head, nn.Linear):
            # A matrix-vector product's order of sums depends on the number of rows.
            scores = (normed * self._head.weight[0]).sum(-1)
            return scores if self._head.bias is None else scores + self._head.bias[0]
        output: Tensor = self._head(normed)
        return output.reshape(len(hidden))


def _float32(module: nn.Module) -> nn.Module:
    copied: nn.Module = skeleton(module, torch.float32)
    return copied


def headless(model: LoadedModel) -> Any:
    """A `skeleton` of a decoder's backbone whose output is the last layer's, before the norm."""
    backbone = skeleton(getattr(model.module, model.family.backbone))
    setattr(backbone, model.family.norm, nn.Identity())
    return backbone


class CopiedCacheBackbone:
    """Runs replies after a prefix whose key/value cache is copied for every row.

    Args:
        backbone: see `headless`.
        family: how the architecture is read.
    """

    def __init__(self, backbone: Any, family: Family) -> None:
        self.backbone = backbone
        parameters = inspect.signature(type(backbone).forward).parameters
        # transformers renamed the argument in 5.24.
        self._cache = "cache" if "cache" in parameters else "past_key_values"

    def record(self, ids: Tensor) -> Any:
        """The cache of a prefix with ids ``[P]``, P at least 1."""
        output = self.backbone(
            input_ids=ids[None], attention_mask=torch.ones_like(ids)[None], use_cache=True
        )
        return getattr(output, self._cache)

    def last_hidden(self, prefix: Any, tails: Tensor) -> Tensor:
        """The last layer's output at the last position, ``[B, hidden]``, for tails ``[B, T]``."""
        # A forward writes into the cache it is given.
        cache = copy.deepcopy(prefix)
        cache.batch_repeat_interleave(len(tails))
        start = prefix.get_seq_length()
        positions = torch.arange(start, start + tails.shape[1], device=tails.device)
        output = self.backbone(
            input_ids=tails,
            attention_mask=tails.new_ones(len(tails), start + tails.shape[1]),
            position_ids=positions.expand(len(tails), -1),
            use_cache=True,
            **{self._cache: cache},
        )
        hidden: Tensor = output.last_hidden_state[:, -1]
        return hidden


class FullBackbone:
    """Runs whole sequences, prefix and all, through a decoder's backbone.

    Args:
        backbone: see `headless`.
        family: how the architecture is read.
    """

    def __init__(self, backbone: Any, family: Family) -> None:
        self.backbone = backbone

    def record(self, ids: Tensor) -> Tensor:
        """The prefix's ids themselves, ``[P]``."""
        return ids

    def last_hidden(self, prefix: Tensor, tails: Tensor) -> Tensor:
        """The last layer's output at the last position, ``[B, hidden]``, for tails ``[B, T]``."""
        ids = torch.cat([prefix.expand(len(tails), -1), tails], dim=1)
        output = self.backbone(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
        hidden: Tensor = output.last_hidden_state[:, -1]
        return hidden
