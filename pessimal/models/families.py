"""The families of reward models: one row says where an architecture keeps what we read.

A family is recognised by the config's ``model_type``, never by a model's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Family:
    """How one architecture is read."""

    name: str
    """Name of the family, as documents show it."""
    model_types: tuple[str, ...]
    """The ``model_type`` values of its configs."""
    kind: Literal["decoder", "encoder", "remote"]
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


FAMILIES: tuple[Family, ...] = (
    Family("llama", ("llama",), "decoder", "model", "score", "layers", "norm"),
    Family("mistral", ("mistral",), "decoder", "model", "score", "layers", "norm"),
    Family("qwen2", ("qwen2",), "decoder", "model", "score", "layers", "norm"),
    Family("qwen3", ("qwen3",), "decoder", "model", "score", "layers", "norm"),
    Family("gemma", ("gemma",), "decoder", "model", "score", "layers", "norm"),
    Family("gemma2", ("gemma2",), "decoder", "model", "score", "layers", "norm", softcap=True),
    Family("gemma3", ("gemma3_text",), "decoder", "model", "score", "layers", "norm"),
    Family("gpt2", ("gpt2",), "decoder", "transformer", "score", "h", "ln_f"),
    Family("deberta", ("deberta", "deberta-v2"), "encoder", "deberta", "classifier"),
    Family("bert", ("bert",), "encoder", "bert", "classifier"),
    Family("roberta", ("roberta", "xlm-roberta"), "encoder", "roberta", "classifier.out_proj"),
)

REMOTE = Family("remote", (), "remote", backbone="", head="")
"""A model whose own code is run: nothing is known about its inside."""


def family_of(model_type: str) -> Family | None:
    """The family of a config's ``model_type``, or None."""
    return next((row for row in FAMILIES if model_type in row.model_types), None)
