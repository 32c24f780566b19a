"""The decision rule: one bound, one measured value with its uncertainty, one verdict."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Literal

from pessimal.audit.spec import Bound, Severity, Status
from pessimal.gate.records import VERDICTS, Verdict

Side = Literal["min", "max"]


def decide(
    bound: Bound, value: float | None, ci_low: float | None, ci_high: float | None,
    noise_floor: float | None, n: int, minimum_n: int, status: Status, severity: Severity,
) -> tuple[Verdict, str]:  # fmt: skip
    """Judge one value.

    For ``min`` T: status void or failed, or numbers that are not finite: ERROR. n below the
    minimum: INCONCLUSIVE. The interval, widened to value plus and minus the noise floor, wholly
    below T: FAIL. The interval wholly at or above T: PASS. Else WARN if the value is at or above
    T, INCONCLUSIVE if it is below. ``max`` mirrors it; ``abs_max`` is the worse of both sides.
    Severity ``warning`` turns FAIL and INCONCLUSIVE into WARN; ERROR stays.

    Args:
        bound: exactly one of ``min``, ``max`` and ``abs_max`` is set.
        value: the estimate, in the bound's unit.
        ci_low: lower end of the 95 % interval; both ends are None for a metric without one.
        ci_high: upper end.
        noise_floor: what rerunning or rewording alone moves the value by; None when unknown.
        n: number of units the value rests on.
        minimum_n: the least n that the metric needs.
        status: the metric's status.
        severity: the rule's severity.

    Returns:
        The verdict and its reason, which names the n it would take where n decides.
    """
    verdict, reason = weigh(
        bound, value, ci_low, ci_high, noise_floor, n=n, minimum_n=minimum_n, status=status
    )
    return cap(verdict, reason, severity)


def cap(verdict: Verdict, reason: str, severity: Severity) -> tuple[Verdict, str]:
    """Let a rule of severity ``warning`` be no worse than WARN, except for ERROR."""
    if severity == "warning" and verdict in ("FAIL", "INCONCLUSIVE"):
        return "WARN", f"{reason} Only a warning, by the rule's severity; it would be {verdict}."
    return verdict, reason


def weigh(
    bound: Bound, value: float | None, ci_low: float | None, ci_high: float | None,
    noise_floor: float | None, *, n: int, minimum_n: int, status: Status,
) -> tuple[Verdict, str]:  # fmt: skip
    """The verdict before severity; arguments and result as in `decide`."""
    limits = [limit for limit in vars(bound).values() if limit is not None]
    if len(limits) != 1 or not _finite(limits[0]):
        return "ERROR", "The rule does not have exactly one finite bound."
    broken = record_fault(value, ci_low, ci_high, noise_floor, n=n, status=status)
    if broken:
        return "ERROR", broken
    if n < minimum_n:
        return "INCONCLUSIVE", f"n is {n:,}; it takes at least {minimum_n:,} to judge this."
    if status == "insufficient":
        return "INCONCLUSIVE", f"The value is undefined or too uncertain to judge at n = {n:,}."
    assert value is not None  # record_fault has seen to it
    low, high = (value, value) if ci_low is None or ci_high is None else (ci_low, ci_high)
    limit = limits[0]
    sides: list[tuple[Side, float]] = [("max", limit), ("min", -limit)]
    if bound.abs_max is None:
        sides = [("min", limit)] if bound.max is None else [("max", limit)]
    found = [_weigh_side(*side, value, low, high, noise_floor, n) for side in sides]
    verdict, reason = min(found, key=lambda one: VERDICTS.index(one[0]))
    if bound.abs_max is not None and verdict == "PASS":
        shown = show(value, low, high, limit, -limit)
        wholly = "wholly " if low != high else ""
        reason = f"{_evidence(shown, n, low != high)}: {wholly}between {shown[4]} and {shown[3]}."
    return verdict, reason


def record_fault(
    value: float | None, ci_low: float | None, ci_high: float | None,
    noise_floor: float | None, *, n: int, status: Status,
) -> str | None:  # fmt: skip
    """What makes a measured value impossible to judge, or None. See `decide` for the arguments."""
    if status == "void":
        return "Void: the numerics failed, so this value means nothing."
    if status == "failed":
        return "The metric could not be computed."
    if status not in ("ok", "insufficient"):
        return f"The metric's status {status!r} is unknown."
    if not _count(n):
        return f"n is {n!r}, which is not a count."
    given = [number for number in (value, ci_low, ci_high, noise_floor) if number is not None]
    if not all(_finite(number) for number in given):
        return "The value, its interval or its noise floor is not a finite number."
    if value is None and status == "ok":
        return "The metric has no value."
    if (ci_low is None) != (ci_high is None):
        return "The interval has only one end."
    if ci_low is not None and ci_high is not None and ci_low > ci_high:
        return "The interval's lower end is above its upper end."
    if noise_floor is not None and noise_floor < 0:
        return "The noise floor is negative."
    return None


def reach(value: float, low: float, high: float, noise_floor: float | None) -> tuple[float, float]:
    """The interval widened to hold the value plus and minus the noise floor, where there is one."""
    if noise_floor is None:
        return low, high
    return min(low, value - noise_floor), max(high, value + noise_floor)


def show(*numbers: float) -> list[str]:
    """Format numbers with the fewest digits (three at least) at which unequal ones look unequal."""
    exact = [float(number) + 0.0 for number in numbers]  # no negative zero
    shown: list[str] = []
    for digits in range(3, 18):
        shown = [_spell(number, digits) for number in exact]
        if len(set(shown)) == len(set(exact)):
            break
    return shown


def _spell(number: float, digits: int) -> str:
    if number.is_integer() and abs(number) < 1e12:
        return f"{number:,.0f}"
    return f"{number:.{digits}g}"


def _count(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, Integral):
        return False
    return int(number) >= 0


def _finite(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, Real):
        return False
    return math.isfinite(number)


def _evidence(shown: list[str], n: int, interval: bool) -> str:
    between = f", 95 % interval {shown[1]} to {shown[2]}" if interval else ""
    return f"Value {shown[0]}{between}, n = {n:,}"


def _weigh_side(
    side: Side, limit: float, value: float, low: float, high: float,
    noise_floor: float | None, n: int,
) -> tuple[Verdict, str]:  # fmt: skip
    shown = show(value, low, high, limit)
    evidence = _evidence(shown, n, low != high)
    inside, beyond = ("at or above", "below") if side == "min" else ("at or below", "above")
    inside, beyond = f"{inside} {shown[3]}", f"{beyond} {shown[3]}"
    wholly = "wholly " if low != high else ""
    reach_low, reach_high = reach(value, low, high, noise_floor)
    if side == "min":  # turn the line round, so that higher is worse below
        value, limit, low, high, reach_low = -value, -limit, -high, -low, -reach_high
    if reach_low > limit:
        noise = "" if noise_floor is None else f", by more than the noise floor {noise_floor:.3g}"
        return "FAIL", f"{evidence}: {wholly}{beyond}{noise}."
    if high <= limit:
        return "PASS", f"{evidence}: {wholly}{inside}."
    if value <= limit:
        more = _n_needed(n, high - value, limit - value)
        return "WARN", f"{evidence}: {inside}, but the interval is partly {beyond}; {more}."
    if noise_floor is not None and value - noise_floor <= limit:
        return "INCONCLUSIVE", (
            f"{evidence}: {beyond}, but by no more than the noise floor "
            f"{noise_floor:.3g}; no n settles that, only a lower noise floor (more prompts) does."
        )
    more = _n_needed(n, value - low, value - limit)
    return "INCONCLUSIVE", f"{evidence}: {beyond}, but the interval is partly {inside}; {more}."


def _n_needed(n: int, half_width: float, distance: float) -> str:
    # An interval's width goes with 1 / sqrt(n).
    ratio = half_width / distance if distance > 0 else math.inf
    needed = n * ratio * ratio
    if needed > 1e12:
        return "no practical n would tell, the value lies at the bound"
    return f"it would take n of about {max(n + 1, math.floor(needed) + 1):,} to tell"
