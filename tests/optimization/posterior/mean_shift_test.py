"""Tests of optimization.posterior.mean_shift."""

import dataclasses

import numpy as np
import pytest
import scipy.special

from optimization.posterior import kernels, mean_shift

KERNELS = sorted(kernels.KERNELS)
ALGORITHMS = ["fedkp", "fedkp_cluster_mean"]
# The Epanechnikov kernel under another identity: its cluster mean goes step by step, not by windows.
STEPWISE = dataclasses.replace(kernels.EPANECHNIKOV)


def _models(num_clients: int = 21, seed: int = 0) -> np.ndarray:
    """40 parameters, half of them clustered."""
    draw = np.random.default_rng(seed)
    models = draw.normal(size=(num_clients, 40))
    models[:, :20] = 0.3 * models[:, :20] + 2 * draw.integers(0, 3, (num_clients, 20))
    return models.astype(np.float32)


def _widths(models: np.ndarray) -> np.ndarray:
    return kernels.silverman(models.T.astype(np.float64), kernels.EPANECHNIKOV)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_modes_are_the_uphill_maxima_of_the_density_on_a_grid(kernel):
    models, kernel = _models()[:, 14:26], kernels.KERNELS[kernel]
    shift = mean_shift.MeanShift(kernel, scale=1.5, tolerance=1e-9, t_max=5000, step_weights="profile")
    from_mean, clustered = shift.fedkp(models).model, shift.fedkp_cluster_mean(models).model
    samples = models.T.astype(np.float64)
    for column, width in enumerate(1.5 * _widths(models)):
        grid = np.linspace(samples[column].min() - width, samples[column].max() + width, 200_001)
        density = kernels.density(kernel, samples[column : column + 1], np.array([width]), grid[np.newaxis])[0]

        slopes = np.sign(np.diff(density))
        maxima = grid[1:-1][(slopes[:-1] > 0) & (slopes[1:] <= 0)]

        def climb(starts, grid=grid, slopes=slopes, maxima=maxima) -> np.ndarray:
            """The next maximum to the right where the density rises, to the left where it falls."""
            rises = slopes[np.searchsorted(grid, starts) - 1] > 0
            return maxima[np.clip(np.searchsorted(maxima, starts) - ~rises, 0, len(maxima) - 1)]

        step = grid[1] - grid[0]
        assert from_mean[column] == pytest.approx(climb(samples[column].mean()), abs=2 * step)
        assert clustered[column] == pytest.approx(climb(samples[column]).mean(), abs=2 * step)


@pytest.mark.parametrize("scale", [0.02, 0.5, 1.0, 30.0])
@pytest.mark.parametrize("t_max", [1, 3, 20])
@pytest.mark.parametrize("tolerance", [0.0, 0.02])
@pytest.mark.parametrize("clients", ["equal", "weighted", "own bandwidths"])
@pytest.mark.parametrize("step_weights", mean_shift.WEIGHTS)
def test_windows_give_what_single_steps_give(t_max, tolerance, clients, scale, step_weights):
    models = _models()
    models[:, 3], models[:15, 4] = 0.1, 0.2  # Clients that agree, and most of them that do.
    sizes = np.random.default_rng(1).integers(1, 30, len(models))
    weighting = {
        "equal": {},
        "weighted": {"weights": sizes},
        "own bandwidths": {"bandwidth_factors": mean_shift.size_factors(sizes)},
    }[clients]
    windows = mean_shift.MeanShift(scale=scale, tolerance=tolerance, t_max=t_max, step_weights=step_weights)
    stepwise = dataclasses.replace(windows, kernel=STEPWISE)
    np.testing.assert_allclose(
        windows.fedkp_cluster_mean(models, **weighting).model,
        stepwise.fedkp_cluster_mean(models, **weighting).model,
        atol=1e-6 + (tolerance if step_weights == "profile" else 0),
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_steps_weigh_by_the_kernel_as_algorithm_8_has_it(kernel, algorithm):
    models, kernel = _models()[:, 14:26], kernels.KERNELS[kernel]
    samples = models.astype(np.float64)
    expected = []
    for column, width in zip(samples.T, 1.5 * _widths(models), strict=True):
        ends = []
        for point in [column.mean()] if algorithm == "fedkp" else column:
            for _ in range(4):
                weights = kernel.density((column - point) / width)
                point = weights @ column / weights.sum()
            ends.append(point)
        expected.append(np.mean(ends))
    shift = mean_shift.MeanShift(kernel, scale=1.5, t_max=4, tolerance=0)
    np.testing.assert_allclose(getattr(shift, algorithm)(models).model, expected, atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_clients_modes_average_to_the_cluster_mean(kernel):
    models, shift = _models(), mean_shift.MeanShift(kernels.KERNELS[kernel])
    modes = shift.modes(models)
    assert modes.shape == models.shape
    np.testing.assert_allclose(modes.mean(axis=0), shift.fedkp_cluster_mean(models).model, atol=1e-5)


def test_one_step_is_the_mean_of_the_samples_within_one_bandwidth():
    # Scott's bandwidth of these is 2.15, so that 0 sees 0, 1 and 2.
    models = np.array([[0.0], [1.0], [2.0], [6.0]], np.float32)
    width = 2.0 / kernels.scott(models.T.astype(np.float64), kernels.EPANECHNIKOV)[0]
    shift = mean_shift.MeanShift(bandwidth="scott", scale=width, t_max=1, step_weights="profile")
    # From 0: 1; from 1: 1; from 2: 1; from 6: 6. A sample at exactly one bandwidth counts.
    np.testing.assert_allclose(shift.fedkp_cluster_mean(models).model, [(1 + 1 + 1 + 6) / 4])
    # The mean, 2.25, sees 1 and 2.
    np.testing.assert_allclose(shift.fedkp(models).model, [1.5])


@pytest.mark.parametrize("scale", [1.0, 0.05, 1e-3])
def test_a_gaussian_step_far_from_all_clients_equals_scipys_softmax(scale):
    # Two clumps, 3 and 2 clients: at the smaller scales the mean lies 20 and 1000 bandwidths from the nearest client.
    models = np.array([[0.0], [0.01], [0.02], [1.0], [1.01]], np.float32)
    samples = models[:, 0].astype(np.float64)
    width = scale * kernels.silverman(samples[np.newaxis], kernels.GAUSSIAN)[0]
    point = samples.mean()
    expected = scipy.special.softmax(-0.5 * ((samples - point) / width) ** 2) @ samples
    found = mean_shift.MeanShift(kernels.GAUSSIAN, scale=scale, t_max=1, tolerance=0).fedkp(models)
    np.testing.assert_allclose(found.model, [expected], rtol=1e-6)
    assert found.share_moved == 1


def test_the_share_moved_counts_parameters_with_a_client_within_one_bandwidth_of_the_mean():
    # Silverman's width of ten values in two clumps is about 0.27 of their distance: no client is near the middle.
    clumps = np.repeat([0.0, 1.0], 5) + np.tile([0.0, 0.01, 0.02, 0.03, 0.04], 2)
    skewed = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 3.0])
    models = np.stack([clumps, skewed, np.full(10, 0.3), clumps], axis=1).astype(np.float32)
    assert (_widths(models)[[0, 3]] < 0.4).all()
    found = mean_shift.MeanShift().fedkp(models)
    np.testing.assert_allclose(found.model[[0, 2, 3]], models.mean(axis=0)[[0, 2, 3]], rtol=1e-6)
    assert found.share_moved == 0.25  # The skewed parameter alone.
    assert mean_shift.MeanShift(scale=1e9).fedkp_cluster_mean(models).share_moved == 0  # FedAvg.


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_an_endless_bandwidth_gives_the_mean(algorithm, kernel):
    models, weights = _models(), np.arange(1, 22)
    shift = mean_shift.MeanShift(kernels.KERNELS[kernel], scale=1e30)
    np.testing.assert_allclose(getattr(shift, algorithm)(models).model, models.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(
        getattr(shift, algorithm)(models, weights=weights).model, np.average(models, axis=0, weights=weights), atol=1e-6
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bandwidth", [*kernels.RULES, kernels.NEAREST])
def test_identical_clients_and_single_clients_keep_their_model(algorithm, kernel, bandwidth):
    model = np.array([0.1, -3e-5, 0.0, 7e4], np.float32)
    for models in (np.tile(model, (6, 1)), model[np.newaxis]):
        shift = mean_shift.MeanShift(kernels.KERNELS[kernel], bandwidth)
        np.testing.assert_allclose(getattr(shift, algorithm)(models).model, model, rtol=1e-7)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_clients_that_are_not_finite_are_left_out(algorithm):
    models, weights = _models(), np.arange(1.0, 22.0)
    broken = np.insert(models, [3, 10], np.nan, axis=0)
    broken[3, 1:], broken[3, 5] = 0, np.inf
    shift = mean_shift.MeanShift()
    found = getattr(shift, algorithm)(broken, weights=np.insert(weights, [3, 10], 5.0))
    np.testing.assert_array_equal(found.model, getattr(shift, algorithm)(models, weights=weights).model)


def test_a_double_weight_counts_as_two_equal_clients():
    models = _models()
    # The bandwidth is that of unweighted clients, so it is set alike.
    twice = np.concatenate([models, models[:1]])
    weights = np.where(np.arange(21) == 0, 2.0, 1.0)
    for column in range(3):
        one, two = models[:, [column]], twice[:, [column]]
        scale = _widths(one)[0] / _widths(two)[0]
        np.testing.assert_allclose(
            mean_shift.MeanShift().fedkp(one, weights=weights).model,
            mean_shift.MeanShift(scale=scale).fedkp(two).model,
            atol=1e-6,
        )


def test_a_clients_bandwidth_shrinks_with_its_examples():
    np.testing.assert_allclose(mean_shift.size_factors(np.array([10, 20, 30])), [2, 1, 2 / 3])


def test_clients_own_bandwidths_climb_the_sum_of_their_kernels():
    models, factors = _models(), np.random.default_rng(2).uniform(0.5, 2, 21)
    shift = mean_shift.MeanShift(scale=2, t_max=500, tolerance=0, step_weights="profile")
    found = shift.fedkp(models, bandwidth_factors=factors).model
    for column, width in enumerate(2 * _widths(models)):
        samples, own = models[:, column].astype(np.float64), width * factors

        def total(point: float, samples=samples, own=own) -> float:
            return kernels.EPANECHNIKOV.density((point - samples) / own).sum()

        assert total(found[column]) >= max(total(found[column] - 1e-5), total(found[column] + 1e-5))


def test_the_nearest_bandwidth_is_recomputed_at_each_step():
    models = np.array([[0.0], [0.2], [0.3], [0.5], [1.0], [9.0], [9.5]], np.float32)
    samples, point = models[:, 0].astype(np.float64), models.mean(dtype=np.float64)
    for _ in range(3):
        width = 8 * kernels.nearest((samples - point)[np.newaxis], kernels.EPANECHNIKOV)[0]
        point = samples[np.abs(samples - point) <= width].mean()
    shift = mean_shift.MeanShift(bandwidth=kernels.NEAREST, scale=8, t_max=3, step_weights="profile")
    found = shift.fedkp(models).model
    np.testing.assert_allclose(found, [point], rtol=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_chunks_do_not_change_the_result(algorithm, monkeypatch):
    models = _models()
    whole = getattr(mean_shift.MeanShift(), algorithm)(models).model
    monkeypatch.setattr(mean_shift, "_CELLS", 150)
    np.testing.assert_allclose(getattr(mean_shift.MeanShift(), algorithm)(models).model, whole, atol=1e-7)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_deltas_may_replace_models(algorithm):
    models = _models()
    aggregate = getattr(mean_shift.MeanShift(), algorithm)
    np.testing.assert_allclose(aggregate(models - 5).model, aggregate(models).model - 5, atol=1e-5)


def test_no_finite_model_is_an_error():
    with pytest.raises(ValueError, match="None of the 2 models is finite"):
        mean_shift.MeanShift().fedkp(np.full((2, 3), np.nan, np.float32))


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, np.nan], [-1.0, 1.0]])
def test_weights_must_be_one_positive_number_a_client(weights):
    with pytest.raises(ValueError, match="must be 2 positive numbers"):
        mean_shift.MeanShift().fedkp(np.zeros((2, 3), np.float32), weights=weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step_weights": "slope"}, "must be one of kernel, profile"),
        ({"bandwidth": "wide"}, "must be one of silverman"),
        ({"scale": 0.0}, "scale=0.0 must be finite and above 0"),
        ({"scale": np.inf}, "scale=inf must be finite"),
        ({"tolerance": -1.0}, "tolerance=-1.0 must be at least 0"),
        ({"t_max": 0}, "t_max=0 at least 1"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        mean_shift.MeanShift(**arguments)
