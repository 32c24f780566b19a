"""Scores replies by asking a server. There is no gradient, and nothing of its inside is known."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.errors import PessimalError
from pessimal.models.endpoints.client import EndpointClient
from pessimal.models.endpoints.dialects import Answer, Item, Settings
from pessimal.models.hashing import hash_files, hash_text, source_files
from pessimal.models.records import ModelHashes, ModelSource, OpenModel, ReplySlot
from pessimal.models.selftest import SelfTest
from pessimal.models.slot import ORDINARY, SHOWN_REPLY, position_limit
from pessimal.models.vocabulary import vocabulary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pessimal.models.endpoints.probe import Probe

Ids = Sequence[int]
CORE_FILES = ("dialects.py", "client.py", "scorer.py", "probe.py")


@dataclass(frozen=True)
class _Text:
    """How a prompt's replies are written out."""

    head: str
    """Text before the reply, without the BOS that the server adds."""
    tail: str
    """Text after it."""
    left_out: int
    """How many leading ids the text leaves to the server."""


class EndpointScorer:
    """Scores replies by asking a server; threads may share it.

    Args:
        source: the tokenizer and the template, and the URL as its id.
        settings: what the server speaks.
        cache: Pessimal's cache folder, where it is kept how a server answered before.
    """

    gradient = False
    dtype = "unknown"
    device_type = "remote"
    path = "full"
    pad: int | None = None
    halvings: tuple[str, ...] = ()

    def __init__(self, source: ModelSource, settings: Settings, cache: Path) -> None:
        self.settings, self.cache = settings, cache
        self.client = EndpointClient(source.id, settings)
        self.probe: Probe | None = None
        self._texts: dict[tuple[int, ...], _Text] = {}
        files = source_files(source)
        self.model = OpenModel(
            source,
            ModelHashes(
                weights=None, adapter=None, head="",
                config=hash_text(settings.model_dump_json(
                    include={"dialect", "request", "scores", "send", "model"})),
                tokenizer=hash_files(files["tokenizer"]), template=hash_text(source.template),
            ),
        )  # fmt: skip

    @property
    def core(self) -> str:
        """sha256 of the source that scores depend on."""
        return hash_files(Path(__file__).parent / name for name in CORE_FILES)

    def identify(self, identity: str, probe: Probe) -> None:
        """Take the identity that a probe gave to what answers there.

        Args:
            identity: a sha256 that stands for the weights behind the server.
            probe: how it answered.
        """
        self.probe = probe
        model = self.model
        self.model = OpenModel(
            replace(model.source, revision=identity), replace(model.hashes, head=identity)
        )

    def rows(self, slot: ReplySlot, length: int) -> int:
        """Replies of a request."""
        return self.settings.rows

    def score(
        self, slot: ReplySlot, replies: Sequence[Ids], batch_rows: int | None = None
    ) -> NDArray[np.float32]:
        """Score replies; as text they may reach the server as other ids.

        Raises:
            PessimalError: ``token_out_of_range``, ``reply_too_long``; what the server refuses;
                ``endpoint_changed`` where another model answers than at the start.
        """
        return self._scores(self.items(slot, replies), batch_rows)

    def score_sequences(
        self, slot: ReplySlot, sequences: Sequence[Ids], batch_rows: int | None = None
    ) -> NDArray[np.float32]:
        """Score whole sequences; see `score`."""
        text = self._text(slot)
        start, end = len(slot.prefix_ids), len(slot.suffix_ids)
        items = [
            Item(
                tuple(ids),
                self._decode(ids[text.left_out :]),
                slot.prompt,
                self._decode(ids[start : len(ids) - end]),
            )
            for ids in sequences
        ]
        return self._scores(items, batch_rows)

    def self_test(self, slot: ReplySlot) -> Probe:
        """Probe the server before anything is scored; see `pessimal.models.endpoints.probe`.

        Raises:
            PessimalError: what it gives can't be used as rewards; the code says why.
        """
        from pessimal.models.endpoints.probe import run_probe

        self._text(slot)
        return run_probe(self)

    def duplicates(self) -> dict[int, int]:
        """Nothing is known of the embeddings."""
        return {}

    def items(self, slot: ReplySlot, replies: Sequence[Ids]) -> list[Item]:
        """Replies under a prompt as a server wants them."""
        text = self._text(slot)
        found = []
        for reply in replies:
            said = self._decode(reply)
            ids = (*slot.prefix_ids, *reply, *slot.suffix_ids)
            found.append(Item(ids, text.head + said + text.tail, slot.prompt, said))
        return found

    def ask(self, items: Sequence[Item], rows: int | None = None) -> list[Answer]:
        """The server's answers, within the limits of the tokenizer and the model."""
        source = self.model.source
        limit = position_limit(source)
        for item in items:
            outside = [index for index in item.ids if not 0 <= index < source.embedding_rows]
            if outside:
                raise PessimalError(
                    "token_out_of_range",
                    f"Token id {outside[0]} isn't one of the {source.embedding_rows} of the model.",
                    "Check that the tokenizer is the model's own.",
                )
            if len(item.ids) > limit:
                raise PessimalError(
                    "reply_too_long",
                    f"Prompt and reply have {len(item.ids)} ids, the model holds {limit}.",
                    "Shorten the prompt or the reply; nothing is cut off silently.",
                )
        return self.client.ask(items, rows)

    def document(self, slot: ReplySlot, test: SelfTest) -> dict[str, Any]:
        """The ``model`` object of documents, with what the probe found."""
        probe = self.probe
        assert probe is not None, "probed first"
        source, settings, tokenizer = self.model.source, self.settings, self.model.tokenizer
        return {
            "id": source.id,
            "revision": source.revision,
            "kind": "endpoint",
            "family": source.family.name,
            "class": None,
            "gradient": False,
            "head": {"key": None, "shape": [], "sha256": None},
            "pooled": {"token": slot.pooled_token, "index": slot.pooled_index},
            "template_sha256": self.model.hashes.template,
            "template_kwargs": source.template_kwargs,
            "rendered": slot.rendered,
            "bos": slot.bos,
            "pad": None,
            "tokenizer_pad": tokenizer.pad_token_id,
            "padding_side": tokenizer.padding_side,
            "eos": tokenizer.eos_token_id,
            "dtype": self.dtype,
            "device": self.device_type,
            "attention": "unknown",
            "path": self.path,
            "self_test_max_difference": test.max_difference_sd,
            "embedding_rows": source.embedding_rows,
            "parameters": None,
            "base": {},
            "hashes": self.model.hashes.items(),
            "endpoint": {
                "dialect": settings.dialect, "send": settings.send, "model": settings.model,
                "rows": settings.rows, "in_flight": settings.in_flight,
                "timeout_s": settings.timeout_s,
            },
            "probe": probe.found,
            "calibration": probe.calibration,
            "versions": {name: version(name) for name in ("transformers", "tokenizers", "urllib3")},
            "notes": [*source.notes, *test.notes, *self._lossy()],
        }  # fmt: skip

    def _scores(self, items: Sequence[Item], rows: int | None) -> NDArray[np.float32]:
        import numpy as np

        before = self.client.interruptions
        answers = self.ask(items, rows)
        if self.probe is not None and self.client.interruptions != before:
            # The server was away: what came back must be what was there.
            from pessimal.models.endpoints.probe import refuse_another_model

            refuse_another_model(self, self.probe)
        return np.array([score for one in answers for score in one.scores], np.float32)

    def _text(self, slot: ReplySlot) -> _Text:
        """How a prompt's replies are written so that the server's tokenizer reads our ids.

        Raises:
            PessimalError: ``endpoint_text``, no way of writing it does.
        """
        if slot.prefix_ids in self._texts:
            return self._texts[slot.prefix_ids]
        tokenizer: Any = self.model.tokenizer
        head, _, tail = slot.rendered.rpartition(SHOWN_REPLY)
        mark = tokenizer.bos_token or ""
        bare, written = head, 0
        while mark and bare.startswith(mark):
            bare, written = bare.removeprefix(mark), written + 1
        reply = tokenizer(ORDINARY[0], add_special_tokens=False)["input_ids"]
        wanted = [*slot.prefix_ids, *reply, *slot.suffix_ids]
        for kept in range(slot.bos + 1):
            text = _Text(mark * kept + bare, tail, slot.bos - kept)
            if tokenizer(text.head + ORDINARY[0] + tail)["input_ids"] == wanted:
                break
        else:
            if self.settings.send == "text":
                raise PessimalError(
                    "endpoint_text",
                    "As text, the template's rendering reaches the server as other ids: its "
                    "tokenizer adds or merges tokens.",
                    'Send token ids where the server takes them: "send": "ids" in a settings file.',
                )
            text = _Text(head, tail, 0)
        self._texts[slot.prefix_ids] = text
        return text

    def _decode(self, ids: Ids) -> str:
        tokenizer: Any = self.model.tokenizer
        text: str = tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def _lossy(self) -> list[str]:
        if self.settings.send == "ids":
            return []
        words = vocabulary(self.model.source)
        lost = int((~words.roundtrips).sum())
        return [
            f"Replies reach the endpoint as text: {lost:,} of {len(words.ids):,} tokens don't"
            " survive that, and have the score of what is read instead."
        ]


def identity_of(*parts: str) -> str:
    """One sha256 of several texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
