"""What a user sets beside a model: a human ranking, a base model, categories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pessimal.errors import PessimalError, UsageError
from pessimal.lexicons import word_lists
from pessimal.pipeline.run import run_audit
from pessimal.pipeline.work import AuditRequest
from pessimal.project import find_content
from pessimal.scores.table import WordTable
from pessimal.tracking import Tracker
from tests.builders import build_model

SMALL = """\
description: what needs a user's files
vocabulary: {tokens: all, prompts: [greatest, worst]}
words: {prompts: [greatest, worst]}
human: {prompts: human}
"""
NAMES = [f"thing {i} of {i % 7}" for i in range(1100)]


@pytest.fixture
def asked(request_: AuditRequest, copied: Path, tmp_path: Path) -> AuditRequest:
    """The tiny model with a ranking and two categories."""
    (copied / "pipelines" / "small.yaml").write_text(SMALL)
    ranking = tmp_path / "ranking.csv"
    rows = [f"{name},{1500 - i},{i + 1}" for i, name in enumerate(NAMES)]
    ranking.write_text("name,score,matches\n" + "\n".join(rows), "utf-8")
    words = word_lists()["controls"][:200]
    kinds = tmp_path / "kinds.csv"
    rows = [f"{word},{'odd' if i % 2 else 'even'}" for i, word in enumerate(words)]
    kinds.write_text("word,category\n" + "\n".join(rows), "utf-8")
    return replace(
        request_, content=find_content(copied), pipeline="small", human=ranking, categories=kinds
    )


def test_all_three_are_measured_and_recorded(asked: AuditRequest, tmp_path: Path):
    base = build_model(tmp_path / "base", "llama", head=False, vocabulary=2000)
    said: list[str] = []
    document = run_audit(replace(asked, base_model=str(base)), said.append)
    states = {audit["name"]: audit for audit in document["audits"]}
    assert [states[name]["status"] for name in ("human", "base_model", "values")] == ["RUN"] * 3
    metrics = {(m["name"], m["slice"]): m for m in document["metrics"]}
    assert metrics["human.tau", "all"]["n"] == len(NAMES)
    assert metrics["values.median_rank", "framing=positive,words=odd"]["n"] == 100
    assert -1 < metrics["base_model.logprob_tau", "prompt=greatest"]["value"] < 1
    assert document["base_model"]["id"] == str(base)
    assert any("1,100 ranked entities" in line for line in said)

    tracker = Tracker(None, asked.content.home)
    words = WordTable.read(tracker.download(document["run_id"], "scores/words.parquet"))
    ranked = words.frame[words.frame["list"] == "human"]
    assert ranked["word"].tolist() == NAMES
    assert np.isfinite(ranked["score:human_greatest"]).all()
    assert ranked["score:greatest"].isna().all()
    others = words.frame[words.frame["list"] != "human"]
    assert np.isfinite(others["score:greatest"]).all()
    assert others["score:human_prefer"].isna().all()


def test_without_them_the_audits_say_how_to_get_one(audited: dict[str, Any]):
    states = {audit["name"]: audit for audit in audited["audits"]}
    for name, flag in (
        ("human", "--human"), ("base_model", "--base-model"), ("values", "--categories")
    ):  # fmt: skip
        assert states[name]["status"] == "NOT_RUN"
        assert flag in states[name]["reason"]


def test_they_are_refused_before_a_model_is_loaded(asked: AuditRequest, tmp_path: Path):
    def refuse(error: type[PessimalError], **changes: object) -> str:
        with pytest.raises(error) as caught:
            run_audit(replace(asked, **changes), lambda text: pytest.fail(f"begun: {text}"))
        return caught.value.code

    broken = tmp_path / "broken.csv"
    broken.write_text("name,score,matches\nSun,high,1\n")
    assert refuse(UsageError, human=broken) == "csv_number"
    assert refuse(UsageError, categories=broken) == "categories_invalid"
    assert refuse(UsageError, pipeline="tiny") == "human_not_planned"
