"""The Makefile, with stand-ins for Python and the command, in a folder whose name has a space."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Makes the folder that `python -m venv` would, with tools that only note how they were called.
STAND_IN = """#!/bin/sh
echo "python $*" >> calls
case "$*" in
  "-m venv .venv")
    mkdir -p .venv/bin
    for tool in python uv pessimal; do
      printf '#!/bin/sh\\necho "%s $*" >> calls\\n' "$tool" > .venv/bin/$tool
      chmod +x .venv/bin/$tool
    done ;;
esac
"""

SHOW_ARGUMENTS = """#!/usr/bin/env python3
import json, sys
print(json.dumps(sys.argv[1:]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    write_script(folder / "python", STAND_IN)
    return folder


def write_script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def make(
    project: Path, *arguments: str, python: str = "./python"
) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name
        not in {"MODEL", "PIPELINE", "POLICY", "RUN", "OUT", "LAST", "MAKEFLAGS", "MAKELEVEL"}
    }
    return subprocess.run(
        ["make", *arguments, f"PYTHON={python}"],
        cwd=project, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def calls(project: Path) -> list[str]:
    return (project / "calls").read_text().splitlines()


def ready_project(project: Path) -> Path:
    assert make(project, "setup").returncode == 0
    write_script(project / ".venv/bin/pessimal", SHOW_ARGUMENTS)
    return project


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["audit"], ["audit"]),
        (
            ["audit", "MODEL=a model/it's \"x\"; touch pwned", "PIPELINE=smoke", "POLICY=p q.yaml"],
            ["audit", "--model", "a model/it's \"x\"; touch pwned",
             "--pipeline", "smoke", "--policy", "p q.yaml"],
        ),
        (["gate", "RUN=`touch pwned`", "POLICY=strict"],
         ["gate", "`touch pwned`", "--policy", "strict"]),
        (["gate"], ["gate", "latest"]),
        (["show"], ["show", "latest"]),
        (["show", "RUN=`touch pwned`"], ["show", "`touch pwned`"]),
        (["report", "OUT=my report.html"], ["report", "latest", "--out", "my report.html"]),
        (["ui"], ["ui"]),
        (["compare"], ["compare", "--last", "2"]),
        (["compare", "LAST=10"], ["compare", "--last", "10"]),
        (["compare", "RUN=3f 81; touch pwned * `touch pwned`", "OUT=my report.html"],
         ["compare", "--out", "my report.html", "3f", "81;", "touch", "pwned", "*", "`touch",
          "pwned`"]),
        (["compare", "RUN=3f", "LAST=1; touch pwned"],
         ["compare", "--last", "1; touch pwned", "3f"]),
    ],
)  # fmt: skip
def test_values_reach_the_command_unchanged(
    project: Path, arguments: list[str], expected: list[str]
) -> None:
    done = make(ready_project(project), *arguments)
    assert json.loads(done.stdout) == expected
    assert not (project / "pwned").exists()


def test_a_failing_command_fails_make(project: Path) -> None:
    write_script(ready_project(project) / ".venv/bin/pessimal", "#!/bin/sh\nexit 4\n")
    assert make(project, "audit").returncode == 2


def test_audit_sets_up_what_is_missing_and_only_once(project: Path) -> None:
    assert make(project, "audit").returncode == 0
    first = calls(project)
    assert [line for line in first if line.startswith("uv ")]
    assert first[-1] == "pessimal audit"
    assert make(project, "audit").returncode == 0
    assert calls(project)[len(first) :] == ["pessimal audit"]


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_set_up_again_when_the_requirements_change(project: Path, name: str) -> None:
    assert make(project, "setup").returncode == 0
    installs = len(calls(project))
    later = (project / ".venv/.ready").stat().st_mtime + 10
    os.utime(project / name, (later, later))
    assert make(project, "setup").returncode == 0
    assert len(calls(project)) > installs


def test_an_interrupted_set_up_is_picked_up(project: Path) -> None:
    assert make(project, "setup").returncode == 0
    (project / ".venv/.ready").unlink()
    (project / ".venv/.begun").touch()
    half_written = project / ".venv/half-written"
    half_written.touch()
    assert make(project, "audit").returncode == 0
    assert not half_written.exists()
    assert not (project / ".venv/.begun").exists()


def test_a_failed_set_up_says_so_and_is_tried_again(project: Path) -> None:
    write_script(
        project / "python", STAND_IN.replace('calls\\n\' "$tool"', 'calls; exit 1\\n\' "$tool"')
    )
    failed = make(project, "audit")
    assert failed.returncode == 2
    assert not (project / ".venv/.ready").exists()
    write_script(project / "python", STAND_IN)
    assert make(project, "audit").returncode == 0


def test_an_old_python_is_refused_with_a_remedy(project: Path) -> None:
    write_script(project / "old", "#!/bin/sh\nexit 1\n")
    refused = make(project, "setup", python="./old")
    assert refused.returncode == 2
    assert "3.11" in refused.stderr
    assert "PYTHON=" in refused.stderr
    assert not (project / ".venv").exists()


def test_every_command_and_file_of_a_recipe_exists() -> None:
    from pessimal.cli import app

    recipes = (ROOT / "Makefile").read_text()
    commands = set(re.findall(r"\$\(BIN\)/pessimal (\w+)", recipes))
    assert {"audit", "ui"} <= commands
    assert commands <= set(app.commands)
    for file in re.findall(r"\b(?:tests|benchmarks)/[\w/]+\.py", recipes):
        assert (ROOT / file).is_file(), file
    for module in re.findall(r"-m (pessimal[\w.]+)", recipes):
        assert (ROOT / (module.replace(".", "/") + ".py")).is_file(), module


def test_help_lists_every_target(project: Path) -> None:
    listed = make(project).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert phony
    for target in phony.group(1).split():
        assert re.search(rf"^  {target} ", listed, re.M), target
