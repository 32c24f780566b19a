"""What the model answered, kept on disk: a killed search replays it and goes on.

A search asks its model the same questions in the same order whenever it is run, so its state needs
no format of its own: the answers are enough. A segment holds those of the steps since the last one.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from pessimal.scores.files import remove_stale, write_file

Floats = NDArray[np.float32]
_REMEDY = "Name a folder that can be written with --cache or PESSIMAL_CACHE."


class SearchLog:
    """Answers of a model, in order.

    Args:
        folder: where segments are kept; None keeps nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.seconds = 0.0
        """Time that the kept part took."""
        self._folder = folder
        self._answers: deque[Floats] = deque()
        self._new: list[Floats] = []
        self._segments = 0
        if folder is not None:
            self._read(folder)

    @property
    def replaying(self) -> bool:
        """Whether answers of an interrupted run are left."""
        return bool(self._answers)

    def scores(self, count: int, compute: Callable[[], Floats]) -> Floats:
        """The kept rewards of `count` replies, or what `compute` gives."""
        return self._next(lambda kept: kept.shape == (count,), compute)

    def gradient(self, compute: Callable[[], Floats]) -> Floats:
        """The kept gradient, or what `compute` gives."""
        return self._next(lambda kept: kept.ndim == 2, compute)

    def flush(self, seconds: float) -> None:
        """Keep the answers since the last time.

        Args:
            seconds: time that the search has taken so far.

        Raises:
            PessimalError: ``disk_full`` or ``cache_not_writable``.
        """
        if self._folder is None or not self._new:
            return
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {f"{n:05}": answer for n, answer in enumerate(self._new)}
        np.savez(buffer, seconds=np.float64(seconds), **arrays)
        path = self._folder / f"{self._segments:06}.npz"
        write_file(path, buffer.getvalue(), code="cache_not_writable", remedy=_REMEDY)
        self._segments += 1
        self._new = []

    def _next(self, fits: Callable[[Floats], bool], compute: Callable[[], Floats]) -> Floats:
        if self._answers and fits(self._answers[0]):
            return self._answers.popleft()
        # Answers to other questions: of another version, or damaged.
        self._answers.clear()
        answer = compute()
        self._new.append(answer)
        return answer

    def _read(self, folder: Path) -> None:
        remove_stale(folder)
        while True:
            path = folder / f"{self._segments:06}.npz"
            try:
                with np.load(path, allow_pickle=False) as kept:
                    answers = [kept[name] for name in sorted(kept.files) if name != "seconds"]
                    seconds = float(kept["seconds"])
            except (OSError, ValueError, KeyError, EOFError, BadZipFile):
                return
            self._answers.extend(answers)
            self.seconds = seconds
            self._segments += 1
