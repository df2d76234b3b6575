"""Tests of optimization.posterior.kernels."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import statsmodels.nonparametric.bandwidths
from KDEpy import bw_selection
from sklearn import neighbors

from optimization.posterior import kernels

NAMES = sorted(kernels.KERNELS)
LINE = np.linspace(-12, 12, 240_001)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_a_density_with_the_stated_roughness_and_variance(name):
    kernel = kernels.KERNELS[name]
    values = kernel.density(LINE)
    assert scipy.integrate.simpson(values, LINE) == pytest.approx(1, abs=1e-6)
    assert scipy.integrate.simpson(values**2, LINE) == pytest.approx(kernel.roughness, abs=1e-6)
    assert scipy.integrate.simpson(LINE**2 * values, LINE) == pytest.approx(kernel.variance, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_pull_is_the_slope_over_the_distance(name):
    kernel = kernels.KERNELS[name]
    points = np.array([0.05, 0.3, 0.7, 0.95, 1.5])
    slopes = (kernel.density(points + 1e-6) - kernel.density(points - 1e-6)) / 2e-6
    ratios = -slopes / points
    np.testing.assert_allclose(
        kernel.pull(points.copy()), ratios / ratios[0] * kernel.pull(points[:1].copy()), rtol=1e-4
    )


@pytest.mark.parametrize("name", NAMES)
def test_densities_equal_scikit_learns(name):
    draw = np.random.default_rng(0)
    samples, bandwidths, points = draw.normal(size=(3, 9)), np.array([0.2, 0.5, 1.5]), draw.normal(size=(3, 4))
    found = kernels.density(kernels.KERNELS[name], samples, bandwidths, points)
    for row in range(3):
        other = neighbors.KernelDensity(kernel=name, bandwidth=bandwidths[row]).fit(samples[row][:, np.newaxis])
        np.testing.assert_allclose(found[row], np.exp(other.score_samples(points[row][:, np.newaxis])), atol=1e-12)


# Bandwidths.


WIDE_LINE = np.linspace(-20, 20, 40_001)


def _normal_quantiles(count: int) -> np.ndarray:
    return scipy.stats.norm.ppf((np.arange(count) + 0.5) / count)[np.newaxis]


def test_silverman_equals_statsmodels_where_the_standard_deviation_is_the_smaller():
    samples = np.random.default_rng(0).uniform(size=(4, 50))
    expected = [statsmodels.nonparametric.bandwidths.bw_silverman(row) for row in samples]
    np.testing.assert_allclose(kernels.silverman(samples, kernels.GAUSSIAN), expected, rtol=1e-12)


def test_silverman_takes_the_interquartile_range_over_1_34_where_that_is_the_smaller():
    samples = np.random.default_rng(0).standard_t(2, size=(4, 50))
    expected = 0.9 * scipy.stats.iqr(samples, axis=1) / 1.34 * 50**-0.2
    assert (expected < 0.9 * samples.std(axis=1, ddof=1) * 50**-0.2).all()
    np.testing.assert_allclose(kernels.silverman(samples, kernels.EPANECHNIKOV), expected, rtol=1e-12)


def test_silverman_takes_the_standard_deviation_where_most_samples_are_equal():
    samples = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 8.0]])
    np.testing.assert_allclose(
        kernels.silverman(samples, kernels.GAUSSIAN), 0.9 * samples.std(ddof=1) * 7**-0.2, rtol=1e-12
    )


def test_scott_equals_statsmodels():
    samples = np.random.default_rng(0).uniform(size=(4, 50))
    expected = [statsmodels.nonparametric.bandwidths.bw_scott(row) for row in samples]
    np.testing.assert_allclose(kernels.scott(samples, kernels.GAUSSIAN), expected, rtol=1e-3)  # Its 1.059 is rounded.


def test_the_plug_in_bandwidth_equals_its_formula_with_integrated_densities():
    samples = np.random.default_rng(0).gamma(2, size=12)

    def roughness(derivative: int, bandwidth: float) -> float:
        """R of a derivative of the density estimate with a kernel that, convolved with itself, has this bandwidth."""
        width = bandwidth / np.sqrt(2)
        scaled = (WIDE_LINE[:, np.newaxis] - samples) / width
        hermite = {2: scaled**2 - 1, 3: scaled**3 - 3 * scaled}[derivative]
        estimate = (hermite * scipy.stats.norm.pdf(scaled)).mean(axis=1) / width ** (derivative + 1)
        return np.trapz(estimate**2, WIDE_LINE)

    phi = 1 / np.sqrt(2 * np.pi)
    pilot = (30 * phi / (12 * 105 / (32 * np.sqrt(np.pi) * samples.std(ddof=1) ** 9))) ** (1 / 9)
    pilot = (6 * phi / (12 * roughness(3, pilot))) ** (1 / 7)
    expected = (1 / (2 * np.sqrt(np.pi)) / (12 * roughness(2, pilot))) ** 0.2
    np.testing.assert_allclose(kernels.plug_in(samples[np.newaxis], kernels.GAUSSIAN), expected, rtol=1e-6)


def test_the_plug_in_bandwidth_has_the_kernels_constants():
    samples = np.random.default_rng(0).normal(size=(1, 20))
    ratio = kernels.plug_in(samples, kernels.EPANECHNIKOV) / kernels.plug_in(samples, kernels.GAUSSIAN)
    np.testing.assert_allclose(ratio, (15 * 2 * np.sqrt(np.pi)) ** 0.2, rtol=1e-12)  # Marron and Nolan's 2.214.


@pytest.mark.slow
def test_improved_sheather_jones_equals_kdepys():
    draw = np.random.default_rng(0)
    samples = np.concatenate([draw.normal(size=(3, 20)), draw.normal(size=(3, 20)) + 4 * draw.integers(0, 2, (3, 20))])
    samples *= 100 / np.ptp(samples, axis=1, keepdims=True)  # Below a range of 12 KDEpy's grid hardly resolves them.
    # KDEpy's is in units of the grid's extent, twice the samples' range, and multiplied by that range alone.
    expected = [2 * bw_selection.improved_sheather_jones(row[:, np.newaxis]) for row in samples]
    np.testing.assert_allclose(kernels.improved_sheather_jones(samples, kernels.GAUSSIAN), expected, rtol=1e-6)


def test_improved_sheather_jones_is_infinite_where_it_has_no_fixed_point_as_kdepy_finds_none():
    samples = np.array([[0.0, 1.0, 2.0, 50.0, 98.0, 100.0]])
    with pytest.raises(ValueError, match="did not converge"), np.errstate(divide="ignore"):
        bw_selection.improved_sheather_jones(samples.T)
    assert kernels.improved_sheather_jones(samples, kernels.GAUSSIAN) == [np.inf]


@pytest.mark.parametrize("name", sorted(kernels.KERNELS))
def test_cross_validation_chooses_the_factor_of_the_best_left_out_likelihood(name):
    draw = np.random.default_rng(0)
    clumps = draw.normal(0, 0.01, (1, 25)) + np.arange(25) % 3
    samples = np.concatenate([clumps, draw.normal(size=(1, 25)), draw.standard_cauchy((1, 25))])
    silvermans = kernels.silverman(samples, kernels.KERNELS[name])
    expected = []
    for row, silverman in zip(np.sort(samples, axis=1), silvermans, strict=True):
        likelihoods = {}
        for factor in (10.0, 1.0, 0.1, 0.01):
            total = 0.0
            for fold in range(5):
                left_out = np.arange(25) % 5 == fold
                density = neighbors.KernelDensity(kernel=name, bandwidth=factor * silverman)
                density.fit(row[~left_out, np.newaxis])
                scores = density.score_samples(row[left_out, np.newaxis])
                total += np.maximum(scores, np.log(np.finfo(np.float32).tiny)).sum()
            likelihoods[factor] = total
        expected.append(silverman * max(likelihoods, key=likelihoods.get))
    assert len(set(np.round(expected / silvermans, 6))) > 1
    np.testing.assert_allclose(kernels.cross_validation(samples, kernels.KERNELS[name]), expected, rtol=1e-9)


@pytest.mark.parametrize("name", kernels.RULES)
def test_the_order_of_the_samples_changes_no_bandwidth(name):
    draw = np.random.default_rng(1)
    samples = draw.standard_cauchy((40, 13))
    shuffled = draw.permuted(samples, axis=1)
    found = (kernels.RULES[name](one, kernels.EPANECHNIKOV) for one in (samples, shuffled))
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_nearest_is_scotts_rule_of_the_five_samples_around_the_place():
    samples = np.array([[-9.0, -1.0, 0.5, 30.0, 2.0, -2.0, 1.0, 40.0]])
    expected = kernels.scott(np.array([[-1.0, 0.5, 2.0, -2.0, 1.0]]), kernels.GAUSSIAN)
    np.testing.assert_allclose(kernels.nearest(samples, kernels.GAUSSIAN), expected, rtol=1e-12)


@pytest.mark.parametrize("rule", [*kernels.RULES.values(), kernels.nearest])
@pytest.mark.parametrize("samples", [np.full((1, 6), 0.3), np.array([[2.0]])], ids=["equal", "single"])
def test_samples_without_spread_have_the_bandwidth_zero(rule, samples):
    assert rule(samples, kernels.EPANECHNIKOV) == [0]


@pytest.mark.parametrize("name", kernels.RULES)
def test_a_bandwidth_scales_with_the_samples_and_ignores_where_they_lie(name):
    samples = np.random.default_rng(0).gamma(2, size=(3, 20))
    rule = kernels.RULES[name]
    np.testing.assert_allclose(rule(7 * samples - 3, kernels.GAUSSIAN), 7 * rule(samples, kernels.GAUSSIAN), rtol=1e-6)
