"""Searches inside an audit: what the run holds of them, and what a second audit does again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pessimal.cli.scaffold import make_project
from pessimal.errors import UsageError
from pessimal.models.records import ModelRequest
from pessimal.pipeline.run import run_audit
from pessimal.pipeline.work import AuditRequest
from pessimal.project import find_content
from pessimal.search.model import TorchReplyModel
from pessimal.tracking import AUDITS, Tracker
from tests.builders import build_model

PIPELINE = """\
description: a sample of the vocabulary and four searches
vocabulary: {tokens: 500, prompts: three}
searches:
  {prompts: [greatest], lengths: [2, 3], directions: [optimal, pessimal], seeds: 1, seconds: 60,
   budget: 900}
audits: [numerics, adversarial]
"""
Document = dict[str, Any]


def quiet(text: str) -> None:
    """Say nothing."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_project(tmp_path_factory.mktemp("projects") / "project")
    (folder / "pipelines" / "searching.yaml").write_text(PIPELINE)
    return folder


@pytest.fixture(scope="module")
def request_(project: Path, tmp_path_factory: pytest.TempPathFactory) -> AuditRequest:
    model = build_model(tmp_path_factory.mktemp("models") / "first", "llama", vocabulary=700)
    return AuditRequest(
        ModelRequest(str(model)), find_content(project), tmp_path_factory.mktemp("cache"),
        pipeline="searching", policy="report-only", quiet=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def audited(request_: AuditRequest) -> Document:
    return run_audit(request_, quiet)


def test_the_document_lists_what_was_found(audited: Document) -> None:
    found = audited["searches"]
    assert [(one["length"], one["direction"]) for one in found] == [
        (2, "optimal"), (2, "pessimal"), (3, "optimal"), (3, "pessimal"),
    ]  # fmt: skip
    keys = {"prompt", "length", "direction", "token_ids", "text", "reward", "as_text_reward", "z"}
    assert all(keys <= one.keys() for one in found)
    assert all(one["forward_tokens"] <= 900 for one in found)
    assert found[0]["z"] > found[1]["z"]
    assert audited["search_preset"]["version"] >= 1
    [status] = [audit for audit in audited["audits"] if audit["name"] == "adversarial"]
    assert status["status"] == "RUN", status


def test_baselines_ran_with_the_same_forward_tokens(audited: Document, project: Path) -> None:
    tracker = Tracker(None, project)
    path = tracker.download(audited["run_id"], "tables/adversarial.methods.parquet")
    methods = pd.read_parquet(path)
    assert len(methods) == 4
    assert methods[["ours", "random", "plain", "beam"]].notna().all(axis=None)
    steps = pd.read_parquet(tracker.download(audited["run_id"], "tables/adversarial.steps.parquet"))
    ours = steps[~steps["baseline"]].groupby(["length", "direction"])["forward_tokens"].max()
    others = steps[steps["baseline"]].groupby(["length", "direction"])["forward_tokens"].max()
    assert (others <= ours).all()


def test_each_prompt_has_a_child_run_with_the_way_there(audited: Document, project: Path) -> None:
    tracker = Tracker(None, project)
    experiment = tracker.client.get_experiment_by_name(AUDITS)
    query = f"tags.`mlflow.parentRunId` = '{audited['run_id']}'"
    [child] = tracker.client.search_runs([experiment.experiment_id], query)
    assert child.info.status == "FINISHED"
    assert child.data.params["prompt"] == "greatest"
    assert child.data.params["model"] == audited["model"]["id"]
    name = "gcg.optimal.3.seed0"
    reward = next(
        one["reward"] for one in audited["searches"]
        if (one["length"], one["direction"]) == (3, "optimal")
    )  # fmt: skip
    assert child.data.metrics[f"reward.{name}"] == pytest.approx(reward)
    history = tracker.client.get_metric_history(child.info.run_id, f"best_so_far.{name}")
    assert len(history) > 1
    assert max(point.value for point in history) == pytest.approx(reward)
    assert tracker.find_run("latest") == audited["run_id"]


def test_a_second_audit_searches_nothing_again(
    audited: Document, request_: AuditRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TorchReplyModel, "score", lambda *_: pytest.fail("searched again"))
    again = run_audit(request_, quiet)
    kept = [{k: v for k, v in one.items() if k != "seconds"} for one in again["searches"]]
    assert kept == [{k: v for k, v in one.items() if k != "seconds"} for one in audited["searches"]]
    metrics = {(m["name"], m["slice"]): m for m in again["metrics"]}
    for metric in audited["metrics"]:
        if metric["name"].startswith("adversarial."):
            assert metrics[metric["name"], metric["slice"]] == metric


def test_another_model_is_told_how_the_replies_transfer(
    audited: Document, request_: AuditRequest, tmp_path: Path
) -> None:
    model = build_model(tmp_path / "second", "gpt2", vocabulary=700)
    document = run_audit(replace(request_, model=ModelRequest(str(model))), quiet)
    [metric] = [
        m for m in document["metrics"]
        if (m["name"], m["slice"]) == ("adversarial.transfer", "all")
    ]  # fmt: skip
    assert metric["status"] == "ok"
    assert metric["n"] == len({(s["direction"], s["text"]) for s in audited["searches"]})
    [own] = [
        m for m in audited["metrics"] if (m["name"], m["slice"]) == ("adversarial.transfer", "all")
    ]
    assert own["status"] == "insufficient"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("prompts: [greatest], lengths", "prompts: [human_greatest], lengths",
         "searches_without_vocabulary"),
        ("lengths: [2, 3]", "lengths: [2, 30]", "length_invalid"),
        ("budget: 900", "budget: 900, preset: mine", "preset_unknown"),
    ],
)  # fmt: skip
def test_a_step_that_cannot_work_is_refused_before_anything_is_loaded(
    request_: AuditRequest, project: Path, old: str, new: str, code: str
) -> None:
    broken = project / "pipelines" / "broken.yaml"
    broken.write_text(PIPELINE.replace(old, new))
    with pytest.raises(UsageError) as caught:
        run_audit(replace(request_, pipeline="broken"), lambda text: pytest.fail(f"begun: {text}"))
    assert caught.value.code == code
    broken.unlink()


@pytest.mark.slow
def test_a_projects_own_preset_is_used(
    request_: AuditRequest, project: Path, audited: Document
) -> None:
    from pessimal.search import Settings
    from pessimal.search.presets import Preset, load_preset, store_preset

    folder = project / "pipelines" / "presets"
    store_preset(Preset("default", 7, Settings(width=16)), folder, "for a test")
    assert load_preset("default", folder).settings.width == 16
    try:
        document = run_audit(request_, quiet)
    finally:
        (folder / "default.yaml").unlink()
    assert document["search_preset"]["version"] == 7
    assert document["searches"] != audited["searches"]
