"""Rows of transformers' own sequence classifiers, one an architecture."""

from __future__ import annotations

from typing import Any

from pessimal.models.families.records import Family

_PAIR: dict[str, Any] = {"pooled": "first token", "template": "a text pair", "bos": "the pair's"}


def _decoder(name: str, *model_types: str, **more: Any) -> Family:
    types = model_types or (name,)
    return Family(name, types, "decoder", "model", "score", "layers", "norm", **more)


STOCK: tuple[Family, ...] = (
    _decoder("llama"),
    _decoder("mistral"),
    _decoder("qwen2", bos="none"),
    _decoder("qwen3", bos="none"),
    _decoder("gemma"),
    _decoder("gemma2", softcap=True, attention="soft-capped: eager, or Flash Attention 2.6"),
    _decoder("gemma3", "gemma3_text"),
    Family(
        "gpt2", ("gpt2",), "decoder", "transformer", "score", "h", "ln_f",
        template="--template", bos="none",
        notes="Positions are learned, so nothing is padded on the left.",
    ),
    Family("deberta", ("deberta", "deberta-v2"), "encoder", "deberta", "classifier", **_PAIR),
    Family("bert", ("bert",), "encoder", "bert", "classifier", **_PAIR),
    Family(
        "roberta", ("roberta", "xlm-roberta"), "encoder", "roberta", "classifier.out_proj", **_PAIR
    ),
)  # fmt: skip

REMOTE = Family(
    "remote", (), "remote", backbone="", head="", pooled="unknown", attention="its own",
    remote_code=True,
    notes="Any other model, by its own code: --trust-remote-code and a 40-digit --revision.",
)  # fmt: skip
"""A model whose own code is run: nothing is known about its inside."""

ENDPOINT = Family(
    "endpoint", (), "remote", backbone="", head="", pooled="unknown", gradient=False,
    attention="the server's own", dtype="the server's own",
    notes="Any model behind a server: --endpoint and --tokenizer.",
)  # fmt: skip
"""A model whose weights are elsewhere."""

_LANGUAGE = tuple(name for row in STOCK if row.kind == "decoder" for name in row.model_types)
IMPLICIT = Family(
    "implicit", _LANGUAGE, "decoder", backbone="", head="", gradient=False,
    pooled="every token of the reply",
    notes="What a policy has learned over its reference: --kind implicit and --reference.",
)  # fmt: skip
JUDGE = Family(
    "judge", _LANGUAGE, "decoder", backbone="", head="", pooled="last token",
    template="a judge's question",
    notes="An instruct model that is asked whether a reply is good: --kind judge.",
)  # fmt: skip
"""Language models that score without a reward head; each is read as its architecture's row says."""


def family_of(model_type: str) -> Family | None:
    """The stock family of a config's ``model_type``, or None."""
    return next((row for row in STOCK if model_type in row.model_types), None)
