"""The report in a real browser: from disk, without a network, with hostile tokens in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pessimal.audit import Figure
from pessimal.reports import draw, write_report
from pessimal.text import show_token
from tests.browser import ARGUMENTS, MARKS, Opened, browser, playwright, sync_api
from tests.reports.hostile import HOSTILE
from tests.reports.test_figures import FIGURES, TABLES

__all__ = ["browser", "playwright"]
pytestmark = list(MARKS)


class Report(Opened):
    """An audit's report."""

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
    """A written report with a figure of every kind, whose labels are hostile."""
    kinds = Figure("kinds", "Kinds?", "distribution", "v", "score:worst", group="kind")
    drawings = [draw(kinds, {"v": vocabulary}), *(draw(one, TABLES) for one in FIGURES)]
    path = tmp_path / "a report.html"
    write_report(
        document, {"v/top": vocabulary.head(40)}, vocabulary,
        {one.name: one.svg for one in drawings}, path, as_text=as_text,
        charts={one.name: one.chart for one in drawings},
    )  # fmt: skip
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_opens_from_disk_runs_nothing_hostile_and_asks_nobody(
    browser: Any, report: Path, scheme: str
) -> None:
    opened = Report(browser, report, scheme, axe=True)
    page = opened.page
    page.get_by_role("button", name="Show every folded list").click()
    assert page.locator("details.fold:not([open])").count() == 0
    charts = [json.loads(draw(one, TABLES).chart)["views"] for one in FIGURES]
    assert opened.draw_charts() == page.locator("figure.live").count() == 2 + sum(map(bool, charts))
    assert opened.said == []
    assert opened.asked == [report.as_uri()]
    assert page.evaluate("window.hit") is None
    assert page.evaluate("document.querySelectorAll('img, script[src], iframe').length") == 0
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0
    opened.picture(f"report-{scheme}", report.parent)
    assert opened.faults() == []
    page.close()


def test_charts_name_values_to_the_pointer_and_to_the_keyboard(browser: Any, report: Path) -> None:
    opened = Report(browser, report)
    opened.draw_charts()
    page = opened.page
    shown = [show_token(text, 48).replace("␣", " ").strip() for text in HOSTILE]
    chart = page.locator(".chart").and_(page.get_by_label(FIGURES[0].question)).first
    labels = " ".join(chart.locator(".ytick text").all_text_contents())
    for text in ("<script>window.hit=1</script>", "⟨U+202E⟩gnp.exe", "&lt;b&gt;", "a⟨U+0000⟩b"):
        assert text in shown
        assert text in labels
    assert chart.locator("a").count() == 0

    read = chart.locator("xpath=following-sibling::p[@role='status']")
    chart.focus()
    page.keyboard.press("ArrowRight")
    assert read.inner_text().startswith("<script>window.hit=1</script>; score (SD): ")
    assert chart.locator(".hoverlayer text").count() > 0
    page.keyboard.press("End")
    assert read.inner_text().startswith("&lt;b&gt;; ")
    page.keyboard.press("ArrowLeft")
    assert "{{ 7*7 }}" in read.inner_text()

    bar = chart.locator(".bars .point").nth(8)
    bar.scroll_into_view_if_needed()
    bar.hover(force=True)
    sync_api.expect(chart.locator(".hoverlayer")).to_contain_text("␣love")
    assert opened.said == []
    page.close()


def test_one_choice_switches_the_prompt_of_lists_and_chart(browser: Any, report: Path) -> None:
    opened = Report(browser, report)
    page = opened.page
    opened.draw_charts()
    articles = page.locator("article[data-prompt]")
    chart = page.locator(".chart").first
    before = chart.locator(".trace path").first.get_attribute("d")
    assert articles.filter(visible=True).count() == 2
    choice = page.get_by_label("Show the replies under")
    choice.select_option("worst")
    sync_api.expect(articles.filter(visible=True)).to_have_count(1)
    sync_api.expect(articles.filter(visible=True).locator("h3")).to_contain_text("worst")
    changed = chart.locator(".trace path").first
    sync_api.expect(changed).not_to_have_attribute("d", before)
    choice.select_option(label="all 2 prompts")
    sync_api.expect(articles.filter(visible=True)).to_have_count(2)
    sync_api.expect(chart.locator(".trace path").first).to_have_attribute("d", before)
    assert opened.said == []
    page.close()


def test_tables_sort_by_numbers_and_by_words(browser: Any, report: Path) -> None:
    opened = Report(browser, report)
    page = opened.page
    page.get_by_text("Table v/top: 40 rows").click()
    table = page.get_by_role("region", name="v/top").locator("table")
    header = table.get_by_role("columnheader", name="token_id")
    first = table.locator("tbody tr").first.locator("td").first
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert first.inner_text() == "0"
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert first.inner_text() == "29"
    page.close()


@pytest.mark.parametrize("media", ["screen", "print"])
def test_paper_shows_the_drawings_in_place_of_the_charts(
    browser: Any, report: Path, media: str
) -> None:
    opened = Report(browser, report)
    opened.draw_charts()
    opened.page.emulate_media(media=media)
    figure = opened.page.locator("figure.live").filter(has=opened.page.locator("> svg")).first
    assert figure.locator(".chart").is_visible() == (media == "screen")
    assert figure.locator("> svg").is_visible() == (media == "print")
    opened.page.close()


def test_searching_sorting_and_switching_prompts(browser: Any, report: Path) -> None:
    opened = Report(browser, report)
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
    page.locator("#vocabulary-prompt").select_option(label="worst")
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
    opened = Report(browser, report)
    opened.page.get_by_role("button", name="rank").click()
    cells = opened.page.locator("#vocabulary-rows tr").first.locator("td").all_text_contents()
    assert cells[0] == "–"
    assert cells[2] == "300"
    assert cells[4] == "–"
    opened.page.close()


def test_hostile_tokens_are_shown_as_text(browser: Any, report: Path) -> None:
    opened = Report(browser, report)
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
    assert page.locator("figure > svg").first.is_visible()
    assert page.locator(".chart").count() == 0
    assert not page.locator("#prompt").is_visible()
    assert page.locator(".prompt .token").first.is_visible()
    rank = page.locator(".pessimal .num").get_by_text("599", exact=True).first
    assert not rank.is_visible()
    page.get_by_text("Show the worst under greatest").click()
    assert rank.is_visible()
    browser.close()
