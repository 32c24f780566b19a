"""The GitHub Action: its own steps are run, with a tiny model."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]


def step(name: str) -> dict[str, Any]:
    [found] = [one for one in STEPS if one.get("name") == name]
    return found


def run_step(
    name: str, folder: Path, **settings: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Run a step's script as the runner would; its outputs by name."""
    outputs = folder / "outputs"
    outputs.write_text("")
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    if not (tools / "python").exists():
        (tools / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (tools / "python").chmod(0o755)
    environment = os.environ | {
        "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_ACTION_PATH": str(ROOT), "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        **settings,
    }  # fmt: skip
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step(name)["run"]]
    done = subprocess.run(
        script, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    lines = outputs.read_text().splitlines()
    return done, dict(line.split("=", 1) for line in lines)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_audit_step_leaves_reports_outputs_and_the_code(
    model: Path, light_project: Path, cache: Path, tmp_path: Path
) -> None:
    done, outputs = run_step(
        "Audit", tmp_path, PESSIMAL_MODEL=str(model), PESSIMAL_PIPELINE="tiny",
        PESSIMAL_POLICY="default", PESSIMAL_REPORTS="out", PESSIMAL_CACHE=str(cache),
        PESSIMAL_ARGUMENTS=f"--project '{light_project}'",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert outputs == {
        "verdict": document["verdict"], "run-id": document["run_id"],
        "exit-code": str(document["exit_code"]),
    }  # fmt: skip
    assert document["verdict"] in ("PASS", "WARN")
    cases = list(ElementTree.parse(tmp_path / "out" / "junit.xml").iter("testcase"))
    assert len(cases) == len(document["rules"])
    sarif = json.loads((tmp_path / "out" / "gate.sarif").read_text())
    assert sarif["runs"][0]["properties"]["verdict"] == document["verdict"]
    for name in ("comment.md", "model_card.md", "gate.md"):
        assert document["verdict"] in (tmp_path / "out" / name).read_text().splitlines()[0]
    assert "<html" in (tmp_path / "out" / "report.html").read_text()
    assert document["verdict"] in (tmp_path / "summary.md").read_text()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("model", "code"), [("./no-such-model", "3"), ("demo --pipeline quick; touch hacked", "3")]
)
def test_an_audit_without_a_verdict_still_reports(tmp_path: Path, model: str, code: str) -> None:
    done, outputs = run_step(
        "Audit", tmp_path, PESSIMAL_MODEL=model, PESSIMAL_PIPELINE="smoke",
        PESSIMAL_POLICY="default", PESSIMAL_REPORTS="out",
    )  # fmt: skip
    assert done.returncode == 0
    assert (outputs["verdict"], outputs["exit-code"]) == ("ERROR", code)
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["schema"] == "pessimal.error/1"
    assert (tmp_path / "out" / "comment.md").read_text().startswith("## Reward model audit: ERROR")
    [error] = ElementTree.parse(tmp_path / "out" / "junit.xml").iter("error")
    assert error.get("message")
    assert not (tmp_path / "out" / "gate.sarif").exists()
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(("code", "ends"), [("0", 0), ("1", 1), ("3", 3), ("4", 4), ("", 3)])
def test_the_job_ends_with_the_audits_code(tmp_path: Path, code: str, ends: int) -> None:
    assert STEPS[-1]["if"] == "always()"
    done, _ = run_step(STEPS[-1]["name"], tmp_path, PESSIMAL_EXIT_CODE=code)
    assert done.returncode == ends


def test_the_cache_has_a_key_without_the_models_name(tmp_path: Path) -> None:
    keys = []
    for model in ("org/a,b", "org/c"):
        _, outputs = run_step(
            "Name the cache", tmp_path, PESSIMAL_MODEL=model, PESSIMAL_REVISION=""
        )
        keys.append(outputs["key"])
    assert len(set(keys)) == 2
    assert all(re.fullmatch(r"pessimal-scores-[0-9a-f]{16}", key) for key in keys)


def test_no_input_is_read_as_code() -> None:
    for one in STEPS:
        assert "${{" not in one.get("run", "")
        assert ("run" in one) == ("shell" in one)


def test_the_steps_upload_and_comment_what_the_audit_wrote() -> None:
    uses = {one["uses"].split("@")[0] for one in STEPS if "uses" in one}
    assert {
        "actions/cache", "actions/upload-artifact", "github/codeql-action/upload-sarif"
    } <= uses  # fmt: skip
    assert "comment.md" in step("Comment")["run"]
    assert set(step("Audit")["env"]) >= {
        f"PESSIMAL_{name.upper()}" for name in ("model", "policy", "pipeline", "baseline")
    }
    every = json.dumps(STEPS)
    for name in ACTION["inputs"]:
        assert f"inputs.{name}" in every, name
