"""Traps in the forward pass, each with what happens when its guard is taken out.

Numbers are those of the list that the design keeps: 15 eval mode, 16 truncation, 17 attention mask,
18 absolute positions, 19 constant and NaN scores.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pessimal.models import rescoring, selftest, templates, trunk
from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from tests.builders import build_model
from tests.models.opening import edit_json, edit_weights, loaded, opened, refusal
from tests.models.traps import (
    COMMIT,
    LOGITS,
    PROMPT,
    REPLIES,
    apart,
    nothing,
    our_scores,
    own_code,
    plain,
    true_scores,
    whole,
)

pytestmark = pytest.mark.usefixtures("one_thread")


# 15. Scores are those of eval mode.


def dropping(folder: Path) -> Any:
    return loaded(build_model(folder, "gpt2", resid_pdrop=0.5, embd_pdrop=0.5))


def test_15_a_model_in_training_mode_scores_the_same_twice(tmp_path: Path) -> None:
    model = dropping(tmp_path)
    expected = true_scores(tmp_path, model)
    model.module.train()
    for _ in range(2):
        assert apart(our_scores(model), expected) <= 1e-4


def test_15_without_its_guard_dropout_is_in_every_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = dropping(tmp_path)
    model.module.train()
    copy = trunk.skeleton
    monkeypatch.setattr(trunk, "skeleton", lambda *args: copy(*args).train())
    first = Scorer(model, "full")
    place = find_slot(model.source, PROMPT)
    assert apart(first.score(place, REPLIES), first.score(place, REPLIES)) > 0.1


def test_15_own_code_with_a_batch_norm_is_put_into_eval_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = own_code(
        tmp_path,
        monkeypatch,
        post="self.norm = torch.nn.BatchNorm1d(config.hidden_size); self.post_init(); self.train()",
        result=LOGITS.replace("(last)", "(self.norm(last))"),
    )
    size = {"norm.running_mean": 0.5, "norm.running_var": 2.0, "norm.weight": 1.5, "norm.bias": 0.1}
    more = {name: torch.full((32,), value) for name, value in size.items()}
    more["norm.num_batches_tracked"] = torch.tensor(7)
    edit_weights(folder, lambda tensors: tensors.update(more))
    model = loaded(folder, trust_remote_code=True, revision=COMMIT)
    place = find_slot(model.source, PROMPT)
    expected = Scorer(model).reference(place, (40,))
    model.module.train()
    assert Scorer(model).reference(place, (40,)) == expected
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        model.module(whole(place, (40,)), torch.ones_like(whole(place, (40,))))


# 16. Nothing is cut off silently.


def cutting(folder: Path) -> Path:
    build_model(folder, "llama")
    cut = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    pad = {"strategy": {"Fixed": 12}, "direction": "Right", "pad_to_multiple_of": None}
    pad |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}
    edit_json(folder / "tokenizer.json", truncation=cut, padding=pad)
    return folder


def test_16_a_reply_and_its_suffix_are_never_cut(tmp_path: Path) -> None:
    place = find_slot(opened(cutting(tmp_path)), PROMPT)
    assert len(place.prefix_ids) > 8
    assert place.pooled_token == "<|im_end|>"
    short = opened(build_model(tmp_path / "short", "llama", max_position_embeddings=40))
    assert refusal(find_slot, short, "word " * 40).code == "prompt_too_long"
    model = loaded(tmp_path / "short")
    error = refusal(Scorer(model).score, find_slot(model.source, "Hi"), [[5] * 40])
    assert error.code == "reply_too_long"


def test_16_without_its_guard_the_reply_is_cut_away(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    raw = AutoTokenizer.from_pretrained(cutting(tmp_path))
    place = find_slot(opened(tmp_path), PROMPT)
    whole_text = place.rendered.replace("<reply>", "love")
    cut = raw.backend_tokenizer.encode(whole_text, add_special_tokens=False).ids
    assert len(cut) == 12
    assert cut.count(0) == 4
    assert raw.convert_tokens_to_ids("<|im_end|>") not in cut
    # Opened by us, it neither cuts nor fills up, whoever calls it.
    ours = templates.open_tokenizer(tmp_path, trust=False).backend_tokenizer
    whole_ids = ours.encode(whole_text, add_special_tokens=False).ids
    love = ours.encode("love", add_special_tokens=False).ids
    assert whole_ids == [*place.prefix_ids, *love, *place.suffix_ids]


# 17. The attention mask is always sent.


@pytest.mark.parametrize("family", ["llama", "gpt2", "deberta-v2"])
def test_17_every_forward_is_given_its_mask(tmp_path: Path, family: str) -> None:
    model = loaded(build_model(tmp_path, family))
    place, masks, backbone = find_slot(model.source, PROMPT), [], model.module.base_model
    forward = type(backbone).forward

    # The library reads the names of its arguments.
    @functools.wraps(forward)
    def watched(self: Any, *args: Any, **given: Any) -> Any:
        masks.append(given["attention_mask"])
        return forward(self, *args, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(backbone), "forward", watched)
        paths = ("full",) if family == "deberta-v2" else ("shared", "copied", "full")
        for path in paths:
            subject = Scorer(model, path)  # type: ignore[arg-type]
            subject.score(place, REPLIES[:3])
        subject.reference(place, REPLIES[0])
        again = rescoring.RescoringScorer(subject, {"p": place})
        again.rescore("p", REPLIES[:3], variant="padding")
    assert len(masks) >= len(paths) + 2
    assert all(mask is not None for mask in masks)
    assert masks[-1].sum() < masks[-1].numel()


@torch.no_grad()
def left_padded(folder: Path, model: Any, *, mask: bool, positions: bool = False) -> Any:
    module, place = plain(folder), find_slot(model.source, PROMPT)
    found = []
    for reply in REPLIES:
        ids = torch.nn.functional.pad(whole(place, reply), (6, 0), value=0)
        seen = (torch.arange(ids.shape[1]) >= 6).long()[None]
        given = {"attention_mask": seen} if mask else {}
        if positions:
            given["position_ids"] = (seen.cumsum(1) - 1).clamp(min=0)
        found.append(float(module(input_ids=ids, **given).logits[0, 0]))
    return np.array(found)


def test_17_without_a_mask_left_padding_would_be_read(tmp_path: Path) -> None:
    model = loaded(build_model(tmp_path, "llama"))
    scores = our_scores(model)
    assert apart(left_padded(tmp_path, model, mask=True), scores) <= 1e-3
    assert apart(left_padded(tmp_path, model, mask=False), scores) > 0.1


# 18. GPT-2's positions are absolute.


def test_18_padding_moves_no_position(tmp_path: Path) -> None:
    model = loaded(build_model(tmp_path, "gpt2"))
    expected, place = true_scores(tmp_path, model), find_slot(model.source, PROMPT)
    for path in ("shared", "copied", "full"):
        scores = Scorer(model, path).score(place, REPLIES)  # type: ignore[arg-type]
        assert apart(scores, expected) <= 1e-4
    again = rescoring.RescoringScorer(Scorer(model), {"p": place})
    assert apart(again.rescore("p", REPLIES, variant="padding"), expected) <= 1e-4


def test_18_padded_on_the_left_without_positions_it_scores_otherwise(tmp_path: Path) -> None:
    model = loaded(build_model(tmp_path, "gpt2"))
    expected = our_scores(model)
    assert apart(left_padded(tmp_path, model, mask=True), expected) > 0.1
    given = left_padded(tmp_path, model, mask=True, positions=True)
    assert apart(given, expected) <= 1e-3


# 19. Constant or NaN scores stop before the long sweep.


def broken_model(folder: Path, fault: str) -> Any:
    build_model(folder, "llama")
    if fault == "constant":
        edit_weights(folder, lambda tensors: tensors["score.weight"].zero_())
        return loaded(folder)
    model = loaded(folder)
    if fault == "nan":
        # Only ordinary probe words are tried at loading: these are others.
        rows = model.module.get_input_embeddings().weight.data
        rows[::2] = math.nan
        rows[list(find_slot(model.source, PROMPT).prefix_ids)] = 0.1
        rows[4] = 0.1
    else:
        model.module.score.weight.data.fill_(3e38)
    return model


FAULTS = {"constant": "scores_constant", "nan": "scores_not_finite", "inf": "scores_not_finite"}


@pytest.mark.parametrize("fault", FAULTS)
def test_19_unusable_scores_are_refused_after_64_tokens(tmp_path: Path, fault: str) -> None:
    model = broken_model(tmp_path, fault)
    place, subject, rows = find_slot(model.source, PROMPT), Scorer(model), []
    own, whole_batch = subject.own_forward, subject.score
    subject.own_forward = lambda *args, **given: rows.append(1) or own(*args, **given)  # type: ignore
    subject.score = lambda _, replies: rows.extend(replies) or whole_batch(place, replies)  # type: ignore
    assert refusal(subject.self_test, place).code == FAULTS[fault]
    # 64 random tokens at most, some of them twice, and the special ones.
    assert 0 < len(rows) <= 2 * 64 + 2 * 5


def test_19_a_nan_that_only_the_batches_meet_is_refused(tmp_path: Path) -> None:
    model = loaded(build_model(tmp_path, "llama"))
    place, subject, seen = find_slot(model.source, PROMPT), Scorer(model), []
    score = subject.score

    def ending_in_nan(place: Any, replies: Any) -> Any:
        seen.append(len(replies))
        scores = score(place, replies)
        scores[-1] = math.nan
        return scores

    subject.score = ending_in_nan  # type: ignore[assignment, method-assign]
    assert refusal(subject.self_test, place).code == "scores_not_finite"
    # The last one is beyond those that are set beside the model's own forward.
    assert 64 <= seen[0] <= 64 + 5


def test_19_nan_behind_a_sound_head_is_refused_while_loading(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    edit_weights(tmp_path, lambda tensors: tensors["model.norm.weight"].fill_(math.nan))
    assert refusal(loaded, tmp_path).code == "scores_not_finite"


@pytest.mark.parametrize("fault", ["constant", "nan_head"])
def test_19_a_model_without_a_ranking_is_not_opened_for_a_sweep(tmp_path: Path, fault: str) -> None:
    from pessimal.audit import Prompt
    from pessimal.models.records import ModelRequest
    from pessimal.pipeline.session import open_session
    from pessimal.sweep.runner import SweepOptions

    folder = build_model(tmp_path / "model", "llama")
    value = 0.0 if fault == "constant" else math.nan
    edit_weights(folder, lambda tensors: tensors["score.weight"].fill_(value))
    request, example = ModelRequest(model=str(folder)), Prompt("p", PROMPT, "best")
    error = refusal(
        open_session, request, tmp_path / "cache", example, SweepOptions(), lambda _: None
    )
    assert error.code == {"constant": "scores_constant", "nan_head": "head_not_finite"}[fault]


def test_19_without_its_guard_a_sweep_would_end_in_equal_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = broken_model(tmp_path, "constant")
    monkeypatch.setattr(selftest, "refuse_degenerate", nothing)
    every = our_scores(model, [(token,) for token in range(300)])
    assert np.ptp(every) == 0
    broken = broken_model(tmp_path / "nan", "nan")
    assert np.isnan(our_scores(broken, [(token,) for token in range(300)])).any()
