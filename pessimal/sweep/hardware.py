"""What a model would need on machines that aren't this one: arithmetic, and no measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GPU_EFFICIENCY = 0.5
"""Assumed share of the published rate; nothing here was measured on these GPUs."""
MEMORY_SHARE = 0.9
"""Share of a GPU's memory that a process can have."""
BATCH_TOKENS = 16_384
"""Tokens of a batch on an accelerator."""
BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Gpu:
    """A GPU as its maker describes it."""

    name: str
    bfloat16: float
    """Dense bfloat16 matmuls, FLOP/s."""
    float32: float
    """Float32 without TF32, whose 10-bit mantissa exact scores can't have; FLOP/s."""
    memory_gb: float
    """Memory in 10^9 bytes."""


GPUS = (
    Gpu("A10G", 70e12, 31.2e12, 24),
    Gpu("L4", 121e12, 30.3e12, 24),
    Gpu("A100-80GB", 312e12, 19.5e12, 80),
    Gpu("H100", 989e12, 67e12, 80),
)
"""From the makers' data sheets; the H100 in its SXM form."""


@dataclass(frozen=True)
class Size:
    """A model's size and a prompt's."""

    parameters: int
    """All parameters, the embeddings included."""
    hidden: int
    inner: int
    layers: int
    heads: int
    head_dim: int
    prefix: int
    """Ids of the longest prompt."""
    tail: int
    """Ids after it, for a reply of one token."""


def size_of(config: Any, parameters: int, prefix: int, tail: int) -> Size:
    """The size of a model from its config; names that differ are filled in by the usual rules."""
    text = config.get_text_config()
    hidden = int(getattr(text, "hidden_size", None) or 4096)
    heads = int(getattr(text, "num_attention_heads", None) or 32)
    return Size(
        parameters=parameters,
        hidden=hidden,
        inner=int(getattr(text, "intermediate_size", None) or 4 * hidden),
        layers=int(getattr(text, "num_hidden_layers", None) or 32),
        heads=heads,
        head_dim=int(getattr(text, "head_dim", None) or hidden // heads),
        prefix=prefix,
        tail=tail,
    )


def memory(size: Size, dtype: str) -> dict[str, int]:
    """Bytes of the weights, of one prompt's keys and values, and at the peak, in `dtype`."""
    item = BYTES[dtype]
    weights = size.parameters * item
    cache = 2 * size.layers * size.heads * size.head_dim * size.prefix * item
    activations = BATCH_TOKENS * (8 * size.hidden + 3 * size.inner) * item
    attention = 3 * size.heads * BATCH_TOKENS * (size.prefix + size.tail) * 4
    return {"weight_bytes": weights, "cache_bytes": cache,
            "peak_bytes": weights + cache + activations + attention}  # fmt: skip


def estimates(flops: float, size: Size) -> list[dict[str, Any]]:
    """Each GPU's time for the scoring, and whether the model fits, in both dtypes."""
    return [
        {
            "name": gpu.name, "dtype": dtype, "estimate": True,
            "fits": memory(size, dtype)["peak_bytes"] <= MEMORY_SHARE * gpu.memory_gb * 1e9,
            "seconds": flops / (getattr(gpu, dtype) * GPU_EFFICIENCY),
        }
        for gpu in GPUS
        for dtype in BYTES
    ]  # fmt: skip
