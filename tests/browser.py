"""Drives Debian's headless Chromium, and axe-core in it, for tests marked ``browser``.

A module that uses it names ``browser`` and ``playwright`` among its own names, so that pytest finds
the fixtures.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import platformdirs
import pytest

sync_api = pytest.importorskip("playwright.sync_api")

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
MARKS = (
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium"),
)
AXE = "axe-core@4.14.1"
AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"


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
        self, browser: Any, path: Path, scheme: str = "light", ready: str = "#vocabulary-rows tr",
        *, axe: bool = False,
    ) -> None:  # fmt: skip
        self.said: list[str] = []
        self.asked: list[str] = []
        self.address = path.as_uri()
        self.page = browser.new_page()
        self.page.set_default_timeout(15_000)
        self.page.emulate_media(color_scheme=scheme)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        if axe:
            # The page's policy lets no script in: the browser itself puts it there.
            self.page.add_init_script(_axe())
        self.page.goto(self.address)
        self.page.wait_for_selector(ready)

    def draw_charts(self) -> int:
        """Unfold everything, bring every chart into view, and wait until each is drawn."""
        self.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        charts = self.page.locator("figure[data-chart]")
        for place in range(charts.count()):
            charts.nth(place).scroll_into_view_if_needed()
            charts.nth(place).locator(".main-svg").first.wait_for()
        self.page.evaluate("scrollTo(0, 0)")
        count: int = charts.count()
        return count

    def faults(self) -> list[str]:
        """What axe finds that is serious or critical, with where."""
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']} ({one['impact']}): {node['html'][:200]} {node['failureSummary']}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]

    def picture(self, name: str, folder: Path) -> None:
        """Keep a picture of the whole page; ``PESSIMAL_SCREENSHOTS`` names another folder."""
        self.page.screenshot(path=pictures(folder) / f"{name}.png", full_page=True)


def pictures(folder: Path) -> Path:
    """Where pictures of pages go."""
    target = Path(os.environ.get("PESSIMAL_SCREENSHOTS") or folder)
    target.mkdir(parents=True, exist_ok=True)
    return target


def _axe() -> str:
    """axe-core's script, from npm through its own client, kept between sessions."""
    kept = platformdirs.user_cache_path("pessimal-tests") / f"{AXE}.min.js"
    if not kept.exists():
        if shutil.which("npm") is None:
            pytest.skip("needs npm")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                ["npm", "pack", "--silent", AXE, "--pack-destination", folder],
                check=True, timeout=120, stdout=subprocess.DEVNULL, cwd=folder,
            )  # fmt: skip
            (archive,) = Path(folder).glob("*.tgz")
            with tarfile.open(archive) as files:
                files.extract("package/axe.min.js", folder, filter="data")
            kept.parent.mkdir(parents=True, exist_ok=True)
            fresh = kept.with_suffix(f".{os.getpid()}")
            shutil.copyfile(Path(folder) / "package/axe.min.js", fresh)
            fresh.replace(kept)
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == AXE_SHA256, f"{kept} is not {AXE}"
    return kept.read_text(encoding="utf-8")
