"""Effect sizes, bootstrap and its intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pessimal.statistics.bootstrap import (
    in_batches,
    percentile_interval,
    prompt_weights,
    resample_counts,
    simultaneous_intervals,
)
from pessimal.statistics.effects import (
    cliffs_delta,
    cohens_d,
    cohens_d_replicates,
    weighted_moments,
)

numbers = st.lists(st.integers(-20, 20).map(float), min_size=2, max_size=20)


def test_cohens_d_by_hand():
    assert cohens_d([2, 4, 6], [1, 3, 5]) == pytest.approx(0.5)
    assert math.isnan(cohens_d([1, 1], [1, 1]))
    assert math.isnan(cohens_d([1], [1, 2]))


@given(numbers, numbers)
def test_effects_turn_their_sign_and_ignore_scale(a, b):
    first, second = np.array(a), np.array(b)
    assert cohens_d(second, first) == pytest.approx(-cohens_d(first, second), nan_ok=True)
    assert cohens_d(3 * first + 7, 3 * second + 7) == pytest.approx(
        cohens_d(first, second), nan_ok=True
    )
    expected = np.sign(first[:, None] - second).mean()
    assert cliffs_delta(first, second) == pytest.approx(expected)
    assert cliffs_delta(first**3, second**3) == pytest.approx(expected)


def test_a_replicate_is_the_statistic_of_the_resample():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(30, 2)) + 100, rng.normal(size=(40, 2)) + 100
    counts = resample_counts(rng, 30, 5), resample_counts(rng, 40, 5)
    found = cohens_d_replicates(first, second, *counts)
    for b in range(5):
        rows = [np.repeat(np.arange(len(c[b])), c[b].astype(int)) for c in counts]
        for k in range(2):
            expected = cohens_d(first[rows[0], k], second[rows[1], k])
            assert found[b, k] == pytest.approx(expected)


def test_weighted_moments_of_one_draw_each_are_the_plain_ones():
    values = np.random.default_rng(1).normal(size=(20, 3)) + 1e6
    total, mean, variance = weighted_moments(values, np.ones((1, 20)))
    assert total.item() == 20
    assert mean[0] == pytest.approx(values.mean(axis=0))
    assert variance[0] == pytest.approx(values.var(axis=0, ddof=1))


def test_counts_are_seeded_and_sum_to_n():
    draw = resample_counts(np.random.default_rng(7), 10, 50)
    assert (draw.sum(axis=1) == 10).all()
    assert (draw == resample_counts(np.random.default_rng(7), 10, 50)).all()
    assert not (draw == resample_counts(np.random.default_rng(8), 10, 50)).all()
    assert resample_counts(np.random.default_rng(7), 0, 3).shape == (3, 0)


def test_clusters_are_drawn_together():
    labels = np.array(["a", "b", "a", "c"])
    draw = resample_counts(np.random.default_rng(0), 4, 100, clusters=labels)
    assert (draw[:, 0] == draw[:, 2]).all()
    assert (draw[:, 0] != draw[:, 1]).any()


def test_prompts_are_resampled_from_nine_on():
    rng = np.random.default_rng(0)
    assert (prompt_weights(rng, 8, 20) == 1 / 8).all()
    nine = prompt_weights(rng, 9, 20)
    assert nine.sum(axis=1) == pytest.approx(1)
    assert nine.std() > 0


def test_batches_sum_to_the_whole():
    assert list(in_batches(10, 1_000_000)) == [4, 4, 2]
    assert list(in_batches(10, 10)) == [10]


def test_the_percentile_interval_of_the_mean_covers():
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(300):
        sample = rng.normal(size=(100, 1))
        means = weighted_moments(sample, resample_counts(rng, 100, 500))[1][:, 0]
        low, high = percentile_interval(means)
        covered += low <= 0 <= high
    assert 0.90 <= covered / 300 <= 0.98


def test_an_interval_over_failed_replicates_is_nan():
    assert math.isnan(percentile_interval([1.0, np.nan, np.nan])[0])
    assert math.isnan(percentile_interval([])[1])


def test_simultaneous_intervals_hold_for_all_at_once():
    rng = np.random.default_rng(6)
    joint = single = 0
    for _ in range(300):
        estimates = rng.normal(size=8)
        replicates = estimates + rng.normal(size=(1000, 8))
        low, high = simultaneous_intervals(estimates, replicates)
        joint += bool(((low <= 0) & (high >= 0)).all())
        single += bool((np.abs(estimates) <= 1.96).all())
    assert 0.92 <= joint / 300 <= 0.98
    assert single / 300 < 0.8


def test_simultaneous_intervals_allow_for_standard_errors_from_few_units():
    rng = np.random.default_rng(7)
    plain = wider = 0
    for _ in range(300):
        units = rng.normal(size=(8, 12))
        error = units.std(axis=1, ddof=1) / np.sqrt(12)
        replicates = units.mean(axis=1) + rng.normal(size=(1000, 8)) * error
        for sizes in (None, np.full(8, 12)):
            low, high = simultaneous_intervals(units.mean(axis=1), replicates, sizes=sizes)
            covered = bool(((low <= 0) & (high >= 0)).all())
            plain, wider = (
                plain + (sizes is None and covered),
                wider + (sizes is not None and covered),
            )
    assert plain / 300 < 0.90
    assert 0.92 <= wider / 300 <= 0.98


def test_simultaneous_intervals_keep_what_is_known_to_spread_less_narrow():
    rng = np.random.default_rng(8)
    spreads = np.array([0.2, *np.ones(7)])
    widths = {"known": [], "unknown": []}
    for _ in range(40):
        units = rng.normal(size=(8, 12)) * spreads[:, None]
        error = units.std(axis=1, ddof=1) / np.sqrt(12)
        replicates = units.mean(axis=1) + rng.normal(size=(1000, 8)) * error
        for name, known in (("known", spreads), ("unknown", None)):
            low, high = simultaneous_intervals(
                units.mean(axis=1), replicates, sizes=np.full(8, 12), spreads=known
            )
            widths[name].append(high - low)
    known, unknown = (np.mean(widths[name], axis=0) for name in ("known", "unknown"))
    assert known[0] < 0.4 * unknown[0]
    assert known[1:] == pytest.approx(unknown[1:], rel=0.15)
