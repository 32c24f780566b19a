"""A clean, quiet and offline surrounding for every test."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# A slow or busy machine is no fault, and what fails once must fail again.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

# Set before any test imports torch, MLflow or Great Expectations, which read them once.
# Two workers with two threads each would wait for each other on two cores.
_THREADS = "1" if "PYTEST_XDIST_WORKER" in os.environ else "2"
os.environ.update(
    HF_HUB_OFFLINE="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    MLFLOW_DISABLE_TELEMETRY="true",
    GX_ANALYTICS_ENABLED="false",
    RAY_USAGE_STATS_ENABLED="0",
    TOKENIZERS_PARALLELISM="false",
    OMP_NUM_THREADS=_THREADS,
    MKL_NUM_THREADS=_THREADS,
    MPLBACKEND="agg",
    NO_COLOR="1",
    COLUMNS="100",
)
for _name in (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "MLFLOW_TRACKING_URI",
    "MLFLOW_EXPERIMENT_NAME",
    "MLFLOW_RUN_ID",
    "PESSIMAL_DEBUG",
    "FORCE_COLOR",
):
    os.environ.pop(_name, None)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Tiny matmuls on two threads mostly wait for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The session's cache of scores and converted models, never the user's own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PESSIMAL_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def _only_loopback() -> Iterator[None]:
    """Refuse every connection and look-up that would leave this machine."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
    sendto, getaddrinfo = socket.socket.sendto, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        _check(self.family, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        _check(self.family, address)
        return connect_ex(self, address)

    def guarded_sendto(self: socket.socket, *arguments: Any) -> int:
        _check(self.family, arguments[-1])
        return sendto(self, *arguments)

    def guarded_getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        _check_host(host)
        return getaddrinfo(host, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket.socket, "sendto", guarded_sendto)
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield


def _check(family: int, address: Any) -> None:
    if family in (socket.AF_INET, socket.AF_INET6):
        _check_host(address[0])


def _check_host(host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    # No name, or this machine's own: what a server listens on.
    if name in (None, "", "localhost", socket.gethostname()):
        return
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        address = None
    if address is None or not (address.is_loopback or address.is_unspecified):
        raise ConnectionRefusedError(f"Tests have no network: {name!r} is not this machine.")
