"""Implicit rewards: a policy's log-probability of a reply less its reference's."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from pessimal.models.implicit import ImplicitScorer
from pessimal.models.opening import open_scorer
from pessimal.models.records import ModelRequest
from pessimal.models.rescoring import RescoringScorer
from pessimal.models.slot import encode_as_text, find_slot
from pessimal.models.source import open_source
from tests.builders import build_model
from tests.models.opening import edit_json, edit_weights, refusal

PROMPT = "What is the best thing in the world?"
REPLIES = [(40,), (41,), (42, 43), (44, 45, 46), (5,)]
Pair = tuple[Path, Path]


def build_pair(home: Path, family: str, **config: Any) -> Pair:
    return (
        build_model(home / "policy", family, head=False, seed=1, **config),
        build_model(home / "reference", family, head=False, seed=2, **config),
    )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return build_pair(tmp_path_factory.mktemp("pair"), "llama")


def request_of(pair: Pair, **flags: Any) -> ModelRequest:
    given = {"kind": "implicit", "reference": str(pair[1]), "device": "cpu"} | flags
    return ModelRequest(str(pair[0]), **given)


def opened_pair(pair: Pair, **flags: Any) -> ImplicitScorer:
    scorer = open_scorer(open_source(request_of(pair, **flags), pair[0]), pair[0])
    assert isinstance(scorer, ImplicitScorer)
    return scorer


@cache
def plain_model(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


def plain_score(
    pair: Pair, prefix: tuple[int, ...], counted: tuple[int, ...], beta: float
) -> float:
    """The formula, written out: token by token, one forward each."""
    sums = []
    for folder in pair:
        model = plain_model(folder)
        total, ids = 0.0, list(prefix)
        for token in counted:
            with torch.no_grad():
                logits = model(torch.tensor([ids])).logits[0, -1].double()
            total += float(logits[token] - logits.exp().sum().log())
            ids.append(token)
        sums.append(total)
    return beta * (sums[0] - sums[1])


@pytest.mark.parametrize("with_suffix", [False, True])
@pytest.mark.parametrize(
    ("family", "config"),
    [("llama", {}), ("gemma2", {"final_logit_softcapping": 3.0}), ("gpt2", {}), ("mistral", {})],
)
def test_it_is_the_difference_of_log_probabilities(
    family: str, config: dict[str, Any], with_suffix: bool, tmp_path: Path
) -> None:
    pair = build_pair(tmp_path, family, num_hidden_layers=2, **config)
    scorer = opened_pair(pair, beta=0.3, with_suffix=with_suffix)
    slot = find_slot(scorer.model.source, PROMPT)
    test = scorer.self_test(slot)
    assert (test.path, test.steps) == ("shared", ())
    after = slot.suffix_ids if with_suffix else ()
    expected = [plain_score(pair, slot.prefix_ids, (*r, *after), 0.3) for r in REPLIES]
    for path in ("shared", "full"):
        scorer.use(path)  # type: ignore[arg-type]
        np.testing.assert_allclose(scorer.score(slot, REPLIES), expected, atol=1e-5)
        np.testing.assert_allclose(scorer.score(slot, REPLIES, batch_rows=1), expected, atol=1e-5)
        whole = [(*slot.prefix_ids, *reply, *slot.suffix_ids) for reply in REPLIES]
        np.testing.assert_allclose(scorer.score_sequences(slot, whole), expected, atol=1e-5)


def test_its_document_says_what_it_is(pair: Pair) -> None:
    scorer = opened_pair(pair, beta=0.5)
    slot = find_slot(scorer.model.source, PROMPT)
    document = scorer.document(slot, scorer.self_test(slot))
    assert (document["kind"], document["gradient"], document["beta"]) == ("implicit", False, 0.5)
    assert document["reference"]["id"] == str(pair[1])
    assert any("no gradient" in note for note in document["notes"])
    assert any("the reply's tokens alone" in note for note in document["notes"])
    json.dumps(document)
    again = RescoringScorer(scorer, {"best": slot})
    scores = scorer.score(slot, REPLIES)
    for variant in ("batch", "order"):
        found = again.rescore("best", REPLIES, variant=variant)  # type: ignore[arg-type]
        np.testing.assert_allclose(found, scores, atol=1e-5)
    assert again.rescore("best", REPLIES, variant="padding") is None


def test_what_a_score_depends_on_is_in_its_hash(pair: Pair, tmp_path: Path) -> None:
    third = build_model(tmp_path / "third", "llama", head=False, seed=3)
    flags: list[dict[str, Any]] = [
        {}, {"beta": 0.2}, {"with_suffix": True}, {"reference": str(third)},
    ]  # fmt: skip
    hashes = [opened_pair(pair, **one).model.hashes for one in flags]
    assert len({one.settings for one in hashes}) == len(flags)
    assert len({one.weights for one in hashes}) == 1


def test_a_text_that_moves_its_place_has_no_score(pair: Pair) -> None:
    scorer = opened_pair(pair)
    slot = find_slot(scorer.model.source, PROMPT)
    whole = encode_as_text(scorer.model.source, "Why?", "love")
    assert refusal(scorer.score_sequences, slot, [whole]).code == "sequence_unsplit"
    assert refusal(scorer.score, slot, [()]).code == "reply_empty"
    assert refusal(scorer.score, slot, [(100_000,)]).code == "token_out_of_range"
    assert refusal(scorer.score, slot, [(5,) * 600]).code == "reply_too_long"


def test_what_is_no_pair_is_refused_by_name(pair: Pair, tmp_path: Path) -> None:
    def ask(**flags: Any) -> Any:
        return open_source(request_of(pair, **flags), tmp_path)

    assert refusal(ask, reference=None).code == "reference_missing"
    assert refusal(ask, beta=0.0).code == "beta_invalid"
    assert refusal(ask, judge_template=Path("x")).code == "kind_flags"
    larger = build_model(tmp_path / "larger", "llama", head=False, vocabulary=330)
    assert refusal(ask, reference=str(larger)).code == "reference_tokenizer"
    reward = build_model(tmp_path / "reward", "llama")
    assert refusal(ask, reference=str(reward)).code == "not_causal"
    # A model against itself rewards nothing.
    scorer = opened_pair(pair, reference=str(pair[0]))
    slot = find_slot(scorer.model.source, PROMPT)
    assert refusal(scorer.self_test, slot).code == "scores_constant"


def test_a_reference_needs_no_template(pair: Pair, tmp_path: Path) -> None:
    bare = build_model(tmp_path / "bare", "llama", head=False, seed=2)
    (bare / "chat_template.jinja").unlink(missing_ok=True)
    edit_json(bare / "tokenizer_config.json", chat_template=...)
    slot = find_slot(open_source(request_of(pair), tmp_path), PROMPT)
    bared, whole = opened_pair((pair[0], bare)), opened_pair(pair)
    assert np.array_equal(bared.score(slot, REPLIES), whole.score(slot, REPLIES))


def test_an_incomplete_language_model_is_refused(pair: Pair, tmp_path: Path) -> None:
    broken = build_model(tmp_path / "broken", "llama", head=False)
    edit_weights(broken, lambda tensors: tensors.pop("model.layers.0.mlp.up_proj.weight"))
    assert refusal(opened_pair, (pair[0], broken)).code == "weights_incomplete"
