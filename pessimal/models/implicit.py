"""The implicit reward of a policy: how much likelier it makes a reply than its reference does.

``beta * (log p_policy(reply | prompt) - log p_reference(reply | prompt))``, summed over the reply's
tokens (Rafailov et al., arXiv 2305.18290). Whether what the template writes after the reply counts
as well is a convention of who trained the policy: it does with ``with_suffix`` only.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pessimal.errors import PessimalError, UsageError
from pessimal.models import trunk
from pessimal.models.batches import Batcher, equal_lengths
from pessimal.models.causal import cap_logits, load_causal, open_causal, softcap_of
from pessimal.models.document import model_document
from pessimal.models.hashing import hash_files
from pessimal.models.prefix import Pass, Prefix, SharedPrefixBackbone
from pessimal.models.recent import Recent
from pessimal.models.records import LoadedModel, ModelRequest, ModelSource, ReplySlot, ScoringPath
from pessimal.models.selftest import SelfTest, run_self_test
from pessimal.models.slot import position_limit
from pessimal.models.vocabulary import identical_rows

Scores = NDArray[np.float32]
Ids = Sequence[int]

CORE_FILES = ("prefix.py", "trunk.py", "batches.py", "causal.py", "implicit.py")
LOGITS = 2**25
"""Logits that a batch makes at most: 128 MiB of them."""


def open_implicit(request: ModelRequest) -> ModelSource:
    """Find a policy and its reference, and see that they read text alike.

    Raises:
        PessimalError: one is no causal language model, or their tokenizers differ.
        UsageError: no reference is named, or beta isn't above 0.
    """
    if request.reference is None:
        raise UsageError(
            "reference_missing",
            "An implicit reward is a policy's log-probability less its reference's.",
            "Name the model that the policy was trained from: --reference MODEL.",
        )
    if not request.beta > 0:
        raise UsageError(
            "beta_invalid", f"--beta {request.beta:g} isn't above 0.", "Name the training's beta."
        )
    policy, reference = open_causal(request, "implicit"), _open_reference(request)
    tokenizers: list[Any] = [policy.tokenizer, reference.tokenizer]
    if tokenizers[0].get_vocab() != tokenizers[1].get_vocab():
        raise PessimalError(
            "reference_tokenizer",
            f"{policy.id} and {reference.id} name different tokens by the same ids.",
            "Name the model that the policy was trained from.",
        )
    after = " and what the template writes after it" if request.with_suffix else " alone"
    note = (
        f"A reward is {request.beta:g} times the policy's log-probability less that of"
        f" {reference.id}, summed over the reply's tokens{after}."
    )
    return replace(
        policy,
        embedding_rows=min(policy.embedding_rows, reference.embedding_rows),
        notes=(note, "There is no gradient: searches change one token at a time."),
        parts={"reference": (*reference.weight_files, reference.folder / "config.json")},
    )


class ImplicitScorer:
    """Scores replies by a policy and its reference; threads may share it.

    Args:
        policy: the policy.
        reference: the reference.
        beta: the factor.
        with_suffix: count what the template writes after a reply.
    """

    gradient = False

    def __init__(
        self, policy: LoadedModel, reference: LoadedModel, *, beta: float, with_suffix: bool
    ) -> None:
        settings = {
            "reference": reference.hashes.items(), "beta": beta, "with_suffix": with_suffix,
        }  # fmt: skip
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        self.model = replace(policy, hashes=replace(policy.hashes, settings=digest))
        self.path: ScoringPath = "shared"
        self._reference = reference
        self._both = [_Reader(policy), _Reader(reference)]
        self._beta, self._with_suffix = beta, with_suffix

    @property
    def dtype(self) -> torch.dtype:
        """The weights' dtype."""
        dtype: torch.dtype = self.model.module.dtype
        return dtype

    @property
    def device_type(self) -> str:
        """``cpu``, ``cuda``..."""
        return self._both[0].batcher.device.type

    @property
    def pad(self) -> int | None:
        """The pad id; nothing is padded, and nothing skips it."""
        return None

    @property
    def core(self) -> str:
        """sha256 of the source that scores depend on."""
        return hash_files(Path(__file__).parent / name for name in CORE_FILES)

    @property
    def halvings(self) -> tuple[str, ...]:
        """One sentence for each time that memory ran out and a batch was halved."""
        return tuple(line for reader in self._both for line in reader.batcher.halvings)

    def use(self, path: ScoringPath) -> None:
        """Take the path ``shared`` or ``full``."""
        self.path = "full" if path == "copied" else path

    def rows(self, slot: ReplySlot, length: int) -> int:
        """Replies of `length` ids that are scored together where nothing else is asked for."""
        prefix, tail = len(slot.prefix_ids), length + len(slot.suffix_ids)
        return min(reader.rows(self.path, prefix, tail) for reader in self._both)

    def score(
        self, slot: ReplySlot, replies: Sequence[Ids], batch_rows: int | None = None
    ) -> Scores:
        """Score replies that are spliced in as ids; see `Scorer.score`."""
        after = slot.suffix_ids if self._with_suffix else ()
        return self._score(slot.prefix_ids, [(*reply, *after) for reply in replies], batch_rows)

    def score_sequences(
        self, slot: ReplySlot, sequences: Sequence[Ids], batch_rows: int | None = None
    ) -> Scores:
        """Score whole sequences; each must begin with the slot's prefix, or it has no reply.

        Raises:
            PessimalError: ``sequence_unsplit``.
        """
        start, end = len(slot.prefix_ids), len(slot.suffix_ids)
        tails = []
        for ids in sequences:
            if tuple(ids[:start]) != slot.prefix_ids or (
                end and tuple(ids[-end:]) != slot.suffix_ids
            ):
                raise PessimalError(
                    "sequence_unsplit",
                    "A rendered sequence doesn't hold its prompt and what follows a reply: where "
                    "its reply is, isn't known.",
                    "Score replies by ids instead of as text.",
                )
            tails.append(tuple(ids[start : len(ids) - (0 if self._with_suffix else end)]))
        return self._score(slot.prefix_ids, tails, batch_rows)

    def reference(self, slot: ReplySlot, reply: Ids) -> float:
        """The score by both models' own forwards, one sequence, nothing shared."""
        tail = (*reply, *(slot.suffix_ids if self._with_suffix else ()))
        ids = np.array([tail], np.int64)
        both = [float(reader.own(slot.prefix_ids, ids)[0]) for reader in self._both]
        return self._beta * (both[0] - both[1])

    def self_test(self, slot: ReplySlot) -> SelfTest:
        """Compare the shared path with both models' own forwards, and step down where it differs.

        Raises:
            PessimalError: as `Scorer.self_test`; ``scores_constant`` where both are one model.
        """
        return run_self_test(self, slot, 32, 300, 0)

    def duplicates(self) -> dict[int, int]:
        """Ids that both models read and write exactly as a smaller id."""
        alike: list[dict[int, int]] = []
        for reader in self._both:
            module = reader.model.module
            embedding: Any = module.get_input_embeddings()
            output: Any = reader.model.head
            if output.weight is not embedding.weight:
                return {}
            alike.append(identical_rows(reader.model))
        return dict(alike[0].items() & alike[1].items())

    def document(self, slot: ReplySlot, test: SelfTest) -> dict[str, Any]:
        """The ``model`` object of documents, with the reference."""
        document = model_document(
            self.model, slot, path=self.path, self_test_max_difference=test.max_difference_sd
        )
        source = self._reference.source
        return document | {
            "kind": "implicit",
            "gradient": False,
            "beta": self._beta,
            "with_suffix": self._with_suffix,
            "reference": {"id": source.id, "revision": source.revision,
                          "hashes": self._reference.hashes.items()},
            "notes": [*document["notes"], *test.step_notes],
        }  # fmt: skip

    def _score(
        self, prefix: tuple[int, ...], tails: Sequence[tuple[int, ...]], batch_rows: int | None
    ) -> Scores:
        self._check(prefix, tails)
        scores = np.empty(len(tails), np.float32)
        for indexes in equal_lengths(tails):
            ids = np.array([tails[index] for index in indexes], np.int64)
            policy, reference = (
                reader.logprobs(self.path, prefix, ids, batch_rows) for reader in self._both
            )
            scores[indexes] = self._beta * (policy - reference)
        return scores

    def _check(self, prefix: tuple[int, ...], tails: Sequence[tuple[int, ...]]) -> None:
        source = self.model.source
        rows = source.embedding_rows
        longest = max(map(len, tails), default=0)
        outside = [i for ids in (prefix, *tails) for i in ids if not 0 <= i < rows]
        if outside:
            raise PessimalError(
                "token_out_of_range",
                f"Token id {outside[0]} has no row in both models' embeddings of {rows} rows.",
                "Check that the tokenizer is the models' own.",
            )
        limit = min(position_limit(reader.model.source) for reader in self._both)
        if len(prefix) + longest > limit:
            raise PessimalError(
                "reply_too_long",
                f"Prompt and reply have {len(prefix) + longest} ids, the models hold {limit}.",
                "Shorten the prompt or the reply; nothing is cut off silently.",
            )


def open_implicit_scorer(source: ModelSource) -> ImplicitScorer:
    """Load a policy and its reference.

    Raises:
        PessimalError: the weights of one are incomplete, or it can't be loaded.
    """
    request = source.request
    policy = load_causal(source)
    reference = load_causal(_open_reference(request))
    return ImplicitScorer(policy, reference, beta=request.beta, with_suffix=request.with_suffix)


class _Reader:
    """Log-probabilities of replies by one language model."""

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        module = model.module
        config: Any = module.config.get_text_config()
        self.batcher = Batcher(config, module.device, module.dtype)
        self._vocabulary = int(config.vocab_size)
        self._softcap = softcap_of(config)
        self._head = trunk.skeleton(model.head, torch.float32)
        self._own = trunk.skeleton(module)
        self._last_only = "logits_to_keep" in inspect.signature(type(module).forward).parameters
        self._lock = threading.Lock()
        self._backbone: _ReplyBackbone | None = None
        self._prefixes: Recent[tuple[int, ...], tuple[Prefix, Tensor]] = Recent()

    def rows(self, path: ScoringPath, prefix: int, tail: int) -> int:
        """Rows of a batch that suit the memory."""
        fitting = max(1, LOGITS // (self._vocabulary * max(tail, 1)))
        return min(fitting, self.batcher.rows(path, prefix, max(tail, 1)))

    @torch.inference_mode()
    def logprobs(
        self, path: ScoringPath, prefix: tuple[int, ...], ids: NDArray[np.int64], rows: int | None
    ) -> NDArray[np.float64]:
        """Sums of log-probabilities of tails ``[n, T]`` after a prefix, ``[n]``."""
        rows = rows or self.rows(path, len(prefix), ids.shape[1])
        if path == "full":
            found = self.batcher.run(lambda tails: self._whole(prefix, tails), ids, rows)
            return found.astype(np.float64)
        backbone, recorded, last = self._recorded(prefix)
        first = torch.log_softmax(self._logits(last), -1)[0]

        def run(tails: Tensor) -> Tensor:
            total = first[tails[:, 0]]
            if tails.shape[1] > 1:
                hidden = backbone.hidden(recorded, tails[:, :-1])
                total = total + _gathered(self._logits(hidden), tails[:, 1:])
            return total

        return self.batcher.run(run, ids, rows).astype(np.float64)

    @torch.inference_mode()
    def own(self, prefix: tuple[int, ...], ids: NDArray[np.int64]) -> Tensor:
        """The same by the model's own forward on whole sequences."""
        return self._whole(prefix, self.batcher.to_device(ids))

    def _whole(self, prefix: tuple[int, ...], tails: Tensor) -> Tensor:
        start = torch.tensor(prefix, dtype=torch.long, device=tails.device)
        ids = torch.cat([start.expand(len(tails), -1), tails], dim=1)
        length = tails.shape[1]
        keep = {"logits_to_keep": length + 1} if self._last_only else {}
        logits = self._own(
            input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **keep
        ).logits
        return _gathered(logits[:, -length - 1 : -1].float(), tails)

    def _logits(self, hidden: Tensor) -> Tensor:
        return cap_logits(self._head(hidden.float()), self._softcap)

    def _recorded(self, prefix: tuple[int, ...]) -> tuple[_ReplyBackbone, Prefix, Tensor]:
        with self._lock:
            if self._backbone is None:
                family = self.model.family
                backbone = trunk.skeleton(getattr(self.model.module, family.backbone))
                self._backbone = _ReplyBackbone(backbone, family)
            backbone = self._backbone
            ids = np.array(prefix, np.int64)
            return backbone, *self._prefixes.get(
                prefix, lambda: backbone.begin(self.batcher.to_device(ids))
            )


class _ReplyBackbone(SharedPrefixBackbone):
    """A shared-prefix backbone that gives every position of a reply, final norm and all."""

    pools = False

    def begin(self, ids: Tensor) -> tuple[Prefix, Tensor]:
        """Run a prefix ``[P]`` once: its keys and values, and its last hidden state ``[1, D]``."""
        prefix = Prefix(0)
        last = self._forward(ids[None], Pass(prefix, True, self.last_layer), 0)
        prefix.length = len(ids)
        return prefix, last

    def hidden(self, prefix: Prefix, tails: Tensor) -> Tensor:
        """Hidden states of tails ``[B, T]`` after a prefix, ``[B, T, D]``."""
        # No layer is the last one: every layer's attention gives every position.
        return self._hidden(tails, Pass(prefix, False, -1), prefix.length)


def _gathered(logits: Tensor, ids: Tensor) -> Tensor:
    """Sums over positions of the log-probabilities of ids ``[B, T]`` in logits ``[B, T, V]``."""
    chosen = logits.gather(-1, ids[..., None])[..., 0]
    return (chosen - logits.logsumexp(-1)).sum(-1)


def _open_reference(request: ModelRequest) -> ModelSource:
    """The reference; what is rendered is the policy's, so it needs no template of its own."""
    assert request.reference is not None
    asked = replace(request, model=request.reference, revision=None)
    return open_causal(asked, "implicit", templated=False)
