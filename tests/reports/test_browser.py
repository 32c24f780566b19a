"""The report in a real browser: from disk, without a network, with hostile tokens in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pessimal.audit import Figure
from pessimal.reports import draw, write_report
from tests.reports.hostile import HOSTILE

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium"),
]
sync_api = pytest.importorskip("playwright.sync_api")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def playwright() -> Iterator[Any]:
    """The driver."""
    with sync_api.sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="module")
def browser(playwright: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A fresh browser."""
    context = playwright.chromium.launch_persistent_context(
        str(tmp_path_factory.mktemp("profile")),
        executable_path=shutil.which("chromium"),
        headless=True,
        args=list(ARGUMENTS),
        viewport={"width": 1280, "height": 900},
    )
    yield context
    context.close()


class Opened:
    """A report in a page, with what the page said and asked for."""

    def __init__(
        self, browser: Any, path: Path, scheme: str = "light", ready: str = "#vocabulary-rows tr"
    ) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page = browser.new_page()
        self.page.emulate_media(color_scheme=scheme)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(ready)

    def tokens(self) -> list[str]:
        found: list[str] = self.page.locator("#vocabulary-rows .token").all_text_contents()
        return found

    def status(self) -> str:
        found: str = self.page.locator("#vocabulary-status").inner_text()
        return found


@pytest.fixture
def report(
    document: dict[str, Any], vocabulary: pd.DataFrame, as_text: pd.DataFrame, tmp_path: Path
) -> Path:
    """A written report with a figure."""
    kinds = Figure("kinds", "Kinds?", "distribution", "v", "score:worst", group="kind")
    figures = {"kinds": draw(kinds, {"v": vocabulary}).svg}
    path = tmp_path / "a report.html"
    write_report(
        document, {"v/top": vocabulary.head(40)}, vocabulary, figures, path, as_text=as_text
    )
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_opens_from_disk_runs_nothing_hostile_and_asks_nobody(
    browser: Any, report: Path, scheme: str
) -> None:
    opened = Opened(browser, report, scheme)
    opened.page.get_by_role("button", name="Show every folded list").click()
    assert opened.said == []
    assert opened.asked == [report.as_uri()]
    assert opened.page.evaluate("window.hit") is None
    assert opened.page.evaluate("document.querySelectorAll('img, script[src], iframe').length") == 0
    assert opened.page.locator("details.fold:not([open])").count() == 0
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert opened.page.evaluate(overflow) <= 0
    folder = Path(os.environ.get("PESSIMAL_SCREENSHOTS", report.parent))
    opened.page.screenshot(path=folder / f"report-{scheme}.png", full_page=True)
    opened.page.close()


def test_searching_sorting_and_switching_prompts(browser: Any, report: Path) -> None:
    opened = Opened(browser, report)
    page = opened.page
    assert len(opened.tokens()) == 100
    assert opened.status() == "1 to 100 of 600 tokens"
    search = page.get_by_label("Search tokens")
    rows = page.locator("#vocabulary-rows tr")

    search.fill(" love")
    sync_api.expect(rows).to_have_count(2)
    assert opened.tokens() == ["␣love", "␣love"]
    search.fill("#42")
    sync_api.expect(rows).to_have_count(1)
    assert opened.tokens() == ["plain27"]
    search.fill("no such token")
    sync_api.expect(rows).to_have_count(0)
    assert opened.status() == "No token matches."
    search.fill("")
    sync_api.expect(rows).to_have_count(100)

    first = page.locator("#vocabulary-rows tr").first
    assert first.locator("td").nth(2).inner_text() == "0"
    page.get_by_label("Prompt").select_option(label="worst")
    assert first.locator("td").nth(2).inner_text() == "599"
    page.get_by_role("button", name="rank").click()
    assert first.locator("td").nth(2).inner_text() == "0"
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    page.get_by_role("combobox", name="Kind").select_option(label="word")
    assert "600" not in opened.status()
    page.get_by_role("button", name="Next").click()
    assert opened.status().startswith("101 to ")
    assert opened.said == []
    page.close()


def test_a_token_without_a_score_has_no_rank_and_comes_last(browser: Any, report: Path) -> None:
    opened = Opened(browser, report)
    opened.page.get_by_role("button", name="rank").click()
    cells = opened.page.locator("#vocabulary-rows tr").first.locator("td").all_text_contents()
    assert cells[0] == "–"
    assert cells[2] == "300"
    assert cells[4] == "–"
    opened.page.close()


def test_hostile_tokens_are_shown_as_text(browser: Any, report: Path) -> None:
    opened = Opened(browser, report)
    shown = opened.tokens()
    assert HOSTILE[0] in shown
    assert "⟨U+202E⟩gnp.exe" in shown
    assert "a⟨U+0000⟩b" in shown
    assert "{{␣7*7␣}}" in shown
    assert "&lt;b&gt;" in shown
    assert max(map(len, shown)) < 120
    opened.page.close()


def test_without_scripts_everything_but_searching_is_there(playwright: Any, report: Path) -> None:
    browser = playwright.chromium.launch(
        executable_path=shutil.which("chromium"), args=list(ARGUMENTS)
    )
    page = browser.new_page(java_script_enabled=False)
    page.goto(report.as_uri())
    assert page.get_by_text("Searching needs scripts").is_visible()
    assert page.locator(".prompt .token").first.is_visible()
    rank = page.locator(".pessimal .num").get_by_text("599", exact=True).first
    assert not rank.is_visible()
    page.get_by_text("Show the worst under greatest").click()
    assert rank.is_visible()
    browser.close()
