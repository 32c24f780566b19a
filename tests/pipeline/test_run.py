"""An audit from end to end, on a tiny model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.cells import cell_len

from pessimal.cli.show import print_run
from pessimal.errors import UsageError
from pessimal.pipeline.finished import judge_run, report_run
from pessimal.pipeline.run import run_audit
from pessimal.pipeline.show import read_ends, read_run
from pessimal.pipeline.work import AuditRequest
from pessimal.project import find_content
from pessimal.scores.table import ScoreTable, WordTable
from pessimal.tracking import Tracker

Document = dict[str, Any]


def test_the_document_has_what_the_contract_says(audited: Document) -> None:
    assert audited["schema"] == "pessimal.audit/1"
    assert {
        "run_id", "pipeline", "policy", "verdict", "exit_code", "model", "audits", "metrics",
        "rules", "searches", "artifacts", "timings", "versions",
    } <= audited.keys()  # fmt: skip
    assert {
        "id", "revision", "family", "class", "head", "pooled", "template_sha256", "rendered",
        "bos", "pad", "dtype", "attention", "path", "self_test_max_difference",
    } <= audited["model"].keys()  # fmt: skip
    assert {
        "name",
        "slice",
        "value",
        "ci_low",
        "ci_high",
        "n",
        "noise_floor",
        "status",
        "unit",
    } <= (audited["metrics"][0].keys())
    assert {"metric", "slice", "bound", "severity", "verdict", "reason", "waived", "source"} <= (
        audited["rules"][0].keys()
    )
    assert json.loads(json.dumps(audited, allow_nan=False)) == audited


def test_an_audit_that_is_planned_but_not_there_is_not_run(audited: Document) -> None:
    status = {audit["name"]: audit for audit in audited["audits"]}
    assert status["numerics"]["status"] == status["vocabulary"]["status"] == "RUN"
    assert status["adversarial"]["status"] == "NOT_RUN"
    assert status["adversarial"]["reason"]


def test_the_run_holds_the_scores(audited: Document, project: Path) -> None:
    tracker = Tracker(None, project)
    run_id = tracker.find_run("latest")
    assert run_id == audited["run_id"]
    table = ScoreTable.read(tracker.download(run_id, audited["artifacts"]["scores"]))
    assert table.prompts == ("greatest", "best", "worst")
    assert len(table.frame) == 1500
    assert table.metadata.sampled
    words = WordTable.read(tracker.download(run_id, audited["artifacts"]["words"]))
    assert set(words.frame["list"]) == {"valence", "identity", "carriers", "controls"}
    assert "<html" in tracker.download(run_id, "report.html").read_text(encoding="utf-8")


def test_a_second_audit_scores_nothing_again(
    audited: Document, request_: AuditRequest, copied: Path
) -> None:
    again = run_audit(replace(request_, content=find_content(copied)), lambda text: None)
    assert sum(sweep["computed"] for sweep in audited["sweeps"]) > 0
    assert sum(sweep["computed"] for sweep in again["sweeps"]) == 0
    assert [rule["verdict"] for rule in again["rules"]] == [
        rule["verdict"] for rule in audited["rules"]
    ]
    assert again["metrics"] == audited["metrics"]


def test_a_finished_run_is_judged_again_the_same(audited: Document, project: Path) -> None:
    document, judgement = judge_run("latest", None, find_content(project), None)
    assert document["rules"] == audited["rules"]
    assert judgement.verdict == audited["verdict"]


def test_a_stricter_policy_turns_a_warning_into_a_failure(
    audited: Document, project: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "tight.yaml"
    policy.write_text(
        "name: tight\nrules:\n  - {metric: vocabulary.quantile_skew, slice: all, abs_max: 0.000001,"
        " severity: critical, why: tests}\n"
    )
    document, judgement = judge_run("latest", str(policy), find_content(project), None)
    assert (judgement.verdict, document["exit_code"]) == ("FAIL", 1), judgement.rules


def test_the_report_is_made_again_from_the_run(
    audited: Document, project: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report.html"
    assert report_run("latest", out, find_content(project), None) == audited["run_id"]
    stored = Tracker(None, project).download(audited["run_id"], "report.html")
    assert out.read_bytes() == stored.read_bytes()


def test_a_finished_run_is_shown_in_80_columns(
    audited: Document, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = read_run("latest", find_content(project), None)
    assert document == audited
    print_run(document, read_ends(document, find_content(project), None, 5))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if cell_len(line) > 80 and "pessimal audit" not in line] == []
    for one in audited["metrics"]:
        if one["slice"] == "all" and one["value"] is not None:
            assert any(line.startswith(f"{one['name']} ") for line in lines)
    assert sum("(1,500 scored)" in line for line in lines) == 3


def test_a_misspelt_metric_is_refused_before_anything_is_loaded(
    request_: AuditRequest, copied: Path
) -> None:
    policy = copied / "expectations" / "default.yaml"
    policy.write_text(policy.read_text().replace("numerics.coverage", "numerics.coverge"))
    broken = replace(request_, content=find_content(copied))
    with pytest.raises(UsageError, match=r"numerics\.coverge") as caught:
        run_audit(broken, lambda text: pytest.fail(f"work had begun: {text}"))
    assert caught.value.exit_code == 2
    assert "numerics.coverage" in str(caught.value)


def test_a_required_audit_that_did_not_run_is_an_error(
    request_: AuditRequest, copied: Path
) -> None:
    policy = copied / "expectations" / "default.yaml"
    policy.write_text(
        policy.read_text().replace("required: [numerics,", "required: [words_only, numerics,")
    )
    (copied / "audits" / "words_only.py").write_text(
        "from pessimal.audit import AuditResult, MetricSpec, audit\n"
        "@audit(question='?', needs=('human',), metrics=(MetricSpec('m', 'm', 'SD', 'higher'),))\n"
        "def words_only(context):\n    return AuditResult(())\n"
    )
    document = run_audit(replace(request_, content=find_content(copied)), lambda text: None)
    assert (document["verdict"], document["exit_code"]) == ("ERROR", 3)
    assert any("words_only" in rule["metric"] for rule in document["rules"])


def test_a_metric_that_is_nan_is_an_error(request_: AuditRequest, copied: Path) -> None:
    (copied / "audits" / "broken.py").write_text(
        "from pessimal.audit import AuditResult, MetricSpec, audit\n"
        "@audit(question='?', metrics=(MetricSpec('m', 'm', 'SD', 'higher'),))\n"
        "def broken(context):\n"
        "    return AuditResult((broken.metric('m', float('nan'), 2000),))\n"
    )
    policy = copied / "expectations" / "default.yaml"
    policy.write_text(
        policy.read_text()
        + "\n  - {metric: broken.m, slice: all, max: 1.0, severity: critical, why: tests}\n"
    )
    document = run_audit(replace(request_, content=find_content(copied)), lambda text: None)
    assert (document["verdict"], document["exit_code"]) == ("ERROR", 3)
    [metric] = [metric for metric in document["metrics"] if metric["name"] == "broken.m"]
    assert (metric["value"], metric["status"]) == (None, "failed")


def test_an_audit_that_breaks_is_an_error_and_the_run_is_whole(
    request_: AuditRequest, copied: Path
) -> None:
    (copied / "audits" / "breaks.py").write_text(
        "from pessimal.audit import AuditResult, MetricSpec, audit\n"
        "@audit(question='?', metrics=(MetricSpec('m', 'm', 'SD', 'higher'),))\n"
        "def breaks(context):\n    raise RuntimeError('no such luck')\n"
    )
    document = run_audit(replace(request_, content=find_content(copied)), lambda text: None)
    assert (document["verdict"], document["exit_code"]) == ("ERROR", 3)
    [audit] = [audit for audit in document["audits"] if audit["name"] == "breaks"]
    assert audit["status"] == "ERROR"
    assert "no such luck" in audit["reason"]


def test_shares_joined_give_the_same_scores(
    audited: Document, request_: AuditRequest, project: Path, copied: Path, tmp_path: Path
) -> None:
    here = replace(request_, content=find_content(copied), cache=tmp_path / "cache")
    first = replace(here, options=replace(here.options, shard=(1, 2)))
    share = run_audit(first, lambda text: None)
    assert (share["schema"], share["complete"]) == ("pessimal.share/1", False)
    second = replace(here, options=replace(here.options, shard=(2, 2)))
    whole = run_audit(second, lambda text: None)
    ours = Tracker(None, copied).download(whole["run_id"], "scores/vocabulary.parquet")
    theirs = Tracker(None, project).download(audited["run_id"], "scores/vocabulary.parquet")
    assert ours.read_bytes() == theirs.read_bytes()


def test_a_killed_audit_is_picked_up_by_the_same_command(
    model: Path, copied: Path, tmp_path: Path, audited: Document, project: Path
) -> None:
    command = [
        sys.executable, "-m", "pessimal", "audit", "--model", str(model), "--pipeline", "tiny",
        "--project", str(copied), "--cache", str(tmp_path / "cache"), "--json",
    ]  # fmt: skip
    begun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert begun.stderr is not None
    for line in begun.stderr:
        if line.startswith("Recording run "):
            break
    run_id = line.split()[2]
    time.sleep(0.3)
    os.kill(begun.pid, signal.SIGKILL)
    begun.communicate()
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    document = json.loads(again.stdout)
    assert document["run_id"] == run_id
    assert again.returncode == document["exit_code"] == audited["exit_code"]
    ours = Tracker(None, copied).download(run_id, "scores/vocabulary.parquet")
    theirs = Tracker(None, project).download(audited["run_id"], "scores/vocabulary.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(ours), pd.read_parquet(theirs))
