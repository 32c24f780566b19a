"""Records of a loaded reward model: what was asked for, what was loaded, where the reply goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from pessimal.models.families import Family

ScoringPath = Literal["shared", "copied", "full"]


@dataclass(frozen=True)
class ModelRequest:
    """What the user asked to load: the model flags of the command line."""

    model: str = "demo"
    """A local folder, a hub id (``org/name`` or ``org/name@revision``), ``demo`` or
    ``demo-biased``."""
    revision: str | None = None
    """Revision of a hub id."""
    tokenizer: str | None = None
    """Folder or hub id of a tokenizer other than the model's own."""
    template: Path | None = None
    """File with a chat template (jinja) other than the tokenizer's own."""
    adapter: str | None = None
    """PEFT adapter (folder or hub id) to put on `model`."""
    trust_remote_code: bool = False
    """Run the model's own code; needs a 40-digit revision."""
    allow_pickle: bool = False
    """Load weights that aren't safetensors, which can run code."""
    dtype: str = "float32"
    """``float32``, ``bfloat16`` or ``float16``."""
    device: str = "auto"
    """``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``..."""
    bos: Literal["once", "double"] = "once"
    """``double`` puts a second BOS in front, as the paper's code did."""
    kind: Literal["reward", "implicit", "judge"] = "reward"
    """How a score is read: a reward model's head, a policy against its reference, or a judge."""
    reference: str | None = None
    """The reference model of an implicit reward: a folder or a hub id."""
    beta: float = 0.1
    """The factor of an implicit reward."""
    with_suffix: bool = False
    """Count what the template writes after a reply in an implicit reward."""
    judge_template: Path | None = None
    """What a judge is asked, as a jinja file with ``prompt`` and ``reply``."""
    endpoint: str | None = None
    """What a server speaks: a dialect's name, or a JSON file of settings."""
    calibrate_with: str | None = None
    """The weights behind an endpoint, to compare its scores with: a folder or a hub id."""


@dataclass(frozen=True)
class ReplySlot:
    """Where a reply's ids go: ``prefix_ids + reply + suffix_ids`` is what the model sees."""

    prompt: str
    """The user's question."""
    prefix_ids: tuple[int, ...]
    """Ids before the reply."""
    suffix_ids: tuple[int, ...]
    """Ids after the reply."""
    rendered: str
    """The rendered text with ``<reply>`` in the reply's place."""
    bos: int
    """How many BOS ids the sequence begins with."""
    pooled_index: int
    """Position whose hidden state the head reads: -1 for decoders, 0 for encoders."""
    pooled_token: str
    """The token at that position, as the tokenizer names it."""
    token_types: tuple[int, int, int] | None = None
    """Token type ids of prefix, reply and suffix where the model takes them, else None. The
    prefix's own types are given by ``prefix_types``."""
    prefix_types: tuple[int, ...] | None = None
    """Token type id of each prefix position, or None."""


@dataclass(frozen=True)
class ModelHashes:
    """sha256 of everything that a score depends on."""

    weights: str | None
    """Every weight file, by name and bytes; a base's under an adapter as well. None where the
    weights aren't here."""
    adapter: str | None
    """The adapter's weights and config, or None."""
    head: str
    """The head's tensor bytes as loaded."""
    config: str
    """config.json, and remote code where it is run."""
    tokenizer: str
    """The tokenizer's files."""
    template: str
    """The chat template's text (empty for text pairs)."""
    settings: str | None = None
    """What else its kind of score depends on: a reference model, an endpoint..., or None."""

    def items(self) -> dict[str, str]:
        """The hashes by name, without those that are None."""
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class ModelSource:
    """A reward model found and read without its weights: enough to plan, render and encode."""

    request: ModelRequest
    """What was asked for."""
    id: str
    """The model's id as the user names it: a hub id, a folder's path, ``demo``."""
    revision: str | None
    """Resolved commit of a hub id, the declared one of remote code, a demo's adapter's sha256,
    else None."""
    folder: Path
    """Folder of the config and the weights; the base's under an adapter."""
    weight_files: tuple[Path, ...]
    """Every file of weights in `folder`."""
    adapter: Path | None
    """Folder of the PEFT adapter, or None."""
    base: dict[str, str]
    """Id and revision of an adapter's base; empty without an adapter."""
    config: Any
    """The transformers config, with one label and eager attention."""
    family: Family
    """How this architecture is read."""
    head_key: str
    """The head's parameter name in the checkpoint, e.g. ``score.weight``; empty for remote code."""
    head_shape: tuple[int, ...]
    """The head's shape as the checkpoint has it; empty for remote code."""
    embedding_rows: int
    """Rows of the input embedding."""
    tokenizer: PreTrainedTokenizerBase
    """Its tokenizer."""
    tokenizer_folder: Path
    """Folder the tokenizer was read from."""
    template: str | None
    """The chat template's text; None for text pairs."""
    template_kwargs: dict[str, Any]
    """What is passed to the template beside messages, e.g. a pinned ``date_string``."""
    notes: tuple[str, ...] = ()
    """What a reader should know about how it was read, e.g. a pinned date."""
    gate_ids: tuple[int, ...] = ()
    """Ids between a prompt and its reply, whose first one's hidden state steers a gated head."""
    parts: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    """Further files that a score depends on, by the name of the part that they make."""


@dataclass
class OpenModel:
    """A reward model that can be scored, wherever its weights are."""

    source: ModelSource
    """What was found before loading."""
    hashes: ModelHashes
    """sha256 of its parts."""

    @property
    def request(self) -> ModelRequest:
        """What was asked for."""
        return self.source.request

    @property
    def id(self) -> str:
        """The model's id as the user names it."""
        return self.source.id

    @property
    def revision(self) -> str | None:
        """Resolved commit of a hub id, the declared one of remote code, else None."""
        return self.source.revision

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Its tokenizer."""
        return self.source.tokenizer

    @property
    def family(self) -> Family:
        """How this architecture is read."""
        return self.source.family

    @property
    def embedding_rows(self) -> int:
        """Rows of the input embedding."""
        return self.source.embedding_rows

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about how it was loaded."""
        return self.source.notes


@dataclass
class LoadedModel(OpenModel):
    """A reward model in memory, verified: its head is the checkpoint's, its template is stable."""

    module: PreTrainedModel
    """The model: eval mode, no gradients, on its device."""
    head: torch.nn.Module
    """The one-output head; takes hidden states. For remote code, the whole model."""
