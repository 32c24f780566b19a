"""The page of measures says what the audits declare."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measures_page import PAGE, PUBLISHED, declarations
from pessimal.audit import collect_audits
from pessimal.project import find_content


def test_the_page_is_made_from_the_declarations() -> None:
    audits = collect_audits(find_content(start=Path(__file__).parent).audits)
    page = PAGE.read_text(encoding="utf-8")
    assert declarations(audits) in page, "run: .venv/bin/python -m benchmarks.measures_page"
    assert page.count(PUBLISHED) == 1
    assert page.split(PUBLISHED)[1].count("\n| ") >= 11
