"""Rows of families whose head is computed here, on transformers' own backbones.

A row is here only where the published source of its class, or a serving engine's tested
implementation of it, gives its formula and the names of its weights: see `pessimal.models.heads`.
"""

from __future__ import annotations

from typing import Any

from pessimal.models.families.records import Family

LLAMA_3_REPLY = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
"""What Llama 3's template writes between a prompt and its reply."""


def _own(name: str, model_types: tuple[str, ...], head: str, **more: Any) -> Family:
    return Family(name, model_types, "decoder", "model", "head", own_head=head, **more)


_BEAVER: dict[str, Any] = {
    "classes": ("LlamaForScore", "LlamaModelForScore"),
    "keys": ("score_head.weight",),
    "pooled": "last token",
    "template": "--template: BEGINNING OF CONVERSATION: USER: PROMPT ASSISTANT:REPLY and EOS",
}

OWN: tuple[Family, ...] = (
    _own(
        "qrm", ("llama",), "qrm",
        classes=("LlamaForRewardModelWithGating",),
        keys=("regression_layer.weight", "reward_transform_matrix", "gating.logit_scale",
              "gating.layers.2.running_mean"),
        gate=LLAMA_3_REPLY,
        pooled="before the first pad",
        dtype="bfloat16, head float32",
        scores=(5.7, 38.6),
        remote_code=True,
        notes="19 objectives by 19 quantiles, weighed by a gate that reads the prompt.",
    ),
    _own(
        "armorm", ("llama",), "armorm",
        classes=("LlamaForRewardModelWithGating",),
        keys=("regression_layer.weight", "reward_transform_matrix", "gating.logit_scale",
              "gating.layers.0.weight"),
        gate=LLAMA_3_REPLY,
        pooled="before the first pad",
        dtype="float32, card bfloat16",
        scores=(0.0, 0.074),
        remote_code=True,
        notes="19 objectives, weighed by a gate that reads the prompt.",
    ),
    _own(
        "inf-orm", ("llama",), "two_layers",
        classes=("INFORMForSequenceClassification",),
        keys=("score.0.weight", "score.2.weight"),
        pooled="before the first pad",
        dtype="bfloat16",
        notes="Two-layer head; its class stands in its card, not in its repository.",
    ),
    _own(
        "qwen2-rm", ("qwen2",), "two_layers",
        classes=("Qwen2ForRewardModel",),
        keys=("score.0.weight", "score.2.weight"),
        pooled="before the first pad",
        bos="none",
        remote_code=True,
        notes="Two-layer head of Qwen's reward models for mathematics.",
    ),
    _own(
        "urm", ("llama",), "urm",
        classes=("LlamaForSequenceClassificationWithNormal_Weights",),
        keys=("score.weight", "weights.fc.0.weight"),
        pooled="before the first pad",
        dtype="float16",
        remote_code=True,
        notes="Means of five attributes, weighed by a gate. Scores published under its name may"
        " be one attribute's, read by a class that its config also fits.",
    ),
    _own(
        "ultrarm", ("llama",), "regression",
        classes=("LlamaRewardModel",),
        keys=("regression_head.weight",),
        pooled="last token",
        template="--template: Human: PROMPT, a new line, Assistant: REPLY",
        notes="Its class stands in its card, not in its repository.",
    ),
    _own(
        "eurus", ("mistral",), "regression",
        classes=("EurusRewardModel",),
        keys=("regression_head.weight",),
        pooled="last token",
        remote_code=True,
    ),
    _own(
        "grm", ("llama", "gemma", "gemma2", "mistral"), "value",
        classes=("AutoModelForCausalLMWithValueHead", "GRewardModel"),
        keys=("v_head.summary.",),
        pooled="last token",
        remote_code=True,
        notes="Value head of one layer or more. Trained with two BOS: compare --bos double.",
    ),
    _own(
        "beaver-reward", ("llama",), "score",
        settings=(("score_type", "reward"),),
        notes="Its normaliser is applied where the config asks for it.",
        **_BEAVER,
    ),
    _own(
        "beaver-cost", ("llama",), "score",
        settings=(("score_type", "cost"),),
        sign=-1,
        notes="Its number is higher for more harmful replies: scores are minus it.",
        **_BEAVER,
    ),
)  # fmt: skip
