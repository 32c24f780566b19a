"""The gradient of a reply's reward, through the model's own embedding module.

The reward of a relaxed reply, whose token at a position is a mixture x over the vocabulary, has the
slope ``E(v) . g`` in x's entry for token v: g is the gradient at the embedding module's output and
E(v) the module's own output for v. So g is taken in a forward hook, and whatever the module does to
a row (Gemma scales it) is in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pessimal.errors import PessimalError
from pessimal.models import trunk
from pessimal.models.prefix import PASS_ARGUMENT, Pass, Prefix
from pessimal.models.records import ReplySlot
from pessimal.models.scorer import Scorer

Floats = NDArray[np.float32]
ATTENTION = "pessimal_differentiable"
_CHUNK = 16384


class Gradients:
    """Gradients of the reward of replies to one prompt.

    Args:
        scorer: the scorer that candidates are scored with.
        slot: the prompt's reply slot.
        allowed: token ids that slopes are wanted for, ``[A]``.
        prefix: the prompt's recorded keys and values; None runs whole sequences through the
            model's own forward.
    """

    def __init__(
        self, scorer: Scorer, slot: ReplySlot, allowed: NDArray[np.int64], prefix: Prefix | None
    ) -> None:
        self._scorer, self._slot, self._prefix = scorer, slot, prefix
        self._allowed = torch.from_numpy(allowed).to(scorer.batcher.device)
        model = scorer.model
        if prefix is None:
            self._module: Any = trunk.skeleton(model.module)
        else:
            _register()
            self._module = trunk.headless(model)
            self._module.set_attn_implementation(ATTENTION)
            self._last_layer = len(getattr(self._module, model.family.layers)) - 1
        self._embedding: nn.Module | None = self._module.get_input_embeddings()

    def at(self, reply: Sequence[int], pull: float = 0.0) -> Floats:
        """The reward's gradient at the embedding module's output for each token of a reply.

        A slope at a token's own embedding tells little of tokens far from it. Half way to the mean
        of all embeddings it is nearer to all of them.

        Args:
            reply: token ids, ``[n]``.
            pull: how far each token's embedding is drawn to the mean of the allowed ones before
                the gradient is taken: 0 not at all, 1 onto it.

        Returns:
            float32, ``[n, D]`` with D the width of the embedding.

        Raises:
            PessimalError: ``no_gradient``, the model gives none.
        """
        ids = [*reply, *self._slot.suffix_ids]
        start = 0
        if self._prefix is None:
            ids = [*self._slot.prefix_ids, *ids]
            start = len(self._slot.prefix_ids)
        given = self._scorer.batcher.to_device(np.array([ids], np.int64))
        try:
            with torch.enable_grad(), self._leaf(start, len(reply), pull) as leaf:
                score = self._forward(given)
                (gradient,) = torch.autograd.grad(score.sum(), leaf())
        except (RuntimeError, NotImplementedError, TypeError, ValueError, LookupError) as error:
            raise no_gradient(f"{type(error).__name__}: {error}".splitlines()[0]) from error
        found: Floats = gradient[0].float().cpu().numpy()
        if not np.isfinite(found).all() or not found.any():
            raise no_gradient("it is zero or not finite")
        return found

    @torch.no_grad()
    def slopes(self, gradient: Floats) -> Floats:
        """The reward's slope in each allowed token's share at each position.

        Args:
            gradient: ``[n, D]``, from `at`.

        Returns:
            float32, ``[n, A]``.
        """
        assert self._embedding is not None
        directions = torch.from_numpy(gradient).to(self._allowed.device)
        weight = self._embedding.weight
        if type(self._embedding) is torch.nn.Embedding and weight.dtype is torch.float32:
            # The library's plain look-up: its rows need no copying.
            every = (weight @ directions.T)[self._allowed]
        else:
            every = torch.cat([rows.float() @ directions.T for rows in self._rows()])
        found: Floats = every.T.cpu().numpy()
        return found

    def _rows(self) -> Iterator[Tensor]:
        """The embedding module's own output for the allowed tokens, in parts."""
        assert self._embedding is not None
        for chunk in torch.split(self._allowed, _CHUNK):
            yield self._embedding(chunk)

    @cached_property
    def _mean(self) -> Tensor:
        """The mean of the allowed tokens' embeddings, float32, ``[D]``."""
        with torch.no_grad():
            return sum(rows.float().sum(0) for rows in self._rows()) / len(self._allowed)  # type: ignore[return-value]

    @contextmanager
    def _leaf(self, start: int, length: int, pull: float) -> Iterator[Callable[[], Tensor]]:
        """Make the embeddings of some positions a leaf of the graph while the block runs."""
        if self._embedding is None:
            raise NotImplementedError("the model names no input embedding")
        kept: list[Tensor] = []
        mean = self._mean if pull else None

        def swap(module: nn.Module, args: object, output: Tensor) -> Tensor:
            own = output[:, start : start + length].detach()
            if mean is not None:
                own = torch.lerp(own, mean.to(own), pull)
            kept.append(own.requires_grad_())
            before, after = output[:, :start].detach(), output[:, start + length :].detach()
            return torch.cat([before, kept[-1], after], dim=1)

        handle = self._embedding.register_forward_hook(swap)
        try:
            yield lambda: kept[-1]
        finally:
            handle.remove()

    def _forward(self, ids: Tensor) -> Tensor:
        """The score of one sequence ``[1, T]``, differentiable."""
        pool = self._scorer.pool_after(self._slot.prefix_ids)
        if self._prefix is None or pool is None:
            return self._scorer.own_forward(self._slot, ids, module=self._module)
        run = Pass(self._prefix, False, self._last_layer)
        begin = self._prefix.length
        output = self._module(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            position_ids=torch.arange(begin, begin + ids.shape[1], device=ids.device)[None],
            use_cache=False,
            **{PASS_ARGUMENT: run},
        )
        return pool(output.last_hidden_state[:, -1])


def no_gradient(why: str) -> PessimalError:
    """The error that a search without gradients is made of."""
    return PessimalError(
        "no_gradient",
        f"The model gives no gradient of its score: {why}.",
        "Search without one: --method coordinate, beam or random.",
    )


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION, differentiable_attention)
    AttentionMaskInterface.register(ATTENTION, lambda *_, **__: None)


def differentiable_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """`prefix.shared_prefix_attention` for a few rows, with gradients: nothing is written in place.

    Args:
        module: the attention module; its ``layer_idx`` is read.
        query: ``[B, heads, T, head_dim]``.
        key: own keys, ``[B, kv_heads, T, head_dim]``.
        value: own values, like `key`.
        attention_mask: not used.
        scaling: factor of the scores; one over the root of head_dim by default.
        softcap: scores become ``softcap * tanh(score / softcap)``.
        sliding_window: a query sees keys less than this many positions back.
        kwargs: holds the `Pass`.

    Returns:
        ``[B, T, heads, head_dim]`` and None for the weights.
    """
    run: Pass = kwargs[PASS_ARGUMENT]
    if kwargs.get("s_aux") is not None or kwargs.get("position_bias") is not None:
        raise ValueError("attention sinks and biases are not supported")
    run.calls += 1
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    group, own, dim = query.shape[1] // key.shape[1], query.shape[2], query.shape[3]
    keys, values = (part.repeat_interleave(group, dim=1) for part in (key, value))
    shared_keys, shared_values = run.prefix.keys[layer], run.prefix.values[layer]
    scaled = query * (dim**-0.5 if scaling is None else scaling)
    # The recorded keys are scaled already.
    scores = torch.cat([query @ shared_keys, scaled @ keys.transpose(2, 3)], dim=-1)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    shared = shared_keys.shape[2]
    places = torch.arange(shared + own, device=query.device)
    rows = places[shared:, None]
    hidden = places > rows
    if sliding_window is not None:
        hidden = hidden | (places <= rows - sliding_window)
    scores = scores.masked_fill(hidden, float("-inf"))
    weights = torch.softmax(scores, -1, dtype=torch.float32).to(value.dtype)
    mixed = weights[..., :shared] @ shared_values + weights[..., shared:] @ values
    return mixed.transpose(1, 2), None
