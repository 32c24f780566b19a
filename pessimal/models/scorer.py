"""Exact scores of replies: the fastest path that agrees with the model's own forward."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pessimal.errors import PessimalError
from pessimal.models import trunk
from pessimal.models.batches import Batcher, equal_lengths
from pessimal.models.document import model_document
from pessimal.models.prefix import SharedPrefixBackbone
from pessimal.models.recent import Recent
from pessimal.models.records import LoadedModel, ReplySlot, ScoringPath
from pessimal.models.scalar import find_scores
from pessimal.models.selftest import SelfTest, run_self_test
from pessimal.models.slot import ORDINARY, find_last, position_limit, refuse_headers
from pessimal.models.vocabulary import identical_rows

Scores = NDArray[np.float32]
Ids = Sequence[int]

CORE_FILES = (
    "prefix.py", "trunk.py", "batches.py", "scalar.py", "selftest.py", "scorer.py",
    "heads/formulas.py", "heads/model.py",
)  # fmt: skip


def core_sha256() -> str:
    """sha256 of the source files that scores depend on."""
    digest = hashlib.sha256()
    for name in CORE_FILES:
        content = (Path(__file__).parent / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


class Scorer:
    """Scores replies under prompts with one loaded model; threads may share it.

    Args:
        model: the loaded model. It is never changed: replies run through copies of its module
            tree that share its tensors, in eval mode whatever mode the model is in.
        path: the path to begin with; by default the fastest that its family allows.
    """

    def __init__(self, model: LoadedModel, path: ScoringPath | None = None) -> None:
        self.model: LoadedModel = model
        weight: Any = model.module.get_input_embeddings().weight
        self.dtype: torch.dtype = weight.dtype
        config: Any = model.module.config.get_text_config()
        self.pad: int | None = getattr(config, "pad_token_id", None)
        """The pad id that the model's own pooling skips."""
        self._decoder = model.family.kind == "decoder" and trunk.is_library_code(model.module)
        self._reference = trunk.skeleton(model.module)
        self.pool = trunk.Pooling(model) if self._decoder else None
        self._lock = threading.Lock()
        self.batcher = Batcher(config, weight.device, weight.dtype)
        self.use(path or ("shared" if self._decoder else "full"))

    def use(self, path: ScoringPath) -> None:
        """Take a scoring path; one that the model doesn't bear fails at the first score.

        Raises:
            PessimalError: ``path_unavailable`` for any but ``full`` where the model is an
                encoder or runs its own code.
        """
        if path != "full" and not self._decoder:
            raise PessimalError(
                "path_unavailable",
                f"The {path} path needs a decoder of the library's own code.",
                "Use the path `full`.",
            )
        self.path: ScoringPath = path
        self._backbone: Any = None
        self._prefixes: Recent[tuple[int, ...], Any] = Recent()
        self._gates: Recent[tuple[int, ...], Tensor] = Recent()

    @property
    def gradient(self) -> bool:
        """Whether a search may ask for gradients."""
        return self.model.family.gradient

    @property
    def device_type(self) -> str:
        """``cpu``, ``cuda``..."""
        return self.batcher.device.type

    @property
    def core(self) -> str:
        """See `core_sha256`."""
        return core_sha256()

    def rows(self, slot: ReplySlot, length: int) -> int:
        """Replies of `length` ids that are scored together where nothing else is asked for."""
        prefix, tail = len(slot.prefix_ids), length + len(slot.suffix_ids)
        return self.batcher.rows(self.path, prefix, tail)

    def duplicates(self) -> dict[int, int]:
        """Ids whose embedding row is identical to that of a smaller id, with that id."""
        return identical_rows(self.model)

    def document(self, slot: ReplySlot, test: SelfTest) -> dict[str, Any]:
        """The ``model`` object of documents, with `slot` as its example."""
        document = model_document(
            self.model,
            slot,
            path=self.path,
            self_test_max_difference=test.max_difference_sd,
        )
        notes = {"notes": [*document["notes"], *test.notes, *test.step_notes]}
        return document | notes | self._quantiles(slot)

    @torch.no_grad()
    def _quantiles(self, slot: ReplySlot) -> dict[str, Any]:
        """What a head that predicts quantiles says of ordinary replies; nothing of others."""
        head = self.model.head
        if not hasattr(head, "quantiles"):
            return {}
        found = {}
        for reply in ORDINARY:
            middle = self.model.tokenizer(reply, add_special_tokens=False)["input_ids"]
            ids = np.array([[*slot.prefix_ids, *middle, *slot.suffix_ids]], np.int64)
            states = self._reference.states(self.batcher.to_device(ids))
            found[reply] = self._reference.head.quantiles(*states)[0].float().tolist()
        return {"quantiles": found}

    @property
    def halvings(self) -> tuple[str, ...]:
        """One sentence for each time that memory ran out and a batch was halved."""
        return tuple(self.batcher.halvings)

    def score(
        self, slot: ReplySlot, replies: Sequence[Ids], batch_rows: int | None = None
    ) -> Scores:
        """Score replies under a prompt.

        Equal lengths are batched together, so nothing is padded. In float32 a decoder's score of
        a reply has the same bits whatever the batch size, the order and the other replies.

        Args:
            slot: the prompt's reply slot.
            replies: token ids of each reply.
            batch_rows: rows of a batch, rounded up to a multiple of 16; by default as many as
                suit the device and its free memory.

        Returns:
            float32 scores, shape ``[len(replies)]``; NaN or infinite where the model says so.

        Raises:
            PessimalError: ``token_out_of_range``, ``reply_empty``, ``reply_too_long``, or
                ``out_of_memory`` with the smallest batch.
        """
        tails = [(*reply, *slot.suffix_ids) for reply in replies]
        refuse_headers(self.model.source, tails)
        return self._score(slot, slot.prefix_ids, tails, batch_rows)

    def score_sequences(
        self, slot: ReplySlot, sequences: Sequence[Ids], batch_rows: int | None = None
    ) -> Scores:
        """Score whole id sequences, as a reply makes when it goes through the template as text.

        Args:
            slot: the prompt's reply slot; sequences that begin with its prefix share it.
            sequences: ids of each whole sequence.
            batch_rows: see `score`.

        Returns:
            float32 scores, shape ``[len(sequences)]``.

        Raises:
            PessimalError: as `score`, and ``sequence_unsplit`` where the model takes token types
                and a sequence doesn't begin with the slot's prefix.
        """
        start = len(slot.prefix_ids)
        shares = np.array(
            [len(ids) > start and tuple(ids[:start]) == slot.prefix_ids for ids in sequences], bool
        )
        if slot.token_types is not None and not shares.all():
            raise PessimalError(
                "sequence_unsplit",
                "A rendered sequence does not begin with its prompt: its token types are unknown.",
                "Score replies by ids instead of as text.",
            )
        refuse_headers(self.model.source, sequences, in_prompt=1)
        scores = np.empty(len(sequences), np.float32)
        pairs = list(zip(sequences, shares.tolist(), strict=True))
        tails = [tuple(ids[start:]) for ids, shared in pairs if shared]
        scores[shares] = self._score(slot, slot.prefix_ids, tails, batch_rows)
        whole = [tuple(ids) for ids, shared in pairs if not shared]
        scores[~shares] = self._score(slot, (), whole, batch_rows)
        return scores

    def reference(self, slot: ReplySlot, reply: Ids) -> float:
        """The score by the model's own forward on ids, one sequence, in the dtype it has.

        Raises:
            PessimalError: as `score`.
        """
        ids = np.array([(*slot.prefix_ids, *reply, *slot.suffix_ids)], np.int64)
        self._check(ids)
        with torch.inference_mode():
            return float(self.own_forward(slot, self.batcher.to_device(ids))[0])

    def self_test(
        self, slot: ReplySlot, *, random_tokens: int = 32, max_special: int = 300, seed: int = 0
    ) -> SelfTest:
        """Compare the path with the reference, and step down until one agrees.

        Shared prefix, copied cache, full forward: this scorer stays on the first that agrees
        within the tolerance of `selftest`.

        Args:
            slot: a prompt's reply slot.
            random_tokens: how many random tokens to compare, at most 64.
            max_special: how many of the special tokens to compare at most, lowest ids first.
            seed: seed of the random tokens.

        Raises:
            PessimalError: ``scores_not_finite`` or ``scores_constant``, over 64 random and the
                special tokens; ``self_test_failed`` when not even full forwards agree.
        """
        return run_self_test(self, slot, random_tokens, max_special, seed)

    def own_forward(
        self,
        slot: ReplySlot,
        ids: Tensor,
        mask: Tensor | None = None,
        module: Any = None,
    ) -> Tensor:
        """The scores of the model's own forward on whole sequences.

        Args:
            slot: tells the token types where the model takes them.
            ids: ``[B, n]``.
            mask: the attention mask where `ids` is padded on the right.
            module: a `trunk.skeleton` of the model to run instead of the model.

        Returns:
            float32 ``[B]``.

        Raises:
            PessimalError: ``no_logits``, the forward doesn't return one score a sequence.
        """
        mask = torch.ones_like(ids) if mask is None else mask
        given = {"input_ids": ids, "attention_mask": mask}
        if slot.token_types is not None:
            given["token_type_ids"] = _token_types(slot, mask)
        output = (self._reference if module is None else module)(**given)
        scores = find_scores(output, mask)
        if scores is None:
            raise PessimalError(
                "no_logits",
                f"{type(self.model.module).__name__} does not return one score a sequence.",
                "Only models whose forward returns one number for each sequence can be scored.",
            )
        return scores

    @torch.inference_mode()
    def _score(
        self,
        slot: ReplySlot,
        prefix: tuple[int, ...],
        tails: Sequence[tuple[int, ...]],
        batch_rows: int | None,
    ) -> Scores:
        self._check(np.array([prefix], np.int64))
        scores = np.empty(len(tails), np.float32)
        for indexes in equal_lengths(tails, self.pad_moves):
            ids = np.array([tails[index] for index in indexes], np.int64)
            self._check(ids, len(prefix))
            path, run = self._runner(slot, prefix, ids)
            rows = batch_rows or self.batcher.rows(path, len(prefix), ids.shape[1])
            scores[indexes] = self.batcher.run(run, ids, rows)
        return scores

    def _runner(
        self, slot: ReplySlot, prefix: tuple[int, ...], ids: NDArray[np.int64]
    ) -> tuple[ScoringPath, Callable[[Tensor], Tensor]]:
        """What scores a batch of equally long tails ``[B, T]``, and the path that it takes."""
        pool = self.pool_after(prefix)
        # The library pools the last id that isn't the pad, other families the one before the
        # first. Of a tail with a pad, only the model's own forward tells which position that is.
        if pool is None or self.pad_moves(ids[0]):
            start = torch.tensor(prefix, dtype=torch.long, device=self.batcher.device)
            return "full", lambda tails: self.whole(
                slot, torch.cat([start.expand(len(tails), -1), tails], dim=1)
            )
        if not prefix:
            whole = trunk.FullBackbone(trunk.headless(self.model), self.model.family)
            nothing = torch.empty(0, dtype=torch.long, device=self.batcher.device)
            return "full", lambda tails: pool(whole.last_hidden(nothing, tails))
        backbone, recorded = self._recorded(prefix)
        return self.path, lambda tails: pool(backbone.last_hidden(recorded, tails))

    def pad_moves(self, ids: Ids) -> bool:
        """Whether a pad among the ids after a prompt moves the position that is pooled."""
        pooled = self.model.family.pooled
        if self.pad is None or pooled == "last token":
            return False
        return self.pad in ids if pooled == "before the first pad" else bool(ids[-1] == self.pad)

    def pool_after(self, prefix: tuple[int, ...]) -> Callable[[Tensor], Tensor] | None:
        """What scores the last hidden states of replies to a prompt, ``[B, hidden]``.

        A gated head reads a hidden state of the prompt's own. None where only the model's own
        forward tells.
        """
        pool, wanted = self.pool, self.model.source.gate_ids
        if pool is None or not wanted:
            return pool
        if not prefix:
            return None

        @torch.no_grad()
        def gate() -> Tensor:
            until = find_last(prefix, wanted) + 1
            ids = self.batcher.to_device(np.array([prefix[:until]], np.int64))
            whole = trunk.FullBackbone(trunk.headless(self.model), self.model.family)
            return whole.last_hidden(ids[0, :0], ids)

        with self._lock:
            return partial(pool, gate=self._gates.get(prefix, gate))

    def whole(self, slot: ReplySlot, ids: Tensor, module: Any = None) -> Tensor:
        """`own_forward` without padding, row by row where the model has no pad to batch with."""
        stock = self.model.family.kind != "encoder" and not self.model.family.own_head
        if stock and self.pad is None:
            rows = [self.own_forward(slot, row[None], module=module) for row in ids]
            return torch.cat(rows)
        return self.own_forward(slot, ids, module=module)

    def _recorded(self, prefix: tuple[int, ...]) -> tuple[Any, Any]:
        """The path's backbone and what it keeps of a prefix; the last few are kept."""
        with self._lock:
            if self._backbone is None:
                kinds = {
                    "shared": SharedPrefixBackbone,
                    "copied": trunk.CopiedCacheBackbone,
                    "full": trunk.FullBackbone,
                }
                self._backbone = kinds[self.path](trunk.headless(self.model), self.model.family)
            backbone = self._backbone
            ids = np.array(prefix, np.int64)
            return backbone, self._prefixes.get(
                prefix, lambda: backbone.record(self.batcher.to_device(ids))
            )

    def _check(self, ids: NDArray[np.int64], before: int = 0) -> None:
        """Refuse ids without an embedding row and sequences that the model can't hold.

        Args:
            ids: ``[n, T]``.
            before: number of ids in front of them.
        """
        rows = self.model.embedding_rows
        outside = ids[(ids < 0) | (ids >= rows)]
        if outside.size:
            raise PessimalError(
                "token_out_of_range",
                f"Token id {outside[0]} has no row in the model's embedding of {rows} rows.",
                "Check that the tokenizer is the model's own.",
            )
        length, limit = before + ids.shape[1], position_limit(self.model.source)
        if length > limit:
            raise PessimalError(
                "reply_too_long",
                f"Prompt and reply have {length} ids, the model holds {limit}.",
                "Shorten the prompt or the reply; nothing is cut off silently.",
            )


def _token_types(slot: ReplySlot, mask: Tensor) -> Tensor:
    """Token types of right-padded sequences that begin with the slot's prefix, like `mask`."""
    assert slot.token_types is not None
    prefix = slot.prefix_types or (slot.token_types[0],) * len(slot.prefix_ids)
    reply, suffix = slot.token_types[1:]
    types = torch.full_like(mask, reply)
    types[:, : len(prefix)] = torch.tensor(prefix, device=mask.device)
    for row, length in enumerate(mask.sum(1).tolist()):
        types[row, length - len(slot.suffix_ids) : length] = suffix
        types[row, length:] = 0
    return types
