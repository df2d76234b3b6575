"""Tests of bandits.results.significance."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats import multitest

from bandits.results import significance


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.04 times 3, 2, 1, never falling; what is no test takes no part.
    assert significance.holm([0.04, 0.01, math.nan, 0.02]) == pytest.approx([0.04, 0.03, math.nan, 0.04], nan_ok=True)
    assert significance.holm([math.nan]) == pytest.approx([math.nan], nan_ok=True)


@pytest.mark.parametrize("seeds", [6, 8, 12])
def test_flipped_signs_equal_scipys_exact_permutations(seeds):
    differences = np.random.default_rng(seeds).normal(0.5, 1.0, seeds)
    exact = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert significance.sign_flip(differences) == pytest.approx(exact.pvalue, rel=1e-12)


def test_holm_equals_statsmodels():
    p_values = np.random.default_rng(0).uniform(0, 0.2, 30)
    assert significance.holm(p_values) == pytest.approx(multitest.multipletests(p_values, method="holm")[1], rel=1e-12)


def test_flipped_signs_by_hand():
    # Of the eight sums of +-1 +-2 +-3, 6 and -6 are as large as 6; 4, 2, 0, 0, -2 and -4 are not.
    assert significance.sign_flip([1.0, 2.0, 3.0]) == 0.25
    assert significance.sign_flip([1.0, -1.0]) == 1.0


@pytest.mark.parametrize("count", [0, 25])
def test_flipped_signs_of_too_few_or_many_are_refused(count):
    with pytest.raises(ValueError, match=f"{count} differences must be 1 to 24"):
        significance.sign_flip([1.0] * count)


def test_superiority_over_all_pairs_is_mann_and_whitneys():
    first, second = np.random.default_rng(0).normal(size=(2, 8)).round(1)
    u = stats.mannwhitneyu(first, second).statistic
    assert significance.superiority(first, second, is_paired=False) == pytest.approx(u / 64, rel=1e-12)
