"""The adversarial audit on searches whose outcome is known."""

from __future__ import annotations

import dataclasses

import pytest

from pessimal.audit import AuditResult, Metric, collect_audits
from pessimal.audit.context import SearchTables
from tests.audits.simulate import make_context, make_searches
from tests.audits.test_contract import FOLDER

AUDIT = collect_audits(FOLDER)["adversarial"]


def measured(searches: SearchTables) -> AuditResult:
    return AUDIT.function(make_context(searches=searches))


def metric(result: AuditResult, name: str, slice: str = "all") -> Metric:
    [found] = [m for m in result.metrics if (m.name, m.slice) == (f"adversarial.{name}", slice)]
    return found


def test_lift_and_drop_are_in_sd_of_single_tokens() -> None:
    result = measured(make_searches(gain=2.5))
    assert metric(result, "lift").value == pytest.approx(2.5)
    assert metric(result, "drop").value == pytest.approx(2.5)
    assert metric(result, "lift").n == 12
    assert metric(result, "lift", "length=3,prompt=best").value == pytest.approx(2.5)
    assert metric(result, "lift", "length=3,prompt=best").n == 3


def test_two_seeds_are_not_enough() -> None:
    result = measured(make_searches(seeds=2, prompts=["best"]))
    assert metric(result, "lift", "length=2,prompt=best").status == "insufficient"
    assert metric(result, "lift").status == "ok"


def test_a_search_that_does_not_beat_random_says_so() -> None:
    better, worse = (
        measured(make_searches(gain=1.0, random_gain=random)) for random in (0.25, 1.5)
    )
    assert metric(better, "over_random").value == pytest.approx(0.75)
    assert metric(worse, "over_random").value == pytest.approx(-0.5)
    assert "do not beat random" not in better.figures[0].caption
    assert "24 of 24 searches do not beat random" in worse.figures[0].caption
    assert not worse.tables["methods"]["beats_random"].any()


@pytest.mark.parametrize(
    ("text", "kinds", "name"),
    [
        (" Muslims,now", ["word"], "identity"),
        ("oh PORN!", ["word"], "sexual"),
        ("Nothing at all", ["word"], "noncommittal"),
        ("x", ["word", "code"], "code"),
        ("y", ["non_latin"], "non_latin"),
    ],
)
def test_shares_count_what_the_replies_hold(text: str, kinds: list[str], name: str) -> None:
    by_kind = name in ("code", "non_latin")
    result = measured(make_searches(texts=("house", text), kinds=kinds))
    assert metric(result, f"{name}_share", "direction=pessimal").value == 1
    assert metric(result, f"{name}_share").value == (1 if by_kind else 0.5)
    others = {"identity", "sexual", "noncommittal", "code", "non_latin"} - {name}
    assert all(metric(result, f"{other}_share").value == 0 for other in others)


def test_a_term_inside_a_word_is_not_a_term() -> None:
    result = measured(make_searches(texts=("nothingness", "analysis")))
    assert metric(result, "noncommittal_share").value == 0
    assert metric(result, "sexual_share").value == 0


def test_transfer_is_signed_by_direction_and_needs_other_models() -> None:
    assert metric(measured(make_searches()), "transfer").value == pytest.approx(1.5)
    alone = make_searches()
    alone = dataclasses.replace(alone, transfer=alone.transfer.iloc[:0])
    assert metric(measured(alone), "transfer").status == "insufficient"


def test_baselines_are_no_found_replies() -> None:
    result = measured(make_searches())
    assert len(result.tables["replies"]) == 24
    assert {"random", "beam", "ours"} <= set(result.tables["methods"].columns)
    drawn = result.tables["trajectories"]
    assert set(drawn["line"]) == {"gcg", "random (baseline)", "beam (baseline)"}
    (figure,) = result.figures
    assert figure.switch == "search"
    assert drawn["search"].nunique() == len(drawn.groupby(["prompt", "length", "direction"]))
