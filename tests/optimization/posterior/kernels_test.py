"""Tests of optimization.posterior.kernels."""

import numpy as np
import pytest
import scipy.integrate
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
