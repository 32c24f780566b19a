"""Keeps the libraries' warnings and progress bars off the terminal while a model is loaded."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from logging import ERROR, getLogger
from typing import Any


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Silence transformers, PEFT and the hub for a while, then put everything back.

    What they would have warned of (a random head, unexpected weights) is checked and refused by
    name instead. A download's progress bar stays, on a terminal.
    """
    import huggingface_hub.utils as hub_utils
    from transformers.utils import logging

    library: Any = logging
    hub: Any = hub_utils

    level, bars = library.get_verbosity(), library.is_progress_bar_enabled()
    hub_bars = not hub.are_progress_bars_disabled()
    loggers = [getLogger(name) for name in ("huggingface_hub", "peft", "accelerate")]
    levels = [logger.level for logger in loggers]
    library.set_verbosity_error()
    library.disable_progress_bar()
    if hub_bars and not sys.stderr.isatty():
        hub.disable_progress_bars()
    for logger in loggers:
        logger.setLevel(ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        library.set_verbosity(level)
        if bars:
            library.enable_progress_bar()
        if hub_bars:
            hub.enable_progress_bars()
        for logger, was in zip(loggers, levels, strict=True):
            logger.setLevel(was)
