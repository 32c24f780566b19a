"""Finished runs are compared from the command line and recorded as a run of their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pessimal.cli.scaffold import make_project
from pessimal.scores.table import ScoreTable, TableMetadata, WordTable
from pessimal.tracking import COMPARISONS, Tracker
from tests.cli.runner import Outcome, call
from tests.compare.simulate import metric

N = 1200
KEYS = {"models", "tau", "rbo", "tail_overlap", "mds", "rsa", "drift", "disagreement", "metrics",
        "words", "off_diagonal_mean"}  # fmt: skip


def record(tracker: Tracker, folder: Path, model: str, scores: np.ndarray, *,
           prompt: str = "greatest", vocabulary: bool = False) -> str:  # fmt: skip
    """Record an audit of a model that was never there."""
    with tracker.start(model, {"model": model}, f"key-{model}".replace("/", "-")) as run:
        artifacts = {"words": "scores/words.parquet"}
        columns = {prompt: scores.astype(np.float32)}
        words = [f"word {i}" for i in range(len(scores))]
        tables: dict[str, WordTable | ScoreTable] = {
            "words": WordTable.build(
                words=words, lists=["general"] * len(words), ids=[()] * len(words),
                scores=columns, metadata=TableMetadata(model),
            )
        }  # fmt: skip
        if vocabulary:
            artifacts["scores"] = "scores/vocabulary.parquet"
            tables["vocabulary"] = ScoreTable.build(
                token_ids=range(len(words)), tokens=[f"▁{word}" for word in words], texts=words,
                kinds=["word"] * len(words), roundtrips=[True] * len(words), scores=columns,
                metadata=TableMetadata(model),
            )  # fmt: skip
        for name, table in tables.items():
            table.write(folder / f"{name}.parquet")
            run.log_parquet(folder / f"{name}.parquet", f"scores/{name}.parquet")
        run.log_document({
            "schema": "pessimal.audit/1", "run_id": run.run_id, "pipeline": "import",
            "policy": "report-only", "verdict": "PASS", "finished": "2026-01-01T00:00:00+00:00",
            "model": {"id": model, "revision": None, "hashes": None},
            "prompts": [{"id": prompt, "text": f"What is {prompt}?", "framing": "positive"}],
            "metrics": [metric("framing.d_pos", 1.0)], "audits": [], "artifacts": artifacts,
            "vocabulary": {"sampled": False} if vocabulary else None,
        })  # fmt: skip
        return run.run_id


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("compare") / "project")


@pytest.fixture(scope="module")
def tracker(project: Path) -> Tracker:
    return Tracker(None, project)


@pytest.fixture(scope="module")
def runs(tracker: Tracker, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three models, the first two with vocabularies."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=N)
    folder = tmp_path_factory.mktemp("tables")
    return [
        record(tracker, folder, f"org/m{i}", x + rng.normal(size=N), vocabulary=i < 2)
        for i in range(3)
    ]


def compare(capsys: pytest.CaptureFixture[str], project: Path, *arguments: object) -> Outcome:
    return call(capsys, "compare", "--project", project, *arguments)


def test_a_comparison_is_recorded_with_its_sources(
    capsys: pytest.CaptureFixture[str], project: Path, tracker: Tracker, runs: list[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    covariates = tmp_path / "models.csv"
    covariates.write_text("model,base\norg/m0,llama\norg/m2,gemma\n")
    out = tmp_path / "comparison.html"
    done = compare(
        capsys, project, runs[2], runs[0][:12], "--covariates", covariates, "--out", out, "--json"
    )
    assert done.code == 0, done.err
    document = done.document
    assert document["schema"] == "pessimal.compare/1"
    assert document.keys() >= KEYS
    assert [model["run_id"] for model in document["models"]] == [runs[2], runs[0]]
    assert [model["covariates"]["base"] for model in document["models"]] == ["gemma", "llama"]
    run = tracker.client.get_run(document["run_id"])
    experiment = tracker.client.get_experiment_by_name(COMPARISONS)
    assert run.info.experiment_id == experiment.experiment_id
    assert run.info.status == "FINISHED"
    assert (run.data.tags["source.1"], run.data.tags["source.2"]) == (runs[2], runs[0])
    assert run.data.params["model.2"] == "org/m0"
    tau = document["tau"]["greatest"][0][1]
    assert run.data.metrics["compare.tau"] == pytest.approx(tau)
    assert f"{tau:.4g}" in run.data.tags["mlflow.note.content"]
    held = tracker.artifacts(document["run_id"])
    for place in (*document["artifacts"]["tables"], *document["artifacts"]["figures"],
                  "report.html", "tables/pairs.json", "figures/tau-1.png"):  # fmt: skip
        assert place in held
    stored = json.loads(tracker.download(document["run_id"], "comparison.json").read_text())
    assert stored == document
    assert out.read_bytes() == tracker.download(document["run_id"], "report.html").read_bytes()
    pairs = pd.read_parquet(tracker.download(document["run_id"], "tables/pairs.parquet"))
    assert pairs["tau"].tolist() == pytest.approx([tau])


def test_the_newest_runs_are_taken_and_vocabularies_where_all_have_one(
    capsys: pytest.CaptureFixture[str], project: Path, runs: list[str]
) -> None:
    document = compare(capsys, project, "--last", 3, "--json", "--quiet").document
    assert [model["run_id"] for model in document["models"]] == runs
    assert document["prompts"][0]["source"] == "words"
    document = compare(capsys, project, *runs[:2], "--json").document
    assert document["prompts"][0]["source"] == "vocabulary"
    # One that is named and among the newest is there once.
    document = compare(capsys, project, runs[0], "--last", 2, "--json").document
    assert [model["run_id"] for model in document["models"]] == runs


def test_the_table_fits_80_columns(
    capsys: pytest.CaptureFixture[str], project: Path, runs: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", "80")
    done = compare(capsys, project, *runs)
    assert done.code == 0
    document = compare(capsys, project, *runs, "--json").document
    lines = done.out.splitlines()
    table = [line for line in lines if line.startswith(("1 ", "2 ", "3 ", "greatest", "prompt"))]
    assert len(table) >= 5
    assert max(map(len, table)) <= 80
    assert f"{document['off_diagonal_mean']['tau']['greatest']:.2f}" in done.out
    assert "INCONCLUSIVE" in done.out
    assert "org" not in done.out


def refused(done: Outcome, code: int, name: str) -> str:
    assert done.code == code
    assert done.document["error"] == name
    return str(done.document["message"])


def test_what_can_not_be_compared_is_named(
    capsys: pytest.CaptureFixture[str], project: Path, tracker: Tracker, runs: list[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    refused(compare(capsys, project, "--json"), 2, "one_run")
    refused(compare(capsys, project, runs[0], "--json"), 2, "one_run")
    refused(compare(capsys, project, runs[0], runs[0], "--json"), 2, "run_twice")
    refused(compare(capsys, project, runs[0], "f" * 32, "--json"), 2, "run_unknown")
    message = refused(compare(capsys, project, runs[0], "", "--json"), 2, "run_unknown")
    assert "''" in message
    covariates = tmp_path / "models.csv"
    covariates.write_text("model,base\nanother,llama\n")
    done = compare(capsys, project, *runs, "--covariates", covariates, "--json")
    refused(done, 2, "covariates_unknown")
    document = compare(capsys, project, *runs, "--json").document
    done = compare(capsys, project, runs[0], document["run_id"], "--json")
    assert document["run_id"] in refused(done, 3, "not_an_audit")


def test_an_ambiguous_run_is_named(
    capsys: pytest.CaptureFixture[str], project: Path, tracker: Tracker, runs: list[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    # Seventeen ids can't all begin with another digit.
    ids = [*runs]
    while len({run[0] for run in ids}) == len(ids):
        ids.append(record(tracker, tmp_path, f"more/{len(ids)}", np.arange(3.0), prompt="other"))
    digit = next(run[0] for run in ids if [one[0] for one in ids].count(run[0]) > 1)
    message = refused(compare(capsys, project, runs[0], digit, "--json"), 2, "run_ambiguous")
    assert repr(digit) in message
