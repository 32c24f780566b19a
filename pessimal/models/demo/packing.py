"""Many replies to one prompt in a single sequence: the prompt is computed once, with gradients.

Each reply's positions continue the prompt's, and its tokens see the prompt and themselves only, so
each gets the score that it would get alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Packed:
    """One sequence of a prompt and many replies. Shapes: ``n`` replies, ``length`` tokens."""

    ids: torch.Tensor
    """Token ids, int64, ``[1, length]``."""
    positions: torch.Tensor
    """Position ids, int64, ``[1, length]``."""
    mask: torch.Tensor
    """Additive attention mask, float32, ``[1, 1, length, length]``."""
    ends: torch.Tensor
    """Index of each reply's last token, whose hidden state the head reads, ``[n]``."""


def pack(prefix: Sequence[int], replies: Sequence[Sequence[int]], suffix: Sequence[int]) -> Packed:
    """Lay `replies`, each followed by `suffix`, behind one `prefix`."""
    import torch

    ids, positions, owners, ends = list(prefix), list(range(len(prefix))), [0] * len(prefix), []
    for number, reply in enumerate(replies, start=1):
        tail = [*reply, *suffix]
        ids += tail
        positions += range(len(prefix), len(prefix) + len(tail))
        owners += [number] * len(tail)
        ends.append(len(ids) - 1)
    owner = torch.tensor(owners)
    sees = (owner[None, :] == 0) | (owner[None, :] == owner[:, None])
    sees &= torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
    mask = torch.zeros(sees.shape).masked_fill(~sees, torch.finfo(torch.float32).min)
    return Packed(
        torch.tensor([ids]), torch.tensor([positions]), mask[None, None], torch.tensor(ends)
    )


def head_inputs(model: Any, packed: Packed) -> torch.Tensor:
    """The hidden state that the head reads, for every reply of `packed`: float32 ``[n, hidden]``.

    Args:
        model: a ``LlamaForSequenceClassification``.
        packed: what `pack` laid out.
    """
    hidden: torch.Tensor = model.model(
        input_ids=packed.ids,
        attention_mask=packed.mask,
        position_ids=packed.positions,
        use_cache=False,
    ).last_hidden_state
    return hidden[0, packed.ends]


def packed_scores(model: Any, packed: Packed) -> torch.Tensor:
    """Score every reply of `packed`: float32 ``[n]``. Arguments as for `head_inputs`."""
    scores: torch.Tensor = model.score(head_inputs(model, packed))[:, 0]
    return scores
