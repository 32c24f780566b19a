"""What a plan counts, what it measures, and what it only estimates."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pessimal.errors import PessimalError, UsageError
from pessimal.models import places
from pessimal.models.records import ModelRequest
from pessimal.pipeline import calibrate, plan
from pessimal.pipeline.plan import plan_audit
from pessimal.pipeline.spec import SearchStep, load_pipeline, load_prompts
from pessimal.sweep.hardware import GPUS, estimates, memory, size_of
from tests.builders import build_model
from tests.cli.runner import call

PIPELINE = """\
description: enough of every step
vocabulary: {tokens: 250, prompts: [greatest, worst]}
as_text: {tokens: 40, prompts: [greatest]}
searches:
  {prompts: [greatest, worst], lengths: [2], directions: [optimal], seeds: 3, seconds: 9%s}
audits: [numerics]
"""
Plan = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan") / "model"
    return build_model(folder, "llama", vocabulary=400, num_hidden_layers=1)


@pytest.fixture
def bare(model: Path, tmp_path: Path) -> Path:
    """The same model without its weights."""
    folder = tmp_path / "bare"
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    return folder


@pytest.fixture
def planned(light_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(calibrate, "SAMPLE_S", 0.0)
    monkeypatch.setattr(calibrate, "SEARCH_S", 0.05)

    def run(model: object, extra: str = "", **options: bool) -> dict[str, Any]:
        folder = light_project / "pipelines"
        (folder / "planned.yaml").write_text(PIPELINE % extra)
        request = ModelRequest(model=str(model))
        pipeline = load_pipeline("planned", folder)
        return plan_audit(request, pipeline, load_prompts(folder), tmp_path / "cache", **options)

    return run


def test_a_model_is_tried_on_request(model: Path, planned: Plan, tmp_path: Path) -> None:
    found = planned(model, try_it=True)
    parts = {part["part"]: part["seconds"] for part in found["time"]}
    assert list(parts) == [
        "load", "vocabulary", "as_text", "searches", "reruns", "audits_and_report"
    ]  # fmt: skip
    assert min(parts.values()) > 0
    assert found["seconds"] == pytest.approx(sum(parts.values()))
    assert (found["calibration"], found["estimate"], found["searches"]) == (
        "model", False, "counted",
    )  # fmt: skip
    # What was measured is no score that an audit could find.
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_searches_end_by_time_or_by_tokens() -> None:
    rates = calibrate.Rates(0, 1e-3, 1e-3, 0, 1e-3, 1e-3, search_s=4.5, search_token_s=2e-3)
    step = SearchStep(
        prompts="greatest", lengths=[2], directions=["optimal"], seeds=3, seconds=8
    )  # fmt: skip
    # The search has a quarter of the time, and took 4.5 times as long with its baselines.
    assert plan._search_seconds(step, 3, rates) == pytest.approx(9.0)
    budgeted = step.model_copy(update={"budget": 1000})
    assert plan._search_seconds(budgeted, 3, rates) == pytest.approx(3 * 1000 * 2e-3)


def test_no_weights_are_loaded_unasked(model: Path, planned: Plan, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    file = broken / "model.safetensors"
    whole = file.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    file.write_bytes(whole[:header] + b"\xff" * (len(whole) - header))
    found = planned(broken)
    assert (found["calibration"], found["estimate"]) == ("matmul", True)
    assert found["seconds"] > 9
    with pytest.raises(PessimalError):
        planned(broken, try_it=True)


def test_what_is_not_here_is_not_tried(bare: Path, planned: Plan) -> None:
    with pytest.raises(UsageError) as refused:
        planned(bare, try_it=True)
    assert refused.value.code == "nothing_to_try"


def test_without_weights_there_is_arithmetic_and_it_says_so(
    bare: Path, model: Path, planned: Plan
) -> None:
    found = planned(bare)
    whole = planned(model)
    same = ("tokens", "forward_tokens", "blocks", "flops", "disk_bytes", "vocabulary", "steps")
    assert {key: found[key] for key in same} == {key: whole[key] for key in same}
    assert (found["seconds"], found["calibration"]) == (None, "none")
    assert (found["estimate"], found["searches"]) == (True, "not counted")
    assert {one["name"] for one in found["gpus"]} == {gpu.name for gpu in GPUS}
    assert all(one["estimate"] is True and one["fits"] for one in found["gpus"])
    needs = found["memory"]
    assert needs["float32"]["weight_bytes"] == 2 * needs["bfloat16"]["weight_bytes"]


def test_only_what_describes_a_hub_model_is_fetched(
    bare: Path, planned: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def fetch(name: str, revision: str | None, patterns: list[str]) -> Path:
        asked.extend(patterns)
        return bare

    monkeypatch.setattr(places, "_fetch", fetch)
    found = planned("org/name@" + "a" * 40)
    assert found["calibration"] == "none"
    assert "*.json" in asked
    assert not [pattern for pattern in asked if "safetensors" in pattern or "bin" in pattern]


def test_other_refusals_stay(bare: Path, planned: Plan) -> None:
    (bare / "config.json").unlink()
    with pytest.raises(PessimalError) as refused:
        planned(bare)
    assert refused.value.code == "not_a_model_folder"


def test_estimates_are_on_screen(
    bare: Path, light_project: Path, planned: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    planned(bare)
    shown = call(
        capsys, "plan", "--model", bare, "--project", light_project, "--pipeline", "planned"
    )  # fmt: skip
    assert shown.code == 0
    assert "A100-80GB" in shown.out
    assert shown.out.count("estimate") >= 3
    assert "the weights aren't on this machine" in " ".join(shown.out.split())


def test_what_a_gpu_holds_and_how_long_it_takes() -> None:
    from transformers import LlamaConfig

    config = LlamaConfig(hidden_size=8192, intermediate_size=28672, num_hidden_layers=80,
                         num_attention_heads=64, num_key_value_heads=8)  # fmt: skip
    size = size_of(config, 70_000_000_000, 50, 2)
    assert memory(size, "float32")["weight_bytes"] == 280_000_000_000
    found = {(one["name"], one["dtype"]): one for one in estimates(1e18, size)}
    assert not any(one["fits"] for one in found.values())
    half, single = found["H100", "bfloat16"], found["H100", "float32"]
    assert 1e18 / 989e12 < half["seconds"] < single["seconds"]
    small = size_of(config, 100_000_000, 50, 2)
    assert all(one["fits"] for one in estimates(1e18, small))
