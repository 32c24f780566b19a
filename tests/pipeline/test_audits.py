"""Audits run over a context: what a rerun moves is part of each noise floor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pessimal.audit import AuditResult, Context, MetricSpec, audit
from pessimal.pipeline.audits import metrics_of, run_audits
from tests.audits.simulate import make_prompts, make_words

FLOOR = 0.02


def fake_numerics(rms: float | None):
    """A ``numerics`` that found reruns to differ by `rms` SD."""

    @audit(question="?", needs=(), metrics=(MetricSpec("rerun_rms", "?", "SD", "higher"),))
    def numerics(context: Context) -> AuditResult:
        return AuditResult((numerics.metric("rerun_rms", rms, 200),))

    return numerics


@audit(
    question="?", needs=("words",),
    metrics=(MetricSpec("first", "?", "SD", "higher"), MetricSpec("bare", "?", "SD", "higher")),
)  # fmt: skip
def place(context: Context) -> AuditResult:
    """The first word's standardised score, once with a noise floor and once without."""
    assert context.words is not None
    column = context.words[next(iter(context.score_columns(context.words).values()))]
    value = float((column.iloc[0] - column.mean()) / column.std(ddof=0))
    return AuditResult(
        (place.metric("first", value, 9, noise_floor=FLOOR), place.metric("bare", value, 9))
    )


def floors(rms: float | None, seed: int = 0) -> dict[str, float | None]:
    context = Context(prompts=make_prompts(3), seed=seed, words=make_words(0, each=3))
    outcomes = run_audits({"numerics": fake_numerics(rms), "place": place}, context, ["place"])
    return {m.name.removeprefix("place."): m.noise_floor for m in metrics_of(outcomes)[1:]}


@pytest.mark.parametrize("rms", [None, 0.0, 1e-6])
def test_a_small_rerun_leaves_the_floor_of_rewording(rms: float | None):
    assert floors(rms) == {"first": FLOOR, "bare": None}


def test_a_large_rerun_raises_the_floor_to_what_it_moves():
    found = [floors(0.5, seed) for seed in range(200)]
    first = np.array([each["first"] for each in found])
    assert all(each["bare"] is None for each in found)
    assert (first >= FLOOR).all()
    # |N(0, .5)| has the mean .5 * sqrt(2 / pi); standardising anew takes a tenth of it.
    assert first.mean() == pytest.approx(0.5 * np.sqrt(2 / np.pi), rel=0.25)


def test_the_values_are_those_of_the_scores_themselves():
    context = Context(prompts=make_prompts(3), seed=0, words=make_words(0, each=3))
    audits = {"numerics": fake_numerics(0.5), "place": place}
    noisy = metrics_of(run_audits(audits, context, ["place"]))
    quiet = metrics_of(run_audits({**audits, "numerics": fake_numerics(None)}, context, ["place"]))
    strip = [replace(metric, noise_floor=None) for metric in noisy[1:]]
    assert strip == [replace(metric, noise_floor=None) for metric in quiet[1:]]
