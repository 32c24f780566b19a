"""A local server that speaks as reward-model servers do, well or badly."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

PATHS = {
    "openrlhf": "/get_reward", "sglang": "/classify", "vllm-classify": "/classify",
    "vllm-pooling": "/pooling", "slime": "/rm",
}  # fmt: skip


PATIENT = {"tries": 12, "backoff_s": 0.02}
"""Settings for a server that goes away: on a busy machine it needs seconds to come back."""


@dataclass
class Faults:
    """What goes wrong."""

    share: float = 0.0
    """Of the requests that fail."""
    delay_s: float = 0.0
    """Longest time before an answer."""
    restart_after: int = 0
    """Requests after which the server goes away, and comes back."""
    change: Callable[[list[float]], list[Any]] = list
    """What is made of a request's scores."""
    bos: int = 0
    """BOS that are put in front of every text and every list of ids."""
    counts: bool = True
    """Whether it says how many tokens it read."""
    key: str = ""
    """The bearer token without which nothing is answered."""
    seed: int = 0


@dataclass
class RewardServer:
    """Serves the model of a folder by its own forward, one sequence at a time."""

    folder: Path
    dialect: str
    faults: Faults = field(default_factory=Faults)
    requests: int = 0
    most_at_once: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        self.load(self.folder)
        self._at_once = 0
        self._lock = threading.Lock()
        self._random = random.Random(self.faults.seed)
        self._restart: threading.Thread | None = None
        self.start()

    def load(self, folder: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32
        ).eval()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer.handle(self)

            def log_message(self, *arguments: object) -> None:
                pass

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def close(self) -> None:
        if self._restart is not None:
            self._restart.join()
        self.stop()

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        content = request.rfile.read(int(request.headers["Content-Length"]))
        with self._lock:
            self.requests += 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            fault = self._random.choice(["500", "503", "cut", "drop"])
            fault = fault if self._random.random() < self.faults.share else ""
            delay = self._random.random() * self.faults.delay_s
            again = self.requests == self.faults.restart_after
        try:
            time.sleep(delay)
            if again:
                self._restart = threading.Thread(target=self._go_away)
                self._restart.start()
            if again or fault == "drop":
                request.close_connection = True
                return
            self._answer(request, content, fault)
        finally:
            with self._lock:
                self._at_once -= 1

    def _go_away(self) -> None:
        self.stop()
        time.sleep(0.05)
        self.load(self.folder)
        self.start()

    def _answer(self, request: BaseHTTPRequestHandler, content: bytes, fault: str) -> None:
        status, text = 200, "{}"
        if self.faults.key and request.headers["Authorization"] != f"Bearer {self.faults.key}":
            status, text = 401, f"no, not {request.headers['Authorization']}"
        elif request.path != PATHS[self.dialect]:
            status, text = 404, "not here"
        elif fault in ("500", "503"):
            status = int(fault)
        else:
            document = self.answer(json.loads(content))
            if not self.faults.counts:
                for one in document if isinstance(document, list) else [document]:
                    one.pop("usage", one.pop("meta_info", None))
            text = json.dumps(document)
            text = text[: len(text) // 2] if fault == "cut" else text
        sent = text.encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(sent)))
        request.end_headers()
        request.wfile.write(sent)

    def answer(self, body: dict[str, Any]) -> Any:
        single = self.dialect == "slime"
        given = next(
            body[name]
            for name in ("query", "text", "input_ids", "input", "rendered")
            if name in body
        )
        ids = [self.read(one) for one in ([given] if single else given)]
        scores = self.faults.change([self.score(row) for row in ids])
        if self.dialect == "openrlhf":
            assert len(body["prompts"]) == len(body["labels"]) == len(given)
            return {"rewards": scores, "scores": scores, "extra_logs": {}}
        if self.dialect == "sglang":
            return [
                {"embedding": one if isinstance(one, list) else [one],
                 "meta_info": {"prompt_tokens": len(row)}}
                for one, row in zip(scores, ids, strict=False)
            ]  # fmt: skip
        if single:
            assert body["prompt"]
            assert isinstance(body["response"], str)
            return {"result": {"reward": scores[0]}}
        assert body["use_activation"] is False
        key = "probs" if self.dialect == "vllm-classify" else "data"
        data = [
            {"index": place, key: one if isinstance(one, list) else [one]}
            for place, one in enumerate(scores)
        ]
        return {"data": data, "usage": {"prompt_tokens": sum(map(len, ids))}}

    def read(self, given: str | list[int]) -> list[int]:
        ids = self.tokenizer(given)["input_ids"] if isinstance(given, str) else given
        return [self.tokenizer.bos_token_id] * self.faults.bos + list(ids)

    def score(self, ids: Sequence[int]) -> float:
        with torch.inference_mode():
            logits = self.model(torch.tensor([list(ids)])).logits
        return float(logits[0, 0])


@contextmanager
def serving(folder: Path, dialect: str, **faults: Any) -> Iterator[RewardServer]:
    server = RewardServer(folder, dialect, Faults(**faults))
    try:
        yield server
    finally:
        server.close()
