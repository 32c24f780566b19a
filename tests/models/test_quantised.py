"""Quantised weights: taken where bitsandbytes is there and the head is whole, else refused."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pessimal.models import quantised
from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from tests.builders import build_model
from tests.models.opening import edit_json, edit_weights, loaded, opened, refusal
from tests.models.traps import PROMPT, REPLIES, our_scores

FOUR_BITS = {"quant_method": "bitsandbytes", "load_in_4bit": True}
EIGHT_BITS = {"quant_method": "bitsandbytes", "load_in_8bit": True}


def marked(folder: Path, settings: dict[str, Any]) -> Path:
    """A model whose config says that its weights are quantised; they aren't."""
    build_model(folder, "llama")
    edit_json(folder / "config.json", quantization_config=settings)
    return folder


@pytest.fixture(name="installed")
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantised, "find_spec", lambda name: object())


def test_without_the_library_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantised, "find_spec", lambda name: None)
    error = refusal(opened, marked(tmp_path, FOUR_BITS))
    assert error.code == "weights_quantized"
    assert "Install bitsandbytes" in error.remedy


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("method", ["gptq", "awq", None])
def test_another_method_is_refused(tmp_path: Path, method: str | None) -> None:
    error = refusal(opened, marked(tmp_path, {"quant_method": method}))
    assert error.code == "weights_quantized"
    assert str(method) in error.message


@pytest.mark.usefixtures("installed")
def test_a_quantised_head_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    marked(tmp_path, FOUR_BITS)
    packed = torch.zeros(16, 1, dtype=torch.uint8)
    edit_weights(tmp_path, lambda tensors: tensors.update({"score.weight": packed}))
    error = refusal(opened, tmp_path)
    assert error.code == "head_not_linear"
    assert "uint8" in error.message
    assert "llm_int8_skip_modules" in error.remedy


@pytest.mark.usefixtures("installed")
def test_a_head_that_only_the_library_quantises_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rounded(module: Any) -> Any:
        weight = module.score.weight.mul(100).to(torch.int8)
        module.score.weight = torch.nn.Parameter(weight, requires_grad=False)
        return module

    fake_library(monkeypatch, rounded)
    assert refusal(loaded, marked(tmp_path, EIGHT_BITS)).code == "head_not_linear"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("settings", "bits"), [(FOUR_BITS, 4), (EIGHT_BITS, 8)])
def test_it_is_put_on_its_device_at_once_and_the_document_says_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], bits: int
) -> None:
    places = fake_library(monkeypatch)
    model = loaded(marked(tmp_path, settings), device="cpu")
    assert places == [{"": torch.device("cpu")}] * 2
    assert any(f"quantised to {bits} bits" in note for note in model.notes)
    subject, place = Scorer(model), find_slot(model.source, PROMPT)
    # In 8 bits activations are rounded by what a batch holds.
    assert subject.self_test(place).tolerance_sd == (1e-4 if bits == 4 else 0.5)


@pytest.mark.usefixtures("installed")
def test_it_is_not_spread_over_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pessimal.models import loader

    fake_library(monkeypatch)
    monkeypatch.setattr(loader, "pick_device", lambda _: torch.device("cpu"))
    error = refusal(loaded, marked(tmp_path, FOUR_BITS), device="auto-map")
    assert error.code == "map_unavailable"


def fake_library(monkeypatch: pytest.MonkeyPatch, change: Any = lambda module: module) -> list[Any]:
    """Load such a model as if its weights had been quantised; tells where each was put."""
    from transformers import AutoModelForSequenceClassification as Auto

    load, places = Auto.from_pretrained, []

    def from_pretrained(folder: Path, config: Any, **given: Any) -> Any:
        places.append(given.pop("device_map"))
        settings = config.quantization_config
        del config.quantization_config
        module, report = load(folder, config=config, **given)
        module.config.quantization_config = settings
        return change(module), report

    monkeypatch.setattr(Auto, "from_pretrained", from_pretrained)
    return places


@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="CI brings it: .ci/oldest.txt")
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("bits", [4, 8])
def test_a_model_that_bitsandbytes_quantised(tmp_path: Path, bits: int) -> None:
    from transformers import AutoModelForSequenceClassification, BitsAndBytesConfig

    size = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16}
    whole = build_model(tmp_path / "whole", "llama", **size)
    for name, head in (("good", ["score"]), ("bad", ["nothing"])):
        settings = BitsAndBytesConfig(
            load_in_4bit=bits == 4, load_in_8bit=bits == 8, llm_int8_skip_modules=head
        )
        module = AutoModelForSequenceClassification.from_pretrained(
            whole, quantization_config=settings, dtype=torch.float32, device_map={"": "cpu"}
        )
        module.save_pretrained(tmp_path / name)
        for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            (tmp_path / name / file).write_bytes((whole / file).read_bytes())
    model = loaded(tmp_path / "good", device="cpu")
    subject, place = Scorer(model), find_slot(model.source, PROMPT)
    assert subject.self_test(place).max_difference_sd <= subject.self_test(place).tolerance_sd
    scores, before = subject.score(place, REPLIES), our_scores(loaded(whole, device="cpu"))
    assert np.corrcoef(scores, before)[0, 1] > 0.3
    assert not np.allclose(scores, before, atol=1e-3)
    assert refusal(opened, tmp_path / "bad").code == "head_not_linear"
