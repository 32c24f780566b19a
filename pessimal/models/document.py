"""The ``model`` object of audit documents: what was loaded, in full."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from pessimal.models.devices import devices_of
from pessimal.models.records import LoadedModel, ReplySlot, ScoringPath

_ATTENTION: dict[str, str] = {
    "shared": "shared_prefix",
    "copied": "eager_copied_cache",
    "full": "eager",
}


def model_document(
    loaded: LoadedModel,
    slot: ReplySlot,
    *,
    path: ScoringPath,
    self_test_max_difference: float,
    attention: str | None = None,
) -> dict[str, Any]:
    """Describe a loaded model.

    Args:
        loaded: the model.
        slot: the reply slot of the prompt that is shown as an example.
        path: the scoring path the self-test left.
        self_test_max_difference: its largest difference from the reference, in SD of the scores.
        attention: name of the attention; the path's own by default.
    """
    import torch

    source, tokenizer, config = loaded.source, loaded.tokenizer, loaded.source.config
    return {
        "id": loaded.id,
        "revision": loaded.revision,
        "kind": "reward",
        "gradient": loaded.family.gradient,
        "family": loaded.family.name,
        "class": type(loaded.module).__name__,
        "head": {
            "key": source.head_key,
            "shape": list(source.head_shape),
            "sha256": loaded.hashes.head,
        },
        "pooled": {"token": slot.pooled_token, "index": slot.pooled_index},
        "template_sha256": loaded.hashes.template,
        "template_kwargs": source.template_kwargs,
        "rendered": slot.rendered,
        "bos": slot.bos,
        "pad": config.pad_token_id,
        "tokenizer_pad": tokenizer.pad_token_id,
        "padding_side": tokenizer.padding_side,
        "eos": config.eos_token_id,
        "dtype": loaded.request.dtype,
        "device": devices_of(loaded.module),
        "threads": torch.get_num_threads(),
        "attention": attention or _ATTENTION[path],
        "path": path,
        "self_test_max_difference": self_test_max_difference,
        "embedding_rows": loaded.embedding_rows,
        "parameters": sum(weight.numel() for weight in loaded.module.parameters()),
        "base": source.base,
        "hashes": loaded.hashes.items(),
        "versions": {
            name: version(name) for name in ("torch", "transformers", "tokenizers", "peft")
        },
        "notes": list(loaded.notes),
    }
