"""What a row of the families table says about a kind of reward model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["decoder", "encoder", "remote"]
Status = Literal["supported", "unverified", "refused"]
Pooled = Literal[
    "last token that isn't the pad",
    "before the first pad",
    "last token",
    "first token",
    "every token of the reply",
    "unknown",
]


@dataclass(frozen=True)
class Golden:
    """Scores that a model's card publishes, to compare with."""

    chosen: float
    """Score of the better reply of the pair."""
    rejected: float
    """Score of the other one."""
    where: str
    """How it was scored: library, dtype, attention."""


@dataclass(frozen=True)
class Family:
    """How one kind of reward model is recognised and read."""

    name: str
    """Name of the family, as documents show it."""
    model_types: tuple[str, ...]
    """The ``model_type`` values of its configs; empty where any does."""
    kind: Kind
    """Decoders render a chat template and pool the last token; encoders take a text pair; remote
    code renders a template and is scored by its own forward only."""
    backbone: str
    """Attribute of the model that holds the backbone."""
    head: str
    """Attribute path of the one-output head."""
    layers: str = ""
    """Attribute path, in the backbone, of its list of layers (decoders)."""
    norm: str = ""
    """Attribute, in the backbone, of its final norm (decoders)."""
    softcap: bool = False
    """Whether its attention logits must be soft-capped."""
    status: Status = "supported"
    """``unverified``: its formula isn't known for certain, so only its own code can score it.
    ``refused``: it doesn't give one score to one reply."""
    classes: tuple[str, ...] = ()
    """Class names, in the config's ``architectures`` or ``auto_map``, that it is recognised by;
    stock rows have none."""
    keys: tuple[str, ...] = ()
    """Weights, or the beginnings of their names, that its checkpoints hold."""
    settings: tuple[tuple[str, str], ...] = ()
    """Fields of its config that tell it from others of the same class, with their values."""
    own_head: str = ""
    """Name of the head in `pessimal.models.heads` that computes its score; empty for transformers'
    own class."""
    gate: str = ""
    """The text whose first token's hidden state steers the head: the same for every reply to a
    prompt. Empty where nothing in the prompt does."""
    pooled: Pooled = "last token that isn't the pad"
    """Which position's hidden state the score is read from."""
    sign: Literal[1, -1] = 1
    """-1 where the published number is higher for worse replies; our scores are turned."""
    template: str = "the tokenizer's"
    """Where the text around a prompt and its reply comes from."""
    bos: str = "one"
    """How many BOS its inputs begin with."""
    attention: str = "any"
    """What its attention must do."""
    dtype: str = "the config's"
    """The dtype that it was published in."""
    scores: tuple[float, float] | None = None
    """Lowest and highest score known of its one published model, over thousands of replies."""
    gradient: bool = True
    """Whether a search can follow its gradient."""
    remote_code: bool = False
    """Whether its repository brings code, which isn't run without the flag: see
    `needs_remote_code`."""
    code: str = ""
    """The code that a refused row is refused with."""
    notes: str = ""
    """What a reader should know; of an unverified row, what is missing; of a refused one, what
    to use instead."""

    @property
    def needs_remote_code(self) -> bool:
        """Whether it is scored by its repository's code alone; an own head is read without."""
        return self.remote_code and not self.own_head


@dataclass(frozen=True)
class Published:
    """A published reward model: facts that hold for this one id, not for its family."""

    id: str
    """Its hub id."""
    family: str
    """Name of its family."""
    scores: tuple[float, float] | None = None
    """Lowest and highest score known of it, over thousands of replies."""
    golden: Golden | None = None
    """A published pair of scores."""
    notes: str = ""
    """What else a reader should know."""
