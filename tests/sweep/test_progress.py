"""The bar tells speed and time left on a terminal, and nothing elsewhere."""

import io

import pytest

from pessimal.sweep.progress import SweepProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("pessimal.sweep.progress.time.monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm")
    return now


def show(stream: io.StringIO, clock: list[float], step_s: float, **options: bool) -> str:
    with SweepProgress(10_000, "[b]greatest", stream=stream, **options) as progress:
        progress.advance(4_000, reused=True)
        for _ in range(3):
            clock[0] += step_s
            progress.advance(1_000)
    return stream.getvalue()


def test_speed_and_time_left_without_what_was_reused(clock: list[float]) -> None:
    # 3,000 scored in 30 s; 3,000 left; the 4,000 reused ones don't count for the speed.
    shown = show(Terminal(), clock, 10.0)
    assert "100 a second, 0:30 left" in shown
    assert "7000/10000" in shown
    assert "[b]greatest" in shown


def test_long_work_tells_hours(clock: list[float]) -> None:
    assert "1 a second, 1:15:00 left" in show(Terminal(), clock, 1500.0)


def test_nothing_for_short_work(clock: list[float]) -> None:
    assert show(Terminal(), clock, 0.9) == ""


def test_nothing_off_a_terminal_or_when_quiet(clock: list[float]) -> None:
    assert show(io.StringIO(), clock, 10.0) == ""
    assert show(Terminal(), clock, 10.0, quiet=True) == ""


def test_the_bar_ends_with_an_exception(clock: list[float]) -> None:
    stream = Terminal()
    progress = SweepProgress(10, "x", stream=stream)

    def work() -> None:
        with progress:
            clock[0] += 10
            progress.advance(1)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        work()
    # The cursor that the bar hid is shown again.
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")
