"""MLflow's UI opens on the audits, and ends with the command."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from pessimal.errors import PessimalError, UsageError
from pessimal.tracking import Tracker, serve_ui

SERVE = """
import sys
from pathlib import Path
from pessimal.tracking import Tracker, serve_ui
serve_ui(Tracker(None, Path(sys.argv[1])), int(sys.argv[2]), open_browser=False,
         say=lambda text: print(text, flush=True))
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_taken_port_is_refused(tracker: Tracker) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(UsageError) as caught:
            serve_ui(tracker, other.getsockname()[1], open_browser=False)
    assert caught.value.code == "port_taken"


def test_a_server_that_ends_at_once_is_a_named_error(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(PessimalError) as caught:
        serve_ui(tracker, free_port(), open_browser=False)
    assert caught.value.code == "ui_failed"


ASLEEP = """
import subprocess, sys
from pathlib import Path
from pessimal.tracking import Tracker, ui
ui.start_server = lambda *_: subprocess.Popen(["sleep", "60"], start_new_session=True)
ui._wait_until_ready = lambda server, address: print(server.pid, flush=True)
ui.serve_ui(Tracker(None, Path(sys.argv[1])), int(sys.argv[2]), open_browser=False)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_it_ends_the_server_too(home: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", ASLEEP, str(home), str(free_port())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ours:
        assert ours.stdout is not None
        server = int(ours.stdout.readline())
        os.kill(ours.pid, number)
        assert ours.wait(timeout=30) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


@pytest.mark.slow
def test_the_ui_serves_the_runs_and_ends_on_an_interrupt(home: Path, tracker: Tracker) -> None:
    with tracker.start("an audit", {"verdict": "PASS"}, "key") as run:
        run.log_text("<p>report", "report.html")
    port = free_port()
    command = [sys.executable, "-c", SERVE, str(home), str(port)]
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            print(f"ready after {time.monotonic() - started:.1f} s")
            assert f"http://127.0.0.1:{port}/#/experiments/" in line
            base = f"http://127.0.0.1:{port}"
            address = f"{base}/ajax-api/2.0/mlflow/runs/get?run_id={run.run_id}"
            with urllib.request.urlopen(address, timeout=30) as answer:
                assert json.load(answer)["run"]["info"]["run_name"] == "an audit"
            address = f"{base}/get-artifact?path=report.html&run_uuid={run.run_id}"
            with urllib.request.urlopen(address, timeout=30) as answer:
                assert answer.read() == b"<p>report"
        finally:
            os.kill(server.pid, signal.SIGINT)
        assert server.wait(timeout=30) == 0
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "the server's workers are gone"
