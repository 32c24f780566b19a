"""Puts a PEFT adapter on its base, proves that every tensor of it arrived, and merges it."""

from __future__ import annotations

from typing import Any

from pessimal.errors import PessimalError
from pessimal.models.checkpoint import read_tensor, tensor_shapes
from pessimal.models.records import ModelSource

_TRIED = ((1, 2, 3, 4, 5), (9, 8, 7))
"""Any ids do: merging must not change the score of any sequence."""


def merge_adapter(source: ModelSource, module: Any) -> Any:
    """Merge the adapter of `source` into `module` (float32).

    Raises:
        PessimalError: ``adapter_mismatch``: a tensor of the adapter has no place in the base, or
            merging changes scores.
    """
    import torch
    from peft import PeftModel, get_peft_model_state_dict

    adapter = source.adapter
    assert adapter is not None
    if hasattr(module.config, "quantization_config"):
        del module.config.quantization_config
    wrapped = PeftModel.from_pretrained(module, adapter, torch_device="cpu").eval()
    files = tuple(sorted(adapter.glob("adapter_model.*")))
    loaded = get_peft_model_state_dict(wrapped)
    for key in tensor_shapes(files):
        stored = read_tensor(files, key)
        if key not in loaded or not torch.equal(loaded[key].to(stored.dtype), stored):
            raise _mismatch(f"Its tensor {key} has no place in the base")
    lost = sorted(key for key in loaded if "lora_" in key and read_tensor(files, key) is None)
    if lost:
        raise _mismatch(f"It lacks {lost[0]}")
    before = _scores(wrapped)
    merged = wrapped.merge_and_unload(safe_merge=True)
    after = _scores(merged)
    if not torch.allclose(before, after, rtol=1e-3, atol=1e-3):
        raise _mismatch("Merging it changes the scores")
    return merged


def _scores(module: Any) -> Any:
    import torch

    with torch.inference_mode():
        rows = [module(input_ids=torch.tensor([ids])).logits.reshape(-1) for ids in _TRIED]
    return torch.cat(rows)


def _mismatch(reason: str) -> PessimalError:
    return PessimalError(
        "adapter_mismatch",
        f"The adapter doesn't fit its base. {reason}.",
        "Use the base it was trained on, and the PEFT version that saved it or a newer one.",
    )
