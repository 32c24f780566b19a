"""The import contracts hold, and each of them bites."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(
        ROOT / "pessimal", tmp_path / "pessimal", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def test_the_contracts_hold(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("errors.py", "import pessimal.audit"),
        ("models/planted.py", "from pessimal.sweep import runner"),
        ("tracking/planted.py", "import pessimal.reports"),
        ("gate/planted.py", "def late():\n    import mlflow"),
        ("tracking/planted.py", "import great_expectations"),
        ("models/planted.py", "import optuna"),
        ("sweep/planted.py", "import ray"),
        ("statistics/planted.py", "import torch"),
        ("unplaced.py", ""),
    ],
)
def test_each_contract_bites(copy: Path, file: str, line: str) -> None:
    with (copy / "pessimal" / file).open("a") as module:
        module.write(f"\n\n{line}\n")
    done = lint(copy)
    assert done.returncode == 1
    assert "BROKEN" in done.stdout or "unplaced" in done.stdout + done.stderr
