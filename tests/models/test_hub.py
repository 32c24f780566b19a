from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.builders import build_model
from tests.models.opening import opened, refusal

COMMIT = "abcdef0123" * 4
SECRET = "hf_" + "s" * 30
ANSWERS = {
    "/api/models/org/gated/": (403, "GatedRepo"),
    "/api/models/org/unknown/": (404, "RepoNotFound"),
    "/api/models/org/private/": (401, "RepoNotFound"),
    "/api/models/org/known/": (404, "RevisionNotFound"),
    "/api/models/org/broken/": (500, ""),
}


class Hub(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, code = next(
            answer for path, answer in ANSWERS.items() if self.path.startswith(path)
        )
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", f"token {self.headers.get('Authorization')}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(name="hub")
def hub_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    import huggingface_hub
    from huggingface_hub import constants

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    fetch = huggingface_hub.snapshot_download
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda *args, **flags: fetch(
            *args, **flags, endpoint=endpoint, cache_dir=tmp_path, max_workers=1
        ),
    )
    yield
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("org/gated", "gated"),
        ("org/unknown", "repository_unknown"),
        ("org/private", "repository_unknown"),
        ("org/known@nowhere", "revision_unknown"),
    ],
)
@pytest.mark.usefixtures("hub")
def test_what_the_hub_refuses_is_named_and_no_secret_shown(name: str, code: str) -> None:
    error = refusal(opened, name)
    assert error.code == code
    assert name.split("@")[0] in error.message
    assert SECRET not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__


@pytest.mark.usefixtures("hub")
def test_a_gated_model_names_the_page_and_the_variable() -> None:
    error = refusal(opened, "org/gated")
    assert "https://huggingface.co/org/gated" in error.remedy
    assert "HF_TOKEN" in error.remedy


@pytest.mark.parametrize(
    "fault", [ConnectionError("no route"), OSError("no network"), TimeoutError()]
)
def test_a_hub_out_of_reach(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    import huggingface_hub

    def fail(*_: Any, **__: Any) -> str:
        raise fault

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    assert refusal(opened, "org/name").code == "hub_unreachable"


def test_offline_mode_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub
    from huggingface_hub import constants

    fetch = huggingface_hub.snapshot_download
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda *args, **flags: fetch(*args, **flags, cache_dir=tmp_path),
    )
    error = refusal(opened, "org/name")
    assert error.code == "hub_unreachable"
    assert "HF_HUB_OFFLINE" in error.remedy


def test_a_hub_id_becomes_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    build_model(tmp_path / "model", "llama")
    shutil.move(tmp_path / "model", tmp_path / COMMIT)
    asked: list[Any] = []

    def fetch(name: str, *, revision: str | None, allow_patterns: list[str], **_: Any) -> str:
        asked.append((name, revision, allow_patterns))
        return str(tmp_path / COMMIT)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    source = opened("org/name@v1")
    assert (source.id, source.revision) == ("org/name", COMMIT)
    name, revision, patterns = asked[0]
    assert (name, revision) == ("org/name", "v1")
    assert not {"*.py", "*.bin", "*.pt"}.intersection(patterns)
    opened("org/name", allow_pickle=True)
    assert "*.bin" in asked[1][2]
    assert asked[1][1] is None
