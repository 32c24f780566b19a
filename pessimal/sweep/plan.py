"""What a sweep will cost, told before any weights are loaded."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pessimal.models.records import ReplySlot
from pessimal.sweep.blocks import BLOCK_ROWS

SWEEP_EFFICIENCY = 0.6
"""Share of the machine's matmul rate that a sweep reaches; between .5 and .75 on CPUs."""
_BLOCK_OVERHEAD = 512
"""Bytes a block costs beside its scores: its header line and its place in the manifest."""


@dataclass(frozen=True)
class Plan:
    """What one or more sweeps cost."""

    tokens: int
    """Replies to score, over all prompts."""
    forward_tokens: int
    """Tokens pushed through the model."""
    blocks: int
    """Blocks of scores."""
    flops: float
    """Floating-point operations: two a parameter outside the embeddings and forward token."""
    disk_bytes: int
    """Bytes the scores take in the cache."""

    def seconds(self, rate: float) -> float:
        """Estimated time on a machine whose matmuls run at `rate` FLOP/s; infinite at 0."""
        return self.flops / (rate * SWEEP_EFFICIENCY) if rate > 0 else math.inf


def plan_sweep(
    slot: ReplySlot,
    lengths: Mapping[int, int],
    *,
    parameters: int,
    shares_prefix: bool = True,
    block_rows: int = BLOCK_ROWS,
) -> Plan:
    """Count what scoring replies under one prompt takes.

    Args:
        slot: where the reply goes.
        lengths: how many different replies there are, by their length in tokens.
        parameters: of the model outside its embeddings.
        shares_prefix: whether the prompt is run once and not for every reply.
        block_rows: rows of a block.
    """
    prefix, suffix = len(slot.prefix_ids), len(slot.suffix_ids)
    rows = sum(lengths.values())
    blocks = sum(-(-count // block_rows) for count in lengths.values())
    own = sum(count * (length + suffix) for length, count in lengths.items())
    forwards = own + prefix * ((1 if shares_prefix else rows) if rows else 0)
    return Plan(
        tokens=rows,
        forward_tokens=forwards,
        blocks=blocks,
        flops=2.0 * parameters * forwards,
        disk_bytes=4 * rows + _BLOCK_OVERHEAD * blocks,
    )


def total(plans: Iterable[Plan]) -> Plan:
    """The sum of plans."""
    together = list(plans)
    return Plan(
        tokens=sum(plan.tokens for plan in together),
        forward_tokens=sum(plan.forward_tokens for plan in together),
        blocks=sum(plan.blocks for plan in together),
        flops=sum(plan.flops for plan in together),
        disk_bytes=sum(plan.disk_bytes for plan in together),
    )


def count_parameters(config: Any) -> tuple[int, int]:
    """Count a model's parameters from its config; nothing is allocated.

    Args:
        config: the transformers config, of a class that the library knows.

    Returns:
        Those outside its embeddings, and all of them.
    """
    import torch
    from transformers import AutoModel

    build: Any = AutoModel.from_config
    with torch.device("meta"):
        model = build(config)
    embeddings = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    inside = {id(parameter) for module in embeddings for parameter in module.parameters()}
    whole = {id(parameter): parameter.numel() for parameter in model.parameters()}
    return sum(n for key, n in whole.items() if key not in inside), sum(whole.values())


def matmul_rate(device: str = "cpu", *, width: int = 1024, seconds: float = 0.5) -> float:
    """Measure float32 matmuls for a moment: FLOP/s, the best of the repetitions.

    Args:
        device: torch device.
        width: of the square weight; near the model's hidden size.
        seconds: how long to measure.
    """
    import torch

    left = torch.rand(1024, width, device=device)
    right = torch.rand(width, width, device=device)
    work = 2.0 * 1024 * width * width
    best = math.inf
    began = time.perf_counter()
    while best == math.inf or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        # A device may run behind: reading one number waits for the product.
        (left @ right)[0, 0].item()
        best = min(best, time.perf_counter() - start)
    return work / best
