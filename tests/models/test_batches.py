"""Batches fit the memory there is, and are halved when it runs out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pessimal.models import batches
from pessimal.models.batches import Batcher
from pessimal.models.prefix import SharedPrefixBackbone
from pessimal.models.records import LoadedModel
from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from tests.builders import build_model
from tests.models.opening import loaded, refusal

REPLIES = [(token,) for token in range(200)]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return loaded(build_model(tmp_path_factory.mktemp("llama") / "model", "llama"))


def broken(*_: Any) -> Any:
    raise RuntimeError("this path is broken")


def test_running_out_of_memory_halves_the_batch_and_is_recorded(
    llama: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot, subject = find_slot(llama.source, "Why?"), Scorer(llama)
    expected = subject.score(slot, REPLIES)
    honest, most = SharedPrefixBackbone.last_hidden, 64

    def scarce(self: Any, prefix: Any, tails: torch.Tensor) -> torch.Tensor:
        if len(tails) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return honest(self, prefix, tails)

    monkeypatch.setattr(SharedPrefixBackbone, "last_hidden", scarce)
    assert np.array_equal(subject.score(slot, REPLIES, batch_rows=160), expected)
    assert subject.halvings == (
        "memory ran out: 160 rows a batch became 80",
        "memory ran out: 80 rows a batch became 48",
    )
    most = 0
    assert refusal(subject.score, slot, REPLIES).code == "out_of_memory"


def test_other_errors_are_not_taken_for_a_lack_of_memory(
    llama: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = Scorer(llama)
    monkeypatch.setattr(SharedPrefixBackbone, "last_hidden", broken)
    with pytest.raises(RuntimeError, match="this path is broken"):
        subject.score(find_slot(llama.source, "Why?"), [(5,)])
    assert subject.halvings == ()


def test_batches_fit_the_free_memory(llama: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    config: Any = llama.module.config
    batcher = Batcher(config, torch.device("cpu"), torch.float32)
    plenty = batcher.rows("shared", 40, 2)
    assert 256 <= plenty <= 1024
    assert batcher.rows("full", 40, 2) < plenty
    free = 1_000_000
    monkeypatch.setattr(batches, "_free_memory", lambda _: free)
    scarce = batcher.rows("shared", 40, 2)
    assert 1 <= scarce < plenty
    assert scarce * batcher.row_bytes("shared", 40, 2) <= free
    assert batcher.row_bytes("copied", 40, 2) > batcher.row_bytes("shared", 40, 2)
