from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pessimal.models.slot import find_slot
from tests.builders import build_model
from tests.models.opening import edit_json, loaded, opened, refusal
from tests.models.test_loader import PROMPT, score

# PEFT reads an attribute that transformers is about to rename.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

HEAD = "base_model.model.score.weight"


def build_adapter(folder: Path, base: Path, task: str | None = "SEQ_CLS", **config: Any) -> float:
    """Save a random LoRA with its head; gives the score of one reply before saving."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForSequenceClassification

    torch.manual_seed(5)
    model = AutoModelForSequenceClassification.from_pretrained(
        base, num_labels=1, dtype=torch.float32, attn_implementation="eager"
    )
    wanted = LoraConfig(task_type=task, r=4, target_modules=["q_proj", "up_proj"], **config)
    wrapped = get_peft_model(model, wanted).eval()
    with torch.no_grad():
        for name, weight in wrapped.named_parameters():
            if "lora_B" in name or "modules_to_save" in name:
                weight.normal_(std=0.3)
        wrapped.save_pretrained(folder)
        slot = find_slot(opened(base) if task is None else opened(folder), PROMPT)
        ids = torch.tensor([[*slot.prefix_ids, 40, *slot.suffix_ids]])
        return float(wrapped(input_ids=ids).logits[0, 0])


@pytest.fixture(name="base")
def saved_base(tmp_path: Path) -> Path:
    return build_model(tmp_path / "base", "llama", head=False)


@pytest.fixture(name="adapter")
def adapter_folder(tmp_path: Path) -> Path:
    return tmp_path / "adapter"


def test_a_merged_adapter_scores_as_before_it_was_saved(base: Path, adapter: Path) -> None:
    before = build_adapter(adapter, base)
    model = loaded(adapter)
    assert score(model, [40]) == pytest.approx(before, abs=1e-4)
    assert type(model.module).__name__ == "LlamaForSequenceClassification"
    assert not any("lora" in name for name, _ in model.module.named_modules())
    assert model.source.base == {"id": str(base), "revision": ""}
    assert model.hashes.adapter is not None


def test_base_and_adapter_may_be_named_apart(base: Path, adapter: Path) -> None:
    before = build_adapter(adapter, base)
    edit_json(adapter / "adapter_config.json", base_model_name_or_path="somebody/else")
    model = loaded(base, adapter=str(adapter))
    assert score(model, [40]) == pytest.approx(before, abs=1e-4)
    assert model.id == str(adapter)


def test_an_adapter_on_a_reward_model_may_leave_its_head_alone(
    tmp_path: Path, adapter: Path
) -> None:
    base = build_model(tmp_path / "reward", "llama")
    build_adapter(adapter, base, task=None)
    model = loaded(adapter)
    stored = load_file(base / "model.safetensors")["score.weight"]
    assert torch.equal(model.module.score.weight, stored)


def test_an_adapter_without_task_type_saved_no_head(base: Path, adapter: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)
    get_peft_model(model, LoraConfig(target_modules=["q_proj"])).save_pretrained(adapter)
    error = refusal(opened, adapter)
    assert error.code == "head_missing"
    assert "task_type None" in error.message
    assert "SEQ_CLS" in error.remedy


def test_an_adapter_with_two_labels(base: Path, adapter: Path) -> None:
    build_adapter(adapter, base)
    path = adapter / "adapter_model.safetensors"
    tensors = load_file(path)
    save_file(tensors | {HEAD: torch.ones(2, 32)}, path)
    assert refusal(opened, adapter).code == "many_labels"


def test_a_tensor_without_a_place_in_the_base(base: Path, adapter: Path) -> None:
    build_adapter(adapter, base)
    path = adapter / "adapter_model.safetensors"
    extra = "base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight"
    save_file(load_file(path) | {extra: torch.ones(4, 32)}, path)
    error = refusal(loaded, adapter)
    assert error.code == "adapter_mismatch"
    assert "layers.9" in error.message


def test_a_tensor_that_the_adapter_lacks(base: Path, adapter: Path) -> None:
    build_adapter(adapter, base)
    path = adapter / "adapter_model.safetensors"
    tensors = load_file(path)
    lost = next(name for name in tensors if "lora_B" in name)
    save_file({name: tensor for name, tensor in tensors.items() if name != lost}, path)
    error = refusal(loaded, adapter)
    assert error.code == "adapter_mismatch"
    assert lost in error.message


def test_a_base_of_another_width(tmp_path: Path, base: Path, adapter: Path) -> None:
    build_adapter(adapter, base)
    other = build_model(tmp_path / "other", "llama", head=False, hidden_size=64, head_dim=16)
    assert refusal(loaded, other, adapter=str(adapter)).code == "model_failed"


@pytest.mark.parametrize("revision", [None, "main", "abc123"])
def test_a_base_on_the_hub_must_be_pinned(base: Path, adapter: Path, revision: str | None) -> None:
    build_adapter(adapter, base)
    edit_json(
        adapter / "adapter_config.json", base_model_name_or_path="org/base", revision=revision
    )
    error = refusal(opened, adapter)
    assert error.code == "base_not_pinned"
    assert "org/base" in error.message


def test_a_pinned_base_is_fetched_at_its_commit(
    base: Path, adapter: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import huggingface_hub

    build_adapter(adapter, base)
    commit = "0123456789" * 4
    snapshot = tmp_path / commit
    base.rename(snapshot)
    asked = []

    def fetch(name: str, *, revision: str, **_: Any) -> str:
        asked.append((name, revision))
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    settings = json.loads((adapter / "adapter_config.json").read_text())
    settings |= {"base_model_name_or_path": "org/base", "revision": commit}
    (adapter / "adapter_config.json").write_text(json.dumps(settings))
    assert opened(adapter).base == {"id": "org/base", "revision": commit}
    assert opened(f"org/base@{commit}", adapter=str(adapter)).base["revision"] == commit
    assert asked == [("org/base", commit)] * 2


def test_an_adapter_that_names_no_base(base: Path, adapter: Path) -> None:
    build_adapter(adapter, base)
    edit_json(adapter / "adapter_config.json", base_model_name_or_path=None)
    assert refusal(opened, adapter).code == "base_unknown"


def test_a_folder_that_is_no_adapter(base: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    error = refusal(opened, base, adapter=str(tmp_path / "empty"))
    assert error.code == "adapter_invalid"


def test_a_pickled_adapter_needs_its_flag(base: Path, adapter: Path) -> None:
    before = build_adapter(adapter, base)
    tensors = load_file(adapter / "adapter_model.safetensors")
    torch.save(tensors, adapter / "adapter_model.bin")
    (adapter / "adapter_model.safetensors").unlink()
    assert refusal(opened, adapter).code == "weights_pickle"
    model = loaded(adapter, allow_pickle=True)
    assert score(model, [40]) == pytest.approx(before, abs=1e-4)


def test_base_and_adapter_each_have_a_hash(base: Path, adapter: Path) -> None:
    build_adapter(adapter, base)
    first = loaded(adapter).hashes
    path = adapter / "adapter_model.safetensors"
    tensors = load_file(path)
    save_file({k: v * 2 if "lora_A" in k else v for k, v in tensors.items()}, path)
    second = loaded(adapter).hashes
    assert first.adapter != second.adapter
    assert (first.weights, first.head) == (second.weights, second.head)
    build_model(base, "llama", head=False, seed=1)
    third = loaded(adapter).hashes
    assert third.weights != second.weights
    assert third.adapter == second.adapter
