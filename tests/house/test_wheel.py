"""A wheel works in an empty environment outside the checkout, with its content inside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CONTENT = ("audits", "pipelines", "expectations")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and the requirements borrowed from this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin/python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet",
         "--disable-pip-version-check", "--no-deps", "--no-index", str(wheel)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # A path added so has its own .pth files ignored: the checkout stays out of sight.
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def run(environment: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [environment / "bin" / command[0], *command[1:]],
        cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def listing(environment: Path, folder: Path, *flags: str) -> dict[str, Any]:
    done = run(environment, folder, "pessimal", "list", "--json", *flags)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


def tracked(folder: str) -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_only_the_package_is_installed(names: set[str]) -> None:
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"pessimal"}


def test_every_file_of_package_and_content_travels(names: set[str]) -> None:
    assert set(tracked("pessimal")) <= names
    for folder in CONTENT:
        files = tracked(folder)
        assert files
        assert {f"pessimal/content/{name}" for name in files} <= names


@pytest.mark.parametrize("model", ["clean", "biased"])
def test_the_demo_models_travel(names: set[str], model: str) -> None:
    parts = {name.rsplit("/", 1)[1] for name in names if f"/demo/{model}/" in name}
    assert {"adapter_model.safetensors", "adapter_config.json", "demo.json"} <= parts


def test_the_licence_travels(names: set[str]) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_command_finds_the_packaged_content(environment: Path, tmp_path: Path) -> None:
    document = listing(environment, tmp_path)
    assert Path(document["project"]).is_relative_to(environment)
    for kind, suffix, folder in (
        ("pipelines", ".yaml", "pipelines"),
        ("policies", ".yaml", "expectations"),
        ("audits", ".py", "audits"),
    ):
        listed = {item["name"] for item in document[kind]}
        # `drift` compares two runs and is part of the engine.
        ours = {Path(name).stem for name in tracked(folder) if name.endswith(suffix)} | {"drift"}
        assert listed
        assert listed <= ours
        assert len(listed) > 2
    assert {"quick", "smoke"} <= {item["name"] for item in document["pipelines"]}
    assert "default" in {item["name"] for item in document["policies"]}


def test_content_is_no_module(environment: Path, tmp_path: Path) -> None:
    asked = "import importlib.util as u; print([n for n in {} if u.find_spec(n)])"
    done = run(environment, tmp_path, "python", "-c", asked.format(CONTENT))
    assert done.stdout.strip() == "[]"


def test_a_fresh_project_can_be_made_from_the_wheel(environment: Path, tmp_path: Path) -> None:
    project = tmp_path / "mine"
    done = run(environment, tmp_path, "pessimal", "init", str(project))
    assert done.returncode == 0, done.stderr
    document = listing(environment, tmp_path, "--project", str(project))
    assert Path(document["project"]) == project.resolve()
    assert document["pipelines"]
