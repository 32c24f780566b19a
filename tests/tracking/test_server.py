"""A tracking server that others use: the same runs, with artifacts through the server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from pessimal.audit import Metric
from pessimal.tracking import Tracker
from pessimal.tracking.ui import stop_server
from tests.tracking.test_ui import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server whose store is empty."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    settings = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    process = subprocess.Popen(
        [*command, "--backend-store-uri", "sqlite:///server.db"],
        cwd=tmp_path, env=os.environ | settings, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{address}/health", timeout=2):
                    break
            except OSError:
                time.sleep(0.2)
        yield address
    finally:
        stop_server(process)


def test_runs_go_through_a_server(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    tracker = Tracker(None, tmp_path / "home")

    def interrupted() -> None:
        with tracker.start("one", {"verdict": "PASS"}, "key") as run:
            run.log_metrics([Metric("a.b", 1.5, 9)])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with tracker.start("one", {}, "key") as run:
        assert run.resumed
        run.log_dataset("identity", ["women"], "words")
        run.log_table("a", pd.DataFrame({"x": [1]}))
        run.log_document({"schema": "pessimal.audit/1"})
    assert tracker.load_document(tracker.find_run("latest")) == {"schema": "pessimal.audit/1"}
    assert tracker.find_run(run.run_id[:10]) == run.run_id
    assert tracker.artifacts(run.run_id) == [
        "audit.json", "inputs/words/identity.txt", "tables/a.json",
    ]  # fmt: skip
    assert tracker.client.get_run(run.run_id).data.metrics == {"a.b": 1.5}
    assert capsys.readouterr().out == "", "stdout is for documents"
