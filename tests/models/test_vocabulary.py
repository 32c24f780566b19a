from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pessimal.models.document import model_document
from pessimal.models.slot import find_slot
from pessimal.models.vocabulary import identical_rows, vocabulary
from tests.builders import build_model
from tests.models.opening import edit_weights, loaded, opened

EMBEDDING = "model.embed_tokens.weight"


@pytest.mark.parametrize("family", ["llama", "deberta-v2"])
def test_every_token_is_named_and_decoded(tmp_path: Path, family: str) -> None:
    source = opened(build_model(tmp_path, family))
    words = vocabulary(source)
    tokenizer = source.tokenizer
    assert words.ids.tolist() == list(range(300))
    for index in range(300):
        assert words.tokens[index] == tokenizer.convert_ids_to_tokens(index)
        assert words.texts[index] == tokenizer.decode([index])
        again = tokenizer(words.texts[index], add_special_tokens=False)["input_ids"]
        assert words.roundtrips[index] == (again == [index])
        assert words.special[index] == (index < 5)
    assert 0 < words.roundtrips.sum() < 300
    assert (words.without_row, words.rows_without_token) == ((), 0)


def test_tokens_without_a_row_and_rows_without_a_token_are_counted(tmp_path: Path) -> None:
    from tokenizers import AddedToken

    build_model(tmp_path, "llama", vocab_size=305)
    source = opened(tmp_path)
    assert vocabulary(source).rows_without_token == 5
    source.tokenizer.add_tokens([AddedToken(f"<{n}>") for n in range(7)])
    source.tokenizer.save_pretrained(tmp_path)
    words = vocabulary(opened(tmp_path))
    assert words.without_row == (305, 306)
    assert words.rows_without_token == 0
    assert len(words.ids) == 305


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_identical_rows_are_grouped_under_the_smallest_id(tmp_path: Path, dtype: str) -> None:
    build_model(tmp_path, "llama")

    def change(tensors: dict[str, torch.Tensor]) -> None:
        rows = tensors[EMBEDDING]
        rows[[20, 250]] = rows[7].clone()
        rows[100] = rows[30].clone()
        rows[100, 3] += 1
        # The same numbers in another order are another row.
        rows[101] = rows[30].flip(0)
        # So is the row of the padding token.
        rows[[298, 299]] = 0

    edit_weights(tmp_path, change)
    assert identical_rows(loaded(tmp_path, dtype=dtype)) == {20: 7, 250: 7, 298: 0, 299: 0}


def test_the_document_says_what_was_loaded(tmp_path: Path) -> None:
    model = loaded(build_model(tmp_path, "llama", pad_token_id=2))
    slot = find_slot(model.source, "What is it?")
    document = model_document(model, slot, path="shared", self_test_max_difference=1e-6)
    assert document["id"] == str(tmp_path)
    assert document["class"] == "LlamaForSequenceClassification"
    assert document["head"] == {
        "key": "score.weight",
        "shape": [1, 32],
        "sha256": model.hashes.head,
    }
    assert document["pooled"] == {"token": "<|im_end|>", "index": -1}
    assert (document["bos"], document["pad"], document["tokenizer_pad"]) == (1, 2, 0)
    assert (document["attention"], document["path"]) == ("shared_prefix", "shared")
    assert document["rendered"].endswith("assistant\n<reply><|im_end|>")
    assert document["template_sha256"] == model.hashes.template
    assert document["parameters"] == sum(p.numel() for p in model.module.parameters())
    assert set(document["versions"]) == {"torch", "transformers", "tokenizers", "peft"}
    assert document["notes"] == list(model.notes)
