"""Open MLflow's UI on the project's runs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pessimal.errors import PessimalError, UsageError
from pessimal.tracking.store import database_file
from pessimal.tracking.tracker import Tracker

READY_WITHIN_S = 90.0


def serve_ui(
    tracker: Tracker,
    port: int = 5000,
    *,
    open_browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve MLflow's UI until interrupted; for a tracking server, only say where it is.

    Args:
        tracker: the store to show; its database is made where there is none.
        port: port on this machine.
        open_browser: open the page of the audits when it is ready.
        say: told the address when it can be opened.

    Raises:
        UsageError: the port is taken.
        PessimalError: the server ended or didn't answer.
    """
    if tracker.uri.startswith(("http://", "https://")):
        _announce(tracker.experiment_url(tracker.shown_uri), open_browser, say)
        return
    if _taken(port):
        raise UsageError(
            "port_taken", f"Port {port} is taken by another program.", "Name another with --port."
        )
    file = database_file(tracker.uri)
    if file is None or not file.exists():
        # Made here, under a lock: the server finds it ready.
        _ = tracker.client
    address = f"http://127.0.0.1:{port}"
    with _interrupted_by(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        server = start_server(tracker.uri, port)
        try:
            page = tracker.experiment_url(address)
            _wait_until_ready(server, address)
            _announce(page, open_browser, say)
            server.wait()
        except KeyboardInterrupt:
            pass
        finally:
            stop_server(server)
    if server.returncode not in (0, -2, -15):
        raise _failed(server)


@contextmanager
def _interrupted_by(*numbers: signal.Signals) -> Iterator[None]:
    """Take signals as interrupts: the server is in a group of its own, and only we can end it.

    An interrupt too: a shell starts what it puts in the background with that ignored.
    """
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def start_server(uri: str, port: int) -> subprocess.Popen[bytes]:
    """Start the server as a child process; the URI goes by the environment, out of sight of ps."""
    command = [sys.executable, "-m", "mlflow", "ui"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--uvicorn-opts", "--log-level warning"]
    settings = {
        "MLFLOW_BACKEND_STORE_URI": uri,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_LOGGING_LEVEL": "ERROR",
        "PYTHONWARNINGS": "ignore",
    }
    # A group of its own: an interrupt reaches it through us, after we have said so.
    return subprocess.Popen(
        command, env=os.environ | settings, stdout=subprocess.DEVNULL, start_new_session=True
    )


def stop_server(server: subprocess.Popen[bytes]) -> None:
    """End the server and its workers."""
    if server.poll() is None:
        os.killpg(server.pid, 15)
    try:
        server.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, 9)
        server.wait()


def _wait_until_ready(server: subprocess.Popen[bytes], address: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with opener.open(f"{address}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise _failed(server)


def _failed(server: subprocess.Popen[bytes]) -> PessimalError:
    state = "didn't answer" if server.poll() is None else f"ended with code {server.returncode}"
    return PessimalError(
        "ui_failed", f"MLflow's UI {state}.", "See its messages above, or try another --port."
    )


def _announce(page: str, open_browser: bool, say: Callable[[str], None]) -> None:
    say(f"MLflow shows the audits at {page} (Ctrl-C ends it)")
    # Without a display a text browser would take the terminal over.
    shown = sys.platform != "linux" or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    if open_browser and shown:
        webbrowser.open(page)


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
