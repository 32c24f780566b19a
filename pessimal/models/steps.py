"""Says which checks a model passed while it is opened and loaded, to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, str], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def passed(name: str, detail: str) -> None:
    """Say that a check was passed.

    Args:
        name: the check's name, snake_case.
        detail: what was found, in one sentence or less.
    """
    listener = _listener.get()
    if listener is not None:
        listener(name, detail)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener` with the name and detail of each check that is passed in this block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
