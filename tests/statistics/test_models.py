"""Matching, regression and permutation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import permutation_test

from pessimal.statistics.matching import match_controls
from pessimal.statistics.permutation import benjamini_hochberg, holm, permutation_p
from pessimal.statistics.regression import coefficient_replicates, make_design, ols


def test_the_nearest_controls_are_found_in_standardised_units():
    matches = match_controls(
        {"zipf": [3.0, 5.0], "length": [4, 9]},
        {"zipf": [3.0, 5.1, 2.9, 1.0], "length": [5, 9, 4, 30]},
        neighbours=2,
    )
    assert matches.indices[0].tolist() == [2, 0]
    assert matches.indices[1, 0] == 1
    assert (np.diff(matches.distances, axis=1) >= 0).all()


def test_a_scale_of_a_covariate_changes_nothing():
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(5, 2)), rng.normal(size=(60, 2))
    plain = match_controls(dict(zip("ab", one.T, strict=True)), dict(zip("ab", two.T, strict=True)))
    scaled = match_controls(
        dict(zip("ab", (one * [1, 1000]).T, strict=True)),
        dict(zip("ab", (two * [1, 1000]).T, strict=True)),
    )
    assert (plain.indices == scaled.indices).all()


def test_constant_covariates_are_named_and_dropped():
    matches = match_controls({"a": [1, 2], "b": [1, 1]}, {"a": [1, 2, 3], "b": [1, 1, 1]})
    assert matches.dropped == ("b",)
    assert matches.covariates == ("a",)
    assert matches.indices.shape == (2, 3)


def test_no_unit_is_its_own_control():
    matches = match_controls(
        {"a": [1.0]}, {"a": [1.0, 1.1, 5.0]}, names=(["black"], ["black", "chair", "table"])
    )
    assert matches.indices.tolist() == [[1, 2]]


def test_different_covariates_are_refused():
    with pytest.raises(ValueError, match="same covariates"):
        match_controls({"a": [1]}, {"b": [1]})


def test_a_planted_slope_is_found_with_covariates():
    rng = np.random.default_rng(1)
    zipf, valence = rng.normal(size=(2, 800))
    zipf += 0.5 * valence
    y = np.column_stack([0.3 * zipf - valence, -0.1 * zipf]) + rng.normal(size=(800, 2)) * 0.1
    design = make_design({"zipf": zipf, "valence": valence, "one": np.ones(800)})
    fit = ols(y, design)
    assert fit.coefficients["zipf"] == pytest.approx([0.3, -0.1], abs=0.02)
    assert fit.errors["zipf"] == pytest.approx([0.0036, 0.0036], rel=0.3)
    assert design.dropped == ("one",)
    r_squared = np.corrcoef(zipf, valence)[0, 1] ** 2
    assert design.vif["zipf"] == pytest.approx(1 / (1 - r_squared))


def test_a_covariate_that_repeats_others_is_dropped():
    a, b = np.random.default_rng(2).normal(size=(2, 50))
    design = make_design({"a": a, "b": b, "sum": a + b, "shifted": 2 * a + 3})
    assert design.dropped == ("sum", "shifted")
    assert list(make_design({}).names) == []


def test_errors_are_hc3():
    rng = np.random.default_rng(3)
    x = rng.normal(size=60)
    y = x + rng.normal(size=60) * (1 + np.abs(x))
    design = make_design({"x": x})
    fit = ols(y, design)
    m = design.matrix
    inverse = np.linalg.inv(m.T @ m)
    residual = y - m @ (inverse @ m.T @ y)
    leverage = np.einsum("ij,jk,ik->i", m, inverse, m)
    meat = m.T @ (m * ((residual / (1 - leverage)) ** 2)[:, None])
    assert fit.errors["x"][0] == pytest.approx(np.sqrt((inverse @ meat @ inverse)[1, 1]))


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="rows"):
        ols([1.0, 2.0], make_design({"x": [1.0, 2.0]}))


def test_replicates_are_fits_of_the_resample():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=40), rng.normal(size=(40, 3))
    counts = rng.multinomial(40, np.full(40, 1 / 40), size=4).astype(float)
    found = coefficient_replicates(y, make_design({"x": x}), counts)
    for b in range(4):
        rows = np.repeat(np.arange(40), counts[b].astype(int))
        expected = np.polyfit(x[rows], y[rows], 1)
        assert found[b, 1] == pytest.approx(expected[0])
        assert found[b, 0] == pytest.approx(expected[1])
    one_word = np.zeros((1, 40))
    one_word[0, 0] = 40
    assert np.isnan(coefficient_replicates(y, make_design({"x": x}), one_word)).all()


def test_permutation_is_exact():
    first, second = [1.0, 2.0, 3.0, 7.0], [2.5, 8.0, 9.0]
    expected = permutation_test(
        (first, second), lambda a, b: abs(np.mean(a) - np.mean(b)),
        n_resamples=np.inf, alternative="greater",
    )  # fmt: skip
    assert permutation_p(first, second) == pytest.approx(expected.pvalue)
    assert permutation_p([1, 2, 3, 4, 5], [11, 12, 13, 14, 15]) == pytest.approx(2 / 252)
    assert permutation_p([0.1, 0.1], [0.1, 0.1]) == 1
    with pytest.raises(ValueError, match="both groups"):
        permutation_p([], [1.0])
    with pytest.raises(ValueError, match="too many"):
        permutation_p(np.arange(20), np.arange(20))


def test_families_of_tests_are_corrected_and_bounded():
    p = [0.01, 0.04, 0.03]
    assert holm(p) == pytest.approx([0.03, 0.06, 0.06])
    assert benjamini_hochberg(p) == pytest.approx([0.03, 0.04, 0.04])
    assert len(holm([])) == 0
    with pytest.raises(ValueError, match="at most 50"):
        holm(np.full(51, 0.5))
