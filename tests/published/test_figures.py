"""The command line gives back what was published."""

from __future__ import annotations

import pytest

from benchmarks.reproduce import ROWS, Documents, recompute
from tests.audits import published

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Documents:
    return recompute(published.folder().resolve(), tmp_path_factory.mktemp("published"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.metric} {row.model}")
def test_a_published_figure(row, documents):
    assert row.find(documents) == pytest.approx(row.published, abs=row.tolerance)


def test_every_model_has_a_run_and_no_scorer(documents):
    assert len(documents["elo"]["runs"]) == 10
    imports = {name: one for name, one in documents.items() if name != "compare"}
    for document in imports.values():
        assert document["schema"] == "pessimal.import/1"
        for run in document["runs"]:
            states = {audit["name"]: audit["status"] for audit in run["audits"]}
            assert states["numerics"] == "NOT_RUN"
            assert "ERROR" not in states.values()
            assert run["verdict"] in ("PASS", "WARN")


def test_the_diagonal_never_counts(documents):
    tau = documents["compare"]["tau"]["greatest"]
    assert [tau[i][i] for i in range(10)] == [1.0] * 10
    others = [tau[i][j] for i in range(10) for j in range(10) if i != j]
    mean = documents["compare"]["off_diagonal_mean"]["tau"]["greatest"]
    assert mean == pytest.approx(sum(others) / 90)


def test_words_of_two_folders_show_how_far_a_rerun_moves(documents):
    for run in documents["framing"]["runs"]:
        assert run["reruns"]["words"] == 45
        assert 0 < run["reruns"]["rms"] < 0.5
