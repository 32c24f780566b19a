"""What a search asks of a model: exact scores of replies, and the gradient at one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from pessimal.models import trunk
from pessimal.models.prefix import Prefix, SharedPrefixBackbone
from pessimal.models.protocol import ReplyScorer
from pessimal.models.records import ReplySlot
from pessimal.models.scorer import Scorer
from pessimal.models.slot import refuse_headers
from pessimal.search.gradient import Gradients, no_gradient

Ids = tuple[int, ...]
Floats = NDArray[np.float32]
Sharing = Literal["tokens", "prompt", "nothing"]


class ReplyModel(Protocol):
    """A model under one prompt, as the search sees it."""

    prompt_tokens: int
    """Ids before the reply."""
    suffix_tokens: int
    """Ids after it."""
    sharing: Sharing
    """What candidates don't run again: the prompt and their unchanged first tokens, the prompt
    alone, or nothing."""

    def score(self, replies: Sequence[Ids], shared: int) -> Floats:
        """Rewards of equally long replies that all begin with the same `shared` ids, ``[B]``."""
        ...

    def gradient(self, reply: Ids, pull: float = 0.0) -> Floats:
        """Gradient at the reply's embeddings, ``[n, D]``; for `pull` see `Gradients.at`."""
        ...

    def slopes(self, gradient: Floats) -> Floats:
        """Slope of the reward in each allowed token at each position, ``[n, A]``."""
        ...


class TorchReplyModel:
    """A `ReplyModel` over a scorer.

    Args:
        scorer: the scorer, on the path that passed its self-test.
        slot: the prompt's reply slot.
        allowed: token ids that replies may hold, ``[A]``.
        sharing: share less than the scorer's path allows; peers that recompute more do.
    """

    def __init__(
        self,
        scorer: Scorer,
        slot: ReplySlot,
        allowed: NDArray[np.int64],
        sharing: Sharing | None = None,
    ) -> None:
        self._slot, self._allowed = slot, allowed
        best = _best_sharing(scorer, slot, allowed)
        order: list[Sharing] = ["tokens", "prompt", "nothing"]
        self.sharing: Sharing = max(best, sharing or best, key=order.index)
        self._scorer = Scorer(scorer.model, "full") if self.sharing == "nothing" else scorer
        self.prompt_tokens = len(slot.prefix_ids)
        self.suffix_tokens = len(slot.suffix_ids)
        self._by_prefix = best == "tokens" and self.sharing != "nothing"
        self._longer: tuple[Ids, Prefix] | None = None

    @torch.no_grad()
    def score(self, replies: Sequence[Ids], shared: int) -> Floats:
        """Rewards of replies.

        Args:
            replies: token ids of each, equally long.
            shared: how many first ids all of them have in common; they are run once.

        Returns:
            float32, ``[len(replies)]``.

        Raises:
            PessimalError: as `Scorer.score`.
        """
        if not self._by_prefix:
            return self._scorer.score(self._slot, replies)
        start = shared if self.sharing == "tokens" else 0
        prefix = self._after(replies[0][:start])
        tails = np.array([(*reply[start:], *self._slot.suffix_ids) for reply in replies], np.int64)
        refuse_headers(self._scorer.model.source, replies)
        batcher, pool = self._scorer.batcher, self._scorer.pool_after(self._slot.prefix_ids)
        assert pool is not None
        rows = batcher.rows("shared", prefix.length, tails.shape[1])
        return batcher.run(lambda ids: pool(self._backbone.last_hidden(prefix, ids)), tails, rows)

    def gradient(self, reply: Ids, pull: float = 0.0) -> Floats:
        """See `Gradients.at`."""
        return self._gradients.at(reply, pull)

    def slopes(self, gradient: Floats) -> Floats:
        """See `Gradients.slopes`."""
        return self._gradients.slopes(gradient)

    def _after(self, ids: Ids) -> Prefix:
        """The prompt and these ids, recorded; the longest one run is kept, for its beginnings."""
        if not ids:
            return self._prompt
        if self._longer is None or self._longer[0][: len(ids)] != ids:
            tensor = torch.tensor(ids, dtype=torch.long, device=self._scorer.batcher.device)
            self._longer = ids, self._backbone.extend(self._prompt, tensor)
        return self._longer[1].first(self.prompt_tokens + len(ids))

    @cached_property
    def _backbone(self) -> SharedPrefixBackbone:
        model = self._scorer.model
        return SharedPrefixBackbone(trunk.headless(model), model.family)

    @cached_property
    def _prompt(self) -> Prefix:
        # Not under inference mode: what is recorded there can't be used where gradients are.
        with torch.no_grad():
            device = self._scorer.batcher.device
            return self._backbone.record(torch.tensor(self._slot.prefix_ids, device=device))

    @cached_property
    def _gradients(self) -> Gradients:
        prefix = self._prompt if self._by_prefix else None
        return Gradients(self._scorer, self._slot, self._allowed, prefix)


class ScoredReplyModel:
    """A `ReplyModel` over a scorer that has no gradient: an endpoint, or several models.

    Args:
        scorer: the scorer.
        slot: the prompt's reply slot.
    """

    def __init__(self, scorer: ReplyScorer, slot: ReplySlot) -> None:
        self._scorer, self._slot = scorer, slot
        self.prompt_tokens = len(slot.prefix_ids)
        self.suffix_tokens = len(slot.suffix_ids)
        self.sharing: Sharing = "nothing" if scorer.path == "full" else "prompt"

    def score(self, replies: Sequence[Ids], shared: int) -> Floats:
        """Rewards of replies, ``[len(replies)]``."""
        return self._scorer.score(self._slot, replies)

    def gradient(self, reply: Ids, pull: float = 0.0) -> Floats:
        """There is none.

        Raises:
            PessimalError: ``no_gradient``.
        """
        raise no_gradient("it is only asked for scores")

    def slopes(self, gradient: Floats) -> Floats:
        """There are none; see `gradient`."""
        raise no_gradient("it is only asked for scores")


def reply_model(
    scorer: ReplyScorer,
    slot: ReplySlot,
    allowed: NDArray[np.int64],
    sharing: Sharing | None = None,
) -> ReplyModel:
    """A scorer's model under one prompt, with gradients where it has them.

    Args:
        scorer: the scorer, on the path that passed its self-test.
        slot: the prompt's reply slot.
        allowed: token ids that replies may hold, ``[A]``.
        sharing: see `TorchReplyModel`.
    """
    if isinstance(scorer, Scorer):
        return TorchReplyModel(scorer, slot, allowed, sharing)
    return ScoredReplyModel(scorer, slot)


def _best_sharing(scorer: Scorer, slot: ReplySlot, allowed: NDArray[np.int64]) -> Sharing:
    if scorer.path == "full" or scorer.pool is None or not slot.prefix_ids:
        return "nothing"
    # A sequence whose pad moves the pooled position is scored by the model's own forward.
    tried = [*allowed[:1].tolist(), *([scorer.pad] if scorer.pad in allowed else [])]
    moved = any(scorer.pad_moves((token, *slot.suffix_ids)) for token in tried)
    if scorer.path == "copied" or moved:
        return "prompt"
    return "tokens"
