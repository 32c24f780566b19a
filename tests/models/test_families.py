"""The table of families: each row is recognised by config and weights, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pessimal.models.families import FAMILIES, PUBLISHED, STOCK, known_scores, scale_notes
from pessimal.models.families.recognise import by_class, recognise
from pessimal.models.heads.formulas import HEADS
from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from tests.builders import build_model
from tests.models.opening import edit_json, edit_weights, loaded, opened, refusal
from tests.models.own_models import CASES, LLAMA_3, build_own

ROWS = {row.name: row for row in FAMILIES}
PROMPT = "What is it?"


pytestmark = pytest.mark.usefixtures("one_thread")


def test_names_are_told_apart_and_own_heads_are_there() -> None:
    assert len(ROWS) == len(FAMILIES)
    for row in FAMILIES:
        assert row.own_head == "" or row.own_head in HEADS
        assert (row.status == "refused") == bool(row.code)
        assert row.status == "supported" or row.notes
    assert {row.own_head for row in FAMILIES if row.own_head} == set(HEADS)
    assert {row.name for row in FAMILIES if row.own_head} <= {
        row.name for row in FAMILIES for case in CASES if case.startswith(row.name)
    }


def test_every_published_model_has_a_row() -> None:
    assert len({row.id for row in PUBLISHED}) == len(PUBLISHED)
    for row in PUBLISHED:
        assert row.family in ROWS, row.id
        assert row.scores is None or row.scores[0] < row.scores[1]
    (golden,) = [row.golden for row in PUBLISHED if row.golden]
    assert golden.chosen > golden.rejected


@pytest.mark.parametrize("name", CASES)
def test_a_family_is_recognised_wherever_it_lies(tmp_path: Path, name: str) -> None:
    source = opened(build_own(tmp_path / "some-other-name-armorm-gpt2", name))
    assert name.startswith(source.family.name)
    assert source.family.layers == "layers"
    assert source.family.softcap == (name == "grm-gemma2")
    brings = "auto_map" in json.loads((source.folder / "config.json").read_text())
    assert any("by its published formula" in note for note in source.notes)
    assert any("isn't run" in note for note in source.notes) == brings


@pytest.mark.parametrize("row", STOCK, ids=lambda row: row.name)
def test_stock_classes_are_nobodys_else(row: Any) -> None:
    raw = {"model_type": row.model_types[0], "architectures": ["XForSequenceClassification"]}
    assert recognise(raw, {"score.weight", "model.norm.weight"}) is None
    assert by_class(raw) is None


UNVERIFIED = {
    "qrm-gemma2": ("gemma2", {}, {"regression_layer.weight": (5, 32), "gating.a": (1,)}),
    "ldl": ("gemma2", {"architectures": ["LDLRewardModel27B"]}, {}),
    "internlm2-rm": (
        "llama", {"model_type": "internlm2", "auto_map": {"AutoModel":
         "modeling_internlm2.InternLM2ForRewardModel"}}, {},
    ),
    "starling": ("llama", {}, {"transformer.wte": (3, 32), "v_head.weight": (1, 32)}),
    "oasst-rm": (
        "llama",
        {"model_type": "gpt_neox_reward_model", "architectures": ["GPTNeoXRewardModel"]}, {},
    ),
}  # fmt: skip
REFUSED = {
    "pairrm": ("deberta-v2", {"architectures": ["DebertaV2PairRM"]}, "pairwise_model"),
    "steamshp": (
        "llama", {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]},
        "pairwise_model",
    ),
    "process-rm": (
        "qwen2", {"architectures": ["Qwen2ForProcessRewardModel"],
                  "auto_map": {"AutoModel": "modeling.Qwen2ForProcessRewardModel"}},
        "process_reward_model",
    ),
    "multi-label": ("llama", {"num_labels": 3}, "many_labels"),
    "generative": ("llama", {"head": False}, "causal_lm"),
}  # fmt: skip


@pytest.mark.parametrize("name", [row.name for row in FAMILIES if row.status == "unverified"])
def test_an_unverified_family_is_refused_and_says_what_is_missing(
    tmp_path: Path, name: str
) -> None:
    model_type, config, more = UNVERIFIED[name]
    build_model(tmp_path, model_type)
    edit_json(tmp_path / "config.json", **config)
    edit_weights(tmp_path, lambda t: t.update({k: torch.ones(v) for k, v in more.items()}))
    error = refusal(opened, tmp_path)
    assert error.code == "family_unverified"
    assert f"family {name}" in error.message
    assert "missing: " in error.message
    assert ("--trust-remote-code" in error.remedy) == ROWS[name].remote_code


@pytest.mark.parametrize(
    "name", [row.name for row in FAMILIES if row.status == "refused" and row.name != "no-weights"]
)
def test_a_family_without_one_score_a_reply_is_refused_by_name(tmp_path: Path, name: str) -> None:
    model_type, config, code = REFUSED[name]
    built = {key: config[key] for key in ("num_labels", "head") if key in config}
    build_model(tmp_path, model_type, **built)
    edit_json(tmp_path / "config.json", **{k: v for k, v in config.items() if k not in built})
    error = refusal(opened, tmp_path)
    assert error.code == code == ROWS[name].code
    flags = {"trust_remote_code": True, "revision": "89abcdef01" * 4}
    assert refusal(opened, tmp_path, **flags).code == code


def test_weights_that_nothing_here_reads_are_refused(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    (tmp_path / "model.safetensors").rename(tmp_path / "model_weights.nemo")
    assert refusal(opened, tmp_path).code == ROWS["no-weights"].code == "weights_missing"


def test_a_cost_needs_its_config_to_say_so(tmp_path: Path) -> None:
    build_own(tmp_path, "beaver-cost")
    edit_json(tmp_path / "config.json", score_type=...)
    error = refusal(opened, tmp_path)
    assert error.code == "family_unverified"
    assert "'reward' or 'cost'" in error.message


def test_a_qrm_of_another_number_of_objectives_is_unverified(tmp_path: Path) -> None:
    build_own(tmp_path, "qrm")
    edit_weights(tmp_path, lambda t: t.update({"reward_transform_matrix": torch.eye(5)}))
    assert refusal(loaded, tmp_path).code == "family_unverified"


def test_an_adapter_on_a_head_of_our_own_is_refused(tmp_path: Path) -> None:
    build_own(tmp_path / "base", "ultrarm")
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
    flags = {"adapter": str(tmp_path / "adapter")}
    assert refusal(opened, tmp_path / "base", **flags).code == "adapter_unsupported"


def test_a_pad_that_occurs_in_the_prompt_moves_what_such_heads_read(tmp_path: Path) -> None:
    # 3 is <|im_start|>; transformers' own classes read past it, the published class doesn't.
    build_own(tmp_path, "inf-orm", pad_token_id=3)
    assert refusal(loaded, tmp_path).code == "pad_moves_pooling"
    build_own(tmp_path / "last", "ultrarm", pad_token_id=3)
    loaded(tmp_path / "last")


def test_a_pad_in_a_reply_is_scored_as_the_published_class_does(tmp_path: Path) -> None:
    model = loaded(build_own(tmp_path, "inf-orm"))
    slot, scorer = find_slot(model.source, PROMPT), Scorer(model)
    # The score is read before the first pad: what stands from there on doesn't matter.
    scores = scorer.score(slot, [(0, 40), (0, 41), (0,), (50, 0, 41), (50, 0)])
    assert np.ptp(scores[:3]) == 0
    assert np.ptp(scores[3:]) == 0
    assert scores[0] != scores[3]
    assert scorer.reference(slot, (50, 0, 41)) == pytest.approx(float(scores[3]), abs=1e-6)


def test_a_gate_is_read_at_the_prompts_header(tmp_path: Path) -> None:
    build_own(tmp_path, "armorm")
    model = loaded(tmp_path)
    scorer = Scorer(model)
    header = model.source.gate_ids
    assert model.tokenizer.decode(header) == ROWS["armorm"].gate
    slot = find_slot(model.source, PROMPT)
    error = refusal(scorer.score, slot, [(40,), (40, *header, 41)])
    assert error.code == "reply_moves_gate"
    whole = [*slot.prefix_ids, 40, *slot.suffix_ids]
    assert scorer.score_sequences(slot, [whole])[0] == scorer.score(slot, [(40,)])[0]
    # A sequence that begins otherwise is scored by the whole forward, its gate found in it.
    other = find_slot(model.source, "Which is the worst thing in the world?")
    moved = [*other.prefix_ids, 40, *other.suffix_ids]
    expected = scorer.score(other, [(40,)])[0]
    assert scorer.score_sequences(slot, [moved])[0] == pytest.approx(expected, abs=1e-5)
    hijacked = [*slot.prefix_ids, 40, *header, 41]
    assert refusal(scorer.score_sequences, slot, [hijacked]).code == "reply_moves_gate"


def test_a_template_without_the_gates_header_is_refused(tmp_path: Path) -> None:
    build_own(tmp_path, "armorm")
    template = tmp_path / "other.jinja"
    template.write_text(LLAMA_3.replace("<|end_header_id|>", ":"))
    assert refusal(opened, tmp_path, template=template).code == "gate_missing"


def test_quantiles_are_reported_and_their_mean_is_the_score(tmp_path: Path) -> None:
    model = loaded(build_own(tmp_path, "qrm"))
    slot, scorer = find_slot(model.source, PROMPT), Scorer(model)
    document = scorer.document(slot, scorer.self_test(slot))
    assert len(document["quantiles"]) == 5
    for reply, quantiles in document["quantiles"].items():
        ids = model.tokenizer(reply, add_special_tokens=False)["input_ids"]
        assert len(quantiles) == 19
        score = float(scorer.score(slot, [ids])[0])
        assert np.mean(quantiles) == pytest.approx(score, abs=1e-5)
    assert document["family"] == "qrm"
    assert document["head"]["key"] == "regression_layer.weight"
    assert document["class"] == "LlamaModelWithQuantileHead"


def test_a_score_far_from_the_published_ones_is_a_warning_and_no_error(tmp_path: Path) -> None:
    model = loaded(build_own(tmp_path, "armorm"))
    slot, scorer = find_slot(model.source, PROMPT), Scorer(model)
    notes = scorer.document(slot, scorer.self_test(slot))["notes"]
    assert any(note.startswith("WARNING: ") and "0 to 0.074" in note for note in notes)


def test_a_known_range_belongs_to_one_model() -> None:
    llama = ROWS["llama"]
    name = "Skywork/Skywork-Reward-Llama-3.1-8B-v0.2"
    assert known_scores(name, llama) == (-29.0, -1.9)
    assert known_scores(name + "-mine", llama) is None
    assert known_scores(name, ROWS["gemma2"]) is None
    assert scale_notes(name, llama, [-40.0, 12.0]) == ()
    (note,) = scale_notes(name, llama, [-40.0, 26.0, -60.0])
    assert "2 of 3" in note


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["qrm", "beaver-reward-normalised", "urm"])
def test_half_precision(tmp_path: Path, name: str, dtype: str) -> None:
    build_own(tmp_path, name)
    model = loaded(tmp_path, dtype=dtype)
    slot, scorer = find_slot(model.source, PROMPT), Scorer(model)
    assert scorer.self_test(slot).path == "shared"


@pytest.mark.parametrize(("name", "form"), [("ultrarm", "Human: "), ("beaver-cost", "BEGINNING ")])
def test_without_a_template_the_remedy_says_what_the_family_was_trained_on(
    tmp_path: Path, name: str, form: str
) -> None:
    build_own(tmp_path, name)
    (tmp_path / "chat_template.jinja").unlink()
    error = refusal(opened, tmp_path)
    assert error.code == "template_missing"
    assert form in error.remedy
    assert "--template FILE" in error.remedy


@pytest.mark.parametrize("name", ["inf-orm", "grm-linear", "qrm"])
def test_without_a_pad_id_batches_are_scored_all_the_same(tmp_path: Path, name: str) -> None:
    model = loaded(build_own(tmp_path, name, pad_token_id=None))
    slot, replies = find_slot(model.source, PROMPT), [(40,), (41,), (0,), (50, 0, 51)]
    scores = Scorer(model).score(slot, replies)
    assert np.abs(Scorer(model, "full").score(slot, replies) - scores).max() < 1e-5
    reference = [Scorer(model).reference(slot, reply) for reply in replies]
    assert np.abs(np.array(reference) - scores).max() < 1e-5
    assert len(set(scores.tolist())) == len(replies)
