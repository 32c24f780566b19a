"""Rows of transformers' own sequence classifiers, one an architecture."""

from __future__ import annotations

from typing import Any

from pessimal.models.families.records import Family

_CAPPED = "eager or Flash Attention 2.6: others drop the soft-cap"
_GPT2: dict[str, Any] = {"bos": "none", "template": "--template"}
_PAIR: dict[str, Any] = {"pooled": "first token", "template": "text pair", "bos": "the pair's"}


def _decoder(name: str, *model_types: str, **more: Any) -> Family:
    return Family(
        name, model_types or (name,), "decoder", "model", "score", "layers", "norm", **more
    )


STOCK: tuple[Family, ...] = (
    _decoder("llama"),
    _decoder("mistral"),
    _decoder("qwen2", bos="none"),
    _decoder("qwen3", bos="none"),
    _decoder("gemma"),
    _decoder("gemma2", softcap=True, attention=_CAPPED),
    _decoder("gemma3", "gemma3_text"),
    Family("gpt2", ("gpt2",), "decoder", "transformer", "score", "h", "ln_f", **_GPT2),
    Family("deberta", ("deberta", "deberta-v2"), "encoder", "deberta", "classifier", **_PAIR),
    Family("bert", ("bert",), "encoder", "bert", "classifier", **_PAIR),
    Family(
        "roberta", ("roberta", "xlm-roberta"), "encoder", "roberta", "classifier.out_proj", **_PAIR
    ),
)  # fmt: skip

REMOTE = Family(
    "remote",
    (),
    "remote",
    backbone="",
    head="",
    pooled="unknown",
    remote_code=True,
    gradient=True,
    notes="Any other model, by its own code: --trust-remote-code and a 40-digit --revision.",
)
"""A model whose own code is run: nothing is known about its inside."""
