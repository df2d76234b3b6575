import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import tensorflow as tf

from optimization.posterior import kernels
from tests.optimization.posterior import reference

NAMES = sorted(kernels.KERNELS)
LINE = np.linspace(-12, 12, 240_001)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_a_density_with_the_stated_roughness_and_variance(name):
    kernel = kernels.KERNELS[name]
    values = kernel.density(tf.constant(LINE)).numpy()
    assert scipy.integrate.simpson(values, LINE) == pytest.approx(1, abs=1e-6)
    assert scipy.integrate.simpson(values**2, LINE) == pytest.approx(kernel.roughness, abs=1e-6)
    assert scipy.integrate.simpson(LINE**2 * values, LINE) == pytest.approx(kernel.variance, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", kernels.RULES)
def test_bandwidths_equal_their_formulas_and_other_libraries(rule, name):
    # Normal, clustered, skewed and heavy-tailed rows of 25; most samples of the last are equal.
    draw = np.random.default_rng(0)
    normal, skewed, heavy = draw.normal(size=(3, 25)), draw.gamma(2, size=(2, 25)), draw.standard_t(2, size=(2, 25))
    clumps = draw.normal(0, 0.01, (1, 25)) + np.arange(25) % 3
    samples = np.concatenate([normal, clumps, skewed, heavy, 8.0 * (np.arange(25) > 21)[np.newaxis]])
    if rule == "improved_sheather_jones":
        samples = samples[:3]  # A density on a grid: KDEpy's bandwidth of clumps depends on its grid.
    expected = [reference.bandwidth(rule, row, name) for row in samples]
    np.testing.assert_allclose(kernels.RULES[rule](samples, kernels.KERNELS[name]), expected, rtol=1e-5)


def test_improved_sheather_jones_is_infinite_where_kdepy_finds_no_fixed_point():
    samples = np.array([[0.0, 1.0, 2.0, 50.0, 98.0, 100.0]])
    with np.errstate(divide="ignore"):
        assert reference.bandwidth("improved_sheather_jones", samples[0], "gaussian") == np.inf
    assert kernels.improved_sheather_jones(tf.constant(samples), kernels.KERNELS["gaussian"]).numpy() == [np.inf]
