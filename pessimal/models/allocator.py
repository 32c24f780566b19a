"""How a process keeps memory that a forward has freed: the next one wants it at once."""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Names of glibc's ``malloc.h``."""
KEPT_BYTES = 1 << 30
LARGEST_KEPT = 32 << 20
"""Larger blocks go back to the system when they are freed."""


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks of up to 32 MiB, 1 GiB in all.

    By default it gives large blocks back to the system, and each layer's activations are then
    mapped and cleared anew: a sweep of a small model takes a fifth more time. Another C library is
    left as it is.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(MMAP_THRESHOLD, LARGEST_KEPT)
