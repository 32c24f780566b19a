"""Checks of a model in memory: complete weights, a capped attention, the pooled position."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pessimal.errors import PessimalError
from pessimal.models.families import Family
from pessimal.models.records import ModelSource, ReplySlot
from pessimal.models.scalar import describe_output, find_scores
from pessimal.models.slot import ORDINARY, PROBE_PROMPT, find_slot
from pessimal.models.source import ADAPTER_PREFIX

if TYPE_CHECKING:
    import torch

HARMLESS = re.compile(
    r"^lm_head\.(weight|bias)$|rotary_emb\.inv_freq$|(^|\.)position_ids$|attn\.(masked_)?bias$"
    r"|^cls\.|^lm_predictions\.|^mask_predictions\."
)
"""Weights of a checkpoint that no score depends on: language-model heads and constant tables."""
_TOLERANCE = {"float32": 1e-4, "bfloat16": 3e-2, "float16": 4e-3}


def check_loading(source: ModelSource, report: Mapping[str, Any], *, short: bool) -> None:
    """Refuse weights that were missing, of another shape, or left over.

    Args:
        source: the model.
        report: transformers' loading info.
        short: whether later layers were left out on purpose.

    Raises:
        PessimalError: ``head_missing``, ``weights_incomplete``, ``weights_mismatch`` or
            ``weights_unexpected``.
    """
    missing = set(map(str, report["missing_keys"]))
    if source.adapter is not None:
        missing -= _head_keys_of_adapter(source)
    own = sorted(key for key in missing if source.family.own_head and key.startswith("head."))
    if source.head_key in missing or own:
        lost = own[0].removeprefix("head.") if own else source.head_key
        raise PessimalError(
            "head_missing",
            f"The checkpoint holds no head {lost}: it was made at random.",
            "Name the whole reward model, or save its head under that name.",
        )
    if missing:
        raise PessimalError(
            "weights_incomplete",
            f"The checkpoint lacks {_some(missing)}, which were made at random.",
            "Save the whole model again.",
        )
    if report["mismatched_keys"]:
        raise PessimalError(
            "weights_mismatch",
            f"Weights of another shape than config.json says: {_some(report['mismatched_keys'])}.",
            "Use the config that the model was saved with.",
        )
    left = {str(key) for key in report["unexpected_keys"] if not HARMLESS.search(str(key))}
    if source.adapter is not None:
        # A demo's base may hold more layers than are kept.
        left = {key for key in left if _layer(key) < source.config.num_hidden_layers}
    if left and not short:
        raise PessimalError(
            "weights_unexpected",
            f"The checkpoint holds weights that the class doesn't use: {_some(left)}. It was "
            "saved by another class, and its scores would be others.",
            "Name a model of a stock class, or run its own code with --trust-remote-code.",
        )


def check_softcap(family: Family, module: torch.nn.Module) -> None:
    """Refuse an attention that leaves out the soft-cap its family was trained with.

    Raises:
        PessimalError: ``softcap_missing``.
    """
    if not family.softcap:
        return
    caps = [
        part.attn_logit_softcapping
        for part in module.modules()
        if hasattr(part, "attn_logit_softcapping")
    ]
    eager = getattr(module.config, "_attn_implementation", None) == "eager"
    if not caps or not all(caps) or not eager:
        raise PessimalError(
            "softcap_missing",
            f"The attention of this {family.name} model runs without its soft-cap.",
            "Restore attn_logit_softcapping in config.json and load with eager attention.",
        )


def check_behaviour(source: ModelSource, module: Any, head: torch.nn.Module) -> None:
    """Score ordinary replies by the model's own forward and by its backbone and head.

    A decoder's own forward must read the head at the last position: a pad id that occurs after
    the reply moves it.

    Raises:
        PessimalError: ``many_labels``, ``scores_not_finite``, ``pad_moves_pooling``,
            ``pooling_unknown``.
    """
    slot = find_slot(source, PROBE_PROMPT)
    for reply in ORDINARY:
        middle = source.tokenizer(reply, add_special_tokens=False)["input_ids"]
        own = _own_score(module, slot, middle)
        if source.family.kind != "decoder":
            continue
        last = _last_score(source, module, head, slot, middle)
        if abs(own - last) > _TOLERANCE[source.request.dtype] * (1 + abs(last)):
            _refuse_pooling(source, slot)


def _own_score(module: Any, slot: ReplySlot, reply: list[int]) -> float:
    import torch

    ids = torch.tensor([[*slot.prefix_ids, *reply, *slot.suffix_ids]], device=module.device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if slot.token_types is not None and slot.prefix_types is not None:
        types = [*slot.prefix_types, *[slot.token_types[1]] * len(reply)]
        types += [slot.token_types[2]] * len(slot.suffix_ids)
        inputs["token_type_ids"] = torch.tensor([types], device=module.device)
    with torch.inference_mode():
        output = module(**inputs)
    found = find_scores(output, inputs["attention_mask"])
    if found is None:
        raise PessimalError(
            "many_labels",
            f"The model gives {describe_output(output)} for one reply; a reward model gives one "
            "score.",
            "Name a model with one output (num_labels=1).",
        )
    score = float(found[0])
    if score - score != 0:
        raise PessimalError(
            "scores_not_finite",
            f"An ordinary reply scores {score}.",
            "Use --dtype float32; if it stays, the checkpoint is broken.",
        )
    return score


def _last_score(
    source: ModelSource, module: Any, head: torch.nn.Module, slot: ReplySlot, reply: list[int]
) -> float:
    import torch

    ids = torch.tensor([[*slot.prefix_ids, *reply, *slot.suffix_ids]], device=module.device)
    with torch.inference_mode():
        backbone = module.get_submodule(source.family.backbone)
        hidden = backbone(ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        if source.family.own_head:
            # Where the head is gated, the gate's position is the one in the prompt.
            gate = module.states(ids[:, : len(slot.prefix_ids)])[1]
            return float(head(hidden[:, -1], gate)[0])
        return float(head(hidden)[0, -1, 0])


def _refuse_pooling(source: ModelSource, slot: ReplySlot) -> None:
    pad = source.config.pad_token_id
    first = source.family.pooled == "before the first pad"
    if pad in (*slot.suffix_ids, *(slot.prefix_ids if first else ())):
        name = source.tokenizer.convert_ids_to_tokens(pad)
        raise PessimalError(
            "pad_moves_pooling",
            f"The config's pad_token_id {pad} ({name}) occurs in every input, so the model "
            f"reads its score at another token than {slot.pooled_token}.",
            "Set pad_token_id in config.json to a token that the template doesn't write, or null.",
        )
    raise PessimalError(
        "pooling_unknown",
        "The model's own score isn't its head at the last position, so its place is unknown.",
        "Check pad_token_id and the class that saved the model.",
    )


def _head_keys_of_adapter(source: ModelSource) -> set[str]:
    from pessimal.models.checkpoint import tensor_shapes

    assert source.adapter is not None
    files = tuple(sorted(source.adapter.glob("adapter_model.*")))
    return {
        key.removeprefix(ADAPTER_PREFIX)
        for key in tensor_shapes(files)
        if key.startswith(ADAPTER_PREFIX + source.family.head + ".")
    }


def _layer(key: str) -> int:
    found = re.search(r"\.(?:layers|h|layer)\.(\d+)\.", key)
    return int(found[1]) if found else -1


def _some(keys: Iterable[Any]) -> str:
    names = sorted(map(str, keys))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
