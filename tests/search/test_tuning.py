"""Tuning from outside: studies that resume, and a held-out check that doesn't flatter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pessimal.cli.scaffold import make_project
from pessimal.errors import PessimalError
from pessimal.search import Settings
from pessimal.search.presets import load_preset
from pessimal.search.tuning import Trial, held_out_evaluations, hold_out, open_storage, run_study
from tests.builders import build_model
from tests.cli.runner import call

CASES = [f"case {n}" for n in range(6)]


def noise(case: str, settings: Settings, seed: int) -> float:
    """The same noise for the same question."""
    state = [CASES.index(case), seed, settings.width, settings.top_k, settings.patience]
    return float(np.random.default_rng(state).normal(scale=0.1))


def narrow_is_better(case: str, settings: Settings, seed: int) -> float:
    return -np.log2(settings.width) + noise(case, settings, seed)


def nothing_matters(case: str, settings: Settings, seed: int) -> float:
    return noise(case, settings, seed)


def study(tmp_path: Path, trials: int, evaluate=narrow_is_better, **options):
    storage = open_storage(None, tmp_path / "study.log")
    return run_study("s", storage, CASES, evaluate, trials, **options)


def test_what_helps_is_found_and_held_out_says_by_how_much(tmp_path: Path) -> None:
    found = study(tmp_path, 40)
    assert len(found.trials) == 40
    assert found.trials[0].settings == Settings()
    assert {"width", "momentum", "patience"} <= found.importance.keys()
    assert sum(found.importance.values()) == pytest.approx(1)
    asked: list[str] = []

    def evaluate(case: str, settings: Settings, seed: int) -> float:
        asked.append(case)
        return narrow_is_better(case, settings, seed)

    outcome = hold_out(found, CASES, evaluate)
    assert len(asked) == held_out_evaluations(found, CASES)
    assert outcome.settings.width < 32
    expected = 6 - np.log2(outcome.settings.width)
    assert outcome.ci_low <= outcome.difference <= outcome.ci_high
    assert outcome.difference == pytest.approx(expected, abs=0.15)
    assert outcome.better


def test_where_nothing_matters_the_defaults_stay(tmp_path: Path) -> None:
    adopted = [
        hold_out(study(tmp_path / str(n), 12, nothing_matters, seed=n), CASES, nothing_matters)
        for n in range(6)
    ]
    assert sum(one.better for one in adopted) <= 1


def test_hopeless_trials_stop_early(tmp_path: Path) -> None:
    def evaluate(case: str, settings: Settings, seed: int) -> float:
        return -float(settings.width > 40) * 10 + noise(case, settings, seed)

    found = study(tmp_path, 25, evaluate)
    pruned = [trial for trial in found.trials if trial.state == "pruned"]
    assert pruned
    assert all(len(trial.values) < len(CASES) and trial.value is None for trial in pruned)
    good = [t.number for t in found.trials if t.value is not None and t.settings.width <= 40]
    late = [t for t in found.trials if t.number > good[0] and t.settings.width > 40]
    assert late
    assert all(trial.state == "pruned" for trial in late)


def test_a_second_call_adds_only_what_is_missing(tmp_path: Path) -> None:
    first = study(tmp_path, 4)
    told: list[Trial] = []
    again = study(tmp_path, 7, done=told.append)
    assert again.trials[:4] == first.trials
    assert [trial.number for trial in told] == [4, 5, 6]
    assert study(tmp_path, 5).trials == again.trials


KILLED = """
import os, signal, sys
from pathlib import Path
from pessimal.search.tuning import open_storage, run_study
count = 0
def evaluate(case, settings, seed):
    global count
    count += 1
    if count == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    return -settings.width
run_study("s", open_storage(None, Path(sys.argv[1])), list("abcdef"), evaluate, 5)
"""


def test_a_killed_study_goes_on_and_its_trial_is_run_again(tmp_path: Path) -> None:
    journal = tmp_path / "study.log"
    done = subprocess.run([sys.executable, "-c", KILLED, str(journal)], check=False)
    assert done.returncode == -signal.SIGKILL
    asked: list[Settings] = []

    def evaluate(case: str, settings: Settings, seed: int) -> float:
        asked.append(settings)
        return -settings.width

    found = run_study("s", open_storage(None, journal), list("abcdef"), evaluate, 5)
    assert found.requeued == 1
    assert len(found.trials) == 5
    numbers = [trial.number for trial in found.trials]
    assert 0 in numbers
    assert 1 not in numbers, "the trial that was left running has failed"
    again = json.loads(journal.read_text().splitlines()[0]) is not None
    assert again
    assert asked[0] == next(t for t in found.trials if t.number == 2).settings


def test_a_url_is_a_storage_too(tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path}/study.db", tmp_path / "unused")
    assert len(run_study("s", storage, CASES, narrow_is_better, 2).trials) == 2
    with pytest.raises(PessimalError) as caught:
        open_storage("nosuch://user:secret@host/db", tmp_path)
    assert caught.value.code == "storage_unusable"
    assert "secret" not in str(caught.value)


@pytest.mark.slow
def test_the_command_tunes_records_and_keeps_what_helps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from pessimal.tracking import Tracker

    project = make_project(tmp_path / "project")
    model = build_model(tmp_path / "model", "llama", vocabulary=500)
    flags = (
        "tune", "--model", model, "--trials", 3, "--budget", 400, "--length", 2, "--prompts", 2,
        "--project", project, "--cache", tmp_path / "cache", "--json",
    )  # fmt: skip
    document = call(capsys, *flags).document
    assert document["schema"] == "pessimal.tune/1"
    assert {"study", "best", "trials", "held_out"} <= document.keys()
    assert len(document["trials"]) == 3
    held = document["held_out"]
    assert held["ci_low"] <= held["difference"] <= held["ci_high"]
    assert held["cases"] == 4
    adopted = document["best"]["adopted"]
    assert adopted == (held["ci_low"] > 0)
    preset = load_preset("default", project / "pipelines" / "presets")
    assert (preset.version > load_preset("default").version) == adopted
    tracker = Tracker(None, project)
    experiment = tracker.client.get_experiment_by_name("reward-tuning")
    runs = tracker.client.search_runs([experiment.experiment_id])
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert len(children) == 3
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {
        document["study"]["run_id"]
    }
    files = tracker.artifacts(document["study"]["run_id"])
    assert {"tune.json", "figures/history.svg"} <= set(files)
    again = call(capsys, *flags).document
    assert again["trials"] == document["trials"]
    assert os.path.exists(tmp_path / "cache" / "studies")
