"""The page of reward models says what the loader's table says."""

from __future__ import annotations

from benchmarks.models_page import PAGE, page
from pessimal.models.families import FAMILIES, PUBLISHED


def test_the_page_is_made_from_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(), "run: .venv/bin/python -m benchmarks.models_page"
    for row in FAMILIES:
        assert f"\n| {row.name} |" in text
    assert all(f"| {row.id} |" in text for row in PUBLISHED)
