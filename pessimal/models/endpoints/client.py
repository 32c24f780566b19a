"""Asks a server, a few requests at once, and again where it fails; never in a storm."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from pessimal.errors import PessimalError, UsageError
from pessimal.models.endpoints.dialects import Answer, Item, Malformed, Settings, body, parse
from pessimal.text import show_text

KEY = "PESSIMAL_ENDPOINT_KEY"
"""The environment variable that holds a server's key; it is sent as a bearer token."""
CONNECT_S = 10.0
LONGEST_WAIT_S = 30.0
FIRST_TRIES = 4
"""Tries of a server that hasn't answered yet: it isn't waited for as one that was there is."""
RETRY_FLOOR = 60
"""Retries that are allowed beyond one a request: a server that fails more often is given up."""
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that may be others the next time."""
GATEWAY = frozenset({502, 503, 504})
"""Those by which a gateway says that the server behind it is away."""


class EndpointClient:
    """Sends requests to one URL; threads may share it.

    A retry waits for a random part of a time that doubles with each of them. While one request
    waits because the server is away or asks for patience, the others wait with it. Beyond
    `RETRY_FLOOR` there is at most one retry a request.

    Args:
        url: where to.
        settings: what is sent, and how patiently.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        import urllib3

        self.url, self.settings = url, settings
        self.requests = self.retries = self.interruptions = 0
        self.answered = False
        self._key = os.environ.get(KEY, "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise UsageError(
                "endpoint_key",
                f"{KEY} holds characters that no header can.",
                "Set it to the key alone.",
            )
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            self._headers["Authorization"] = f"Bearer {self._key}"
        self._pool = urllib3.PoolManager(
            num_pools=1, maxsize=settings.in_flight, block=True, retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_S, read=settings.timeout_s),
        )  # fmt: skip
        self._lock = threading.Lock()
        self._resume = 0.0
        self._random = random.Random()

    def ask(self, items: Sequence[Item], rows: int | None = None) -> list[Answer]:
        """Ask for the scores of replies, in requests of `rows` replies each.

        Returns:
            The answers, in the order of the replies.

        Raises:
            PessimalError: the server refuses, can't be reached, or fails too often.
        """
        step = 1 if self.settings.single else rows or self.settings.rows
        parts = [items[start : start + step] for start in range(0, len(items), step)]
        stop = threading.Event()
        with ThreadPoolExecutor(self.settings.in_flight) as pool:
            waiting = [pool.submit(self._send, part, stop) for part in parts]
            try:
                return [future.result() for future in waiting]
            finally:
                stop.set()
                for future in waiting:
                    future.cancel()

    def redact(self, text: str) -> str:
        """A server's own words, safe to show: on one line, short, and without the key."""
        hidden = text.replace(self._key, "***") if self._key else text
        return show_text(" ".join(hidden.split()), 200)

    def _send(self, items: Sequence[Item], stop: threading.Event) -> Answer:
        content = body(self.settings, items)
        began, tried = time.monotonic(), 0
        with self._lock:
            self.requests += 1
        while True:
            self._wait(stop)
            tried += 1
            answer, failure, asked = self._try(content, len(items))
            if answer is not None:
                self.answered = True
                return answer
            if self._gives_up(tried, time.monotonic() - began, away=asked is not None):
                if asked is not None:
                    raise PessimalError(
                        "endpoint_unreachable",
                        f"The endpoint can't be reached, after {tried} tries: {failure}.",
                        "Look at the server; the same command goes on where this one stopped.",
                    )
                raise PessimalError(
                    "endpoint_malformed",
                    f"The endpoint's answer can't be used, after {tried} tries: {failure}.",
                    "Compare the server's dialect with docs/endpoints.md.",
                )
            self._retry(tried, failure, asked, stop)

    def _gives_up(self, tried: int, seconds: float, *, away: bool) -> bool:
        """Whether a request has failed for good; a server that was there may come back."""
        settings = self.settings
        if not self.answered:
            return tried >= min(settings.tries, FIRST_TRIES)
        return tried >= settings.tries and (not away or seconds >= settings.patience_s)

    def _try(self, content: bytes, count: int) -> tuple[Answer | None, str, float | None]:
        """The answer; or why there is none, and the seconds that all requests must wait."""
        import urllib3

        try:
            response: Any = self._pool.request(
                "POST", self.url, body=content, headers=self._headers, redirect=False
            )
        except urllib3.exceptions.HTTPError as error:
            with self._lock:
                self.interruptions += 1
            timed_out = isinstance(error, urllib3.exceptions.ReadTimeoutError)
            return None, type(error).__name__, None if timed_out else 0.0
        if response.status in GATEWAY:
            with self._lock:
                self.interruptions += 1
        if response.status in AGAIN:
            return None, f"status {response.status}", _asked_wait(response)
        if not 200 <= response.status < 300:
            raise self._refusal(response.status, response.data.decode("utf-8", "replace"))
        try:
            return parse(self.settings, response.data, count), "", None
        except Malformed as error:
            return None, self.redact(str(error)), None

    def _retry(self, tried: int, failure: str, asked: float | None, stop: threading.Event) -> None:
        longest = min(LONGEST_WAIT_S, self.settings.backoff_s * 2 ** (tried - 1))
        # Never nothing at all: every other request would knock at once.
        delay = max(longest * self._random.uniform(0.25, 1), asked or 0.0)
        with self._lock:
            self.retries += 1
            many = self.retries > RETRY_FLOOR + self.requests
            if asked is not None:
                self._resume = max(self._resume, time.monotonic() + delay)
        if many:
            raise PessimalError(
                "endpoint_failing",
                f"More than half of the requests to the endpoint fail, the last one: {failure}.",
                "Look at the server; the same command goes on where this one stopped.",
            )
        if asked is None:
            stop.wait(delay)

    def _wait(self, stop: threading.Event) -> None:
        """Wait while the server is known to be away."""
        while (left := self._resume - time.monotonic()) > 0:
            if stop.wait(left):
                break
        if stop.is_set():
            raise PessimalError("endpoint_stopped", "Another request failed.", "See that one.")

    def _refusal(self, status: int, text: str) -> PessimalError:
        said = self.redact(text)
        where = urlsplit(self.url).path
        if status in (401, 403):
            return PessimalError(
                "endpoint_denied",
                f"The endpoint denies {where} with status {status}: {said}",
                f"Set {KEY} to the server's key.",
            )
        if status in (404, 405):
            return PessimalError(
                "endpoint_not_found",
                f"The endpoint has no {where} (status {status}): {said}",
                "Check the URL's path and the model's name (model, in a settings file).",
            )
        return PessimalError(
            "endpoint_refused",
            f"The endpoint refuses a request with status {status}: {said}",
            "Compare what the server takes with docs/endpoints.md; with status 413 send fewer "
            "replies a request (--batch-size); redirects aren't followed.",
        )


def _asked_wait(response: Any) -> float | None:
    """Seconds that a server asks everybody to wait; None where only this request failed."""
    if response.status not in (429, 503):
        return None
    try:
        return min(float(response.headers.get("Retry-After", 0)), LONGEST_WAIT_S)
    except ValueError:
        return 0.0
