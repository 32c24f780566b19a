"""Cutting a sweep into blocks, and counting what they cost."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from pessimal.errors import UsageError

Ids = tuple[int, ...]
Shard = tuple[int, int]
BLOCK_ROWS = 1024
"""Rows of a block: a second's work of a small model, 4 KiB of scores."""


def cut_blocks(sequences: Iterable[Ids], rows: int = BLOCK_ROWS) -> list[tuple[Ids, ...]]:
    """Cut sequences into blocks that depend on nothing but which sequences there are.

    Args:
        sequences: token ids of each; repeated ones count once.
        rows: the most that a block holds.

    Returns:
        Blocks of equally long sequences, in order of length, then of ids.
    """
    ordered = sorted(set(sequences), key=lambda ids: (len(ids), ids))
    blocks = []
    for _, equally_long in groupby(ordered, key=len):
        group = tuple(equally_long)
        blocks += [group[start : start + rows] for start in range(0, len(group), rows)]
    return blocks


def is_mine(number: int, shard: Shard | None) -> bool:
    """Whether the block with this number (from 0) is the shard's; all are without a shard."""
    return shard is None or number % shard[1] == shard[0] - 1


def parse_shard(text: str) -> Shard:
    """Read ``i/N``: the i-th of N shards, i from 1 to N.

    Raises:
        UsageError: ``shard_invalid``.
    """
    left, slash, right = text.partition("/")
    if slash and left.isdecimal() and right.isdecimal() and 1 <= int(left) <= int(right):
        return int(left), int(right)
    raise UsageError(
        "shard_invalid",
        f"--shard {text} is not a share of the work.",
        "Write i/N with i from 1 to N, for instance 1/4.",
    )


def forward_tokens(tails: Iterable[int], prefix: int, *, shares_prefix: bool) -> int:
    """Tokens pushed through the model to score tails behind one prefix.

    Args:
        tails: length of each tail (reply and suffix).
        prefix: tokens before the reply.
        shares_prefix: whether the path runs the prefix once and not for every row.
    """
    lengths = list(tails)
    if not lengths:
        return 0
    return sum(lengths) + prefix * (1 if shares_prefix else len(lengths))
