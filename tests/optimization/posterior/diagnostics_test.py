import numpy as np
import pytest
import scipy.stats
from statsmodels.stats import diagnostic

from optimization.posterior import diagnostics


def _models() -> np.ndarray:
    draw = np.random.default_rng(0)
    models = np.concatenate([draw.normal(size=(25, 10)), draw.gamma(0.5, size=(25, 10))], axis=1)
    return models.astype(np.float32)


def test_statistics_equal_scipys():
    models = _models()
    found = diagnostics.normality(models)
    for column, samples in enumerate(models.T.astype(np.float64)):
        expected = scipy.stats.kstest(samples, "norm", args=(samples.mean(), samples.std(ddof=1))).pvalue
        assert found.p_values[column] == pytest.approx(expected, abs=1e-5)
        expected = diagnostic.lilliefors(samples, pvalmethod="table")[1]
        assert found.lilliefors_p_values[column] == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(found.skewness, scipy.stats.skew(models.astype(np.float64)), rtol=1e-9)
    np.testing.assert_allclose(found.kurtosis, scipy.stats.kurtosis(models.astype(np.float64)), rtol=1e-9)


def test_the_distance_of_two_samples_is_always_the_same():
    # They lie at -0.71 and 0.71 standard deviations, where the normal distribution has 0.24 and 0.76.
    assert diagnostics.normal_distance(2) == pytest.approx(scipy.stats.norm.cdf(np.sqrt(0.5)) - 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, 100])
def test_normal_models_have_no_excess_distance_whatever_their_number(count):
    models = np.random.default_rng(3).normal(size=(count, 4000)).astype(np.float32)
    assert diagnostics.normality(models).excess_distances.mean() == pytest.approx(0, abs=0.004)
    skewed = np.square(models) * np.sign(models)
    assert diagnostics.normality(skewed).excess_distances.mean() > 0.01


def test_a_parameter_without_spread_has_no_statistics():
    models = _models()
    models[:, 3] = 0.1
    for values in diagnostics.normality(models):
        assert np.flatnonzero(np.isnan(values)).tolist() == [3]
