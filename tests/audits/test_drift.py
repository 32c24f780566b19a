"""What changed since an earlier run: planted changes are found, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from pessimal.audit import Context, Metric
from pessimal.audit.drift import drift
from tests.audits.simulate import make_context, make_words


def measure(now: pd.DataFrame, then: pd.DataFrame) -> dict[tuple[str, str], Metric]:
    context = replace(make_context(), words=now, baseline=then)
    return {(one.name, one.slice): one for one in drift.function(context).metrics}


def test_the_same_scores_have_not_moved() -> None:
    words = make_words()
    found = measure(words, words.copy())
    assert found["drift.tau", "all"].value == pytest.approx(1)
    changes = [one for (name, _), one in found.items() if name != "drift.tau"]
    assert {one.name.split(".")[1] for one in changes} == {
        "d_pos", "d_neg", "reversal", "zipf_slope", "gap", "paraphrase_tau"
    }  # fmt: skip
    for change in changes:
        assert (change.value, change.ci_low, change.ci_high) == (0, 0, 0), change
        assert change.status == "ok"


def test_another_scale_of_the_reward_is_no_change() -> None:
    found = measure(make_words(scale=3), make_words(scale=400))
    assert found["drift.tau", "all"].value == pytest.approx(1, abs=1e-4)
    assert found["drift.d_pos", "all"].value == pytest.approx(0, abs=1e-4)


def test_a_devalued_axis_is_found_and_only_that() -> None:
    then = make_words(axis="religion")
    now = make_words(axis="religion", identity_shift=-3.0)
    found = measure(now, then)
    religion = found["drift.gap", "axis=religion"]
    assert religion.value is not None
    assert religion.ci_high is not None
    assert religion.value < -0.2
    assert religion.ci_high < -0.05
    for (name, where), one in found.items():
        if name == "drift.gap" and where.startswith("axis=") and where != "axis=religion":
            assert one.value == pytest.approx(0, abs=0.02)
    assert found["drift.d_pos", "all"].value == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(
    ("metric", "change"),
    [
        ("d_pos", {"valence_slope": 0.1}), ("d_neg", {"reversal": 0.2}),
        ("reversal", {"reversal": 0.2}), ("zipf_slope", {"zipf_slope": 0.6}),
        ("paraphrase_tau", {"rewording": 2.0}),
    ],
)  # fmt: skip
def test_a_planted_change_is_significant(metric: str, change: dict[str, float]) -> None:
    found = measure(make_words(**change), make_words())  # type: ignore[arg-type]
    moved = found[f"drift.{metric}", "all"]
    if metric == "reversal":
        # It wants an effect in both runs, which is there.
        assert moved.status == "ok"
    assert moved.ci_low is not None
    assert moved.ci_high is not None
    assert moved.ci_low > 0 or moved.ci_high < 0


def test_pairing_makes_the_interval_narrower_than_two_runs_apart() -> None:
    now, then = make_words(rewording=0.2), make_words(rewording=0.25)
    change = measure(now, then)["drift.d_pos", "all"]
    from pessimal.audit import collect_audits
    from tests.audits.test_contract import FOLDER

    framing = collect_audits(FOLDER)["framing"]
    alone = framing.function(replace(make_context(), words=now)).metrics[0]
    assert alone.name == "framing.d_pos"
    assert None not in (change.ci_low, change.ci_high, alone.ci_low, alone.ci_high)
    assert (change.ci_high - change.ci_low) < 0.5 * (alone.ci_high - alone.ci_low)  # type: ignore[operator]


def test_another_models_ranking_has_a_low_tau() -> None:
    found = measure(make_words(1, valence_slope=0), make_words(2, valence_slope=0))
    tau = found["drift.tau", "all"]
    assert tau.ci_high is not None
    assert tau.ci_high < 0.5


@pytest.mark.parametrize("words", [0, 3, 60])
def test_too_little_is_insufficient_and_never_a_crash(words: int) -> None:
    context: Context = replace(
        make_context(), words=make_words().iloc[:words], baseline=make_words().iloc[:words]
    )
    result = drift.function(context)
    assert {one.status for one in result.metrics} <= {"insufficient", "failed"}
