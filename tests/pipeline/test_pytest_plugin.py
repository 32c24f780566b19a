"""The pytest plugin from outside: what it collects, and that it stays out of others' way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pessimal.gate import render_junit
from pessimal.pipeline.finished import judge_run
from pessimal.project import find_content

Document = dict[str, Any]
POLICY = """\
name: mixed
rules:
  - {metric: vocabulary.quantile_skew, abs_max: 0.000001, severity: critical, why: fails}
  - {metric: vocabulary.quantile_skew, slice: prompt=best, abs_max: 0.000001, severity: warning}
  - {metric: vocabulary.quantile_skew, slice: prompt=worst, abs_max: 0.000001, severity: critical}
  - {metric: vocabulary.quantile_skew, slice: prompt=greatest, abs_max: 0.99, severity: critical}
  - {metric: vocabulary.quantile_skew, slice: prompt=nothing, abs_max: 0.5, severity: critical}
"""
TAGS = ("failure", "error", "skipped")


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments], cwd=folder,
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def cases(xml: str) -> list[str]:
    """What became of each test case, as JUnit tells it."""
    found = []
    for case in ElementTree.fromstring(xml).iter("testcase"):
        tags = [child.tag for child in case if child.tag in TAGS]
        assert len(tags) < 2
        found.append(tags[0] if tags else "passed")
    return found


@pytest.fixture
def mixed(light_audited: Document, light_project: Path, tmp_path: Path) -> Path:
    """A policy with every outcome, one failure of which is waived."""
    policy = tmp_path / "mixed.yaml"
    policy.write_text(POLICY)
    waivers = light_project / "expectations" / "waivers.yaml"
    waivers.write_text(
        f"- metric: vocabulary.quantile_skew\n  slice: prompt=worst\n"
        f"  model: {light_audited['model']['id']}\n"
        f"  revision: {light_audited['model']['hashes']['weights']}\n"
        "  reason: known\n  owner: ada\n  expires: 2999-01-01\n"
    )
    yield policy
    waivers.write_text("[]\n")


def test_one_test_a_rule_and_its_junit_agrees(
    light_audited: Document, light_project: Path, mixed: Path, tmp_path: Path
) -> None:
    (light_project / "test_of_the_project.py").write_text("def test_own():\n    assert False\n")
    try:
        done = run_pytest(
            light_project, "--pessimal-run", light_audited["run_id"], "-W", "error",
            "--pessimal-policy", str(mixed), f"--junitxml={tmp_path / 'pytest.xml'}",
        )  # fmt: skip
    finally:
        (light_project / "test_of_the_project.py").unlink()
    judgement = judge_run(light_audited["run_id"], str(mixed), find_content(light_project), None)[1]
    found = cases((tmp_path / "pytest.xml").read_text())
    assert found == cases(render_junit(judgement)), done.stdout
    assert len(found) == len(judgement.rules) == 5
    assert sorted(found) == ["error", "failure", "passed", "passed", "skipped"]
    assert done.returncode == 1
    assert "FAIL: Value" in done.stdout
    assert "fails" in done.stdout  # the rule's own why
    assert "Traceback" not in done.stdout
    assert re.search(r"1 failed, 2 passed, 1 skipped, 1 error", done.stdout)
    assert "warning" not in done.stdout.splitlines()[-1]


def test_the_runs_own_policy_and_a_selection(light_audited: Document, light_project: Path) -> None:
    done = run_pytest(light_project, "--pessimal-run", "latest", "-q")
    assert done.returncode == 0, done.stdout
    passed = len([r for r in light_audited["rules"] if r["verdict"] in ("PASS", "WARN")])
    assert f"{passed} passed" in done.stdout
    chosen = run_pytest(light_project, "--pessimal-run", "latest", "-q", "-k", "rerun_tau")
    assert "1 passed" in chosen.stdout
    assert f"{passed - 1} deselected" in chosen.stdout


def test_named_tests_run_beside_the_rules(light_audited: Document, light_project: Path) -> None:
    own = light_project / "test_beside.py"
    own.write_text("def test_own():\n    assert True\n")
    try:
        done = run_pytest(light_project, "--pessimal-run", "latest", "-q", own.name)
    finally:
        own.unlink()
    assert f"{len(light_audited['rules']) + 1} passed" in done.stdout


@pytest.mark.parametrize("extra", [["--pessimal-run", "feed"], ["--pessimal-run", "latest",
                                   "--pessimal-policy", "strct"]])  # fmt: skip
def test_what_cannot_be_judged_is_a_usage_error(
    light_audited: Document, light_project: Path, extra: list[str]
) -> None:
    done = run_pytest(light_project, *extra)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert ("feed" in done.stderr) or ("'strict'" in done.stderr)
    assert "Traceback" not in done.stderr


def test_other_runs_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n\ndef test_own():\n"
        "    loaded = {n.split('.')[0] for n in sys.modules}\n"
        "    assert not loaded & {'mlflow', 'torch', 'pandas', 'great_expectations', 'numpy'}\n"
        "    assert not [n for n in sys.modules if n.startswith('pessimal.')\n"
        "                and n != 'pessimal.pytest_plugin']\n"
    )
    done = run_pytest(tmp_path, "-q", "-W", "error")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.slow
def test_the_recipe_for_a_projects_own_suite_works(
    light_audited: Document, light_project: Path, model: Path
) -> None:
    page = (Path(__file__).parents[2] / "docs/ci.md").read_text(encoding="utf-8")
    recipe, test = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    own = f"@pytest.fixture(scope='session')\ndef trained_model():\n    return {str(model)!r}\n"
    suite = light_project / "suite"
    suite.mkdir()
    # The pipeline that is there, and scores that are: the recipe is the page's.
    (suite / "conftest.py").write_text(f"{recipe.replace('smoke', 'tiny')}\n\n{own}")
    (suite / "test_model.py").write_text(test)
    done = run_pytest(suite, "-q", "test_model.py")
    assert "1 passed" in done.stdout, done.stdout
