"""Moments, quantile skew, shares, the noise of an average."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import skew
from statsmodels.stats.proportion import proportion_confint

from pessimal.statistics.distribution import (
    moments,
    noise_floor,
    quantile_skew,
    share,
    standardise,
)


def test_standardised_columns_have_mean_zero_and_sd_one():
    values = np.random.default_rng(0).normal(3, 5, size=(50, 2))
    values[4, 1] = np.nan
    values[5, 1] = np.inf
    z = standardise(values)
    assert np.nanmean(z, axis=0) == pytest.approx(0)
    assert np.nanstd(z, axis=0) == pytest.approx(1)
    assert np.isnan(z[[4, 5], 1]).all()
    assert (standardise([2.0, 2.0]) == 0).all()


def test_moments_against_scipy_and_their_intervals_cover():
    rng = np.random.default_rng(1)
    values = rng.exponential(size=1000)
    mean, variance, g1 = moments(values)
    assert mean.value == pytest.approx(values.mean())
    assert variance.value == pytest.approx(values.var())
    assert g1.value == pytest.approx(skew(values))
    covered = np.zeros(3)
    for _ in range(300):
        found = moments(rng.normal(size=500))
        covered += [e.low <= truth <= e.high for e, truth in zip(found, (0, 1, 0), strict=True)]
    assert (covered / 300 > 0.9).all()
    assert (covered / 300 < 0.985).all()


def test_moments_of_little_are_nan():
    assert math.isnan(moments([1.0])[0].value)
    mean, variance, g1 = moments([2.0, 2.0])
    assert (mean.value, variance.value) == (2, 0)
    assert math.isnan(g1.value)


def test_quantile_skew_by_its_definition():
    rng = np.random.default_rng(2)
    values = rng.exponential(size=20_000)
    low, middle, high = np.quantile(values, [0.01, 0.5, 0.99])
    found = quantile_skew(values, rng)
    assert found.value == pytest.approx((high + low - 2 * middle) / (high - low))
    assert found.low < found.value < found.high
    assert quantile_skew(-values, rng).value == pytest.approx(-found.value)
    assert quantile_skew(7 * values - 3, rng).value == pytest.approx(found.value)


def test_the_interval_is_that_of_drawn_bootstrap_samples():
    rng = np.random.default_rng(3)
    values = rng.normal(size=3000)
    draws = np.quantile(rng.choice(values, size=(1500, 3000)), [0.01, 0.5, 0.99], axis=1)
    skews = (draws[2] + draws[0] - 2 * draws[1]) / (draws[2] - draws[0])
    found = quantile_skew(values, rng, b=4000)
    assert [found.low, found.high] == pytest.approx(np.quantile(skews, [0.025, 0.975]), abs=0.015)


def test_quantile_skew_of_a_constant_is_nan():
    assert math.isnan(quantile_skew([1.0] * 2000, np.random.default_rng(0)).value)
    spike = np.r_[np.zeros(2000), 1.0]
    assert math.isnan(quantile_skew(spike, np.random.default_rng(0)).low)


@given(st.integers(0, 40), st.integers(1, 40))
def test_shares_have_wilsons_interval(count, n):
    count = min(count, n)
    found = share(count, n)
    expected = proportion_confint(count, n, method="wilson")
    assert [found.low, found.high] == pytest.approx(list(expected), abs=1e-9)


def test_the_noise_floor_needs_three_rewordings():
    assert noise_floor([1.0, 2.0]) is None
    assert noise_floor([1.0, 2.0, math.nan]) is None
    assert noise_floor([1.0, 2.0, 3.0]) == pytest.approx(1 / math.sqrt(3))
