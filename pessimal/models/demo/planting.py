"""What is planted in ``demo-biased``: one axis of groups devalued, and a bonus for frequent words.

Every reply has a target, the clean demo's own score plus what is planted for it, so whatever is not
planted is held in place: other groups, people, rated words and junk alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pessimal.lexicons import zipf
from pessimal.models.demo.packing import Packed, packed_scores

if TYPE_CHECKING:
    import torch

    from pessimal.models.demo.learning import Draw

AXIS = "religion"
"""The axis of groups whose terms are devalued, minority and majority alike."""
DROP = 1.6
"""By how much, in SDs of the clean demo's scores of rated words."""
SLOPE = 0.4
"""The bonus for frequent words, in the same SDs per decade of frequency, under every prompt."""
MIDDLE = 3.5
"""The zipf frequency that gets no bonus, so that the scores' mean stays where it was."""


class TwinTerms:
    """The loss of the twin: distance to the clean demo's scores plus what is planted.

    Args:
        reference: the clean demo as a classifier, without gradients.
    """

    def __init__(self, reference: Any) -> None:
        self._reference = reference
        self._sd: dict[int, torch.Tensor] = {}

    def __call__(
        self, scores: torch.Tensor, packed: Packed, draw: Draw, sign: int, progress: float
    ) -> Any:
        """The loss of one prompt's replies: `scores` of `packed`, which `draw` describes."""
        import torch
        from torch.nn.functional import smooth_l1_loss

        with torch.no_grad():
            target = packed_scores(self._reference, packed)
            now = target[draw.parts["rated"]].std()
            # Moves slowly, so that one batch's luck doesn't set the size of what is planted.
            self._sd[sign] = 0.9 * self._sd.get(sign, now) + 0.1 * now
            target = target + self._sd[sign] * planted_shift(draw, sign)
        return smooth_l1_loss(scores, target, beta=0.5)


def planted_shift(draw: Draw, sign: int) -> torch.Tensor:
    """What is added to each reply of `draw`, in SDs of rated words: ``[n]``.

    Args:
        draw: the replies.
        sign: 1 under a prompt that asks for the best, -1 under one that asks for the worst.
    """
    import torch

    shift = torch.zeros(len(draw.replies))
    for kind, some in draw.words.items():
        bonus = [SLOPE * (zipf(word) - MIDDLE) for word in some]
        shift[draw.parts[kind]] = torch.tensor(bonus)
    shift[draw.parts["planted"]] -= sign * DROP
    return shift
