"""A sweep over a tiny real model, from its folder to its scores."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pessimal.models.loader import load_model
from pessimal.models.records import LoadedModel, ModelRequest, ReplySlot
from pessimal.models.scorer import Scorer
from pessimal.models.slot import encode_as_text, find_slot
from pessimal.models.source import open_source
from pessimal.models.vocabulary import vocabulary
from pessimal.scores.kinds import token_kinds
from pessimal.scores.store import BlockStore
from pessimal.sweep.as_text import as_text
from pessimal.sweep.plan import count_parameters
from pessimal.sweep.runner import SweepOptions, SweepResult, sweep
from tests.builders import build_model

PROMPT = "What is the best thing?"


@dataclass
class Real:
    model: LoadedModel
    scorer: Scorer
    slot: ReplySlot

    def sweep(self, replies: list[tuple[int, ...]], cache: Path, **options: object) -> SweepResult:
        return sweep(
            self.scorer, self.model.hashes, self.slot, replies, BlockStore(cache),
            prompt_id="best", options=SweepOptions(**{"block_rows": 64, **options}),
        )  # fmt: skip


def load(folder: Path, **request: object) -> Real:
    source = open_source(ModelRequest(model=str(folder), device="cpu", **request), folder)
    model = load_model(source)
    return Real(model, Scorer(model), find_slot(source, PROMPT))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("model") / "llama", "llama")


@pytest.fixture(scope="module")
def real(folder: Path) -> Real:
    return load(folder)


@pytest.fixture(scope="module")
def replies(real: Real) -> list[tuple[int, ...]]:
    tokens = vocabulary(real.model.source).ids.tolist()
    return [(token,) for token in tokens] + [(20, 21), (22, 23), (20, 21, 22)]


def test_scores_are_the_references(
    real: Real, replies: list[tuple[int, ...]], tmp_path: Path
) -> None:
    found = real.sweep(replies, tmp_path)
    chosen = [*range(0, len(replies), 37), *range(len(replies) - 3, len(replies))]
    wanted = np.array([real.scorer.reference(real.slot, replies[n]) for n in chosen])
    assert np.abs(found.scores[chosen] - wanted).max() < 1e-4 * found.scores.std()


def test_an_interrupted_sweep_ends_in_the_same_bytes(
    real: Real, replies: list[tuple[int, ...]], tmp_path: Path
) -> None:
    class Stop:
        left = 3

        def advance(self, candidates: int, *, reused: bool = False) -> None:
            self.left -= not reused
            if self.left == 0:
                raise KeyboardInterrupt

    undisturbed = real.sweep(replies, tmp_path / "a", batch_rows=64)
    with pytest.raises(KeyboardInterrupt):
        real.sweep(replies, tmp_path / "b", progress=Stop())
    resumed = real.sweep(replies, tmp_path / "b", batch_rows=16)
    assert resumed.reused == 3 * 64
    assert resumed.scores.tobytes() == undisturbed.scores.tobytes()


def test_a_changed_folder_never_meets_old_scores(
    folder: Path, real: Real, replies: list[tuple[int, ...]], tmp_path: Path
) -> None:
    before = real.sweep(replies, tmp_path / "cache")
    again = load(folder).sweep(replies, tmp_path / "cache")
    assert again.computed == 0
    assert again.scores.tobytes() == before.scores.tobytes()

    weights = build_model(tmp_path / "weights", "llama", seed=1)
    template = tmp_path / "template"
    shutil.copytree(folder, template)
    (changed,) = list(template.glob("*.jinja"))
    changed.write_text(changed.read_text() + "{# another #}")
    for other in (weights, template):
        found = load(other).sweep(replies, tmp_path / "cache")
        assert found.reused == 0
    assert load(folder, dtype="bfloat16").sweep(replies, tmp_path / "cache").reused == 0


def test_both_modes_agree_where_the_ids_do(real: Real, tmp_path: Path) -> None:
    source = real.model.source
    words = vocabulary(source)
    kinds = token_kinds(words.tokens, words.texts, special=words.special.tolist())
    ids = words.ids.tolist()
    by_ids = real.sweep([(token,) for token in ids], tmp_path)
    found = as_text(
        real.scorer, real.model.hashes, real.slot, ids, words.texts, kinds,
        lambda text: encode_as_text(source, PROMPT, text), BlockStore(tmp_path), prompt_id="best",
    )  # fmt: skip
    same = np.array([reason == "same" for reason in found.reasons])
    assert same.sum() > len(ids) / 4
    assert found.sweep.scores[same].tobytes() == by_ids.scores[same].tobytes()
    assert {"same", "invalid_utf8"} == set(found.reasons)
    assert not np.isnan(found.sweep.scores).any()


def test_planned_parameters_are_the_models(real: Real) -> None:
    module = real.model.module
    embeddings = module.get_input_embeddings().weight.numel()
    head = real.model.head.weight.numel()
    everything = sum(parameter.numel() for parameter in module.parameters())
    assert count_parameters(real.model.source.config)[0] == everything - embeddings - head
