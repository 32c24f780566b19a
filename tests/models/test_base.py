"""A base model's next-token log-probabilities, by the reward model's own ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pessimal.models.base import base_logprobs
from pessimal.models.slot import find_slot
from tests.builders import build_model
from tests.models.opening import edit_json, edit_weights, opened, refusal

PROMPTS = {"best": "What is the best thing ever?", "why": "Why?"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A reward model and a language model with its tokenizer."""
    home = tmp_path_factory.mktemp("models")
    return build_model(home / "rm", "llama"), build_model(home / "base", "llama", head=False)


def ask(reward_model: Path, base: Path, tmp_path: Path):
    return base_logprobs(str(base), opened(reward_model), PROMPTS, tmp_path)


def plain_forward(base: Path, ids: list[int], **config: Any) -> np.ndarray:
    model = AutoModelForCausalLM.from_pretrained(base, attn_implementation="eager", **config).eval()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1]
    return (logits - logits.logsumexp(0)).numpy()


def test_they_are_those_of_the_rendered_prompt(folders: tuple[Path, Path], tmp_path: Path):
    found = ask(*folders, tmp_path)
    source = opened(folders[0])
    assert found.document["rendering"] == "template"
    assert found.document["class"] == "LlamaForCausalLM"
    assert list(found.frame.columns) == ["token_id", "logprob:best", "logprob:why"]
    ids = found.frame["token_id"].to_numpy()
    assert len(ids) == found.document["tokens"] == len(source.tokenizer)
    for prompt, text in PROMPTS.items():
        expected = plain_forward(folders[1], list(find_slot(source, text).prefix_ids))
        np.testing.assert_allclose(found.frame[f"logprob:{prompt}"], expected[ids], atol=1e-5)
        assert np.exp(found.frame[f"logprob:{prompt}"].astype(float)).sum() == pytest.approx(1)


def test_a_base_keeps_its_soft_cap(tmp_path: Path):
    rm = build_model(tmp_path / "rm", "llama")
    base = build_model(tmp_path / "base", "gemma2", head=False)
    found = ask(rm, base, tmp_path).frame["logprob:why"]
    ids = list(find_slot(opened(rm), PROMPTS["why"]).prefix_ids)
    np.testing.assert_allclose(found, plain_forward(base, ids), atol=1e-5)
    without = plain_forward(base, ids, attn_logit_softcapping=None)
    assert np.abs(found - without).max() > 0.1


def test_a_base_without_a_template_gets_the_plain_prompt(tmp_path: Path):
    rm = build_model(tmp_path / "rm", "llama")
    base = build_model(tmp_path / "base", "llama", head=False)
    for path in base.glob("chat_template*"):
        path.unlink()
    settings = json.loads((base / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (base / "tokenizer_config.json").write_text(json.dumps(settings))
    found = ask(rm, base, tmp_path)
    assert found.document["rendering"] == "plain"
    ids = AutoTokenizer.from_pretrained(base)(PROMPTS["why"])["input_ids"]
    np.testing.assert_allclose(
        found.frame["logprob:why"], plain_forward(base, ids)[found.frame["token_id"]], atol=1e-5
    )


def test_another_tokenizer_is_refused(folders: tuple[Path, Path], tmp_path: Path):
    other = build_model(tmp_path / "other", "llama", head=False, vocabulary=280)
    error = refusal(ask, folders[0], other, tmp_path)
    assert error.code == "base_tokenizer_differs"
    assert str(other) in error.message


def test_what_is_no_whole_language_model_is_refused(folders: tuple[Path, Path], tmp_path: Path):
    assert refusal(ask, folders[0], folders[0], tmp_path).code == "base_not_causal"
    assert refusal(ask, folders[0], tmp_path / "none", tmp_path).code == "path_missing"
    torn = build_model(tmp_path / "torn", "llama", head=False)
    edit_weights(torn, lambda tensors: tensors.pop("model.norm.weight"))
    error = refusal(ask, folders[0], torn, tmp_path)
    assert error.code == "base_incomplete"
    assert "norm" in error.message
    mangled = build_model(tmp_path / "mangled", "llama", head=False)
    edit_json(mangled / "config.json", architectures=["LlamaModel"])
    assert refusal(ask, folders[0], mangled, tmp_path).code == "base_not_causal"
