"""The page of measurements says what its document says, and no more."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from benchmarks.growth import slope
from benchmarks.machine import OTHERS_LIMIT, Watch, exit_code, spread, target, verdicts
from benchmarks.performance_page import DATA, FIGURE, PAGE, Document, draw, page
from benchmarks.savings import nodes, pushed


@pytest.fixture
def document() -> Document:
    found: Document = json.loads(DATA.read_text(encoding="utf-8"))
    return found


def test_the_page_is_made_from_the_document(document: Document) -> None:
    said = "run: .venv/bin/python -m benchmarks.performance_page"
    assert PAGE.read_text(encoding="utf-8") == page(document), said


def test_the_figure_is_made_from_the_document(document: Document, tmp_path: Path) -> None:
    draw(document, tmp_path / "growth.svg")
    # Where a renderer puts a label may differ by its version; the measured points may not.
    assert FIGURE.read_text(encoding="utf-8").count("<use") == (
        (tmp_path / "growth.svg").read_text(encoding="utf-8").count("<use")
    )


def test_a_disturbed_run_gives_no_verdict(document: Document) -> None:
    parts = [*document["sweep"]["shapes"], *(document[n] for n in ("growth", "startup"))]
    for fair in (True, False):
        changed = copy.deepcopy(document)
        for part in [*changed["sweep"]["shapes"], *_parts(changed)]:
            part["fair"] = fair
        text = page(changed)
        assert ("NOT A FAIR RUN" in text) is not fair
        assert (" met |" in text or "MISSED" in text) is fair
    assert all(part["targets"] for part in parts)


def _parts(document: Document) -> list[Document]:
    names = ("growth", "processes", "startup", "measures")
    return [document[name] for name in names if name in document]


def test_a_missed_target_fails_a_fair_run_only() -> None:
    missed = [target("speed", 1.0, least=2.0, unit="x"), target("memory", 1.0, most=2.0)]
    assert [one["met"] for one in missed] == [False, True]
    quiet = {"targets": missed, "fair": True, "others": [0.0]}
    loud = {"targets": missed, "fair": False, "others": [0.5]}
    assert (exit_code(quiet), exit_code(loud)) == (1, 0)
    assert "MISSED" in verdicts(quiet)[0]
    assert "MISSED" not in "".join(verdicts(loud))
    assert "NOT A FAIR RUN" in verdicts(loud)[-1]


def test_a_run_that_was_never_watched_is_not_fair() -> None:
    assert not Watch().document()["fair"]
    assert Watch(others=[OTHERS_LIMIT]).document()["fair"]
    assert not Watch(others=[0.0, OTHERS_LIMIT + 0.01]).document()["fair"]


def test_what_figures_are_made_of() -> None:
    assert spread([4.0]) == {"median": 4.0, "low": 4.0, "high": 4.0, "n": 1}
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0])["low"] == 2.0
    rows = [{"size": size, "median": 0.1 * size} for size in (0, 10, 100, 1000)]
    assert slope(rows) == pytest.approx(1.0)
    assert nodes([(1, 2, 3), (1, 2, 4), (5,)]) == 5
    words = [(1, 2), (1, 3), (4,)]
    assert pushed(words, 1, cut=False) == 16 * 3 + 16 * 2
    assert pushed(words, 1, cut=True) == 16 * 2 + 16 * 2 + 1
