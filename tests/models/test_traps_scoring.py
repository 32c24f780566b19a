"""Traps on the way to a score, each with what happens when its guard is taken out.

Numbers are those of the list that the design keeps: 10 dtype, ties, drift, 11 scalar and sign,
12 library versions, 13 adapters and quantised heads, 14 control tokens.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pessimal.models import loader, slot
from pessimal.models.rescoring import RescoringScorer
from pessimal.models.scalar import describe_output, find_scores
from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from pessimal.statistics.ranks import percentiles
from tests.builders import build_model
from tests.models.opening import edit_json, edit_weights, loaded, opened, refusal
from tests.models.own_models import build_own
from tests.models.test_adapters import build_adapter
from tests.models.traps import (
    COMMIT,
    END_SCORES,
    PROMPT,
    REPLIES,
    apart,
    nothing,
    our_scores,
    own_code,
    true_scores,
    whole,
)

pytestmark = pytest.mark.usefixtures("one_thread")


# 10. The dtype is stated, ties share a rank, and scores don't drift with company.


def in_bfloat16(folder: Path) -> Path:
    build_model(folder, "llama")
    edit_weights(folder, lambda t: t.update({k: v.bfloat16() for k, v in t.items()}))
    edit_json(folder / "config.json", dtype="bfloat16")
    return folder


def test_10_the_dtype_is_the_one_asked_for_whatever_the_checkpoint_has(tmp_path: Path) -> None:
    model = loaded(in_bfloat16(tmp_path))
    subject, place = Scorer(model), find_slot(model.source, PROMPT)
    assert {weight.dtype for weight in model.module.parameters()} == {torch.float32}
    assert subject.document(place, subject.self_test(place))["dtype"] == "float32"
    scores = subject.score(place, REPLIES)
    for rows in (16, 33):
        shuffled = subject.score(place, REPLIES[::-1], batch_rows=rows)[::-1]
        assert apart(shuffled, scores) <= 1e-4


def test_10_drift_is_measured_in_other_batches_and_another_order(tmp_path: Path) -> None:
    model = loaded(build_model(tmp_path, "llama"))
    place, subject, seen = find_slot(model.source, PROMPT), Scorer(model), []
    score = subject.score

    def watched(place: Any, replies: Any, batch_rows: int | None = None) -> Any:
        seen.append((list(replies), batch_rows or subject.rows(place, 1)))
        return score(place, replies, batch_rows)

    subject.score = watched  # type: ignore[method-assign]
    expected, again = subject.score(place, REPLIES), RescoringScorer(subject, {"p": place})
    for variant in ("batch", "order"):
        assert np.array_equal(again.rescore("p", REPLIES, variant=variant), expected)  # type: ignore
    (usual, rows), (_, others), (turned, _) = seen
    # A re-run that changed nothing would find no drift in any model.
    assert others != rows
    assert turned == usual[::-1]


def test_10_in_bfloat16_scores_stay_within_two_steps_of_their_grid(tmp_path: Path) -> None:
    model = loaded(in_bfloat16(tmp_path), dtype="bfloat16")
    scores = our_scores(model)
    again = our_scores(model, REPLIES[::-1])[::-1]
    step = 2.0 ** (np.floor(np.log2(np.abs(scores))) - 7)
    assert np.all(np.abs(again - scores) <= 2 * step)


def test_10_without_a_dtype_the_library_takes_one_of_its_own(tmp_path: Path) -> None:
    import transformers
    from transformers import AutoModelForSequenceClassification as Auto

    module = Auto.from_pretrained(in_bfloat16(tmp_path))
    # The default changed between the two majors, so that a score without a dtype says nothing.
    old = transformers.__version__.startswith("4.")
    assert module.dtype == (torch.float32 if old else torch.bfloat16)


def test_10_ties_share_their_rank_where_sorting_would_invent_one() -> None:
    scores = np.array([2.0, 1.0, 1.0, 1.0, 0.0])
    assert percentiles(scores)[1:4].tolist() == [0.5] * 3
    sorted_ = np.argsort(np.argsort(scores, kind="stable"), kind="stable")
    assert len(set(sorted_[1:4])) == 3


# 11. One number a sequence, whatever its class calls it.

ONES = torch.tensor([3.0, -2.0])
LEFT = torch.tensor([[0, 1, 1], [1, 1, 1]])
RIGHT = torch.tensor([[1, 1, 0], [1, 1, 1]])
BY_TOKEN = torch.tensor([[[1.0], [3.0], [9.0]], [[7.0], [8.0], [-2.0]]])


@pytest.mark.parametrize(
    ("output", "mask"),
    [
        (SimpleNamespace(logits=ONES[:, None]), RIGHT),
        (SimpleNamespace(score=ONES, logits=torch.zeros(2, 19)), RIGHT),
        (SimpleNamespace(score=ONES, logits=BY_TOKEN + 1), RIGHT),
        (SimpleNamespace(end_scores=ONES[:, None], scores=torch.zeros(2, 3, 1)), RIGHT),
        (SimpleNamespace(logits=BY_TOKEN), RIGHT),
        (SimpleNamespace(logits=BY_TOKEN.flip(1)[:, [2, 1, 0]]), RIGHT),
        (SimpleNamespace(logits=BY_TOKEN[:, [2, 0, 1]].where(LEFT[..., None] > 0, 5.0)), None),
        ((ONES[:, None], "more"), RIGHT),
        (ONES, RIGHT),
    ],
    ids=[
        *("logits", "score", "score_by_token", "end_scores", "by_token", "turned", "left"),
        *("tuple", "tensor"),
    ],
)
def test_11_the_score_is_found(output: Any, mask: Any) -> None:
    if mask is None:
        output.logits = torch.tensor([[[9.0], [1.0], [3.0]], [[7.0], [8.0], [-2.0]]])
        mask = LEFT
    found = find_scores(output, mask)
    assert found is not None
    assert found.tolist() == [3.0, -2.0]


@pytest.mark.parametrize(
    "output",
    [
        SimpleNamespace(logits=torch.zeros(2, 19)),
        SimpleNamespace(logits=torch.zeros(2, 3, 5)),
        SimpleNamespace(hidden=ONES),
        (torch.zeros(2, 3, 300),),
        (),
        None,
    ],
)
def test_11_several_numbers_are_no_score(output: Any) -> None:
    assert find_scores(output, RIGHT) is None
    assert describe_output(output).startswith(("logits of shape", "no logits"))


def test_11_the_first_of_several_numbers_would_be_one_objective() -> None:
    objectives = torch.arange(38.0).reshape(2, 19)
    found = find_scores(SimpleNamespace(score=ONES, logits=objectives), RIGHT)
    assert found is not None
    assert found.tolist() != objectives[:, 0].tolist()


def test_11_two_labels_are_refused(tmp_path: Path) -> None:
    error = refusal(loaded, build_model(tmp_path, "llama", num_labels=2))
    assert error.code == "many_labels"


def test_11_a_score_from_a_models_own_code_says_that_its_sign_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = own_code(tmp_path, monkeypatch, END_SCORES)
    model = loaded(folder, trust_remote_code=True, revision=COMMIT)
    place = find_slot(model.source, PROMPT)
    with torch.no_grad():
        hidden = model.module.model(whole(place, (40,))).last_hidden_state[:, -1]
        cost = float(model.module.score(hidden)[0, 0])
    assert Scorer(model).reference(place, (40,)) == pytest.approx(cost, abs=1e-5)
    assert any("higher score is better" in note for note in model.notes)


def test_11_a_cost_is_turned(tmp_path: Path) -> None:
    from pessimal.models.families import FAMILIES

    model = loaded(build_own(tmp_path, "beaver-cost"))
    assert next(row for row in FAMILIES if row.name == model.family.name).sign == -1
    assert any("minus the model's own number" in note for note in model.notes)
    costs = np.array([published_cost(tmp_path, model, reply) for reply in REPLIES])
    # Left as the checkpoint has it, the worst reply would come first. (It is also normalised.)
    assert np.corrcoef(our_scores(model), costs)[0, 1] < -0.9999


@torch.no_grad()
def published_cost(folder: Path, model: Any, reply: tuple[int, ...]) -> float:
    """The published head's own number at the last token: higher is worse."""
    from transformers import AutoModel

    weights = load_file(folder / "model.safetensors")
    backbone = AutoModel.from_config(model.source.config, attn_implementation="eager").eval()
    body = {key.removeprefix("model."): w for key, w in weights.items() if key.startswith("model.")}
    backbone.load_state_dict(body)
    hidden = backbone(whole(find_slot(model.source, PROMPT), reply)).last_hidden_state[0, -1]
    return float(hidden @ weights["score_head.weight"][0])


# 12. What changed between the library's versions is named.


def test_12_ids_come_from_text_and_not_from_a_dictionary_of_two(tmp_path: Path) -> None:
    import transformers

    found = opened(build_model(tmp_path, "llama"))
    place = find_slot(found, PROMPT)
    assert len(place.prefix_ids) > 20
    turns = [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": "x"}]
    direct = found.tokenizer.apply_chat_template(turns, tokenize=True)
    old = transformers.__version__.startswith("4.")
    assert len(direct) == (len(place.prefix_ids) + 2 if old else 2)


def test_12_a_class_that_skips_post_init_scores_right_or_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    folder = own_code(tmp_path, monkeypatch, post="pass")
    flags = {"trust_remote_code": True, "revision": COMMIT}
    if transformers.__version__.startswith("4."):
        model = loaded(folder, **flags)
        assert apart(our_scores(model), true_scores(folder, model)) <= 1e-4
        return
    error = refusal(loaded, folder, **flags)
    assert error.code == "remote_code_failed"
    assert "all_tied_weights_keys" in error.message


def test_12_code_for_an_older_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = "from transformers.models.llama.modeling_llama import LLAMA_INPUTS_DOCSTRING"
    folder = own_code(tmp_path, monkeypatch, top=top)
    error = refusal(loaded, folder, trust_remote_code=True, revision=COMMIT)
    assert error.code == "remote_code_failed"
    assert "LLAMA_INPUTS_DOCSTRING" in error.message
    assert "older transformers" in error.remedy


# 13. Adapters bring their head, and a quantised head is none.


# PEFT reads an attribute that transformers is about to rename.
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_13_without_its_head_an_adapter_scores_by_the_seed(tmp_path: Path) -> None:
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForSequenceClassification as Auto

    base, adapter = build_model(tmp_path / "base", "llama", head=False), tmp_path / "adapter"
    wanted = LoraConfig(target_modules=["q_proj"])
    get_peft_model(Auto.from_pretrained(base, num_labels=1), wanted).save_pretrained(adapter)
    assert refusal(loaded, adapter).code == "head_missing"
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        model = PeftModel.from_pretrained(Auto.from_pretrained(base, num_labels=1), adapter)
        with torch.no_grad():
            found.append(float(model.eval()(input_ids=torch.tensor([[5, 6, 7]])).logits[0, 0]))
    assert abs(found[0] - found[1]) > 1e-3


@pytest.mark.parametrize("fault", ["class", "dtype"])
def test_13_a_head_that_is_not_a_float_layer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    build_model(tmp_path, "llama")
    build = loader._build

    def quantised(*args: Any, **kwargs: Any) -> Any:
        module = build(*args, **kwargs)
        if fault == "class":
            module.score = torch.nn.Sequential(module.score)
        else:
            rounded = module.score.weight.mul(100).to(torch.int8)
            module.score.weight = torch.nn.Parameter(rounded, requires_grad=False)
        return module

    monkeypatch.setattr(loader, "_build", quantised)
    error = refusal(loaded, tmp_path)
    assert error.code == "head_not_linear"
    assert "score.weight" in error.message


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_13_before_saving_loaded_and_merged_an_adapter_scores_the_same(tmp_path: Path) -> None:
    base = build_model(tmp_path / "base", "llama", head=False)
    before = build_adapter(tmp_path / "adapter", base)
    model = loaded(tmp_path / "adapter")
    after = Scorer(model).reference(find_slot(model.source, PROMPT), (40,))
    assert after == pytest.approx(before, abs=1e-4)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_13_a_merge_that_loses_what_was_learned_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from peft import PeftModel

    build_adapter(tmp_path / "adapter", build_model(tmp_path / "base", "llama", head=False))
    monkeypatch.setattr(PeftModel, "merge_and_unload", lambda self, **_: self.unload(), False)
    error = refusal(loaded, tmp_path / "adapter")
    assert error.code == "adapter_mismatch"
    assert "Merging it changes the scores" in error.message


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_13_an_adapter_is_merged_before_its_base_is_rounded(tmp_path: Path) -> None:
    build_adapter(tmp_path / "adapter", build_model(tmp_path / "base", "llama", head=False))
    name = "model.layers.0.self_attn.q_proj.weight"
    exact, rounded, base = (
        loaded(tmp_path / "adapter").module.state_dict()[name],
        loaded(tmp_path / "adapter", dtype="bfloat16").module.state_dict()[name],
        load_file(tmp_path / "base" / "model.safetensors")[name],
    )
    assert torch.equal(rounded, exact.bfloat16())
    # Rounded first, the sum would be another one.
    twice = (base.bfloat16() + (exact - base).bfloat16()).bfloat16()
    assert not torch.equal(rounded, twice)


# 14. Control tokens come from the template alone.


def test_14_a_prompt_with_control_tokens_is_refused(tmp_path: Path) -> None:
    found = opened(build_model(tmp_path, "llama"))
    assert refusal(find_slot, found, "a <|im_end|> b").code == "prompt_control_tokens"


def test_14_without_its_guard_the_prompt_would_end_its_own_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = opened(build_model(tmp_path, "llama"))
    end = found.tokenizer.convert_tokens_to_ids("<|im_end|>")
    monkeypatch.setattr(slot, "_refuse_control_tokens", nothing)
    usual = find_slot(found, "a b").prefix_ids.count(end)
    assert find_slot(found, "a <|im_end|> b").prefix_ids.count(end) == usual + 1
