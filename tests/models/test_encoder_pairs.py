"""Encoders read a text pair: token types, separators and all, as their own library makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from tests.builders import build_model
from tests.models.opening import loaded

PROMPT = "What is the best thing in the world?"
TEXTS = ("love", "nothing at all", "a small house by the sea.")


def test_a_pair_scores_as_the_library_scores_it(tmp_path: Path) -> None:
    for family in ("bert", "deberta-v2", "roberta"):
        folder = build_model(tmp_path / family, family)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        load: Any = AutoModelForSequenceClassification.from_pretrained
        model = load(folder, attn_implementation="eager").eval()
        scorer = Scorer(loaded(folder))
        slot = find_slot(scorer.model.source, PROMPT)
        replies = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
        pairs = [tokenizer(PROMPT, text, return_tensors="pt") for text in TEXTS]
        if family == "roberta":
            for pair in pairs:
                pair.pop("token_type_ids")
        with torch.no_grad():
            expected = [float(model(**pair).logits[0, 0]) for pair in pairs]
        np.testing.assert_allclose(scorer.score(slot, replies), expected, atol=2e-5)
        assert (slot.token_types is None) == (family == "roberta")


@pytest.mark.parametrize("family", ["bert", "deberta-v2"])
def test_token_types_change_the_score(family: str, tmp_path: Path) -> None:
    folder = build_model(tmp_path / family, family)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    pair = tokenizer(PROMPT, TEXTS[1], return_tensors="pt")
    with torch.no_grad():
        right = float(model(**pair).logits[0, 0])
        pair["token_type_ids"].zero_()
        wrong = float(model(**pair).logits[0, 0])
    scorer = Scorer(loaded(folder))
    slot = find_slot(scorer.model.source, PROMPT)
    reply = tokenizer(TEXTS[1], add_special_tokens=False)["input_ids"]
    found = float(scorer.score(slot, [reply])[0])
    assert abs(found - right) < 1e-5 < 1e-3 < abs(wrong - right)
