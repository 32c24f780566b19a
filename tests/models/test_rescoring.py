from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pessimal.models.records import LoadedModel
from pessimal.models.rescoring import RescoringScorer
from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from tests.builders import build_model
from tests.models.opening import loaded, refusal

FAMILIES = ("llama", "gemma2", "gpt2", "deberta-v2")
REPLIES = [(token,) for token in range(3, 250)] + [(9, 8), (7, 6, 5, 4)]


pytestmark = pytest.mark.usefixtures("one_thread")


def rescoring(model: LoadedModel) -> tuple[RescoringScorer, np.ndarray]:
    slot = find_slot(model.source, "What, in one word, is the greatest thing ever?")
    subject = Scorer(model)
    return RescoringScorer(subject, {"greatest": slot}), subject.score(slot, REPLIES)


def masks_given(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    masks = []
    forward = Scorer.own_forward

    def spied(self: Scorer, *given: Any, **named: Any) -> torch.Tensor:
        masks.extend(given[2:3])
        return forward(self, *given, **named)

    monkeypatch.setattr(Scorer, "own_forward", spied)
    return masks


@pytest.mark.parametrize("family", FAMILIES)
def test_each_variant_scores_the_same_replies_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    model = loaded(build_model(tmp_path, family))
    again, scores = rescoring(model)
    sd = scores.std()
    for variant in ("batch", "order"):
        assert np.array_equal(again.rescore("greatest", REPLIES, variant=variant), scores)  # type: ignore[arg-type]
    masks = masks_given(monkeypatch)
    padded = again.rescore("greatest", REPLIES, variant="padding")
    assert np.abs(padded - scores).max() <= 1e-4 * sd
    # Whether padding moves a score's last bit depends on the machine: see that there is some.
    assert sum(map(len, masks)) == len(REPLIES)
    assert all((mask[:, 0] == 1).all() and (mask[:, -1] == 0).all() for mask in masks)
    rough = again.rescore("greatest", REPLIES, variant="bfloat16")
    assert rough.dtype == np.float32
    assert np.array_equal(rough, torch.tensor(rough).bfloat16().float().numpy())
    assert 1e-4 * sd < np.abs(rough - scores).max()
    assert np.corrcoef(rough, scores)[0, 1] > 0.9
    assert {p.dtype for p in model.module.parameters()} == {torch.float32}


def test_a_model_without_a_pad_is_padded_too(tmp_path: Path) -> None:
    again, scores = rescoring(loaded(build_model(tmp_path, "llama", pad_token_id=None)))
    padded = again.rescore("greatest", REPLIES, variant="padding")
    assert np.abs(padded - scores).max() <= 1e-4 * scores.std()
    rough = again.rescore("greatest", REPLIES[:20], variant="bfloat16")
    assert np.corrcoef(rough, scores[:20])[0, 1] > 0.9


def test_unknown_prompts_and_variants_are_usage_errors(tmp_path: Path) -> None:
    again, _ = rescoring(loaded(build_model(tmp_path, "llama")))
    error = refusal(again.rescore, "gratest", REPLIES, variant="batch")
    assert (error.code, error.exit_code) == ("unknown_prompt", 2)
    error = refusal(again.rescore, "greatest", REPLIES, variant="batches")
    assert (error.code, error.exit_code) == ("unknown_variant", 2)
    assert again.rescore("greatest", [], variant="padding").shape == (0,)
