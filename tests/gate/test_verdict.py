"""The decision rule, against a second reading of the contract."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pessimal.audit import Bound
from pessimal.gate import decide
from pessimal.gate.records import VERDICTS
from pessimal.gate.verdict import show

POINTS = (-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75)
BOUNDS = ({"min": 0.25}, {"min": -0.5}, {"max": 0.25}, {"max": -0.5}, {"abs_max": 0.5},
          {"abs_max": 0.25}, {"abs_max": 0.0})  # fmt: skip


def judged(bound: dict[str, float], value: Any, low: Any, high: Any, floor: Any = None,
           n: Any = 100, minimum_n: int = 50, status: Any = "ok",
           severity: Any = "critical") -> str:  # fmt: skip
    verdict, reason = decide(
        Bound(**bound), value, low, high, floor, n, minimum_n, status, severity
    )
    assert reason.endswith(".")
    return verdict


def expected(bound: dict[str, float], value: float, low: float, high: float,
             floor: float | None, n: int, severity: str) -> str:  # fmt: skip
    """The contract's sentences, one after the other."""
    if n < 50:
        found = "INCONCLUSIVE"
    elif "abs_max" in bound:
        limit = bound["abs_max"]
        noisy = floor is not None and not abs(value) - limit > floor
        # Beyond on the side where the value lies.
        beyond = low > limit if value > 0 else high < -limit
        within = -limit <= low and high <= limit
        inside = abs(value) <= limit
    elif "max" in bound:
        limit = bound["max"]
        noisy = floor is not None and not value - limit > floor
        beyond, within, inside = low > limit, high <= limit, value <= limit
    else:
        limit = bound["min"]
        noisy = floor is not None and not limit - value > floor
        beyond, within, inside = high < limit, low >= limit, value >= limit
    if n >= 50:
        if beyond and not noisy:
            found = "FAIL"
        elif within:
            found = "PASS"
        else:
            found = "WARN" if inside else "INCONCLUSIVE"
    return "WARN" if severity == "warning" and found in ("FAIL", "INCONCLUSIVE") else found


def test_every_arrangement_gives_what_the_contract_says() -> None:
    seen: set[str] = set()
    count = 0
    for low, value, high in itertools.combinations_with_replacement(POINTS, 3):
        for bound, floor, n, severity in itertools.product(
            BOUNDS, (None, 0.0, 0.25, 0.5), (49, 50, 1000), ("critical", "warning")
        ):
            case = (bound, value, low, high, floor, n, severity)
            got = judged(bound, value, low, high, floor, n, severity=severity)
            assert got == expected(bound, value, low, high, floor, n, severity), case
            seen.add(got)
            count += 1
    assert seen == {"FAIL", "INCONCLUSIVE", "WARN", "PASS"}
    assert count == 84 * 7 * 4 * 3 * 2


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("value", POINTS)
def test_without_an_interval_the_value_stands_for_it(bound: dict[str, float], value: float) -> None:
    assert judged(bound, value, None, None) == judged(bound, value, value, value)


NUMBERS = st.floats(-1, 1, allow_subnormal=False)


@given(
    NUMBERS, NUMBERS, NUMBERS, st.one_of(st.none(), st.floats(0, 1)), NUMBERS, st.floats(0, 2),
    st.sampled_from(["min", "max"]), st.sampled_from(["critical", "warning"]),
)  # fmt: skip
def test_moving_in_the_harmful_direction_never_improves_a_verdict(
    value: float, one: float, other: float, floor: float | None, limit: float, shift: float,
    side: str, severity: str,
) -> None:  # fmt: skip
    low, high = sorted((one, other))
    step = shift if side == "max" else -shift
    before = judged({side: limit}, value, low, high, floor, severity=severity)
    after = judged({side: limit}, value + step, low + step, high + step, floor, severity=severity)
    assert VERDICTS.index(after) <= VERDICTS.index(before)


@given(
    NUMBERS, NUMBERS, NUMBERS, st.one_of(st.none(), st.floats(0, 1)), st.floats(0, 1),
    st.floats(1, 10), st.sampled_from(["critical", "warning"]),
)  # fmt: skip
def test_a_greater_magnitude_never_improves_a_verdict(
    value: float, one: float, other: float, floor: float | None, limit: float, factor: float,
    severity: str,
) -> None:  # fmt: skip
    low, high = sorted((one, other))
    before = judged({"abs_max": limit}, value, low, high, floor, severity=severity)
    after = judged(
        {"abs_max": limit}, value * factor, low * factor, high * factor, floor, severity=severity
    )
    assert VERDICTS.index(after) <= VERDICTS.index(before)


@given(NUMBERS, NUMBERS, NUMBERS, st.one_of(st.none(), st.floats(0, 1)), NUMBERS)
def test_max_mirrors_min(
    value: float, one: float, other: float, floor: float | None, limit: float
) -> None:
    low, high = sorted((one, other))
    mirrored = judged({"max": -limit}, -value, -high, -low, floor)
    assert judged({"min": limit}, value, low, high, floor) == mirrored


def test_few_n_names_the_n_it_would_take() -> None:
    _, reason = decide(Bound(min=0.0), 1.0, 0.5, 1.5, None, 40, 80, "ok", "critical")
    assert "n is 40" in reason
    assert "80" in reason


@pytest.mark.parametrize(
    ("bound", "value", "low", "high", "n", "beyond"),
    [
        (Bound(min=0.0), -0.1, -0.3, 0.1, 100, "FAIL"),
        (Bound(min=0.0), 0.1, -0.1, 0.3, 100, "PASS"),
        (Bound(max=0.5), 0.52, 0.4, 0.64, 777, "FAIL"),
        (Bound(abs_max=0.5), -0.52, -0.64, -0.4, 777, "FAIL"),
        (Bound(abs_max=0.5), 0.45, 0.3, 0.6, 50, "PASS"),
    ],
)
def test_at_the_n_that_is_named_the_verdict_is_settled_and_not_before(
    bound: Bound, value: float, low: float, high: float, n: int, beyond: str
) -> None:
    verdict, reason = decide(bound, value, low, high, None, n, 1, "ok", "critical")
    assert verdict in ("INCONCLUSIVE", "WARN")
    match = re.search(r"take n of about ([\d,]+) to tell", reason)
    assert match
    needed = int(match.group(1).replace(",", ""))
    assert needed > n

    def at(more: float) -> str:
        shrink = math.sqrt(n / more)
        ends = value - (value - low) * shrink, value + (high - value) * shrink
        return decide(bound, value, *ends, None, int(more), 1, "ok", "critical")[0]

    assert at(needed * 1.001 + 1) == beyond
    assert at(needed * 0.98) == verdict


def test_inside_the_noise_floor_no_n_settles_it() -> None:
    verdict, reason = decide(Bound(min=0.5), 0.45, 0.44, 0.46, 0.1, 900, 1, "ok", "critical")
    assert verdict == "INCONCLUSIVE"
    assert "noise floor 0.1" in reason
    assert "no n settles" in reason


@pytest.mark.parametrize(
    "case",
    [
        {"value": math.nan}, {"value": math.inf}, {"value": None}, {"value": True},
        {"value": "0.9"}, {"low": math.nan}, {"high": math.inf}, {"low": None}, {"high": None},
        {"low": 0.95, "high": 0.85}, {"floor": math.nan}, {"floor": -0.1}, {"n": math.nan},
        {"n": -1}, {"n": True}, {"n": 90.5}, {"n": None}, {"status": "void"},
        {"status": "failed"}, {"status": "fine"}, {"bound": {}},
        {"bound": {"min": 0.1, "max": 1.0}}, {"bound": {"min": math.nan}},
        {"bound": {"max": math.inf}}, {"bound": {"max": True}},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("severity", ["critical", "warning"])
def test_what_cannot_be_judged_is_an_error_at_any_severity(
    case: dict[str, Any], severity: str
) -> None:
    sound: dict[str, Any] = {"bound": {"min": 0.1}, "value": 0.9, "low": 0.85, "high": 0.95}
    assert judged(**sound) == "PASS"
    assert judged(**{**sound, **case}, severity=severity) == "ERROR"


def test_an_undefined_value_is_inconclusive_when_the_audit_says_insufficient() -> None:
    assert judged({"min": 0.1}, None, None, None, status="insufficient") == "INCONCLUSIVE"
    assert judged({"min": 0.1}, 0.9, 0.8, 1.0, status="insufficient") == "INCONCLUSIVE"


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
def test_unequal_numbers_never_look_equal(numbers: list[float]) -> None:
    assert len(set(show(*numbers))) == len(set(numbers))
