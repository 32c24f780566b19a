"""The command line from outside: documents, exit codes, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.builders import build_model
from tests.cli.runner import call

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("models") / "tiny", "llama")


def test_help_has_examples_for_every_command(capsys: Capture) -> None:
    listed = call(capsys, "--help")
    assert listed.code == 0
    for command in ("audit", "plan", "score", "import", "gate", "report", "ui", "init"):
        assert command in listed.out
        shown = call(capsys, command, "--help")
        assert f"pessimal {command}" in shown.out.split("Examples:")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("adit",), "'audit'"),
        (("audit", "--pipline", "quick"), "--pipline"),
        (("audit", "--pipeline", "quik"), "'quick'"),
        (("audit", "--policy", "defalt"), "'default'"),
        (("audit", "--shard", "3/2"), "3/2"),
        (("score", "--prompt", "Why?"), "--out"),
        (("gate", "no-such-run"), "no-such-run"),
        (("list", "--project", "/nowhere/at/all"), "/nowhere/at/all"),
    ],
)
def test_wrong_usage_exits_with_two_and_says_what(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...], message: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    outcome = call(capsys, *arguments, "--json")
    assert outcome.code == 2
    assert outcome.document["schema"] == "pessimal.error/1"
    assert outcome.document["exit_code"] == 2
    assert message in outcome.document["message"] + outcome.document["remedy"]


def test_a_missing_model_is_an_error_with_a_remedy(capsys: Capture, tmp_path: Path) -> None:
    outcome = call(
        capsys, "score", "--model", tmp_path / "nothing", "--prompt", "Why?",
        "--out", tmp_path / "s.parquet", "--json",
    )  # fmt: skip
    assert outcome.code == 3
    assert str(tmp_path / "nothing") in outcome.document["message"]
    assert outcome.document["remedy"]
    assert not (tmp_path / "s.parquet").exists()


def test_list_names_what_is_there(capsys: Capture) -> None:
    document = call(capsys, "list", "--json").document
    assert {"numerics", "vocabulary"} <= {audit["name"] for audit in document["audits"]}
    assert {"smoke", "quick", "standard", "paper"} == {one["name"] for one in document["pipelines"]}
    assert {"default", "strict", "report-only"} <= {one["name"] for one in document["policies"]}
    assert {"numerics.rerun_rms"} <= {metric["name"] for metric in document["metrics"]}


def test_the_list_fits_80_columns(capsys: Capture) -> None:
    lines = call(capsys, "list").out.splitlines()
    assert max(map(len, lines[1:])) <= 80
    assert any(line.startswith("  framing.d_pos ") for line in lines)
    assert any(line.startswith("  standard     For a release") for line in lines)


def test_plan_counts_without_weights(capsys: Capture, model: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for file in model.iterdir():
        (bare / file.name).write_bytes(file.read_bytes())
    document = call(capsys, "plan", "--model", bare, "--pipeline", "paper", "--json").document
    assert {
        "tokens",
        "forward_tokens",
        "blocks",
        "flops",
        "disk_bytes",
        "seconds",
    } <= document.keys()
    vocabulary = next(step for step in document["steps"] if step["step"] == "vocabulary")
    assert vocabulary["tokens"] == 59 * 300
    assert document["forward_tokens"] > 2 * vocabulary["tokens"]


def test_score_writes_every_token_once(capsys: Capture, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.parquet"
    document = call(
        capsys, "score", "--model", model, "--prompt", "Why?", "--out", out, "--json"
    ).document
    table = pd.read_parquet(out)
    assert document["rows"] == len(table) == 300
    assert list(table.columns) == [
        "token_id", "token", "text", "kind", "roundtrips", "score:prompt"
    ]  # fmt: skip
    assert table["token_id"].tolist() == list(range(300))
    assert document["forward_tokens"] == document["prefix_tokens"] + 300 * (
        1 + document["suffix_tokens"]
    )
    assert document["path"] == "shared"


def test_score_reads_words_and_phrases(capsys: Capture, model: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("﻿love\r\nthe end of days\nlove\n\nÜber uns 愛\n", encoding="utf-8")
    out = tmp_path / "words.parquet"
    outcome = call(
        capsys, "score", "--model", model, "--prompt", "Why?", "--tokens", words, "--out", out
    )
    assert outcome.code == 0
    table = pd.read_parquet(out)
    assert table["word"].tolist() == ["love", "the end of days", "Über uns 愛"]
    assert table["score:prompt"].notna().all()


def test_score_as_text_says_why_it_differs(capsys: Capture, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.parquet"
    call(capsys, "score", "--model", model, "--prompt", "Why?", "--as-text", "--out", out)
    table = pd.read_parquet(out)
    same = table["as_text_reason"] == "same"
    assert 0 < same.sum() < len(table)
    assert (table["score:prompt"] == table["as_text:prompt"])[same].all()


def test_halves_make_the_same_bytes_as_the_whole(
    capsys: Capture, model: Path, tmp_path: Path
) -> None:
    base = ["score", "--model", model, "--prompt", "What?"]
    call(capsys, *base, "--cache", tmp_path / "one", "--out", tmp_path / "whole.parquet")
    shared = [*base, "--cache", tmp_path / "two", "--out", tmp_path / "joined.parquet", "--json"]
    first = call(capsys, *shared, "--shard", "1/2").document
    if not first["complete"]:
        assert not (tmp_path / "joined.parquet").exists()
    call(capsys, *shared, "--shard", "2/2")
    call(capsys, *shared)
    assert (tmp_path / "joined.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


@pytest.mark.parametrize("tokens", ["0", "-3", "some", "."])
def test_tokens_that_mean_nothing_are_refused(
    capsys: Capture, model: Path, tmp_path: Path, tokens: str
) -> None:
    outcome = call(
        capsys, "score", "--model", model, "--prompt", "Why?", "--tokens", tokens,
        "--out", tmp_path / "s.parquet", "--json",
    )  # fmt: skip
    assert outcome.code == 2
    assert outcome.document["error"] == "tokens_invalid"


def test_init_makes_a_project_that_works(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    assert call(capsys, "init", folder).code == 0
    listed = call(capsys, "list", "--project", folder, "--json").document
    assert listed["project"] == str(folder.resolve())
    assert listed["audits"]
    again = call(capsys, "init", folder, "--json")
    assert (again.code, again.document["error"]) == (2, "folder_not_empty")


def test_a_users_folder_of_the_same_name_is_not_imported(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "audits").mkdir()
    (tmp_path / "audits" / "evil.py").write_text("raise SystemExit(99)")
    monkeypatch.chdir(tmp_path)
    outcome = call(capsys, "list", "--json")
    assert outcome.code == 0
    assert str(tmp_path) not in outcome.document["project"]


def test_an_audit_with_a_syntax_error_is_named(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    call(capsys, "init", folder)
    (folder / "audits" / "wrong.py").write_text("def (")
    outcome = call(capsys, "list", "--project", folder, "--json")
    assert outcome.code == 2
    assert "wrong.py" in json.dumps(outcome.document)
