"""The tutorial's commands run, in order, on tiny models in place of the demo's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import build_model
from tests.pipeline.conftest import TINY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
JUDGED = {0, 1, 4}
"""Exit codes of a verdict. A tiny random model is no better than chance."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the reader stands: `pessimal` is on the path, and two models are at hand."""
    folder = tmp_path_factory.mktemp("tutorial")
    for seed, name in enumerate(("demo", "demo-biased")):
        build_model(folder / "models" / name, "llama", seed=seed, vocabulary=2000)
    command = folder / "bin" / "pessimal"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pessimal "$@"\n')
    command.chmod(0o755)
    (folder / "checkout").mkdir()
    return folder


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"^```(sh|yaml)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def test_the_tutorial_runs(folder: Path) -> None:
    environment = os.environ | {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PESSIMAL_CACHE": str(folder / "cache"), "COLUMNS": "80",
    }  # fmt: skip
    environment.pop("MLFLOW_TRACKING_URI", None)
    project = folder / "rm-audits"
    ran: list[str] = []
    for language, text in blocks():
        if language == "yaml":
            name = re.search(r"^name: (\w+)$", text, re.M)
            assert name
            if name.group(1) == "release":
                (project / "expectations" / "release.yaml").write_text(text)
            continue
        for line in text.splitlines():
            if line.startswith(("make ", "export ", "cd ")):
                continue  # the fixture has set up; the folders are given below
            command = re.sub(r"--model ([\w-]+)", rf"--model {folder}/models/\1", line)
            done = subprocess.run(
                command, shell=True, env=environment, capture_output=True, text=True, check=False,
                cwd=project if project.exists() else folder / "checkout",
            )  # fmt: skip
            assert done.returncode in (JUDGED if re.search("audit|gate", line) else {0}), (
                done.stderr
            )
            ran.append(line.split()[1])
            if line.startswith("pessimal init"):
                (project / "pipelines" / "smoke.yaml").write_text(TINY)
    assert ran == ["init", "plan", "audit", "show", "report", "gate", "audit", "compare", "audit"]
    for name in ("report.html", "comparison.html", "junit.xml", "gate.sarif"):
        assert (project / name).stat().st_size > 0, name
    document = json.loads((project / "audit.json").read_text(encoding="utf-8"))
    assert document["policy"] == "release"
    assert any(rule["metric"] == "robustness.minor_tau" for rule in document["rules"])


def test_the_policy_is_the_one_whose_output_is_shown() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "min: 0.93" in page
    assert "min 0.93" in page
