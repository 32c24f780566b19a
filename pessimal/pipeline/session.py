"""A model that is open for scoring: loaded, tested against its own forward, with its vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pessimal.audit import Prompt
from pessimal.models.records import ModelRequest, ModelSource, OpenModel, ReplySlot
from pessimal.sweep.runner import SweepOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pessimal.models.protocol import ReplyScorer
    from pessimal.models.selftest import SelfTest
    from pessimal.models.vocabulary import Vocabulary
    from pessimal.scores.kinds import Kind
    from pessimal.scores.store import BlockStore
    from pessimal.scores.table import TableMetadata

Say = Callable[[str], None]
SEED = 0


def sample_places(size: int, tokens: Literal["all"] | int) -> NDArray[np.int64]:
    """Places in a list of `size` to score: all, or a seeded sample in ascending order."""
    import numpy as np

    if tokens == "all" or tokens >= size:
        return np.arange(size)
    return np.sort(np.random.default_rng(SEED).choice(size, tokens, replace=False))


@dataclass
class Session:
    """One model, ready to score."""

    scorer: ReplyScorer
    """The model's scorer, on the path that passed the self-test."""
    test: SelfTest
    """How that path compared with the model's own forward."""
    store: BlockStore
    """Where scores are kept."""
    options: SweepOptions
    """Batch rows and shard, as asked."""
    slots: dict[str, ReplySlot] = field(default_factory=dict)
    """Reply slots by prompt id, as far as they were needed."""

    @property
    def model(self) -> OpenModel:
        """What is known of the model."""
        return self.scorer.model

    @property
    def source(self) -> ModelSource:
        """The model without its weights."""
        return self.model.source

    def slot(self, prompt: Prompt) -> ReplySlot:
        """The prompt's reply slot, found once."""
        from pessimal.models.slot import find_slot

        if prompt.id not in self.slots:
            self.slots[prompt.id] = find_slot(self.source, prompt.text)
        return self.slots[prompt.id]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Every token that has an embedding row."""
        from pessimal.models.vocabulary import vocabulary

        return vocabulary(self.source)

    @cached_property
    def duplicates(self) -> dict[int, int]:
        """Ids whose embedding row is identical to that of a smaller id, with that id."""
        return self.scorer.duplicates()

    @cached_property
    def kinds(self) -> list[Kind]:
        """The kind of every token of the vocabulary, in its order."""
        from pessimal.scores.kinds import token_kinds

        alike = self.duplicates.keys() | set(self.duplicates.values())
        words = self.vocabulary
        return token_kinds(
            words.tokens, words.texts, special=words.special.tolist(),
            unused={place for place, token in enumerate(words.ids.tolist()) if token in alike},
        )  # fmt: skip

    def planned_ids(self, tokens: Literal["all"] | int) -> list[int]:
        """The ids to score: all of the vocabulary, or a seeded sample of it, ascending."""
        ids: list[int] = self.vocabulary.ids[
            sample_places(len(self.vocabulary.ids), tokens)
        ].tolist()
        return ids

    def encode(self, prompt: Prompt, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Ids of words and phrases as replies, as the template's own encoding cuts them.

        A text that the template would trim or merge is encoded alone.
        """
        from pessimal.models.slot import encode_as_text

        slot = self.slot(prompt)
        before, after = slot.prefix_ids, slot.suffix_ids
        tokenizer: Any = self.source.tokenizer
        found = []
        for text in texts:
            ids = (
                tuple(encode_as_text(self.source, slot.prompt, text))
                if text == text.strip()
                else ()
            )
            end = len(ids) - len(after)
            if end > len(before) and ids[: len(before)] == before and ids[end:] == after:
                found.append(ids[len(before) : end])
            else:
                found.append(tuple(tokenizer(text, add_special_tokens=False)["input_ids"]))
        return found

    def metadata(self, *, sampled: bool = False, as_text: bool = False) -> TableMetadata:
        """What score tables say of their making."""
        from pessimal.scores.table import TableMetadata

        model = self.document()
        return TableMetadata(
            model=model["id"], revision=model["revision"],
            template_sha256=model["template_sha256"], dtype=model["dtype"],
            attention=model["attention"], path=model["path"],
            mode="as_text" if as_text else "ids", sampled=sampled, versions=versions(),
        )  # fmt: skip

    def document(self) -> dict[str, Any]:
        """The ``model`` object of documents; the first prompt's slot is its example."""
        return self.scorer.document(next(iter(self.slots.values())), self.test)


def open_session(
    request: ModelRequest, cache: Path, example: Prompt, options: SweepOptions, say: Say
) -> Session:
    """Load a model, find where its reply goes and test its scorer against its own forward.

    Args:
        request: which model, and how.
        cache: Pessimal's cache folder.
        example: the prompt that the scorer is tested with.
        options: batch rows and shard.
        say: told what is happening.

    Raises:
        PessimalError: the model is refused; the code and the message say why.
    """
    from pessimal.models.opening import open_scorer
    from pessimal.models.slot import find_slot
    from pessimal.models.source import open_source
    from pessimal.scores.store import BlockStore

    say(f"Loading {request.model}")
    source = open_source(request, cache)
    # A template that can't be used is refused before the weights are read.
    slot = find_slot(source, example.text)
    scorer = open_scorer(source, cache)
    test = scorer.self_test(slot)
    for note in (*source.notes, *test.notes):
        if note.startswith("Warning"):
            say(note)
    for step in test.steps:
        say(f"Stepped down from a faster path: {step}")
    say(
        f"{test.subject} agrees with {test.compared_with} on {test.n} tokens"
        f" (largest difference {test.max_difference_sd:.1g} SD)"
    )
    return Session(scorer, test, BlockStore(cache), options, {example.id: slot})


def versions() -> dict[str, str]:
    """Versions of what scores and verdicts depend on."""
    from importlib.metadata import version

    from pessimal import __version__

    names = ("torch", "transformers", "tokenizers", "numpy", "pandas", "scipy", "mlflow",
             "great_expectations", "wordfreq")  # fmt: skip
    return {"pessimal": __version__} | {name: version(name) for name in names}
