"""Correlated noise, and its accounting and choice, against dp-accounting, jax-privacy and numerical privacy losses."""

import math

import dp_accounting
import numpy as np
import pytest
import scipy.linalg
from dp_accounting import pld, rdp

from optimization.privacy import calibration, dp_queries, factorizations
from optimization.privacy.mechanisms import Mechanism
from tests.optimization.privacy import reference

STUDY = {"population": 342_477, "cohort": 64, "delta": 1e-6, "noise_multiplier": 1.0}
UNSTATED = {"population": 200_000, "cohort": 100, "delta": 1e-7, "noise_multiplier": 2.0, "bands": 50}


@pytest.mark.parametrize("values", [{"bands": 1}, {"bands": 3}, {"bands": 3, "optimized_rounds": 7}], ids=str)
def test_correlated_noise_times_its_matrix_is_independent_noise(values):
    rounds, shapes, noises = 7, ((300, 500), (50_000,)), []
    mechanism = Mechanism("mf_dpftrl", 0.5, 1000, 10, sampling="cyclic", **values)
    noise = dp_queries.CorrelatedNoise(mechanism, shapes, 8)
    state = noise.initial_state(())
    for _ in range(rounds):
        parts, state = noise.next(state)
        assert [part.shape for part in parts] == [*shapes]
        noises.append(np.concatenate([np.ravel(part) for part in parts]))
    padded = np.append(mechanism.column(rounds), np.zeros(rounds))[:rounds]
    white = scipy.linalg.toeplitz(padded, np.zeros(rounds)) @ np.stack(noises)
    assert white.var(axis=1) == pytest.approx(np.full(rounds, 0.5**2), rel=0.01)
    correlation = np.corrcoef(white) - np.eye(rounds)
    assert abs(correlation).max() < 4 / math.sqrt(200_000)


def test_the_memory_of_a_state_is_never_changed():
    noise = dp_queries.CorrelatedNoise(Mechanism("mf_dpftrl", 0.5, 1000, 10, bands=3), ((5,),), 8)
    states = [noise.initial_state(())]
    for _ in range(4):
        states.append(noise.next(states[-1])[1])
    np.testing.assert_array_equal(noise.next(states[2])[1].memory, states[3].memory)


def _amplified(groups: int, **values) -> Mechanism:
    return Mechanism("mf_dpftrl", sampling="cyclic_poisson", groups=groups, **values)


@pytest.mark.parametrize("expected", reference.JAX_PRIVACY["amplified"], ids=lambda one: f"{one['bands']}_bands")
def test_amplified_epsilons_equal_jax_privacys(expected):
    names = ("population", "cohort", "delta", "noise_multiplier", "bands")
    mechanism = _amplified(expected["bands"], **{name: expected[name] for name in names})
    assert mechanism.epsilon(expected["rounds"]) == pytest.approx(expected["epsilon_rdp"], rel=1e-3)
    by_pld = mechanism.analyses[0].pld_epsilon(expected["rounds"], mechanism.delta)
    assert by_pld == pytest.approx(expected["epsilon_pld"], rel=0.02)


def test_amplified_noise_is_a_poisson_sampled_gaussian_a_turn():
    event = dp_accounting.PoissonSampledDpEvent(0.025, dp_accounting.GaussianDpEvent(2.0))
    amplified = _amplified(50, **UNSTATED)
    assert amplified.epsilon(1000) == rdp.RdpAccountant().compose(event, 20).get_epsilon(1e-7)
    assert amplified.epsilon(1001) == rdp.RdpAccountant().compose(event, 21).get_epsilon(1e-7)
    assert amplified.analyses[0].relation is dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    assert amplified.rests_on_cohorts


def test_turns_without_samples_cost_more_and_no_turns_are_not_amplified():
    amplified = _amplified(50, **UNSTATED)
    by_turns = Mechanism("mf_dpftrl", sampling="cyclic", **UNSTATED)
    anyone = Mechanism("mf_dpftrl", sampling="fixed", **UNSTATED)
    assert amplified.epsilon(1000) < by_turns.epsilon(1000) < anyone.epsilon(1000)
    sensitivity = factorizations.squared_sensitivity(factorizations.banded_column(50), 1000, 1)
    event = dp_accounting.GaussianDpEvent(2.0 / math.sqrt(sensitivity))
    assert anyone.epsilon(1000) == pytest.approx(rdp.RdpAccountant().compose(event).get_epsilon(1e-7))


def _hockey_stick(matrix: np.ndarray, rate: float, noise: float, epsilon: float) -> tuple[float, float]:
    """Both hockey-stick divergences of the four rounds with a client, and without, on a grid of the plane it moves.

    The client takes part in rounds 1 and 3, each time with the probability of the rate.
    """
    moved, _ = np.linalg.qr(matrix[:, [0, 2]])  # Orthogonal to it both data sets have the same noise.
    axis = np.linspace(-9 * noise, 9 * noise + 2, 1201)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)

    def density(mean):
        return np.exp(-((points - mean) ** 2).sum(-1) / 2 / noise**2) / (2 * math.pi * noise**2)

    without, with_client = density(np.zeros(2)), 0.0
    for first in (0, 1):
        for second in (0, 1):
            chance = (rate if first else 1 - rate) * (rate if second else 1 - rate)
            with_client = with_client + chance * density((first * matrix[:, 0] + second * matrix[:, 2]) @ moved)
    area = (axis[1] - axis[0]) ** 2
    differences = (with_client - math.exp(epsilon) * without, without - math.exp(epsilon) * with_client)
    return tuple(float(np.maximum(one, 0).sum() * area) for one in differences)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.8, 2.0])
def test_the_numerical_privacy_loss_of_four_rounds_is_that_of_the_accountant(noise):
    # Signs of the grid's axes do not matter: columns of bands 2 that are two rounds apart are orthogonal.
    column = np.append(factorizations.banded_column(2), [0, 0])
    matrix = scipy.linalg.toeplitz(column, np.zeros(4))
    mechanism = _amplified(2, population=100, cohort=10, noise_multiplier=noise, bands=2, delta=1e-5)
    event = dp_accounting.PoissonSampledDpEvent(mechanism.rate, dp_accounting.GaussianDpEvent(noise))
    accountant = pld.PLDAccountant(value_discretization_interval=1e-4).compose(event, 2)
    for epsilon in (0.3, 1.0):
        largest = max(_hockey_stick(abs(matrix), mechanism.rate, noise, epsilon))
        assert accountant.get_delta(epsilon) == pytest.approx(largest, rel=2e-3)
        assert mechanism.epsilon(4) > 0
    ours = mechanism.analyses[0].pld_epsilon(4, largest)
    assert 1.0 <= ours * (1 + 2e-3) <= 1.01


@pytest.mark.slow
def test_compared_bands_reach_the_epsilon_and_the_best_lies_inside_the_grid():
    choices = calibration.compare_bands(_amplified(1, **STUDY), 1600, 3.0)
    best = min(choices, key=lambda one: one.prefix_noise(1600))
    assert choices[0].bands < best.bands < choices[-1].bands
    for one in choices:
        assert (one.groups, one.optimized_rounds) == (one.bands, 1600)
        assert 2.99 < one.epsilon(1600) <= 3


@pytest.mark.parametrize(("dimension", "most"), [(2**21, 64), (2**27, 1), (10, 1600)])
def test_bands_keep_within_the_memory_of_the_noise(dimension, most):
    choices = calibration.compare_bands(Mechanism("mf_dpftrl", sampling="cyclic", **STUDY), 1600, 1.0, dimension)
    assert choices[-1].bands == most
