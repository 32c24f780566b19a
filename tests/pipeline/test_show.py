"""A finished run is shown from what it holds: in 80 columns, plain when piped, inert."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len

from pessimal.cli.scaffold import make_project
from pessimal.cli.show import print_run
from pessimal.gate.records import VERDICTS
from pessimal.scores.table import ScoreTable, TableMetadata, WordTable
from pessimal.tracking import Tracker
from tests.cli.runner import Outcome, call

Capture = pytest.CaptureFixture[str]
HOSTILE = "\x1b[31m[bold red]x[/]\u202e::error::\x07‮" + "a\u0301\u0301\u0301\u0301"
SLUR = "worstword"


def metric(name: str, value: float | None, status: str = "ok") -> dict[str, Any]:
    return {"name": name, "slice": "all", "value": value, "ci_low": -0.123456, "ci_high": 0.654321,
            "n": 12345, "noise_floor": None, "status": status, "unit": "SD per decade"}  # fmt: skip


def rule(name: str, verdict: str, reason: str = "because") -> dict[str, Any]:
    return {"metric": name, "slice": "all", "bound": {"abs_max": 0.15}, "severity": "critical",
            "verdict": verdict, "reason": reason, "waived": False,
            "source": "expectations/default.yaml:4", "why": "so"}  # fmt: skip


def audit_document(run_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "schema": "pessimal.audit/1", "run_id": run_id, "pipeline": "quick", "policy": "default",
        "verdict": "FAIL", "exit_code": 1, "finished": "2026-01-01T00:00:00+00:00",
        "command": f"pessimal audit --model {'x' * 120}",
        "model": {"id": HOSTILE, "revision": None, "hashes": None, "family": "llama",
                  "head": {"key": "score.weight"}, "parameters": 1234567, "notes": [HOSTILE]},
        "audits": [{"name": "human", "status": "NOT_RUN", "reason": "no ranking"},
                   {"name": "identity", "status": "RUN", "reason": None}],
        "metrics": [metric("identity.gap", -0.4),
                    metric("vocabulary.quantile_skew", None, "failed"),
                    metric("own." + "long" * 12, 12345.678)],
        "rules": [rule("numerics.coverage", "PASS"), rule("vocabulary.quantile_skew", "ERROR"),
                  rule("identity.gap", "FAIL", HOSTILE), rule("framing.d_pos", "PASS")],
        "skipped": [{"metric": "human.tau", "slice": "all", "reason": "no ranking"}],
        "searches": [{"prompt": "greatest", "length": 3, "direction": way, "reward": -1.25,
                      "z": -3.5, "text": text, "token_ids": [1, 2, 3]}
                     for way, text in (("optimal", HOSTILE), ("pessimal", SLUR))],
        "prompts": [{"id": "greatest", "text": f"What? {HOSTILE}", "framing": "positive"}],
        "artifacts": {"report": "report.html", "tables": ["a", "b"]},
        "timings": {"sweep_s": 83.2}, "versions": {"pessimal": "0.1.0"},
    } | changes  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("show") / "project")


@pytest.fixture(scope="module")
def tracker(project: Path) -> Tracker:
    return Tracker(None, project)


@pytest.fixture(scope="module")
def audits(tracker: Tracker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A run with a vocabulary and one with words only; the newest is the latter."""
    folder = tmp_path_factory.mktemp("tables")
    return {kind: record(tracker, folder, kind) for kind in ("scores", "words")}


def record(tracker: Tracker, folder: Path, kind: str) -> str:
    """Record an audit that holds a hostile vocabulary, or words only."""
    with tracker.start("run", {"model": "m"}, f"key-{kind}") as run:
        scores = {"greatest": np.linspace(3, -3, 8, dtype=np.float32)}
        texts = [HOSTILE, " a", "b", "c", "d", "e", "f", SLUR]
        table: WordTable | ScoreTable
        if kind == "scores":
            table = ScoreTable.build(
                token_ids=range(8), tokens=texts, texts=texts, kinds=["word"] * 8,
                roundtrips=[True] * 8, scores=scores, metadata=TableMetadata("m"),
            )  # fmt: skip
        else:
            table = WordTable.build(
                words=texts, lists=["general"] * 8, ids=[()] * 8, scores=scores,
                metadata=TableMetadata("m"),
            )  # fmt: skip
        table.write(folder / "table.parquet")
        run.log_parquet(folder / "table.parquet", "table.parquet")
        document = audit_document(run.run_id)
        run.log_document(document | {"artifacts": document["artifacts"] | {kind: "table.parquet"}})
        return run.run_id


def fits(text: str) -> bool:
    """Whether each line but a command to copy fits 80 columns."""
    return all(cell_len(line) <= 80 for line in text.splitlines() if "pessimal audit" not in line)


def plain_text(text: str) -> bool:
    return text.replace("\n", "").isprintable() and not set(text) & set("─━│┃╭╮╰╯┌┐└┘")


def show(capsys: Capture, project: Path, *arguments: object) -> Outcome:
    return call(capsys, "show", "--project", project, *arguments)


def test_what_did_not_pass_comes_first_worst_first(capsys: Capture) -> None:
    print_run(audit_document("0" * 32))
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in VERDICTS]
    assert heads[:3] == ["FAIL", "ERROR", "FAIL"]  # the verdict, then the table
    assert "numerics.coverage, framing.d_pos" in lines


@pytest.mark.parametrize("kind", ["scores", "words"])
def test_tokens_are_hidden_until_asked_for_and_inert(
    capsys: Capture, project: Path, audits: dict[str, str], kind: str
) -> None:
    folded = show(capsys, project, audits[kind])
    assert (folded.code, folded.err) == (0, "")
    assert SLUR not in folded.out
    assert "--tokens" in folded.out
    opened = show(capsys, project, audits[kind][:12], "--tokens", 3)
    assert opened.out.index("Content warning") < opened.out.rindex(SLUR)
    assert opened.out.count(SLUR) == 2  # of the search, and of the tokens
    assert "␣a" in opened.out
    for text in (folded.out, opened.out):
        assert plain_text(text)
        assert fits(text)
        assert "::error" not in text
        assert "[bold red]x[/]" in text.replace("\n", "")
    assert folded.out.count("pessimal audit --model " + "x" * 120) == 1


def test_json_is_the_document_that_the_run_holds(
    capsys: Capture, project: Path, tracker: Tracker, audits: dict[str, str]
) -> None:
    done = show(capsys, project, "latest", "--json", "--tokens", 3)
    stored = tracker.download(audits["words"], "audit.json")
    assert done.document == json.loads(stored.read_text())
    quiet = show(capsys, project, "latest", "--quiet")
    assert quiet.out.splitlines() == ["FAIL under default: 1 ERROR, 1 FAIL, 2 PASS, 1 not judged"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_at_a_terminal_there_are_colours_and_no_line_is_too_long(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_run(audit_document("0" * 32))
    coloured = capsys.readouterr().out
    assert "\x1b[1;31m" in coloured
    assert "\x1b[31m[bold" not in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    print_run(audit_document("0" * 32))
    bare = capsys.readouterr().out
    assert "\x1b[31m" not in bare
    assert "─" in bare


def test_a_study_is_shown_as_its_command_does(
    capsys: Capture, project: Path, tracker: Tracker
) -> None:
    study = {
        "schema": "pessimal.tune/1", "model": {"id": HOSTILE}, "preset_file": None,
        "study": {"complete": 3, "pruned": 1, "budget": 4000},
        "best": {"settings": {"width": 64, "momentum": 0.5}, "verdict": "the defaults stay"},
        "held_out": {"difference": 0.1, "ci_low": -0.2, "ci_high": 0.4, "cases": 8},
    }  # fmt: skip
    with tracker.start("tune", {}, "study", "reward-tuning") as run:
        run.log_text(json.dumps(study), "tune.json")
    done = show(capsys, project, run.run_id)
    assert done.code == 0, done.err
    assert "3 trials complete" in done.out
    assert "+0.100 SD, 95 % CI -0.200 to 0.400" in done.out
    assert plain_text(done.out)
    assert show(capsys, project, run.run_id, "--json").document == study
    refused = show(capsys, project, run.run_id, "--tokens", 5)
    assert (refused.code, refused.out) == (2, "")


def test_a_run_that_has_not_finished_or_is_not_there_says_so(
    capsys: Capture, project: Path, tracker: Tracker
) -> None:
    with tracker.start("begun", {}, "unfinished") as run:
        done = show(capsys, project, run.run_id, "--json")
        assert (done.code, done.document["error"]) == (3, "artifact_missing")
    done = show(capsys, project, "f" * 32, "--json")
    assert (done.code, done.document["error"]) == (2, "run_unknown")


def test_an_output_that_knows_no_unicode_gets_escapes(
    project: Path, audits: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "pessimal", "show", audits["scores"], "--project", project]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1", "NO_COLOR": "1"}
    for arguments in ([], ["--json"]):
        done = subprocess.run(
            [*command, *arguments], capture_output=True, env=environment, check=False, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["model"]["id"] == HOSTILE
