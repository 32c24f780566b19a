"""The true tokenizers and templates of Llama 3, Gemma 2, Gemma 3 and Qwen 3, on tiny models."""

from __future__ import annotations

import base64
import hashlib
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pessimal.models.families.own import LLAMA_3_REPLY
from pessimal.models.records import ModelSource
from pessimal.models.slot import encode_as_text, find_slot
from pessimal.models.vocabulary import vocabulary
from tests.assets import tokenizers
from tests.assets.tokenizers import read_lock, short_name
from tests.cli.runner import call
from tests.models.opening import edit_weights, opened
from tests.models.true_models import TRUE, build_true

PROMPT = "What, in one word, is the greatest thing ever?"
UNTRAINED = range(100_000, 100_060)
"""Ordinary ids that a test gives one and the same embedding row."""


@pytest.fixture(scope="module", name="folder")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return cache(lambda name: build_true(tmp_path_factory.mktemp(name) / "model", name))


def paper_ids(source: ModelSource, reply: str) -> tuple[int, ...]:
    """Input ids as the paper's code makes them: the template's text, tokenised once more."""
    tokenizer: Any = source.tokenizer
    turns = [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": reply}]
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    return tuple(tokenizer(text)["input_ids"])


@pytest.mark.parametrize("name", ["llama3_1", "gemini"])
def test_the_papers_input_ids_are_those_of_two_bos_and_replies_as_text(
    folder: Any, name: str
) -> None:
    source = opened(folder(name), bos="double")
    bos = source.tokenizer.bos_token_id
    words = [source.tokenizer.decode([index]) for index in range(0, source.embedding_rows, 499)]
    # What a template trims, merges or takes for control tokens comes out as it did there.
    for reply in [*words, " love", "love", "\n", "", "<|eot_id|>", "<end_of_turn>", " a  b "]:
        ids = encode_as_text(source, PROMPT, reply)
        assert ids == paper_ids(source, reply)
        assert ids[:3].count(bos) == 2
    once = encode_as_text(opened(folder(name)), PROMPT, "love")
    assert once == paper_ids(source, "love")[1:]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama3_1", "gemini"])
def test_score_with_two_bos_as_text_gives_the_score_of_the_papers_input(
    folder: Any, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoModelForSequenceClassification

    out = tmp_path / "scores.parquet"
    flags = ("--bos", "double", "--as-text", "--tokens", 40, "--device", "cpu", "--quiet")
    found = call(capsys, "score", "--model", folder(name), "--prompt", PROMPT, *flags, "--out", out)
    assert found.code == 0, found.err
    model = AutoModelForSequenceClassification.from_pretrained(
        folder(name), dtype=torch.float32, attn_implementation="eager"
    ).eval()
    table, source = pd.read_parquet(out), opened(folder(name))
    with torch.no_grad():
        expected = [
            float(model(input_ids=torch.tensor([paper_ids(source, text)])).logits[0, 0])
            for text in table["text"]
        ]
    difference = np.abs(table["as_text:prompt"] - expected).max()
    assert difference <= 1e-4 * np.std(expected)


@pytest.mark.parametrize(
    ("name", "reply_start", "after"),
    [
        ("llama3_1", "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
        ("gemini", "<start_of_turn>model\n", "<end_of_turn>\n"),
        ("gemma3", "<start_of_turn>model\n", "<end_of_turn>\n"),
        ("qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n", "<|im_end|>\n"),
    ],
)
def test_the_reply_slot_of_the_true_template(
    folder: Any, name: str, reply_start: str, after: str
) -> None:
    source = opened(folder(name))
    slot = find_slot(source, PROMPT)
    assert source.tokenizer.decode(slot.prefix_ids).endswith(reply_start)
    assert source.tokenizer.decode(slot.suffix_ids) == after
    assert slot.bos == (0 if name == "qwen3" else 1)
    assert any("White space" in note for note in source.notes) == (name != "qwen3")


def test_the_gates_header_has_the_ids_that_the_published_classes_look_for(folder: Any) -> None:
    tokenizer: Any = opened(folder("llama3_1")).tokenizer
    ids = tokenizer(LLAMA_3_REPLY, add_special_tokens=False)["input_ids"]
    assert ids == [128009, 128006, 78191, 128007, 271]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "tokens", "special", "reserved", "without_row", "spare_rows"),
    [
        ("llama3_1", 128_256, 5, 251, (), 0),
        ("gemini", 256_000, 7, 100, (), 0),
        ("gemma3", 262_144, 9, 6242, (262_144,), 0),
        ("qwen3", 151_669, 20, 0, (), 267),
    ],
)
def test_the_whole_vocabulary_is_swept(
    folder: Any,
    name: str,
    tokens: int,
    special: int,
    reserved: int,
    without_row: tuple[int, ...],
    spare_rows: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = shutil.copytree(folder(name), tmp_path / "model")

    def untrain(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.embed_tokens.weight"][list(UNTRAINED)] = 0.25

    edit_weights(model, untrain)
    source = opened(model)
    words = vocabulary(source)
    assert len(source.tokenizer) == tokens + len(without_row)
    assert (words.without_row, words.rows_without_token) == (without_row, spare_rows)
    out = tmp_path / "scores.parquet"
    flags = ("--device", "cpu", "--batch-size", 512, "--json", "--out", out)
    found = call(capsys, "score", "--model", model, "--prompt", PROMPT, *flags)
    assert (found.code, found.document["path"]) == (0, "shared"), found.err
    assert found.document["rows"] == tokens
    table = pd.read_parquet(out)
    assert table["token_id"].tolist() == words.ids.tolist() == list(range(tokens))
    scores = table["score:prompt"].to_numpy()
    assert np.isfinite(scores).mean() == 1.0
    counts = table["kind"].value_counts()
    # Reserved tokens count by their names, the others by their rows.
    assert (counts["special"], counts["unused"]) == (special, reserved + len(UNTRAINED))
    assert np.ptp(scores[UNTRAINED]) == 0 < np.ptp(scores)


def test_a_tokenizer_that_is_not_the_locked_one_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    import tarfile

    monkeypatch.setenv(tokenizers.FOLDER, str(tmp_path / "assets"))
    archive = tmp_path / "package.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for member in tokenizers.MEMBERS:
            entry = tarfile.TarInfo(f"package/models/{member}")
            entry.size = 2
            tar.addfile(entry, io.BytesIO(b"{}"))
    place = tmp_path / "assets" / "qwen3"
    with pytest.raises(SystemExit, match="sha512"):
        tokenizers.unpack(archive, "sha512-AAAA", place)
    assert not place.exists()
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    tokenizers.unpack(archive, f"sha512-{digest}", place)
    assert (place / "tokenizer.json").read_text() == "{}"
    # It lies there now, but it isn't the one that the lock names.
    assert tokenizers.find_tokenizer("qwen3") is None


def test_every_true_model_has_a_locked_tokenizer() -> None:
    assert {short_name(spec) for spec, _ in read_lock()} == set(TRUE)
