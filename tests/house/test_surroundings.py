"""The tests' own surroundings: no network, no user's files."""

from __future__ import annotations

import os
import socket
import threading
import warnings
from pathlib import Path

import pytest


@pytest.mark.parametrize("host", ["example.org", "192.0.2.1", "2001:db8::1"])
def test_nothing_leaves_this_machine(host: str) -> None:
    with pytest.raises(ConnectionRefusedError, match="no network"):
        socket.create_connection((host, 443), timeout=1)


def test_datagrams_stay_too() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end,
        pytest.raises(ConnectionRefusedError, match="no network"),
    ):
        end.sendto(b"x", ("192.0.2.1", 53))


def test_loopback_works() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as end:
                end.sendall(b"yes")

        thread = threading.Thread(target=answer)
        thread.start()
        with socket.create_connection(server.getsockname(), timeout=5) as end:
            assert end.recv(3) == b"yes"
        thread.join()


def test_the_cache_is_not_the_users(cache: Path) -> None:
    assert os.environ["PESSIMAL_CACHE"] == str(cache)


def test_warnings_are_errors() -> None:
    with pytest.raises(UserWarning, match="loud"):
        warnings.warn("loud", UserWarning, stacklevel=1)
