from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from pessimal.errors import UsageError
from pessimal.models.checks import check_softcap
from pessimal.models.loader import load_model, pick_device
from pessimal.models.slot import find_slot
from tests.builders import build_model
from tests.models.opening import edit_json, edit_weights, loaded, opened, refusal, write_template

PROMPT = "What is it?"
DECODERS = ["llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "gpt2"]
FAMILIES = [*DECODERS, "deberta-v2", "bert", "roberta"]


def score(model: Any, reply: list[int]) -> float:
    slot = find_slot(model.source, PROMPT)
    ids = torch.tensor([[*slot.prefix_ids, *reply, *slot.suffix_ids]])
    with torch.no_grad():
        return float(model.module(input_ids=ids).logits[0, 0])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_loaded_model_is_the_saved_one(tmp_path: Path, family: str) -> None:
    from transformers import AutoModelForSequenceClassification

    model = loaded(build_model(tmp_path, family))
    plain = AutoModelForSequenceClassification.from_pretrained(
        tmp_path, attn_implementation="eager", dtype=torch.float32
    ).state_dict()
    own = model.module.state_dict()
    assert own.keys() == plain.keys()
    assert all(torch.equal(own[name], plain[name]) for name in own)
    assert not model.module.training
    assert not any(weight.requires_grad for weight in model.module.parameters())
    assert model.module.config._attn_implementation == "eager"
    assert score(model, [40]) == score(model, [40]) != score(model, [41])


def test_a_model_saved_in_half_precision_is_read_in_the_precision_asked_for(
    tmp_path: Path,
) -> None:
    build_model(tmp_path, "llama")
    edit_weights(tmp_path, lambda t: t.update({k: v.bfloat16() for k, v in t.items()}))
    edit_json(tmp_path / "config.json", dtype="bfloat16")
    assert loaded(tmp_path).module.dtype == torch.float32
    assert loaded(tmp_path, dtype="bfloat16").module.dtype == torch.bfloat16


def test_weights_that_vanish_after_opening_are_missed_at_loading(tmp_path: Path) -> None:
    source = opened(build_model(tmp_path, "llama"))
    edit_weights(tmp_path, lambda t: t.pop("score.weight"))
    error = refusal(load_model, source)
    assert error.code == "head_missing"
    assert "random" in error.message


def test_a_head_that_the_class_hides_from_its_report_differs_between_two_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import LlamaForSequenceClassification

    source = opened(build_model(tmp_path, "llama"))
    edit_weights(tmp_path, lambda t: t.pop("score.weight"))
    monkeypatch.setattr(
        LlamaForSequenceClassification, "_keys_to_ignore_on_load_missing", ["score"], raising=False
    )
    error = refusal(load_model, source)
    assert error.code == "head_missing"
    assert "two seeds" in error.message


def test_other_weights_that_are_missing(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    edit_weights(tmp_path, lambda t: t.pop("model.layers.1.mlp.up_proj.weight"))
    error = refusal(loaded, tmp_path)
    assert error.code == "weights_incomplete"
    assert "model.layers.1.mlp.up_proj.weight" in error.message


def test_a_pooler_of_an_encoder_is_missed(tmp_path: Path) -> None:
    build_model(tmp_path, "deberta-v2")
    edit_weights(tmp_path, lambda t: t.pop("pooler.dense.weight"))
    assert refusal(loaded, tmp_path).code == "weights_incomplete"


def test_weights_of_another_class_are_not_dropped_silently(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    edit_weights(tmp_path, lambda t: t.update({"gate.weight": torch.ones(5, 32)}))
    error = refusal(loaded, tmp_path)
    assert error.code == "weights_unexpected"
    assert "gate.weight" in error.message


@pytest.mark.parametrize(
    "name", ["lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq", "model.position_ids"]
)
def test_weights_that_no_score_needs_may_be_left_over(tmp_path: Path, name: str) -> None:
    before = loaded(build_model(tmp_path, "llama"))
    edit_weights(tmp_path, lambda t: t.update({name: torch.ones(4)}))
    after = loaded(tmp_path)
    # Weights lie elsewhere in the file, and alignment decides how sums are rounded.
    assert score(after, [40]) == pytest.approx(score(before, [40]), abs=1e-5)
    assert after.hashes.weights != before.hashes.weights


def test_weights_of_another_shape_than_the_config_says(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    edit_json(tmp_path / "config.json", intermediate_size=40)
    assert refusal(loaded, tmp_path).code in ("model_failed", "weights_mismatch")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_head_that_is_not_finite(tmp_path: Path, value: float) -> None:
    build_model(tmp_path, "llama")
    edit_weights(tmp_path, lambda t: t["score.weight"].fill_(value))
    assert refusal(loaded, tmp_path).code == "head_not_finite"


def test_a_head_that_overflows_in_half_precision(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    edit_weights(tmp_path, lambda t: t["score.weight"].mul_(1e6))
    loaded(tmp_path)
    error = refusal(loaded, tmp_path, dtype="float16")
    assert error.code == "head_not_finite"
    assert "float32" in error.remedy


def test_weights_below_the_head_that_are_not_finite(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    edit_weights(tmp_path, lambda t: t["model.norm.weight"].fill_(math.nan))
    assert refusal(loaded, tmp_path).code == "scores_not_finite"


def test_a_pad_that_the_template_writes_moves_the_pooled_position(tmp_path: Path) -> None:
    build_model(tmp_path, "llama", pad_token_id=4)
    error = refusal(loaded, tmp_path)
    assert error.code == "pad_moves_pooling"
    assert "pad_token_id 4" in error.message
    assert "<|im_end|>" in error.message


@pytest.mark.parametrize("pad", [None, 0, 2, 3])
def test_a_pad_that_moves_nothing_is_taken(tmp_path: Path, pad: int | None) -> None:
    # 2 is the EOS, and 3 occurs in the prompt only.
    model = loaded(build_model(tmp_path, "llama", pad_token_id=pad))
    assert any("pad id" in note for note in model.notes) == (pad != 0)


def test_a_forward_that_reads_another_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import LlamaForSequenceClassification
    from transformers.modeling_outputs import SequenceClassifierOutputWithPast

    def first_position(self: Any, input_ids: Any, attention_mask: Any) -> Any:
        hidden = self.model(input_ids, attention_mask=attention_mask).last_hidden_state
        return SequenceClassifierOutputWithPast(logits=self.score(hidden[:, 0]))

    build_model(tmp_path, "llama")
    monkeypatch.setattr(LlamaForSequenceClassification, "forward", first_position)
    assert refusal(loaded, tmp_path).code == "pooling_unknown"


def test_the_soft_cap_matters_and_is_kept(tmp_path: Path) -> None:
    model = loaded(build_model(tmp_path, "gemma2"))
    capped = score(model, [40])
    for layer in model.module.model.layers:
        layer.self_attn.attn_logit_softcapping = None
    assert abs(score(model, [40]) - capped) > 0.01
    assert refusal(check_softcap, model.family, model.module).code == "softcap_missing"


def test_an_attention_that_ignores_the_soft_cap(tmp_path: Path) -> None:
    model = loaded(build_model(tmp_path, "gemma2"))
    check_softcap(model.family, model.module)
    model.module.config._attn_implementation = "sdpa"
    assert refusal(check_softcap, model.family, model.module).code == "softcap_missing"


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert isinstance(refusal(pick_device, "gpu please"), UsageError)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert pick_device("auto") == torch.device("cpu")
    assert refusal(pick_device, "cuda").code == "device_unavailable"


def test_random_numbers_go_on_where_they_were(tmp_path: Path) -> None:
    source = opened(build_model(tmp_path, "llama"))
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    load_model(source)
    assert torch.equal(torch.rand(1), expected)


def test_each_part_has_its_own_hash(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    first = loaded(tmp_path).hashes
    assert loaded(tmp_path).hashes == first
    assert first.adapter is None
    assert "adapter" not in first.items()

    write_template(tmp_path, (tmp_path / "chat_template.jinja").read_text() + "{# changed #}")
    second = loaded(tmp_path).hashes
    assert changed(first, second) == {"template"}

    edit_json(tmp_path / "config.json", rms_norm_eps=1e-3)
    third = loaded(tmp_path).hashes
    assert changed(second, third) == {"config"}

    edit_json(tmp_path / "tokenizer_config.json", note="changed")
    fourth = loaded(tmp_path).hashes
    assert changed(third, fourth) == {"tokenizer"}

    edit_weights(tmp_path, lambda t: t["model.norm.weight"].mul_(2))
    fifth = loaded(tmp_path).hashes
    assert changed(fourth, fifth) == {"weights"}

    edit_weights(tmp_path, lambda t: t["score.weight"].mul_(2))
    assert changed(fifth, loaded(tmp_path).hashes) == {"weights", "head"}


def changed(first: Any, second: Any) -> set[str]:
    return {name for name in vars(first) if getattr(first, name) != getattr(second, name)}
