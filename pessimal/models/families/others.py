"""Rows of families that aren't scored here: unverified ones, and those with no score a reply."""

from __future__ import annotations

from typing import Any

from pessimal.models.families.records import Family, Kind

_ENDPOINT = "a server of the model's own can be audited as an endpoint"


def _unverified(name: str, model_types: tuple[str, ...], missing: str, **more: Any) -> Family:
    return Family(
        name, model_types, "decoder", "", "", status="unverified", gradient=False, pooled="unknown",
        notes=missing, **more,
    )  # fmt: skip


def _refused(
    name: str,
    model_types: tuple[str, ...],
    code: str,
    notes: str,
    *,
    kind: Kind = "decoder",
    **more: Any,
) -> Family:
    return Family(
        name, model_types, kind, "", "", status="refused", gradient=False, pooled="unknown",
        code=code, notes=notes, **more,
    )  # fmt: skip


UNVERIFIED: tuple[Family, ...] = (
    _unverified(
        "qrm-gemma2", ("gemma2",),
        "missing: its class, its numbers of objectives and quantiles",
        keys=("regression_layer.", "gating."),
        remote_code=True,
    ),
    _unverified(
        "ldl", ("gemma2",),
        "missing: a checkpoint with its heads beside its backbone; they lie in two pickles",
        classes=("LDLRewardModel27B",),
    ),
    _unverified(
        "internlm2-rm", ("internlm2",),
        "missing: its backbone and its tokenizer, which transformers doesn't have",
        classes=("InternLM2ForRewardModel",),
        remote_code=True,
    ),
    _unverified(
        "starling", ("llama",),
        "missing: its config and tokenizer, which are those of the gated"
        " meta-llama/Llama-2-7b-chat-hf",
        keys=("transformer.", "v_head."),
    ),
    _unverified(
        "oasst-rm", ("gpt_neox_reward_model",),
        "missing: a model type of transformers' own; it pools by mean or last, as its config says",
        classes=("GPTNeoXRewardModel",),
    ),
)  # fmt: skip

REFUSED: tuple[Family, ...] = (
    _refused(
        "pairrm", ("deberta", "deberta-v2"), "pairwise_model",
        "It compares two replies and scores neither. Use a model with one score a reply.",
        kind="encoder",
        classes=("DebertaV2PairRM",),
    ),
    _refused(
        "steamshp", ("t5",), "pairwise_model",
        "It says which of two replies is better. Use a model with one score a reply.",
        kind="encoder",
        classes=("T5ForConditionalGeneration",),
    ),
    _refused(
        "process-rm", (), "process_reward_model",
        "It scores every step of a text (a process reward model), not a reply. Use a model with"
        " one score a reply.",
        classes=("Qwen2ForProcessRewardModel", "Qwen2ForTokenClassification",
                 "LlamaForTokenClassification", "MistralForTokenClassification"),
        remote_code=True,
    ),
    _refused(
        "multi-label", (), "many_labels",
        "It gives several scores and no rule to weigh them. Use a model with one output.",
    ),
    _refused(
        "generative", (), "causal_lm",
        "A critic, or a reward read from a language model's words, has no score of its own. Ask"
        " it as a judge (--kind judge), or use a classifier with one output.",
    ),
    _refused(
        "no-weights", (), "weights_missing",
        f"Published without weights that transformers reads (NeMo, GGUF): {_ENDPOINT}.",
    ),
)  # fmt: skip
