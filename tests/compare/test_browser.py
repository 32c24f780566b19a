"""The comparison's report in a real browser: from disk, without a network, with hostile names."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.compare.test_report import page
from tests.reports.hostile import HOSTILE
from tests.reports.test_browser import Opened, browser, playwright

__all__ = ["browser", "playwright"]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium"),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_runs_nothing_and_asks_for_nothing(
    browser: Any, tmp_path: Path, scheme: str
) -> None:
    file = tmp_path / "comparison.html"
    file.write_text(page(HOSTILE), encoding="utf-8")
    opened = Opened(browser, file, scheme, ready="#unfold")
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith(("file:", "data:"))] == []
    assert opened.page.evaluate("window.hit") is None
    folded = opened.page.locator("details.fold").first
    assert folded.get_attribute("open") is None
    opened.page.locator("#unfold").click()
    assert folded.get_attribute("open") is not None
    opened.page.screenshot(path=tmp_path / f"comparison-{scheme}.png", full_page=True)
    opened.page.close()
