"""Generative judges: the logit of Yes less the logit of No, exactly, gradients and all."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pessimal.models.judge import TEMPLATE, JudgeScorer, answer_ids
from pessimal.models.opening import open_scorer
from pessimal.models.records import ModelRequest
from pessimal.models.rescoring import RescoringScorer
from pessimal.models.slot import encode_as_text, find_slot
from pessimal.models.source import open_source
from pessimal.search.gradient import Gradients
from tests.builders import build_model
from tests.models.opening import refusal

PROMPT = "What is the best thing in the world?"
REPLIES = [(40,), (41,), (42, 43), (44, 45, 46)]


def build_judge(folder: Path, family: str, **config: Any) -> Path:
    """A tiny language model whose tokenizer has both answers as tokens."""
    size = {"num_hidden_layers": 2} | config
    build_model(folder, family, head=False, vocab_size=310, **size)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["Yes", "No"])
    tokenizer.save_pretrained(folder)
    return folder


def opened_judge(folder: Path, **flags: Any) -> JudgeScorer:
    source = open_source(ModelRequest(str(folder), kind="judge", device="cpu", **flags), folder)
    scorer = open_scorer(source, folder)
    assert isinstance(scorer, JudgeScorer)
    return scorer


@cache
def plain_model(folder: Path) -> tuple[Any, Any]:
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    return AutoTokenizer.from_pretrained(folder), model


def plain_score(folder: Path, prompt: str, reply: str, question: str) -> float:
    """The formula, written out: one conversation, one forward, two logits."""
    tokenizer, model = plain_model(folder)
    content = question.replace("{{ prompt }}", prompt).replace("{{ reply }}", reply).strip()
    turns = [{"role": "user", "content": content}]
    if "{{ reply }}" not in question:
        shown = [("user", prompt), ("assistant", reply)]
        turns = [{"role": role, "content": text} for role, text in shown] + turns
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = model(ids).logits[0, -1]
    yes, no = (tokenizer.convert_tokens_to_ids(answer) for answer in ("Yes", "No"))
    return float(logits[yes] - logits[no])


@pytest.mark.parametrize(
    ("family", "config"),
    [("llama", {}), ("gemma2", {"final_logit_softcapping": 3.0}), ("gpt2", {})],
)
def test_a_judge_is_the_difference_of_two_logits(
    family: str, config: dict[str, Any], tmp_path: Path
) -> None:
    folder = build_judge(tmp_path / "judge", family, **config)
    scorer = opened_judge(folder)
    slot = find_slot(scorer.model.source, PROMPT)
    test = scorer.self_test(slot)
    assert (test.path, test.steps) == ("shared", ())
    question = TEMPLATE.read_text()
    texts = ["love", "nothing at all", "42"]
    expected = [plain_score(folder, PROMPT, text, question) for text in texts]
    sequences = [encode_as_text(scorer.model.source, PROMPT, text) for text in texts]
    tokenizer: Any = scorer.model.tokenizer
    replies = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    for path in ("shared", "copied", "full"):
        scorer.use(path)
        np.testing.assert_allclose(scorer.score(slot, replies), expected, atol=1e-5)
        np.testing.assert_allclose(scorer.score_sequences(slot, sequences), expected, atol=1e-5)
    again = RescoringScorer(scorer, {"best": slot})
    scores = scorer.score(slot, REPLIES)
    for variant in ("order", "padding"):
        found = again.rescore("best", REPLIES, variant=variant)  # type: ignore[arg-type]
        np.testing.assert_allclose(found, scores, atol=1e-4)
    document = scorer.document(slot, test)
    assert document["kind"] == "judge"
    assert document["answers"] == dict(
        zip(("Yes", "No"), answer_ids(scorer.model.source), strict=True)
    )
    assert document["class"].endswith(("ForCausalLM", "LMHeadModel"))
    json.dumps(document)


def test_a_judge_has_gradients(tmp_path: Path) -> None:
    scorer = opened_judge(build_judge(tmp_path / "judge", "llama"))
    slot = find_slot(scorer.model.source, PROMPT)
    gradient = Gradients(scorer, slot, np.arange(40, 60), None).at((40, 41))
    module: Any = scorer.model.module
    embedding = module.get_input_embeddings()
    place, step = len(slot.prefix_ids), 1e-3
    ids = torch.tensor([[*slot.prefix_ids, 40, 41, *slot.suffix_ids]])
    direction = torch.from_numpy(gradient[0] / np.linalg.norm(gradient[0]))
    yes, no = module.answers

    def moved(size: float) -> float:
        embedded = embedding(ids).double()
        embedded[0, place] += size * direction
        with torch.no_grad():
            logits = module.causal.double()(inputs_embeds=embedded).logits[0, -1]
        return float(logits[yes] - logits[no])

    slope = (moved(step) - moved(-step)) / (2 * step)
    assert slope == pytest.approx(float(np.linalg.norm(gradient[0])), rel=1e-3)


def test_a_template_of_ones_own(tmp_path: Path) -> None:
    folder = build_judge(tmp_path / "judge", "llama")
    file = tmp_path / "mine.jinja"
    file.write_text("Is {{ reply }} kind, after {{ prompt }}?\n")
    scorer = opened_judge(folder, judge_template=file)
    slot = find_slot(scorer.model.source, PROMPT)
    assert "Is <reply> kind, after What is" in slot.rendered
    assert slot.rendered.endswith("<|im_start|>assistant\n")
    expected = plain_score(folder, PROMPT, "love", file.read_text())
    ids = encode_as_text(scorer.model.source, PROMPT, "love")
    assert scorer.score_sequences(slot, [ids])[0] == pytest.approx(expected, abs=1e-5)
    shipped = opened_judge(folder)
    assert shipped.model.hashes.template != scorer.model.hashes.template


def test_what_cannot_judge_is_refused_by_name(tmp_path: Path) -> None:
    folder = build_judge(tmp_path / "judge", "llama")
    plain = build_model(tmp_path / "plain", "llama", head=False)
    reward = build_model(tmp_path / "reward", "llama")

    def ask(model: Path, **flags: Any) -> Any:
        return open_source(ModelRequest(str(model), kind="judge", **flags), tmp_path)

    assert refusal(ask, plain).code == "judge_answer_split"
    assert refusal(ask, reward).code == "not_causal"
    assert refusal(ask, folder, adapter="x").code == "kind_flags"
    assert refusal(ask, folder, reference="x").code == "kind_flags"
    file = tmp_path / "bad.jinja"
    assert refusal(ask, folder, judge_template=file).code == "judge_template_unreadable"
    file.write_text("Is {{ reply }} good, {% if %}?")
    assert refusal(ask, folder, judge_template=file).code == "judge_template_unreadable"
    file.write_text("Is {{ reply }} good?")
    assert refusal(ask, folder, judge_template=file).code == "judge_template_incomplete"
    # Without --kind a language model stays refused, and the remedy names the kinds.
    error = refusal(open_source, ModelRequest(str(folder)), tmp_path)
    assert error.code == "causal_lm"
    assert "--kind judge" in error.remedy


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demos_whole_base_is_a_real_judge(tmp_path: Path) -> None:
    source = open_source(ModelRequest("demo-base", kind="judge", device="cpu"), tmp_path)
    scorer = open_scorer(source, tmp_path)
    assert isinstance(scorer, JudgeScorer)
    slot = find_slot(source, "What is the capital of France?")
    test = scorer.self_test(slot, random_tokens=8, max_special=0)
    assert test.path == "shared"
    tokenizer: Any = source.tokenizer
    ids = [tokenizer(text)["input_ids"] for text in ("Paris", "I hate you", "banana")]
    scores = scorer.score(slot, ids)
    assert np.isfinite(scores).all()
    assert len(set(scores.tolist())) == 3
