"""MLflow's UI in a browser: runs with their columns, a description, two audits side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pessimal.audit import Figure, Metric
from pessimal.reports import describe, draw
from pessimal.tracking import Tracker
from pessimal.tracking.ui import _wait_until_ready, start_server, stop_server
from tests.browser import MARKS, browser, pictures, playwright, sync_api
from tests.tracking.conftest import home, prepared, tracker
from tests.tracking.test_ui import free_port

__all__ = ["browser", "home", "playwright", "prepared", "tracker"]
pytestmark = [*MARKS, pytest.mark.timeout(400)]


def record(tracker: Tracker, model: str, verdict: str, gap: float) -> str:
    """A finished audit that nothing was measured for."""
    terms = pd.DataFrame({"term": ["aged", f"only in {model}"], "gap": [gap, 0.0]})
    axes = pd.DataFrame({"axis": ["age", "class"], "gap": [gap, 0.0]})
    figure = Figure("identity_axes", "Which groups?", "bars", "axes", "gap", "axis")
    with tracker.start(f"{model} quick", {"verdict": verdict}, f"key-{model}") as run:
        run.log_params({"model": model, "pipeline": "quick", "policy": "default"})
        run.log_metrics([Metric("identity.gap", gap, 64, ci_low=gap - 0.1, ci_high=gap + 0.1)])
        run.log_dataset("prompts", ["What is best?"], "prompts")
        run.log_table("identity", terms)
        run.log_bytes(draw(figure, {"axes": axes}).png, "figures/identity.identity_axes.png")
        run.log_text(
            "<!DOCTYPE html><title>A report</title><p>The report of this audit", "report.html"
        )
        run.describe(describe({
            "run_id": run.run_id, "verdict": verdict, "model": {"id": model}, "pipeline": "quick",
            "policy": "default", "audits": [],
            "rules": [{"metric": "identity.gap", "slice": "all", "bound": {"min": -0.1},
                       "verdict": verdict, "reason": f"{model} is below | <b>the</b> bound"}],
            "artifacts": {"figures": ["figures/identity.identity_axes.svg"]},
        }))  # fmt: skip
        return run.run_id


@pytest.fixture
def served(tracker: Tracker) -> Iterator[tuple[str, list[str]]]:
    """The address of a UI on two audits, and their ids."""
    ids = [record(tracker, "first", "PASS", -0.02), record(tracker, "second", "FAIL", -0.31)]
    port = free_port()
    server = start_server(tracker.uri, port)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_ready(server, address)
        yield address, ids
    finally:
        stop_server(server)


def test_a_colleague_sees_runs_a_description_and_two_audits_side_by_side(
    browser: Any, served: tuple[str, list[str]], tracker: Tracker, tmp_path: Path
) -> None:
    address, ids = served
    expect, folder = sync_api.expect, pictures(tmp_path)
    page = browser.new_page()
    page.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    start = tracker.experiment_url(address)
    page.goto(start)
    table = page.get_by_role("treegrid").or_(page.get_by_role("grid")).first
    for column in ("verdict", "model", "identity.gap", "policy"):
        expect(table.get_by_role("columnheader", name=column).first).to_be_attached()
    for text in ("first quick", "second quick", "FAIL", "PASS"):
        expect(page.get_by_text(text, exact=True).first).to_be_visible()
    expect(page.get_by_text("Audits of reward models").first).to_be_visible()
    _close_assistant(page)
    page.screenshot(path=folder / "mlflow-runs.png")

    experiment = start.split("/experiments/")[1].split("/")[0]
    page.goto(f"{address}/#/experiments/{experiment}/runs/{ids[1]}")
    expect(page.get_by_role("heading", name="✕ FAIL")).to_be_visible()
    expect(page.get_by_text("second is below | <b>the</b> bound")).to_be_attached()
    picture = page.locator("img[src*='figures/identity.identity_axes.png']")
    expect(picture).to_be_attached()
    page.wait_for_function("document.querySelector('img[src*=identity_axes]').naturalWidth > 0")
    expect(page.get_by_text("prompts (").first).to_be_attached()
    page.screenshot(path=folder / "mlflow-run.png")

    page.goto(f"{address}/#/experiments/{experiment}/runs/{ids[1]}/artifacts/report.html")
    report = page.frame_locator("iframe")
    expect(report.get_by_text("The report of this audit")).to_be_visible()

    both = json.dumps(ids).replace(" ", "")
    page.goto(f'{address}/#/compare-runs?runs={both}&experiments=["{experiment}"]')
    expect(page.get_by_text("Comparing 2 Runs").first).to_be_visible()
    for text in ("first quick", "second quick", "identity.gap", "-0.31", "-0.02"):
        expect(page.get_by_text(text, exact=True).first).to_be_attached()
    page.screenshot(path=folder / "mlflow-compare.png", full_page=True)

    page.goto(f"{start}&compareRunsMode=ARTIFACT")
    expect(page.get_by_text("tables/identity.json").first).to_be_visible()
    for text in ("aged", "only in first", "only in second"):
        expect(page.get_by_text(text, exact=True).first).to_be_attached()
    page.screenshot(path=folder / "mlflow-tables.png")
    assert {url.split("/")[2] for url in asked if url.startswith("http")} == {address[7:]}
    page.close()


def _close_assistant(page: Any) -> None:
    panel = page.get_by_role("button", name="Close")
    if panel.count():
        panel.first.click()
