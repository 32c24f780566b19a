"""The comparison's report in a real browser: from disk, without a network, with hostile names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import MARKS, Opened, browser, playwright
from tests.compare.test_report import page
from tests.reports.hostile import HOSTILE

__all__ = ["browser", "playwright"]
pytestmark = list(MARKS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_runs_nothing_and_asks_for_nothing(
    browser: Any, tmp_path: Path, scheme: str
) -> None:
    file = tmp_path / "comparison.html"
    file.write_text(page(HOSTILE), encoding="utf-8")
    opened = Opened(browser, file, scheme, ready="#unfold", axe=True)
    folded = opened.page.locator("details.fold").first
    assert folded.get_attribute("open") is None
    opened.page.locator("#unfold").click()
    assert folded.get_attribute("open") is not None
    assert opened.draw_charts() == opened.page.locator("figure.live").count() >= 4
    assert opened.said == []
    assert opened.asked == [opened.address]
    assert opened.page.evaluate("window.hit") is None
    opened.picture(f"comparison-{scheme}", tmp_path)
    assert opened.faults() == []
    opened.page.close()


def test_a_matrix_is_read_cell_by_cell_and_pairs_are_sorted(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "comparison.html"
    file.write_text(page(HOSTILE), encoding="utf-8")
    opened = Opened(browser, file, ready="#unfold")
    opened.draw_charts()
    matrix = opened.page.locator(".chart").first
    matrix.focus()
    opened.page.keyboard.press("ArrowRight")
    said = matrix.locator("xpath=following-sibling::p[@role='status']").inner_text()
    assert said.endswith("; 1")
    opened.page.keyboard.press("ArrowRight")
    assert matrix.locator("xpath=following-sibling::p[@role='status']").inner_text() != said

    pairs = opened.page.get_by_role("region", name="Pairs under")
    tau = pairs.get_by_role("columnheader", name="tau")
    cells = pairs.locator("tbody tr td:nth-child(3)")

    def values() -> list[float]:
        return [float(text.split("\n")[0]) for text in cells.all_inner_texts()]

    tau.get_by_role("button").click()
    rising = values()
    assert rising == sorted(rising)
    tau.get_by_role("button").click()
    assert values() == rising[::-1]
    assert opened.said == []
    opened.page.close()
