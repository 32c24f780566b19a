"""What a sweep tells about how far it is."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

QUIET_S = 3.0
"""Work that takes less is not worth a bar."""


class Progress(Protocol):
    """Is told when candidates are done."""

    def advance(self, candidates: int, *, reused: bool = False) -> None:
        """Count `candidates` as done; `reused` ones were read from the store, not scored."""
        ...


class SweepProgress:
    """A bar on stderr with candidates per second and time left; silent off a terminal.

    Use it as a context manager. Nothing is shown for work that takes less than three seconds.

    Args:
        total: candidates of all the sweeps that report to it.
        label: what stands before the bar; it may be changed between sweeps.
        quiet: never show anything.
        stream: where to; stderr by default.
    """

    def __init__(
        self, total: int, label: str, *, quiet: bool = False, stream: TextIO | None = None
    ) -> None:
        self.label = label
        self._total = total
        self._stream = stream or sys.stderr
        self._quiet = quiet or not self._stream.isatty()
        self._done = self._scored = 0
        self._began = time.monotonic()
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, candidates: int, *, reused: bool = False) -> None:
        """Count candidates as done and redraw."""
        self._done += candidates
        self._scored += 0 if reused else candidates
        if self._quiet:
            return
        elapsed = time.monotonic() - self._began
        if self._bar is None and elapsed >= QUIET_S and self._done < self._total:
            self._bar = self._start()
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task, description=self.label, completed=self._done, speed=self._speed(elapsed)
            )

    def _speed(self, elapsed: float) -> str:
        # Candidates out of the store come at once: counted in, they would promise too much.
        rate = self._scored / elapsed if elapsed > 0 else 0.0
        if not rate:
            return ""
        left = round((self._total - self._done) / rate)
        minutes, seconds = divmod(left, 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
        return f"{rate:,.0f} a second, {clock} left"

    def _start(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}", markup=False),
            console=Console(file=self._stream),
            transient=True,
            redirect_stdout=False,
        )
        self._task = bar.add_task(self.label, total=self._total, speed="")
        bar.start()
        return bar
