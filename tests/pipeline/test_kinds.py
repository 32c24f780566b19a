"""Every kind of reward from the command line: a server, a policy and its reference, a judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.builders import build_model
from tests.cli.runner import Outcome, call
from tests.models.serving import PATIENT, RewardServer, serving
from tests.models.test_judge import build_judge

Capture = pytest.CaptureFixture[str]
PIPELINE = """\
description: enough of every step
vocabulary: {tokens: 250, prompts: [greatest, worst]}
searches:
  {prompts: [greatest], lengths: [2], directions: [optimal], seeds: 1, seconds: 5, budget: 1500}
audits: [numerics, vocabulary]
"""
KEY = "k-very-secret"
FAULTS = {"share": 0.3, "delay_s": 0.002, "restart_after": 30}
"""A server that fails, cuts its answers, drops connections, and goes away once."""


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("kinds")
    small: dict[str, Any] = {"num_hidden_layers": 1}
    patient = {"dialect": "vllm-classify", **PATIENT}
    (home / "endpoint.json").write_text(json.dumps(patient))
    return {
        "settings": home / "endpoint.json",
        "reward": build_model(home / "reward", "llama", vocabulary=400, **small),
        "policy": build_model(home / "policy", "llama", head=False, seed=1, **small),
        "reference": build_model(home / "reference", "llama", head=False, seed=2, **small),
        "judge": build_judge(home / "judge", "llama", **small),
    }


def flags_of(kind: str, pieces: dict[str, Path], server: RewardServer | None) -> list[object]:
    if kind == "endpoint":
        assert server is not None
        return [
            "--model", server.url, "--endpoint", pieces["settings"],
            "--tokenizer", pieces["reward"],
        ]  # fmt: skip
    if kind == "implicit":
        return [
            "--model", pieces["policy"], "--kind", "implicit",
            "--reference", pieces["reference"], "--beta", 0.5,
        ]  # fmt: skip
    return ["--model", pieces["judge"], "--kind", "judge"]


@pytest.mark.parametrize("kind", ["endpoint", "implicit", "judge"])
def test_each_kind_is_scored(
    capsys: Capture, kind: str, pieces: dict[str, Path], tmp_path: Path
) -> None:
    def score(*flags: object) -> tuple[Outcome, Any]:
        out = tmp_path / "scores.parquet"
        outcome = call(
            capsys, "score", *flags, "--prompt", "Why?", "--tokens", 100, "--out", out,
            "--cache", tmp_path, "--json",
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
        return outcome, pd.read_parquet(out)["score:prompt"].to_numpy()

    with serving(pieces["reward"], "vllm-classify", **FAULTS) as server:
        outcome, scores = score(*flags_of(kind, pieces, server), "--batch-size", 16)
    assert len(scores) == 100
    assert len(set(scores.tolist())) > 90
    assert outcome.document["model"]["kind"] == kind
    if kind == "endpoint":
        _, expected = score("--model", pieces["reward"])
        assert np.abs(scores - expected).max() <= 1e-4 * expected.std()


@pytest.mark.parametrize(
    "kind",
    [
        "endpoint",
        pytest.param("implicit", marks=pytest.mark.slow),
        pytest.param("judge", marks=pytest.mark.slow),
    ],
)
def test_each_kind_is_audited(
    capsys: Capture, kind: str, pieces: dict[str, Path], light_project: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("PESSIMAL_ENDPOINT_KEY", KEY)
    (light_project / "pipelines" / "kinds.yaml").write_text(PIPELINE)
    tracking = f"sqlite:///{tmp_path}/mlflow.db"
    with serving(pieces["reward"], "vllm-classify", key=KEY, **FAULTS) as server:
        audited = call(
            capsys, "audit", *flags_of(kind, pieces, server), "--project", light_project,
            "--pipeline", "kinds", "--policy", "report-only", "--tracking-uri", tracking,
            "--cache", tmp_path / "cache", "--json",
        )  # fmt: skip
    assert audited.code == 0, audited.err
    document = audited.document
    model, searches = document["model"], document["searches"]
    assert model["kind"] == kind
    assert model["hashes"]
    assert {one["name"]: one["status"] for one in document["audits"]}["numerics"] == "RUN"
    coverage = next(m for m in document["metrics"] if m["name"] == "numerics.coverage")
    assert coverage["value"] == 1.0
    method = "gcg" if kind == "judge" else "coordinate"
    assert {one["method"] for one in searches} == {method}
    told = any("no gradient" in note for note in model["notes"])
    assert told == (kind != "judge")
    kept = [path for home in (tmp_path, light_project) for path in home.rglob("*")]
    stored = b"".join(path.read_bytes() for path in kept if path.is_file())
    assert KEY.encode() not in stored + (audited.out + audited.err).encode()


def test_a_plan_says_what_it_cannot_know(
    capsys: Capture, pieces: dict[str, Path], light_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pessimal.pipeline.calibrate.SAMPLE_S", 0.0)
    monkeypatch.setattr("pessimal.pipeline.calibrate.SEARCH_S", 0.05)
    (light_project / "pipelines" / "kinds.yaml").write_text(PIPELINE)
    for kind in ("implicit", "judge"):
        planned: Outcome = call(
            capsys, "plan", *flags_of(kind, pieces, None), "--project", light_project,
            "--pipeline", "kinds", "--json",
        )  # fmt: skip
        assert planned.code == 0, planned.err
        assert planned.document["flops"] > 0
    url = ["--model", "http://127.0.0.1:9", "--endpoint", "sglang", "--tokenizer", pieces["reward"]]
    told = call(
        capsys, "plan", *url, "--project", light_project, "--pipeline", "kinds", "--json"
    )  # fmt: skip
    assert told.code == 0, told.err
    assert told.document["tokens"] > 0
    assert told.document["flops"] is None
    assert told.document["seconds"] is None
    shown = call(capsys, "plan", *url, "--project", light_project, "--pipeline", "kinds")
    assert shown.code == 0
    assert json.dumps(told.document)
