"""The plan's figures are those of the sweep."""

import math
from pathlib import Path

import pytest

from pessimal.sweep.plan import (
    Plan,
    count_parameters,
    matmul_rate,
    plan_sweep,
    total,
)
from tests.sweep.fakes import SLOT, FakeScorer, run


@pytest.mark.parametrize("path", ["shared", "full"])
def test_the_plan_is_what_the_sweep_does(tmp_path: Path, path: str) -> None:
    replies = [(token,) for token in range(5, 35)] + [(8, 9), (7, 6)]
    plan = plan_sweep(
        SLOT, {1: 30, 2: 2}, parameters=1000, shares_prefix=path != "full", block_rows=8
    )
    found = run(FakeScorer(path=path), replies, tmp_path)
    assert plan.tokens == found.rows == 32
    assert plan.forward_tokens == found.forward_tokens
    assert plan.blocks == found.blocks == 5
    assert plan.flops == 2 * 1000 * found.forward_tokens
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    on_disk = sum(file.stat().st_size for file in files)
    assert on_disk / 2 < plan.disk_bytes < on_disk * 2


def test_plans_add_up() -> None:
    one = plan_sweep(SLOT, {1: 10}, parameters=7)
    assert total([one, one]) == Plan(20, 2 * 23, 2, 2 * 2 * 7 * 23, 2 * one.disk_bytes)
    assert total([]).tokens == 0
    assert plan_sweep(SLOT, {}, parameters=7, shares_prefix=False).forward_tokens == 0


def test_time_goes_with_the_machine() -> None:
    plan = plan_sweep(SLOT, {1: 1000}, parameters=10**6)
    assert plan.seconds(2e9) == pytest.approx(plan.seconds(1e9) / 2)
    # No machine does it faster than its matmuls.
    assert plan.seconds(1e9) > plan.flops / 1e9
    assert plan.seconds(0) == math.inf


def test_the_machines_rate_is_plausible() -> None:
    assert 1e8 < matmul_rate(width=256, seconds=0.05) < 1e15


def test_parameters_are_counted_without_weights() -> None:
    from transformers import LlamaConfig

    config = LlamaConfig(
        hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, vocab_size=1000, tie_word_embeddings=True,
    )  # fmt: skip
    attention = 8 * 8 * 2 + 8 * 4 * 2
    layer = attention + 3 * 8 * 16 + 2 * 8
    assert count_parameters(config) == (2 * layer + 8, 2 * layer + 8 + 1000 * 8)
