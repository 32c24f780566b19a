"""Exact attention over a prefix that every row of a batch shares.

All replies to one prompt begin with the same ids. Their keys and values are recorded once a layer;
a batch then runs the replies' own ids only, and each layer's attention is one matmul of all rows'
queries against the shared keys plus a causal block of each row's own keys, under one softmax
(Hydragen, arXiv 2402.05099). Nothing is copied per row and no cache is touched.

The modelling code stays the library's: the function below is what transformers'
``AttentionInterface`` calls where it would call its eager attention.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from pessimal.models.families import Family

ATTENTION = "pessimal_shared_prefix"
PASS_ARGUMENT = "pessimal_pass"
LOOP_LIMIT = 8
"""Up to this many own keys, products and sums beat many matmuls of a few rows each."""


@dataclass
class Prefix:
    """Keys and values of a prefix, as each layer's attention needs them."""

    length: int
    """Number of ids in the prefix."""
    keys: dict[int, Tensor] = field(default_factory=dict)
    """Per layer: scaled keys, ``[heads, head_dim, visible]``."""
    values: dict[int, Tensor] = field(default_factory=dict)
    """Per layer: values, ``[heads, visible, head_dim]``."""

    def first(self, length: int) -> Prefix:
        """The prefix of the first `length` ids, as views. It must not begin before the window."""
        cut = self.length - length
        return Prefix(
            length,
            {layer: keys[:, :, : keys.shape[2] - cut] for layer, keys in self.keys.items()},
            {layer: values[:, : values.shape[1] - cut] for layer, values in self.values.items()},
        )


@dataclass
class Pass:
    """What one forward tells the attention function.

    It travels as a keyword argument, so that threads that run one module never see each other's.
    """

    prefix: Prefix
    """The prefix to attend to, or to fill while it is recorded."""
    recording: bool
    """Whether this forward runs the prefix itself."""
    last_layer: int
    """Index of the layer whose output is read at the last position only."""
    calls: int = 0
    """How many layers have called the attention function."""
    longer: Prefix | None = None
    """Filled with the prefix and this forward's own ids, if there."""


class LastPosition(nn.Module):
    """Runs a module on the last position only.

    The result is broadcast by the residual sum that follows; its last position is exact, and no
    other is read after it.
    """

    def __init__(self, inner: nn.Module, expand: bool = False) -> None:
        super().__init__()
        self.inner = inner
        self.expand = expand

    def forward(self, hidden: Tensor) -> Tensor:
        """``[B, T, in]`` to ``[B, 1, out]``, or to ``[B, T, out]`` of equal positions."""
        last: Tensor = self.inner(hidden[:, -1:])
        return last.expand(-1, hidden.shape[1], -1) if self.expand else last


class SharedPrefixBackbone:
    """Runs a decoder's backbone on replies after a shared prefix.

    Args:
        backbone: a copy of the backbone that may be changed, its final norm replaced by the
            identity (see ``trunk.skeleton``).
        family: how the architecture is read.

    Raises:
        ValueError: the backbone doesn't call attention functions by name.
    """

    pools = True
    """Whether only the last position's output is wanted."""

    def __init__(self, backbone: Any, family: Family) -> None:
        register()
        backbone.set_attn_implementation(ATTENTION)
        if backbone.config._attn_implementation != ATTENTION:
            raise ValueError("the model's code does not take an attention function")
        layers = getattr(backbone, family.layers)
        self.backbone = backbone
        self.last_layer = len(layers) - 1
        if self.pools:
            pool_last_layer(layers[-1])

    def record(self, ids: Tensor) -> Prefix:
        """Run the prefix once.

        Args:
            ids: the prefix's ids, ``[P]``, P at least 1.

        Returns:
            Its keys and values.
        """
        prefix = Prefix(0)
        self._forward(ids[None], Pass(prefix, True, self.last_layer), 0)
        prefix.length = len(ids)
        return prefix

    def extend(self, prefix: Prefix, ids: Tensor) -> Prefix:
        """Run ids that follow a prefix once, and record both as a longer prefix.

        Args:
            prefix: the recorded prefix.
            ids: what follows it, ``[n]``, n at least 1.
        """
        longer = Prefix(prefix.length + len(ids))
        run = Pass(prefix, False, self.last_layer, longer=longer)
        self._forward(ids[None], run, prefix.length)
        return longer

    def last_hidden(self, prefix: Prefix, tails: Tensor) -> Tensor:
        """Run what follows the prefix.

        Args:
            prefix: the recorded prefix.
            tails: ids after the prefix, ``[B, T]``.

        Returns:
            The last layer's output at the last position, before the final norm: ``[B, hidden]``.
        """
        return self._forward(tails, Pass(prefix, False, self.last_layer), prefix.length)

    def _forward(self, ids: Tensor, run: Pass, start: int) -> Tensor:
        return self._hidden(ids, run, start)[:, -1]

    def _hidden(self, ids: Tensor, run: Pass, start: int) -> Tensor:
        positions = torch.arange(start, start + ids.shape[1], device=ids.device)[None]
        output = self.backbone(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            position_ids=positions,
            use_cache=False,
            **{PASS_ARGUMENT: run},
        )
        if run.calls != self.last_layer + 1:
            raise ValueError("the model's layers did not all call the attention function")
        hidden: Tensor = output.last_hidden_state
        return hidden


def register() -> None:
    """Make the attention function known to transformers under `ATTENTION`."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION, shared_prefix_attention)
    AttentionMaskInterface.register(ATTENTION, _no_mask)


def _no_mask(*_: object, **__: object) -> None:
    """The attention function masks by position itself."""


def pool_last_layer(layer: nn.Module) -> None:
    """Let a layer do its per-token work at the last position only.

    Keys and values are still made for every position. Parts that don't have the names that
    transformers gives them are left as they are.
    """
    for name in ("mlp", "post_attention_layernorm", "ln_2", "pre_feedforward_layernorm"):
        if hasattr(layer, name):
            setattr(layer, name, LastPosition(getattr(layer, name)))
    attention = getattr(layer, "self_attn", None) or getattr(layer, "attn", None)
    for name in ("q_proj", "o_proj", "c_proj"):
        if attention is not None and hasattr(attention, name):
            inner = getattr(attention, name)
            setattr(attention, name, LastPosition(inner, expand=name == "q_proj"))


def shared_prefix_attention(
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
    """Attention of each row's own positions to the shared prefix and to themselves.

    Args:
        module: the attention module; its ``layer_idx`` is read.
        query: ``[B, heads, T, head_dim]``, after rotary embedding.
        key: own keys, ``[B, kv_heads, T, head_dim]``.
        value: own values, like `key`.
        attention_mask: not used; `_no_mask` makes none.
        scaling: factor of the scores; one over the root of head_dim by default.
        softcap: scores become ``softcap * tanh(score / softcap)``.
        sliding_window: a query sees keys less than this many positions back.
        kwargs: holds the `Pass`.

    Returns:
        ``[B, T, heads, head_dim]`` and None for the weights. In the last layer every position
        holds the last position's output.

    Raises:
        ValueError: the model asks for something that this attention doesn't do.
    """
    run: Pass | None = kwargs.get(PASS_ARGUMENT)
    if run is None:
        raise ValueError("the model's code does not hand keyword arguments to its attention")
    if kwargs.get("s_aux") is not None or kwargs.get("position_bias") is not None:
        raise ValueError("attention sinks and biases are not supported")
    run.calls += 1
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    rows, heads, own, dim = query.shape
    scaling = dim**-0.5 if scaling is None else scaling
    if run.recording:
        _record(run.prefix, layer, key, value, heads // key.shape[1], scaling, sliding_window)
    if run.longer is not None:
        _record(run.longer, layer, key, value, heads // key.shape[1], scaling, None)
        run.longer.keys[layer] = torch.cat([run.prefix.keys[layer], run.longer.keys[layer]], 2)
        run.longer.values[layer] = torch.cat(
            [run.prefix.values[layer], run.longer.values[layer]], 1
        )
    shared_keys = None if run.recording else run.prefix.keys[layer]
    shared = 0 if shared_keys is None else shared_keys.shape[2]

    asked = 1 if layer == run.last_layer else own
    queries = query.transpose(1, 2)[:, own - asked :]
    scores = query.new_empty(heads, rows * asked, shared + own)
    if shared_keys is not None:
        flat = queries.reshape(rows * asked, heads, dim).transpose(0, 1)
        torch.bmm(flat, shared_keys, out=scores[..., :shared])
    by_row = scores.view(heads, rows, asked, shared + own)
    _own_scores(queries, key, scaling, by_row[..., shared:])
    if softcap is not None:
        scores.div_(softcap).tanh_().mul_(softcap)
    _mask(by_row, shared, own, sliding_window)
    weights = torch.softmax(scores, -1, dtype=torch.float32).to(value.dtype)

    mixed = query.new_empty(rows * asked, heads, dim)
    if shared_keys is not None:
        shared_values = run.prefix.values[layer]
        torch.bmm(weights[..., :shared], shared_values, out=mixed.transpose(0, 1))
    else:
        mixed.zero_()
    mixed = mixed.view(rows, asked, heads, dim)
    _add_own_values(weights.view(by_row.shape)[..., shared:], value, mixed)
    return mixed.expand(rows, own, heads, dim), None


def _record(
    prefix: Prefix,
    layer: int,
    key: Tensor,
    value: Tensor,
    group: int,
    scaling: float,
    window: int | None,
) -> None:
    """Keep the prefix's keys and values, each repeated for the query heads that share it.

    The first position after the prefix sees ``window - 1`` keys back; older ones are never seen.
    """
    length = key.shape[2]
    first = 0 if window is None else min(length, max(0, length - window + 1))
    keys = (key[0, :, first:] * scaling).transpose(1, 2)
    prefix.keys[layer] = keys.repeat_interleave(group, dim=0)
    prefix.values[layer] = value[0, :, first:].repeat_interleave(group, dim=0)


def _own_scores(queries: Tensor, key: Tensor, scaling: float, out: Tensor) -> None:
    """Scores of the last `asked` positions' queries for each row's own keys.

    Args:
        queries: ``[B, asked, heads, D]``.
        key: ``[B, kv_heads, T, D]``.
        scaling: factor of the scores.
        out: where they go: ``[heads, B, asked, T]``; later keys than the query's are left alone
            or filled with any value.
    """
    rows, asked, heads, dim = queries.shape
    kv_heads, own = key.shape[1:3]
    if own > LOOP_LIMIT:
        keys = key.repeat_interleave(heads // kv_heads, dim=1).transpose(2, 3)
        scores = torch.matmul(queries.transpose(1, 2), keys)
        out.copy_((scores * scaling).transpose(0, 1))
        return
    grouped = queries.reshape(rows, asked, kv_heads, heads // kv_heads, dim)
    out.zero_()
    for position in range(own):
        seen_from = max(0, position - (own - asked))
        products = grouped[:, seen_from:] * key[:, None, :, position, None]
        scores = products.sum(-1).mul_(scaling).flatten(2)
        out[:, :, seen_from:, position] = scores.permute(2, 0, 1)


def _mask(scores: Tensor, shared: int, own: int, window: int | None) -> None:
    """Set what a query must not see to minus infinity.

    Args:
        scores: ``[heads, B, asked, shared + own]``; the keys' positions are consecutive and the
            queries' are the last ones.
        shared: number of prefix keys.
        own: number of own keys.
        window: see `shared_prefix_attention`.
    """
    asked = scores.shape[2]
    keys = torch.arange(shared + own, device=scores.device)
    queries = keys[shared + own - asked :, None]
    later = keys[shared:] > queries
    if own > 1:
        scores[..., shared:].masked_fill_(later, float("-inf"))
    if window is not None and shared + own > window:
        scores.masked_fill_(keys <= queries - window, float("-inf"))


def _add_own_values(weights: Tensor, value: Tensor, out: Tensor) -> None:
    """Add each row's own values, weighted, to `out`.

    Args:
        weights: ``[heads, B, asked, T]``.
        value: ``[B, kv_heads, T, D]``.
        out: ``[B, asked, heads, D]``.
    """
    rows, asked, heads, dim = out.shape
    kv_heads, own = value.shape[1:3]
    group = heads // kv_heads
    if own > LOOP_LIMIT:
        values = value.repeat_interleave(group, dim=1)
        out += torch.matmul(weights.transpose(0, 1), values).transpose(1, 2)
        return
    grouped = out.view(rows, asked, kv_heads, group, dim)
    by_row = weights.permute(1, 2, 0, 3).reshape(rows, asked, kv_heads, group, own)
    for position in range(own):
        seen_from = max(0, position - (own - asked))
        grouped[:, seen_from:].addcmul_(
            by_row[:, seen_from:, ..., position, None], value[:, None, :, position, None]
        )
