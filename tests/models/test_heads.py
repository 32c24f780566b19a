"""Heads of our own: their scores and gradients against plain restatements of public sources."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pessimal.models import loader
from pessimal.models.checkpoint import read_tensor, tensor_shapes
from pessimal.models.heads import model as heads
from pessimal.models.records import LoadedModel, ScoringPath
from pessimal.models.rescoring import RescoringScorer
from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_last, find_slot
from pessimal.search.model import TorchReplyModel
from tests.models.opening import edit_weights, loaded, opened, refusal
from tests.models.own_models import CASES, build_own, plain_backbone, plain_scores

PROMPT = "What, in one word, is the greatest thing ever?"


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return cache(lambda name: build_own(tmp_path_factory.mktemp("own"), name))


@pytest.fixture(scope="module")
def models(folders: Any) -> Any:
    return cache(lambda name: loaded(folders(name)))


def gate_place(model: LoadedModel) -> int:
    slot = find_slot(model.source, PROMPT)
    return find_last(slot.prefix_ids, model.source.gate_ids) if model.source.gate_ids else 0


@pytest.mark.parametrize("name", CASES)
def test_scores_are_those_of_the_published_formula(models: Any, folders: Any, name: str) -> None:
    model = models(name)
    assert model.family.name in name
    slot = find_slot(model.source, PROMPT)
    replies = [(40,), (41,), (2,), (50, 51, 52), (60, 61)]
    sequences = [[*slot.prefix_ids, *reply, *slot.suffix_ids] for reply in replies]
    expected = np.array(plain_scores(folders(name), name, sequences, gate_place(model)))
    assert expected.std() > 1e-3
    paths: tuple[ScoringPath, ...] = ("shared", "copied", "full")
    for path in paths:
        scores = Scorer(model, path).score(slot, replies)
        assert np.abs(scores - expected).max() < 1e-5, path
    assert Scorer(model).path == "shared"
    reference = [Scorer(model).reference(slot, reply) for reply in replies]
    assert np.abs(np.array(reference) - expected).max() < 1e-5


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_formulas_slopes(models: Any, folders: Any, name: str) -> None:
    """In embedding space: a step along the gradient changes the plain score by its length."""
    model = models(name)
    slot = find_slot(model.source, PROMPT)
    reply = (50, 51, 52)
    ids = [*slot.prefix_ids, *reply, *slot.suffix_ids]
    weights = load_file(folders(name) / "model.safetensors")
    weights = {key: value.double() for key, value in weights.items()}
    backbone = plain_backbone(folders(name), CASES[name][0], weights).double()
    start, at = len(slot.prefix_ids), gate_place(model)

    def score(shift: Any) -> float:
        def moved(module: Any, args: Any, output: Any) -> Any:
            output[:, start : start + len(reply)] += shift
            return output

        handle = backbone.get_input_embeddings().register_forward_hook(moved)
        with torch.no_grad():
            hidden = backbone(input_ids=torch.tensor([ids])).last_hidden_state[0]
        handle.remove()
        return float(CASES[name][3](weights, hidden[-1:], hidden[at : at + 1])[0])

    allowed = np.arange(30, 60)
    for sharing in ("tokens", "nothing"):
        scorer = Scorer(model)
        # What a sweep keeps of the prompt must serve a gradient too.
        scorer.score(slot, [reply])
        subject = TorchReplyModel(scorer, slot, allowed, sharing)
        assert subject.sharing == sharing
        gradient = subject.gradient(reply)
        direction = torch.from_numpy(gradient).double()
        length = float(direction.norm())
        step = 2e-3 * direction / length
        # The library computes norms in float32 whatever the weights: a smaller step is noise.
        slope = (score(step) - score(-step)) / 4e-3
        assert slope == pytest.approx(length, rel=1e-3), sharing
        both = [reply, (50, 51, 57)]
        difference = subject.score(both, shared=2) - Scorer(model, "full").score(slot, both)
        assert np.abs(difference).max() < 1e-5


@pytest.mark.parametrize("name", ["armorm", "qrm", "inf-orm", "urm"])
def test_bits_do_not_depend_on_batches_or_company(models: Any, name: str) -> None:
    model = models(name)
    slot, replies = find_slot(model.source, PROMPT), [(token,) for token in range(20, 90)]
    subject = Scorer(model)
    scores = subject.score(slot, replies)
    for rows in (1, 33, 512):
        assert np.array_equal(subject.score(slot, replies, batch_rows=rows), scores)
    assert np.array_equal(subject.score(slot, replies[3:4]), scores[3:4])
    assert np.array_equal(Scorer(model).score(slot, replies[::-1])[::-1], scores)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("part", ["first", "last"])
def test_a_head_that_is_not_whole_is_refused(tmp_path: Path, name: str, part: str) -> None:
    build_own(tmp_path, name)
    keys = [key for key in CASES[name][2] if not key.startswith("normalizer.")]
    lost = keys[0 if part == "first" else -1]
    edit_weights(tmp_path, lambda tensors: tensors.pop(lost))
    error = refusal(loaded, tmp_path)
    assert error.code in ("head_missing", "weights_incomplete", "many_labels")


@pytest.mark.parametrize("name", ["qrm", "beaver-reward-normalised", "grm-gemma2", "urm"])
def test_rescoring_changes_what_it_says_and_nothing_else(models: Any, name: str) -> None:
    model = models(name)
    slot, scorer = find_slot(model.source, PROMPT), Scorer(model)
    replies = [(40,), (41,), (50, 51, 52), (60, 61)]
    scores = scorer.score(slot, replies)
    again = RescoringScorer(scorer, {"greatest": slot})
    for variant in ("batch", "order", "padding"):
        assert np.abs(again.rescore("greatest", replies, variant=variant) - scores).max() < 1e-5
    rounded = again.rescore("greatest", replies, variant="bfloat16")
    assert 0 < np.abs(rounded - scores).max() < 0.3 * max(1, np.abs(scores).max())


@pytest.mark.parametrize("changed", ["regression_layer.weight", "gating.layers.2.running_var"])
def test_every_tensor_of_a_head_is_compared_with_the_file(
    folders: Any, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    def misread(files: Any, key: str) -> Any:
        tensor = read_tensor(files, key)
        return tensor + 1 if key == changed else tensor

    monkeypatch.setattr(loader, "read_tensor", misread)
    error = refusal(loaded, folders("qrm"))
    assert error.code == "head_missing"
    assert changed in error.message


def test_a_head_that_its_class_hides_from_its_report_differs_between_two_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened(build_own(tmp_path, "inf-orm"))
    shapes = tensor_shapes(source.weight_files)
    edit_weights(tmp_path, lambda tensors: tensors.pop("score.0.weight"))
    monkeypatch.setattr(heads, "tensor_shapes", lambda _: shapes)
    monkeypatch.setattr(loader, "check_loading", lambda *_, **__: None)
    error = refusal(loader.load_model, source)
    assert error.code == "head_missing"
    assert "two seeds" in error.message
