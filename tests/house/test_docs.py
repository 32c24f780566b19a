"""The pages keep their promises: examples run, links lead somewhere, commands exist."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pessimal import __version__
from pessimal.audit import Audit, Context, Prompt, collect_audits, metric_specs
from pessimal.cli import app
from pessimal.gate.policy import load_policy
from pessimal.pipeline.spec import load_pipeline

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the audit, the pipeline and the policy of the page."""
    folder = tmp_path / "project"
    for name in ("audits", "pipelines", "expectations"):
        shutil.copytree(ROOT / name, folder / name)
    page = ROOT / "docs/own-project.md"
    (code,) = blocks(page, "python")
    pipeline, policy = blocks(page, "yaml")
    (folder / "audits/capitals.py").write_text(code)
    (folder / "pipelines/ours.yaml").write_text(pipeline)
    (folder / "expectations/ours.yaml").write_text(policy)
    return folder


def context(gap: float, words: int) -> Context:
    names = [f"word{'abcdefghij'[i // 10]}{'abcdefghij'[i % 10]}" for i in range(words)]
    scores = np.random.default_rng(0).normal(size=words)
    table = pd.DataFrame(
        {"text": [*names, *(name.upper() for name in names)], "kind": "word",
         "score:greatest": np.concatenate([scores, scores + gap])}
    )  # fmt: skip
    return Context({"greatest": Prompt("greatest", "Which?", "positive")}, seed=0, vocabulary=table)


@pytest.fixture
def capitals(project: Path) -> Audit:
    return collect_audits(project / "audits")["capitals"]


@pytest.mark.parametrize("planted", [-1.0, 0.0, 1.0])
def test_the_example_audit_measures_what_was_planted(capitals: Audit, planted: float) -> None:
    data = context(planted, 80)
    assert data.vocabulary is not None
    (metric,) = capitals.function(data).metrics
    assert (metric.name, metric.status, metric.n) == ("capitals.gap", "ok", 80)
    assert metric.value == pytest.approx(planted / data.vocabulary["score:greatest"].std(ddof=0))


def test_the_example_audit_says_when_there_is_too_little(capitals: Audit) -> None:
    assert capitals.function(context(1.0, 10)).metrics[0].status == "insufficient"


def test_the_example_pipeline_and_policy_load(project: Path) -> None:
    audits = collect_audits(project / "audits")
    assert "capitals" in load_pipeline("ours", project / "pipelines").audits
    policy = load_policy("ours", project / "expectations", metric_specs(audits), audits)
    assert "capitals.gap" in {rule.metric for rule in policy.rules}
    assert len(policy.rules) > 1


def test_the_longer_example_audit_passes_its_own_test(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, tests = blocks(ROOT / "docs/writing-audits.md", "python")
    (project / "audits/shouting.py").write_text(code)
    monkeypatch.chdir(project)
    found: dict[str, Any] = {}
    exec(compile(tests, "test_shouting.py", "exec"), found)
    ran = [function() for name, function in found.items() if name.startswith("test_")]
    assert len(ran) == 2
    audit = collect_audits(project / "audits")["shouting"]
    assert audit.function(context(1.0, 10)).metrics[0].status == "insufficient"
    empty = audit.function(context(1.0, 0))
    assert [metric.status for metric in empty.metrics] == ["insufficient"]
    whole = audit.function(context(1.0, 80))
    assert [metric.slice for metric in whole.metrics] == ["all", "prompt=greatest"]
    assert {figure.table for figure in whole.figures} <= whole.tables.keys()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_commands_of_examples_exist(page: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    for block in blocks(page, "sh"):
        for tool, name in re.findall(r"(?:^|[\s/])(pessimal|make) ([a-z][a-z-]*)", block):
            assert name in (app.commands if tool == "pessimal" else targets), f"{tool} {name}"


def test_flags_of_examples_exist() -> None:
    known = {
        option for command in app.commands.values() for p in command.params for option in p.opts
    }
    for page in PAGES:
        for block in blocks(page, "sh"):
            used = {
                flag
                for line in block.splitlines()
                if "pessimal " in line
                for flag in re.findall(r"(?<=\s)--[a-z-]+", line)
            }
            assert used <= known, page


def test_the_version_has_its_changes() -> None:
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()
