"""Tests of bandits.results.power."""

import math

import numpy as np
import pytest
from scipy import stats

from bandits.results import power


def _power(size, seeds, alpha):
    """Of a two-sided paired t test, by the noncentral t distribution."""
    least = stats.t.ppf(1 - alpha / 2, seeds - 1)
    shift = size * math.sqrt(seeds)
    return stats.nct.sf(least, seeds - 1, shift) + stats.nct.cdf(-least, seeds - 1, shift)


@pytest.mark.parametrize(("seeds", "alpha"), [(3, 0.05), (8, 0.05), (8, 0.05 / 4), (30, 0.05)])
def test_the_smallest_difference_is_found_four_times_of_five(seeds, alpha):
    found = power.detectable(0.2, seeds, alpha)
    assert _power(found / 0.2, seeds, alpha) == pytest.approx(0.8, abs=1e-6)


def test_of_two_unpaired_arms_it_is_the_textbooks():
    # Cohen 1988: two samples of 64 find half a standard deviation with a power of 0.80.
    assert power.detectable(1.0, 64, 0.05, other=(1 / 8, 64)) == pytest.approx(0.5, abs=0.005)
    assert power.seeds_needed(0.5, 1.0, 0.05, others=1.0) == 64


@pytest.mark.parametrize(
    ("deviation", "seeds", "other_deviation", "others"),
    [(1.0, 3, 5.0, 8), (5.0, 3, 1.0, 8), (1.0, 5, 4.0, 5), (1.0, 8, 0.2, 3)],
)
def test_of_unequal_spreads_and_sizes_welch_finds_it_four_times_of_five(deviation, seeds, other_deviation, others):
    size = power.detectable(deviation, seeds, 0.05, other=(other_deviation / math.sqrt(others), others))
    generator = np.random.default_rng(0)
    one, other = (
        generator.normal(size, deviation, (20_000, seeds)),
        generator.normal(0, other_deviation, (20_000, others)),
    )
    found = stats.ttest_ind(one, other, axis=1, equal_var=False).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.01)


def test_a_power_that_scipy_calls_not_a_number_ends_no_search(monkeypatch):
    # SciPy 1.17 gives NaN for the wrong side of six seeds and more, and the search went on to sixteen.
    assert power.seeds_needed(3.0, 1.0, 0.01) == 5
    assert _power(3.0, 4, 0.01) < 0.8 <= _power(3.0, 5, 0.01)
    exact = stats.nct.cdf
    monkeypatch.setattr(stats.nct, "cdf", lambda *at: math.nan if exact(*at) < 1e-16 else exact(*at))
    assert power.seeds_needed(3.0, 1.0, 0.01) == 5


@pytest.mark.parametrize(
    ("deviation", "seeds", "sample", "alpha"),
    [(0.02, 8, (0.01, 2000), 0.05), (0.02, 8, (0.0005, 2000), 0.0125), (0.0, 8, (0.01, 50), 0.05)],
)
def test_against_a_sample_of_clients_it_is_found_four_times_of_five(deviation, seeds, sample, alpha):
    found, (error, clients) = power.detectable(deviation, seeds, alpha, other=sample), sample
    generator = np.random.default_rng(0)
    means = generator.normal(found, deviation / math.sqrt(seeds), 20_000)
    own = deviation**2 / seeds * generator.chisquare(seeds - 1, 20_000) / (seeds - 1)
    other = error**2 * generator.chisquare(clients - 1, 20_000) / (clients - 1)
    t = (means - generator.normal(0, error, 20_000)) / np.sqrt(own + other)
    freedom = (own + other) ** 2 / (own**2 / (seeds - 1) + other**2 / (clients - 1))
    assert (2 * stats.t.sf(np.abs(t), freedom) < alpha).mean() == pytest.approx(0.8, abs=0.01)


def test_seeds_make_the_error_of_a_sample_no_smaller():
    # By hand, with as good as normal numbers: (1.96 + 0.8416)^2 s^2 / (difference^2 - 2.8016^2 e^2).
    normal = 2.8016**2 * 0.2**2 / (0.05**2 - 2.8016**2 * 0.01**2)
    assert power.seeds_needed(0.05, 0.2, 0.05, sample=(0.01, 100_000)) == pytest.approx(normal, rel=0.02)
    assert power.seeds_needed(0.028, 0.2, 0.05, sample=(0.01, 100_000)) == math.inf
    assert power.detectable(0.2, 10**6, 0.05, other=(0.01, 100_000)) == pytest.approx(0.028, abs=1e-4)


def test_seeds_that_a_difference_needs_are_the_first_that_find_it():
    found = power.seeds_needed(-0.5, 1.0, 0.05)
    assert found == 34  # Cohen 1988, Table 2.3.5 and 2.4.1, one sample.
    assert _power(0.5, found - 1, 0.05) < 0.8 <= _power(0.5, found, 0.05)


@pytest.mark.parametrize(
    ("difference", "deviation", "needed"), [(0.0, 1.0, math.inf), (1e-4, 1.0, math.inf), (100.0, 1.0, 2)]
)
def test_seeds_are_bounded(difference, deviation, needed):
    assert power.seeds_needed(difference, deviation, 0.05) == needed


def test_without_spread_or_test_nothing_is_said():
    assert math.isnan(power.detectable(0.0, 8, 0.05))
    assert math.isnan(power.detectable(1.0, 1, 0.05))
    assert math.isnan(power.detectable(1.0, 8, 0.05, other=(1.0, 1)))
    assert math.isnan(power.seeds_needed(0.1, 0.0, 0.05))
    assert math.isnan(power.seeds_needed(math.nan, math.nan, 0.05))
