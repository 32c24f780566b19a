from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pessimal.errors import UsageError
from tests.builders import build_model
from tests.models.opening import edit_json, edit_weights, loaded, opened, refusal


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2", "mistral", "gpt2", "deberta-v2"])
def test_a_saved_model_is_read_without_its_weights(tmp_path: Path, family: str) -> None:
    source = opened(build_model(tmp_path, family))
    head = "classifier.weight" if family == "deberta-v2" else "score.weight"
    assert source.family.name == family.split("-")[0]
    assert (source.head_key, source.head_shape) == (head, (1, 32))
    assert source.embedding_rows == 300
    assert source.notes == ()
    assert (source.template is None) == (family == "deberta-v2")


def test_more_embedding_rows_than_the_config_says_count_as_the_file_has_them(
    tmp_path: Path,
) -> None:
    assert opened(build_model(tmp_path, "llama", vocab_size=320)).embedding_rows == 320


def test_a_path_that_is_missing(tmp_path: Path) -> None:
    assert refusal(opened, tmp_path / "nothing").code == "path_missing"
    assert refusal(opened, "no-such-thing").code == "path_missing"


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    assert refusal(opened, tmp_path).code == "not_a_model_folder"


def test_a_file_instead_of_a_folder(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    assert refusal(opened, tmp_path / "model.safetensors").code == "not_a_model_folder"


def test_a_config_that_is_not_json(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    (tmp_path / "config.json").write_text("{")
    assert refusal(opened, tmp_path).code == "file_invalid"


def test_a_causal_language_model(tmp_path: Path) -> None:
    error = refusal(opened, build_model(tmp_path, "llama", head=False))
    assert error.code == "causal_lm"
    assert "LlamaForCausalLM" in error.message
    assert "score.weight" in error.message


def test_a_head_under_another_name_is_named(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    edit_weights(tmp_path, lambda t: t.update({"v_head.weight": t.pop("score.weight")}))
    error = refusal(opened, tmp_path)
    assert error.code == "head_missing"
    assert "score.weight" in error.message
    assert "v_head.weight" in error.message


def test_a_bare_encoder_has_no_head(tmp_path: Path) -> None:
    error = refusal(opened, build_model(tmp_path, "deberta-v2", head=False))
    assert error.code == "head_missing"
    assert "classifier.weight" in error.message


def test_more_than_one_label(tmp_path: Path) -> None:
    error = refusal(opened, build_model(tmp_path, "llama", num_labels=3))
    assert error.code == "many_labels"
    assert "3 outputs" in error.message


def test_one_label_counts_by_the_tensor_and_not_by_the_config(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    edit_json(tmp_path / "config.json", num_labels=..., id2label=..., label2id=...)
    assert loaded(tmp_path).module.config.num_labels == 1


def test_a_process_reward_model(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    edit_json(tmp_path / "config.json", architectures=["LlamaForTokenClassification"])
    assert refusal(opened, tmp_path).code == "process_reward_model"


@pytest.mark.parametrize("name", ["DebertaV2PairRM", "LlamaForPairs"])
def test_a_class_whose_score_is_not_known(tmp_path: Path, name: str) -> None:
    build_model(tmp_path, "llama")
    edit_json(tmp_path / "config.json", architectures=[name])
    error = refusal(opened, tmp_path)
    assert error.code == "class_unknown"
    assert name in error.message


def test_an_unknown_architecture_lists_the_known_ones(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    edit_json(tmp_path / "config.json", model_type="mamba")
    error = refusal(opened, tmp_path)
    assert error.code == "architecture_unknown"
    assert "gemma2" in error.remedy


def test_gemma_2_without_its_soft_cap(tmp_path: Path) -> None:
    build_model(tmp_path, "gemma2", attn_logit_softcapping=None)
    assert refusal(opened, tmp_path).code == "softcap_missing"


def _pickle_weights(folder: Path) -> None:
    from safetensors.torch import load_file

    tensors = load_file(folder / "model.safetensors")
    torch.save(tensors, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def test_pickled_weights_need_their_flag(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    before = loaded(tmp_path)
    _pickle_weights(tmp_path)
    error = refusal(opened, tmp_path)
    assert error.code == "weights_pickle"
    assert "--allow-pickle" in error.remedy
    after = loaded(tmp_path, allow_pickle=True)
    assert after.hashes.head == before.hashes.head
    assert after.hashes.weights != before.hashes.weights


def test_a_folder_without_weights_names_what_it_cannot_use(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    (tmp_path / "model.safetensors").rename(tmp_path / "model.gguf")
    error = refusal(opened, tmp_path)
    assert error.code == "weights_missing"
    assert "model.gguf" in error.message


def test_a_shard_that_is_missing(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    (tmp_path / "model.safetensors").rename(tmp_path / "model-1.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}'
    )
    error = refusal(opened, tmp_path)
    assert error.code == "weights_missing"
    assert "model-2.safetensors" in error.message


@pytest.mark.parametrize("kept", [4, 900, -7])
def test_weights_cut_short(tmp_path: Path, kept: int) -> None:
    build_model(tmp_path, "llama")
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert refusal(opened, tmp_path).code == "weights_corrupt"


def test_a_pointer_instead_of_weights(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    error = refusal(opened, tmp_path)
    assert error.code == "weights_corrupt"
    assert "LFS" in error.message


def test_a_model_without_a_tokenizer(tmp_path: Path) -> None:
    build_model(tmp_path / "model", "llama")
    build_model(tmp_path / "other", "llama")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / "model" / name).unlink()
    assert refusal(opened, tmp_path / "model").code == "tokenizer_missing"
    source = opened(tmp_path / "model", tokenizer=str(tmp_path / "other"))
    assert source.tokenizer_folder == tmp_path / "other"


def test_a_demo_takes_no_adapter_or_revision(tmp_path: Path) -> None:
    assert isinstance(refusal(opened, "demo", adapter=str(tmp_path)), UsageError)
    assert refusal(opened, "demo-biased", revision="main").code == "demo_flags"


def test_two_different_revisions() -> None:
    error = refusal(opened, "org/name@one", revision="two")
    assert isinstance(error, UsageError)


def test_opening_and_loading_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    build_model(tmp_path, "llama")
    capfd.readouterr()
    loaded(tmp_path)
    assert capfd.readouterr() == ("", "")
