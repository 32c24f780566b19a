"""Runs are started once, resumed when their owner died, and found again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pessimal.errors import PessimalError, UsageError
from pessimal.tracking import Tracker, show_uri
from pessimal.tracking.store import resolve_uri

OWNER = """
import sys, time
from pathlib import Path
from pessimal.tracking import Tracker
run = Tracker(None, Path(sys.argv[1])).start("owner", {}, "key-1")
print(run.run_id, run.resumed, flush=True)
time.sleep(float(sys.argv[2]))
"""


def own_elsewhere(home: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OWNER, str(home), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def first_line(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def test_a_killed_owner_leaves_a_run_that_is_resumed(home: Path, tracker: Tracker) -> None:
    with own_elsewhere(home, 600) as owner:
        run_id, _ = first_line(owner)
        with tracker.start("second", {}, "key-1") as second:
            assert second.run_id != run_id, "the owner lives: its run is its own"
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
    with tracker.start("third", {}, "key-2") as other:
        assert not other.resumed
    with tracker.start("fourth", {"colour": "blue"}, "key-1") as resumed:
        assert resumed.resumed
        assert resumed.run_id == run_id
    run = tracker.client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["colour"] == "blue"
    assert "pessimal.resumed.1" in run.data.tags


def test_an_interrupted_run_stays_open_and_is_resumed(tracker: Tracker) -> None:
    def interrupted() -> None:
        with tracker.start("one", {}, "key"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with tracker.start("two", {}, "key") as run:
        assert run.resumed
        assert run.interruptions == 0
    assert len(tracker.client.search_runs(["1", "2"])) == 1


def test_a_failed_run_is_closed_and_says_why(tracker: Tracker) -> None:
    def failing() -> None:
        with tracker.start("one", {}, "key"):
            raise PessimalError("head_missing", "No head.", "Add one.")

    with pytest.raises(PessimalError, match="No head"):
        failing()
    [run] = tracker.client.search_runs(["1", "2"])
    assert run.info.status == "FAILED"
    assert run.data.tags["pessimal.error"] == "head_missing"
    with tracker.start("two", {}, "key") as again:
        assert not again.resumed


def test_runs_are_found_by_id_prefix_and_latest(tracker: Tracker) -> None:
    with tracker.start("one", {}, "key") as run:
        pass
    open_run = tracker.start("two", {}, "other")
    assert tracker.find_run("latest") == run.run_id
    assert tracker.find_run(run.run_id) == run.run_id
    assert tracker.find_run(open_run.run_id[:12].upper()) == open_run.run_id


@pytest.mark.parametrize(
    "reference", ["latest", "abc123", "%", "' OR 1", "../x", "", "0" * 40, "@a\u202e"]
)
def test_an_unknown_run_is_a_named_error(tracker: Tracker, reference: str) -> None:
    with pytest.raises(UsageError) as caught:
        tracker.find_run(reference)
    assert caught.value.code == "run_unknown"
    assert "\u202e" not in caught.value.message


def test_an_ambiguous_beginning_is_refused(tracker: Tracker) -> None:
    ids: list[str] = []
    while len({run_id[0] for run_id in ids}) == len(ids):
        with tracker.start("one", {}, f"key-{len(ids)}") as run:
            ids.append(run.run_id)
    with pytest.raises(UsageError) as caught:
        tracker.find_run(ids[-1][0])
    assert caught.value.code == "run_ambiguous"


def test_a_run_without_a_document_says_so(tracker: Tracker) -> None:
    with tracker.start("one", {}, "key") as run:
        pass
    with pytest.raises(PessimalError) as caught:
        tracker.load_document(run.run_id)
    assert caught.value.code == "artifact_missing"


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_broken_document_is_refused(tracker: Tracker, text: str) -> None:
    with tracker.start("one", {}, "key") as run:
        run.log_text(text, "audit.json")
    with pytest.raises(PessimalError) as caught:
        tracker.load_document(run.run_id)
    assert caught.value.code == "document_invalid"


def test_the_flag_beats_the_variable_beats_the_project(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    project = f"sqlite:///{tmp_path.resolve().as_posix()}/mlruns/mlflow.db"
    assert resolve_uri(None, tmp_path) == project
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://variable")
    assert resolve_uri(None, tmp_path) == "http://variable"
    assert resolve_uri("http://flag", tmp_path) == "http://flag"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://ann:s3cret@host:80/p", "https://host:80/p"),
        ("postgresql://ann:s3cret@host/db?password=s3cret", "postgresql://host/db"),
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
    ],
)
def test_a_shown_uri_holds_no_secret(uri: str, shown: str) -> None:
    assert show_uri(uri) == shown


def test_an_unusable_store_is_a_named_error_without_its_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(PessimalError) as caught:
        _ = Tracker("http://ann:s3cret@127.0.0.1:9", tmp_path).client
    assert caught.value.code == "tracking_unreachable"
    assert "s3cret" not in str(caught.value)


def test_a_home_that_cannot_be_written_is_a_named_error(tmp_path: Path) -> None:
    (tmp_path / "mlruns").write_text("a file where the folder should be")
    with pytest.raises(PessimalError) as caught:
        _ = Tracker(None, tmp_path).client
    assert caught.value.code == "tracking_not_writable"


@pytest.mark.slow
def test_first_uses_at_once_share_one_database(tmp_path: Path) -> None:
    owners = [own_elsewhere(tmp_path, 0) for _ in range(4)]
    ids = {first_line(owner)[0] for owner in owners}
    assert [owner.wait() for owner in owners] == [0, 0, 0, 0]
    for owner in owners:
        assert owner.stdout is not None
        owner.stdout.close()
    tracker = Tracker(None, tmp_path)
    known = {run.info.run_id for run in tracker.client.search_runs(["1", "2"])}
    assert ids <= known
