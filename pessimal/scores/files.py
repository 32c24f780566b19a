"""Files that appear whole or not at all, and errors that name the folder."""

from __future__ import annotations

import contextlib
import errno
import os
import time
import uuid
from pathlib import Path

from pessimal.errors import PessimalError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_TEMPORARY = ".tmp-"


def write_file(path: Path, data: bytes, *, code: str, remedy: str) -> None:
    """Write `data` to `path` by rename: a reader sees the old file or the whole new one.

    Args:
        path: the file; its folder is made.
        data: its content.
        code: error code for a place that can't be written.
        remedy: what the user can do then.

    Raises:
        PessimalError: ``disk_full``, or `code` where the place can't be written.
    """
    temporary = path.parent / f"{_TEMPORARY}{os.getpid()}-{uuid.uuid4().hex}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if error.errno in _FULL:
            raise PessimalError(
                "disk_full",
                f"The disk that holds {path.parent} is full.",
                "Free some space there or name another folder; what was finished is kept.",
            ) from error
        reason = error.strerror or type(error).__name__
        raise PessimalError(code, f"Can't write to {path.parent}: {reason}.", remedy) from error


def remove_stale(folder: Path, pattern: str = "", *, older_than_s: float = 3600.0) -> int:
    """Remove temporary files that killed processes left in `folder`.

    Args:
        folder: where to look.
        pattern: glob of the folders below it to look in, such as ``*/``.
        older_than_s: leave younger files alone; another process may be writing them.

    Returns:
        How many were removed.
    """
    removed = 0
    for path in folder.glob(f"{pattern}{_TEMPORARY}*"):
        try:
            if time.time() - path.stat().st_mtime > older_than_s:
                path.unlink()
                removed += 1
        except OSError:
            continue
    return removed
