"""Traps on the way to a model, each with what happens when its guard is taken out.

Numbers are those of the list that the design keeps: 1 head, 2 fallback, 3 pooling, 4 pad.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pessimal.models import loader, source
from pessimal.models.records import LoadedModel
from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from tests.builders import CHATML, build_model
from tests.models.opening import edit_json, edit_weights, loaded, opened, refusal, write_template
from tests.models.traps import (
    PROMPT,
    REPLIES,
    apart,
    head_at_every_position,
    nothing,
    our_scores,
    true_scores,
    whole,
)

TEMPLATE = CHATML.replace("{{ bos }}", "{{ bos_token }}")
END = 4
"""Id of ``<|im_end|>``, the template's last token."""


pytestmark = pytest.mark.usefixtures("one_thread")


# 1. The head must come from the checkpoint.


def headless(folder: Path, fault: str) -> Path:
    build_model(folder, "llama", head=fault != "causal")
    if fault == "renamed":
        edit_weights(folder, lambda t: t.update({"v_head.weight": t.pop("score.weight")}))
    return folder


@pytest.mark.parametrize("fault", ["causal", "renamed"])
def test_01_a_random_head_is_refused(tmp_path: Path, fault: str) -> None:
    error = refusal(loaded, headless(tmp_path, fault))
    assert error.code in ("causal_lm", "head_missing")
    assert "score.weight" in error.message


@pytest.mark.parametrize("fault", ["causal", "renamed"])
def test_01_without_its_guards_each_load_would_score_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    headless(tmp_path, fault)
    monkeypatch.setattr(source, "_find_head", lambda *_: ("score.weight", (1, 32)))
    # The report, the two seeds and the file's bytes each catch it alone.
    for guard, instead, said in (
        ("check_loading", nothing, "holds no head score.weight: it was made at random"),
        ("_proof", lambda *_: "", "Two loads of the model under two seeds differ"),
        ("_check_head", lambda found, module: module.score, "isn't the tensor score.weight"),
    ):
        error = refusal(loaded, tmp_path)
        assert error.code == "head_missing"
        assert said in error.message
        monkeypatch.setattr(loader, guard, instead)
    first = our_scores(loaded(tmp_path))
    monkeypatch.setattr(loader, "_SEEDS", (11, 99))
    assert apart(our_scores(loaded(tmp_path)), first) > 0.1


# 2. A stock class must not stand in for a repository's own code.

CODE = """
import torch
from transformers import LlamaModel, LlamaPreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class Gated(LlamaPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = LlamaModel(config)
        self.score = torch.nn.Linear(config.hidden_size, 1, bias=False)
        self.gate = torch.nn.Linear(config.hidden_size, 1, bias=False)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **kwargs):
        hidden = self.model(input_ids, attention_mask=attention_mask).last_hidden_state
        last = hidden[torch.arange(len(hidden)), attention_mask.sum(1) - 1]
        return SequenceClassifierOutput(logits=self.score(last) * self.gate(last).sigmoid())
"""


@pytest.fixture(name="gated")
def gated_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = build_model(tmp_path / "model", "llama")
    (folder / "modeling_gated.py").write_text(CODE)
    mapped = {"AutoModelForSequenceClassification": "modeling_gated.Gated"}
    edit_json(folder / "config.json", architectures=["Gated"], auto_map=mapped)
    gate = torch.randn(1, 32, generator=torch.Generator().manual_seed(1))
    edit_weights(folder, lambda tensors: tensors.update({"gate.weight": gate}))
    return folder


def own_scores(folder: Path) -> Any:
    model = loaded(folder, trust_remote_code=True, revision="89abcdef01" * 4)
    assert type(model.module).__name__ == "Gated"
    return our_scores(model)


def test_02_own_code_is_run_on_request_and_never_replaced(gated: Path) -> None:
    assert refusal(opened, gated).code == "remote_code"
    model, found = loaded(gated, trust_remote_code=True, revision="89abcdef01" * 4), []
    with torch.no_grad():
        for reply in REPLIES:
            ids = whole(find_slot(model.source, PROMPT), reply)
            found.append(float(model.module(ids, torch.ones_like(ids)).logits[0, 0]))
    assert apart(own_scores(gated), np.array(found)) <= 1e-4


def test_02_without_its_guard_the_stock_class_scores_otherwise(
    gated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pessimal.models.families import family_of

    own = own_scores(gated)
    monkeypatch.setattr(source, "_find_family", lambda *_: family_of("llama"))
    # The weights that the stock class leaves over are a second guard.
    assert refusal(loaded, gated).code == "weights_unexpected"
    monkeypatch.setattr(loader, "check_loading", nothing)
    model = loaded(gated)
    assert type(model.module).__name__ == "LlamaForSequenceClassification"
    assert apart(our_scores(model), own) > 0.1


# 3. The score is the head at the template's last token.

EARLIER = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"


@pytest.mark.parametrize("pad", [0, 2, None])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_03_the_pooled_position_is_the_last_template_token(
    tmp_path: Path, pad: int | None, side: str, turns: int
) -> None:
    build_model(tmp_path, "llama", pad_token_id=pad)
    edit_json(tmp_path / "tokenizer_config.json", padding_side=side)
    # The end of turn occurs in the middle of the text as well.
    write_template(
        tmp_path, TEMPLATE.replace("{% for", "{{ %r }}{%% for" % (EARLIER * (turns - 1)))
    )
    model = loaded(tmp_path)
    place, subject = find_slot(model.source, PROMPT), Scorer(model)
    assert place.prefix_ids.count(END) == 2 * (turns - 1) + 1
    for reply in ((40,), (40, 41, 42), (END,)):
        oracle = head_at_every_position(tmp_path, place, reply)
        score = float(subject.score(place, [reply])[0])
        assert score == pytest.approx(oracle[-1], abs=1e-4)
        assert min(abs(score - other) for other in oracle[:-1]) > 1e-3 or reply == (END,)


def test_03_without_its_guard_a_pad_in_the_template_moves_the_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_model(tmp_path, "llama", pad_token_id=END)
    assert refusal(loaded, tmp_path).code == "pad_moves_pooling"
    monkeypatch.setattr(loader, "check_behaviour", nothing)
    model = loaded(tmp_path)
    place = find_slot(model.source, PROMPT)
    oracle = head_at_every_position(tmp_path, place, (40,))
    score = Scorer(model).reference(place, (40,))
    assert score == pytest.approx(oracle[-2], abs=1e-4)
    assert abs(score - oracle[-1]) > 1e-3


# 4. Config and tokenizer may disagree on the pad.


def padded_scores(model: LoadedModel, variant: Any = "padding") -> Any:
    from pessimal.models.rescoring import RescoringScorer

    place = find_slot(model.source, PROMPT)
    return RescoringScorer(Scorer(model), {"p": place}).rescore("p", REPLIES, variant=variant)


def test_04_a_disagreement_on_the_pad_changes_no_score(tmp_path: Path) -> None:
    model = loaded(build_model(tmp_path, "llama", pad_token_id=3))
    assert model.tokenizer.pad_token_id == 0
    single = true_scores(tmp_path, model)
    assert apart(our_scores(model), single) <= 1e-4
    assert apart(padded_scores(model), single) <= 1e-4
    assert any("The config's pad id is 3, the tokenizer's 0" in note for note in model.notes)


def test_04_padding_with_the_tokenizers_pad_would_pool_a_pad(tmp_path: Path) -> None:
    from pessimal.models.rescoring import RescoringScorer

    model = loaded(build_model(tmp_path, "llama", pad_token_id=3))
    subject, place = Scorer(model), find_slot(model.source, PROMPT)
    subject.pad = model.tokenizer.pad_token_id
    wrong = RescoringScorer(subject, {"p": place}).rescore("p", REPLIES, variant="padding")
    assert apart(wrong, true_scores(tmp_path, model)) > 0.1


def test_04_batches_without_any_pad_which_the_library_refuses_score_the_same(
    tmp_path: Path,
) -> None:
    model = loaded(build_model(tmp_path, "llama", pad_token_id=None))
    place, single = find_slot(model.source, PROMPT), true_scores(tmp_path, model)
    assert apart(our_scores(model), single) <= 1e-4
    assert apart(padded_scores(model), single) <= 1e-4
    assert apart(padded_scores(model, "bfloat16"), single) <= 0.5
    with pytest.raises(ValueError, match="no padding token is defined"):
        model.module(torch.cat([whole(place, (40,)), whole(place, (41,))]))
