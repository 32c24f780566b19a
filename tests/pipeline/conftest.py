"""A small project and a tiny reward model, audited once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pessimal.cli.scaffold import make_project
from pessimal.models.records import ModelRequest
from pessimal.pipeline.run import run_audit
from pessimal.pipeline.work import AuditRequest
from pessimal.project import find_content
from tests.builders import build_model

TINY = """\
# Enough to exercise every step.
description: a sample of the vocabulary and the word lists
vocabulary: {tokens: 1500, prompts: three}
words: {prompts: [greatest, worst]}
as_text: {tokens: 40, prompts: [greatest]}
audits: [numerics, vocabulary, adversarial]
"""


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama with 2,000 tokens."""
    return build_model(tmp_path_factory.mktemp("models") / "tiny", "llama", vocabulary=2000)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose pipeline ``tiny`` runs in seconds."""
    folder = make_project(tmp_path_factory.mktemp("projects") / "project")
    (folder / "pipelines" / "tiny.yaml").write_text(TINY)
    return folder


@pytest.fixture(scope="session")
def request_(model: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> AuditRequest:
    """The request to audit the one in the other, with no score known beforehand."""
    cache = tmp_path_factory.mktemp("own-cache")
    return AuditRequest(
        ModelRequest(str(model)), find_content(project), cache, pipeline="tiny", quiet=True
    )


@pytest.fixture(scope="session")
def audited(request_: AuditRequest, project: Path, tmp_path_factory: pytest.TempPathFactory):
    """The document of one finished audit, in the project's own ``mlruns``."""
    return run_audit(request_, lambda text: None)


@pytest.fixture
def copied(project: Path, tmp_path: Path) -> Path:
    """The project without its runs, to change at will."""
    folder = tmp_path / "copied"
    shutil.copytree(project, folder, ignore=shutil.ignore_patterns("mlruns"))
    (folder / "mlruns").mkdir()
    return folder


EASY = """\
name: {name}
default_bounds: true
rules:
  - metric: vocabulary.quantile_skew
    abs_max: 0.99
    severity: critical
    why: tests
"""


@pytest.fixture(scope="session")
def light_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two audits and a policy that the tiny model passes: its runs take seconds."""
    folder = make_project(tmp_path_factory.mktemp("light") / "project")
    for audit in (folder / "audits").glob("*.py"):
        if audit.stem not in ("numerics", "vocabulary"):
            audit.unlink()
    (folder / "expectations" / "default.yaml").write_text(EASY.format(name="default"))
    (folder / "pipelines" / "tiny.yaml").write_text(TINY)
    whole = TINY.replace("tokens: 1500", "tokens: all", 1)
    (folder / "pipelines" / "whole.yaml").write_text(whole)
    return folder


@pytest.fixture(scope="session")
def light_request(model: Path, light_project: Path, cache: Path) -> AuditRequest:
    """The request to audit the tiny model there."""
    return AuditRequest(
        ModelRequest(str(model)), find_content(light_project), cache, pipeline="tiny", quiet=True
    )


@pytest.fixture(scope="session")
def light_audited(light_request: AuditRequest):
    """The document of one finished audit there."""
    return run_audit(light_request, lambda text: None)
