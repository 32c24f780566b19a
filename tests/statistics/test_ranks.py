"""Rank statistics against brute force, scipy and their own invariances."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, rankdata

from pessimal.statistics.ranks import (
    concordance,
    percentiles,
    rbo,
    tail_overlap,
    tau_b,
    tau_matrix,
    tied_pairs,
)

pairs = st.lists(
    st.tuples(st.integers(-6, 6), st.integers(-6, 6), st.integers(0, 4)), min_size=2, max_size=40
)


def brute_tau(x, y, w) -> float:
    """Pair-weighted tau-b by its definition."""
    s = dx = dy = 0.0
    for i, j in itertools.combinations(range(len(x)), 2):
        weight = w[i] * w[j]
        s += weight * np.sign(x[i] - x[j]) * np.sign(y[i] - y[j])
        dx += weight * (x[i] != x[j])
        dy += weight * (y[i] != y[j])
    return s / math.sqrt(dx * dy) if dx * dy else math.nan


@given(pairs)
def test_tau_is_its_definition(rows):
    x, y, w = np.array(rows, dtype=float).T
    assert tau_b(x, y, w).value == pytest.approx(brute_tau(x, y, w), abs=1e-12, nan_ok=True)
    expected = kendalltau(x, y).statistic
    assert tau_b(x, y).value == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(pairs)
def test_concordance_is_its_definition(rows):
    x, y, w = np.array(rows, dtype=float).T
    signs = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
    assert concordance(x, y, w) == pytest.approx(signs @ w)


@given(pairs)
def test_tau_is_symmetric_bounded_and_blind_to_monotone_maps(rows):
    x, y, w = np.array(rows, dtype=float).T
    tau = tau_b(x, y, w)
    assert tau_b(y, x, w).value == pytest.approx(tau.value, abs=1e-12, nan_ok=True)
    assert tau_b(np.exp(x), y**3, w).value == pytest.approx(tau.value, abs=1e-12, nan_ok=True)
    assert tau_b(-x, y, w).value == pytest.approx(-tau.value, abs=1e-12, nan_ok=True)
    if not math.isnan(tau.value):
        assert -1 <= tau.low <= tau.value + 1e-9
        assert tau.value - 1e-9 <= tau.high <= 1


def test_the_interval_covers_the_true_tau():
    rng = np.random.default_rng(1)
    truth = 2 / math.pi * math.asin(0.5)  # Gaussian copula with correlation 1/2
    covered = 0
    for _ in range(400):
        x = rng.normal(size=150)
        y = 0.5 * x + math.sqrt(0.75) * rng.normal(size=150)
        tau = tau_b(x, y)
        covered += tau.low <= truth <= tau.high
    assert 0.91 <= covered / 400 <= 0.985


def test_clusters_widen_the_interval_of_repeated_units():
    rng = np.random.default_rng(2)
    x = rng.normal(size=100)
    y = x + rng.normal(size=100)
    once = tau_b(x, y)
    twice = tau_b(np.tile(x, 2), np.tile(y, 2), clusters=np.tile(np.arange(100), 2))
    naive = tau_b(np.tile(x, 2), np.tile(y, 2))
    assert twice.high - twice.low == pytest.approx(once.high - once.low, rel=0.05)
    assert naive.high - naive.low < 0.8 * (once.high - once.low)


def test_a_constant_or_empty_list_has_no_tau():
    for x, y in (([], []), ([1.0], [2.0]), ([1, 1, 1], [1, 2, 3])):
        tau = tau_b(x, y)
        assert math.isnan(tau.value)
        assert math.isnan(tau.low)


def test_a_quarter_of_a_million_rows_agree_with_scipy():
    rng = np.random.default_rng(3)
    x = rng.normal(size=256_000).round(3)
    y = (x + rng.normal(size=256_000)).round(3)
    assert tau_b(x, y).value == pytest.approx(kendalltau(x, y).statistic, abs=1e-12)


def test_tau_matrix_holds_every_pair():
    columns = np.random.default_rng(4).normal(size=(30, 3))
    matrix = tau_matrix(columns)
    assert matrix[0, 2] == matrix[2, 0] == tau_b(columns[:, 0], columns[:, 2]).value
    assert (np.diag(matrix) == 1).all()


def test_percentiles_are_average_ranks():
    assert percentiles([3, 1, 1, 9]).tolist() == [0.625, 0.25, 0.25, 0.875]
    assert percentiles(np.array([[1, 4], [2, 3]])).tolist() == [[0.25, 0.75], [0.75, 0.25]]
    assert percentiles([]).size == 0


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_percentiles_have_mean_one_half(values):
    found = percentiles(values)
    assert found.mean() == pytest.approx(0.5)
    assert ((found > 0) & (found < 1)).all()


def test_tied_pairs():
    assert tied_pairs([1, 2, 3]) == 0
    assert tied_pairs([1, 1, 1]) == 1
    assert tied_pairs([1, 1, 2]) == pytest.approx(1 / 3)
    assert math.isnan(tied_pairs([1]))


def brute_rbo(x, y, p) -> float:
    """RBO averaged over every order of the ties, extrapolated."""

    def orders(values):
        ranks = rankdata(-np.asarray(values), method="dense")
        groups = [np.flatnonzero(ranks == rank) for rank in np.unique(ranks)]
        for parts in itertools.product(*(itertools.permutations(group) for group in groups)):
            yield [item for part in parts for item in part]

    totals = []
    for a in orders(x):
        for b in orders(y):
            agreement = [len({*a[:d]} & {*b[:d]}) / d for d in range(1, len(a) + 1)]
            terms = sum(p**d * value for d, value in enumerate(agreement))
            totals.append((1 - p) * terms + p ** len(a) * agreement[-1])
    return float(np.mean(totals))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=5),
       st.sampled_from([0.5, 0.9]))  # fmt: skip
def test_rbo_averages_over_the_ways_to_break_ties(rows, p):
    x, y = np.array(rows, dtype=float).T
    assert rbo(x, y, p) == pytest.approx(brute_rbo(x, y, p), abs=1e-9)
    assert rbo(y, x, p) == pytest.approx(rbo(x, y, p))


def test_rbo_of_long_lists():
    x = np.arange(5000.0)
    assert rbo(x, x) == pytest.approx(1)
    assert rbo(x, np.exp(x / 1e4)) == pytest.approx(1)
    assert rbo(x, -x) == pytest.approx(0, abs=1e-9)
    assert rbo(np.zeros(5000), x) < 0.05


def test_tail_overlap():
    x = np.arange(1000.0)
    y = np.where(x >= 995, -x, x)
    assert tail_overlap(x, x) == 1
    assert tail_overlap(x, y) == 0.5
    assert tail_overlap(x, y, tail="bottom") == 0.5
    assert tail_overlap(x, np.zeros(1000)) == pytest.approx(0.01)
