"""What the report says beside the numbers."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from pessimal.reports.view import carried_by

TERMS = pd.DataFrame({
    "term": ["a", "b", "c", "d"],
    "axis": ["age", "age", "religion", "religion"],
    "gap": [-0.9, 0.1, -0.3, -0.3],
})  # fmt: skip


def rule(where: str, limit: float, value: float, verdict: str = "FAIL") -> dict[str, Any]:
    return {
        "metric": "identity.gap", "slice": where, "bound": {"min": limit}, "value": value,
        "verdict": verdict,
    }  # fmt: skip


def test_a_term_that_decides_the_side_of_the_bound_is_named() -> None:
    said = carried_by(rule("all", -0.2, -0.35), TERMS)
    assert said is not None
    assert "a (-0.167)" in said
    assert "b (" not in said


def test_terms_of_the_rules_own_axis_count_alone() -> None:
    said = carried_by(rule("axis=religion", -0.2, -0.3), TERMS)
    assert said == "No single term carries it; the lowest are c, d."


@pytest.mark.parametrize(
    "one",
    [
        rule("axis=religion", -0.5, -0.3, "PASS"),
        rule("controls=valence", -0.2, -0.35),
        rule("axis=unknown", -0.2, -0.3),
        {**rule("all", -0.2, -0.3), "metric": "framing.d_pos"},
        {**rule("all", -0.2, -0.3), "value": None},
        {**rule("all", -0.2, -0.3), "bound": {}},
    ],
)
def test_other_rules_rest_on_no_single_term(one: dict[str, Any]) -> None:
    assert carried_by(one, TERMS) is None
    assert carried_by(one, None) is None
