"""Tiny checkpoints of families with heads of their own, and their formulas in plain PyTorch.

Nothing here uses Pessimal's heads. A builder writes the published weight names; a formula restates
the public source that its docstring names, on hidden states after the backbone's final norm.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from tests.builders import build_model
from tests.models.opening import edit_json

HIDDEN, OBJECTIVES, QUANTILES, INNER = 32, 19, 19, 24
SPECIALS = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
LLAMA_3 = (
    "{% for m in messages %}{% if loop.first %}{{ '<|begin_of_text|>' }}{% endif %}"
    "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' }}"
    "{{ m['content'] + '<|eot_id|>' }}{% endfor %}"
)
Weights = dict[str, Tensor]
Formula = Callable[[Weights, Tensor, Tensor], Tensor]
"""Weights, states at the pooled position ``[B, H]`` and at the gate's ``[B, H]``, to ``[B]``."""


def build_own(folder: Path, name: str, **config: Any) -> Path:
    """Save a tiny checkpoint of a family with an own head.

    Args:
        folder: where to save.
        name: a key of `CASES`.
        config: fields of the config to override.
    """
    model_type, settings, shapes, _ = CASES[name]
    build_model(folder, model_type, seed=3, initializer_range=0.2)
    drawn = torch.Generator().manual_seed(5)
    tensors = load_file(folder / "model.safetensors")
    del tensors["score.weight"]
    for key, shape in shapes.items():
        scale = shape[-1] ** -0.5 if len(shape) > 1 else 0.3
        value = scale * torch.randn(shape, generator=drawn)
        if key.endswith(("var", "logit_scale")):
            value = value.abs() + 0.5
        tensors[key] = value
        if key.endswith("running_var"):
            tensors[key.replace("running_var", "num_batches_tracked")] = torch.tensor(7)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    edit_json(folder / "config.json", **{"num_labels": ..., "id2label": ..., "label2id": ...},
              **(settings | config))  # fmt: skip
    if "gating.logit_scale" in shapes:
        _speak_llama_3(folder, tensors)
    return folder


def _speak_llama_3(folder: Path, tensors: Weights) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    added = tokenizer.add_special_tokens({"additional_special_tokens": SPECIALS})
    tokenizer.bos_token = SPECIALS[0]
    tokenizer.chat_template = LLAMA_3
    tokenizer.save_pretrained(folder)
    rows = tensors["model.embed_tokens.weight"]
    more = torch.randn(added, HIDDEN, generator=torch.Generator().manual_seed(7))
    tensors["model.embed_tokens.weight"] = torch.cat([rows, 0.5 * more])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    edit_json(folder / "config.json", vocab_size=len(tokenizer))


def linear(weights: Weights, name: str, x: Tensor) -> Tensor:
    return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))


def armorm(weights: Weights, hidden: Tensor, gate: Tensor) -> Tensor:
    """The class on RLHFlow/ArmoRM-Llama3-8B-v0.1's card (`modeling_custom.py`)."""
    rewards = linear(weights, "regression_layer", hidden)
    for place in range(3):
        gate = F.relu(linear(weights, f"gating.layers.{place}", gate))
    shares = F.softmax(linear(weights, "gating.layers.3", gate) / 10, dim=1)
    shares = shares * weights["gating.logit_scale"][0]
    return (shares * (rewards @ weights["reward_transform_matrix"])).sum(1)


def qrm(weights: Weights, hidden: Tensor, gate: Tensor) -> Tensor:
    """`rewardbench/models/qrm.py` of allenai/reward-bench, for nicolinho/QRM-Llama3.1-8B."""
    return qrm_quantiles(weights, hidden, gate).mean(1)


def qrm_quantiles(weights: Weights, hidden: Tensor, gate: Tensor) -> Tensor:
    """The ``reward_quantiles`` of the same."""
    for place in range(0, 9, 3):
        gate = F.relu(linear(weights, f"gating.layers.{place}", gate))
        norm = {
            part: weights[f"gating.layers.{place + 2}.{part}"]
            for part in ("running_mean", "running_var", "weight", "bias")
        }
        gate = (gate - norm["running_mean"]) / (norm["running_var"] + 1e-5).sqrt()
        gate = gate * norm["weight"] + norm["bias"]
    shares = F.softmax(linear(weights, "gating.layers.9", gate) / 5, dim=1)
    shares = shares * weights["gating.logit_scale"][0]
    rewards = linear(weights, "regression_layer", hidden).reshape(-1, OBJECTIVES, QUANTILES)
    adjusted = torch.einsum("bjq,jk->bkq", rewards, weights["reward_transform_matrix"])
    return torch.einsum("bk,bkq->bq", shares, adjusted)


def two_layers(weights: Weights, hidden: Tensor, gate: Tensor) -> Tensor:
    """`rewardbench/models/inform.py`; for Qwen2ForRewardModel SGLang's `qwen2_rm.py`."""
    return linear(weights, "score.2", F.relu(linear(weights, "score.0", hidden)))[:, 0]


def regression(weights: Weights, hidden: Tensor, gate: Tensor) -> Tensor:
    """`rewardbench/models/openbmb.py` (UltraRM) and `modeling_eurus_rm.py` (Eurus-RM-7b)."""
    return (hidden @ weights["regression_head.weight"].T)[:, 0]


def grm(weights: Weights, hidden: Tensor, gate: Tensor) -> Tensor:
    """`rewardbench/models/grm.py`: layers of type mlp, here two."""
    for place in (0, 2):
        hidden = F.relu(linear(weights, f"v_head.summary.{place}", hidden))
    return linear(weights, "v_head.summary.4", hidden)[:, 0]


def grm_linear(weights: Weights, hidden: Tensor, gate: Tensor) -> Tensor:
    """`rewardbench/models/grm.py`: a layer of type linear."""
    return linear(weights, "v_head.summary", hidden)[:, 0]


def beaver(weights: Weights, hidden: Tensor, gate: Tensor) -> Tensor:
    """`rewardbench/models/beaver.py`: a reward's ``end_scores``, not normalised."""
    return linear(weights, "score_head", hidden)[:, 0]


def beaver_normalised(weights: Weights, hidden: Tensor, gate: Tensor) -> Tensor:
    """`rewardbench/models/beaver.py`: a reward's affine normaliser."""
    mean, var = weights["normalizer.mean"], weights["normalizer.var"]
    return (beaver(weights, hidden, gate) - mean) / (var.sqrt() + 1e-8)


def beaver_cost(weights: Weights, hidden: Tensor, gate: Tensor) -> Tensor:
    """`rewardbench/models/beaver.py`: a cost is scaled only, and turned by its pipeline."""
    return -beaver(weights, hidden, gate) / (weights["normalizer.var"].sqrt() + 1e-8)


def urm(weights: Weights, hidden: Tensor, gate: Tensor) -> Tensor:
    """SGLang's `llama_reward.py`, tested there against LxzGordon/URM-LLaMa-3.1-8B's own code."""
    means = linear(weights, "score", hidden).view(-1, 5, 2)[:, :, 0]
    for place in (0, 2):
        hidden = F.selu(linear(weights, f"weights.fc.{place}", hidden))
    return (means * linear(weights, "weights.fc.4", hidden)).sum(1)


def _matrix(name: str, out: int, size: int = HIDDEN, bias: bool = True) -> dict[str, Any]:
    return {f"{name}.weight": (out, size)} | ({f"{name}.bias": (out,)} if bias else {})


def _gating(places: tuple[int, ...], last: int, norms: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"gating.logit_scale": (1,)}
    for place in places:
        size = INNER if place else HIDDEN
        found |= _matrix(f"gating.layers.{place}", INNER, size, bias=not norms)
        parts = ("weight", "bias", "running_mean", "running_var") if norms else ()
        found |= {f"gating.layers.{place + 2}.{part}": (INNER,) for part in parts}
    return found | _matrix(f"gating.layers.{last}", OBJECTIVES, INNER)


_MATRIX = {"reward_transform_matrix": (OBJECTIVES, OBJECTIVES)}
_NORMALISER = {"normalizer.mean": (1,), "normalizer.var": (1,)}
_TWO = _matrix("score.0", HIDDEN) | _matrix("score.2", 1)
_GATED = {"architectures": ["LlamaForRewardModelWithGating"],
          "auto_map": {"AutoModelForSequenceClassification":
                       "modeling_custom.LlamaForRewardModelWithGating"},
          "pad_token_id": 0}  # fmt: skip
_VALUE = {"architectures": ["LlamaForCausalLM"],
          "auto_map": {"AutoModelForCausalLM":
                       "model.AutoModelForCausalLMWithValueHead"}}  # fmt: skip
_MLP = _matrix("v_head.summary.0", INNER) | _matrix("v_head.summary.2", INNER, INNER)
_MLP |= _matrix("v_head.summary.4", 1, INNER)

CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], Formula]] = {
    "armorm": (
        "llama", _GATED | {"gating_temperature": 10, "num_objectives": OBJECTIVES},
        _matrix("regression_layer", OBJECTIVES, bias=False) | _MATRIX
        | _gating((0, 1, 2), 3, norms=False), armorm,
    ),
    "qrm": (
        "llama", _GATED | {"gating_temperature": 5, "num_quantiles": QUANTILES},
        _matrix("regression_layer", OBJECTIVES * QUANTILES, bias=False) | _MATRIX
        | _gating((0, 3, 6), 9, norms=True), qrm,
    ),
    "inf-orm": (
        "llama", {"architectures": ["INFORMForSequenceClassification"]}, _TWO, two_layers
    ),
    "qwen2-rm": (
        "qwen2",
        {"architectures": ["Qwen2ForRewardModel"],
         "auto_map": {"AutoModel": "modeling_qwen2_rm.Qwen2ForRewardModel"}}, _TWO, two_layers,
    ),
    "ultrarm": (
        "llama", {"architectures": ["LlamaRewardModel"]},
        _matrix("regression_head", 1, bias=False), regression,
    ),
    "eurus": (
        "mistral",
        {"architectures": ["EurusRewardModel"],
         "auto_map": {"AutoModel": "modeling_eurus_rm.EurusRewardModel"}},
        _matrix("regression_head", 1, bias=False), regression,
    ),
    "grm": ("gemma", _VALUE, _MLP, grm),
    "grm-gemma2": ("gemma2", _VALUE, _MLP, grm),
    "grm-linear": ("llama", _VALUE, _matrix("v_head.summary", 1), grm_linear),
    "beaver-reward": (
        "llama", {"architectures": ["LlamaForScore"], "score_type": "reward"},
        _matrix("score_head", 1, bias=False), beaver,
    ),
    "beaver-reward-normalised": (
        "llama",
        {"architectures": ["LlamaForScore"], "score_type": "reward", "do_normalize": True,
         "bias": True},
        _matrix("score_head", 1) | _NORMALISER, beaver_normalised,
    ),
    "beaver-cost": (
        "llama", {"architectures": ["LlamaForScore"], "score_type": "cost", "do_normalize": True},
        _matrix("score_head", 1, bias=False) | _NORMALISER, beaver_cost,
    ),
    "urm": (
        "llama",
        {"architectures": ["LlamaForSequenceClassificationWithNormal_Weights"],
         "auto_map": {"AutoModelForSequenceClassification":
                      "modeling_urm.LlamaForSequenceClassificationWithNormal_Weights"}},
        _matrix("score", 10, bias=False)
        | {key: shape for place, out in ((0, HIDDEN), (2, HIDDEN), (4, 5))
           for key, shape in _matrix(f"weights.fc.{place}", out).items()}, urm,
    ),
}  # fmt: skip


def plain_scores(folder: Path, name: str, sequences: list[list[int]], gate_at: int) -> list[float]:
    """Scores of whole sequences by transformers' backbone and the plain formula, one by one.

    Args:
        folder: what `build_own` wrote.
        name: a key of `CASES`.
        sequences: ids.
        gate_at: position of the gate's hidden state.
    """
    model_type, _, _, formula = CASES[name]
    weights = load_file(folder / "model.safetensors")
    backbone = plain_backbone(folder, model_type, weights)
    found = []
    for ids in sequences:
        with torch.no_grad():
            hidden = backbone(input_ids=torch.tensor([ids])).last_hidden_state[0]
        found.append(float(formula(weights, hidden[-1:], hidden[gate_at : gate_at + 1])[0]))
    return found


def plain_backbone(folder: Path, model_type: str, weights: Weights) -> Any:
    """transformers' own backbone with the checkpoint's weights, put there by hand."""
    import json

    from transformers import AutoConfig, AutoModel

    raw = json.loads((folder / "config.json").read_text())
    raw = {key: value for key, value in raw.items() if key not in ("auto_map", "architectures")}
    config = AutoConfig.for_model(raw.pop("model_type"), **raw)
    backbone = AutoModel.from_config(config, attn_implementation="eager", dtype=torch.float32)
    state = {key[6:]: value for key, value in weights.items() if key.startswith("model.")}
    backbone.load_state_dict(state, strict=True)
    return backbone.eval()
