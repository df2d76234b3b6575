"""Tests of bandits.theory.rates."""

import numpy as np
import pytest
from scipy import stats

from bandits import policies, schedules
from bandits.theory import environments, rates


def test_the_probability_of_a_mistake_is_the_exact_one():
    # Two actions, chosen uniformly: a mistake is a negative difference of binomials, half of the ties.
    samples, gap = 100, 0.1
    environment, generator = environments.hidden_best(2, gap), np.random.default_rng(1)
    greedy, _ = rates.simulate(environment, policies.EpsilonGreedy(1.0), samples, 1, 40_000, generator)
    # By the normal approximation to the sum of r - 0.55 of one action minus that of the other.
    deviation = np.sqrt(samples / 2 * (0.6 * 0.4 + 0.5 * 0.5 + 2 * 0.05**2))
    assert (greedy > 0).mean() == pytest.approx(stats.norm.cdf(-samples / 2 * gap / deviation), abs=0.02)


def test_errors_are_those_of_a_model_that_confuses_two_actions_or_none():
    environment, generator = environments.hidden_best(3, 0.3), np.random.default_rng(0)
    greedy, errors = rates.simulate(environment, policies.EpsilonGreedy(0.3), 400, 1, 500, generator)
    # A wrong model errs by 0.3 at two actions: both rare (0.1 each), or one of them frequent (0.8).
    assert set(np.round(errors, 4)) <= {0.0, round(0.3**2 * 0.2, 4), round(0.3**2 * 0.9, 4)}
    np.testing.assert_allclose(greedy, np.where(errors > 0, 0.3, 0.0), atol=1e-7)


def test_bounds_equal_hand_computed_ones():
    log_term = schedules.complexity(np.log(8), 0.05, 2)
    assert log_term == pytest.approx(np.log(320))
    assert rates.error_bound(log_term, 100, constant=2) == pytest.approx(2 * np.log(320) / 100)
    assert rates.greedy_bound(5, 0.1, 0.04) == pytest.approx(2.0)


def test_the_measured_constant_makes_equation_7_hold_in_the_share_of_runs():
    errors = np.random.default_rng(0).exponential(size=1000)
    constant = rates.measured_constant(errors, 3.0, 50)
    assert (errors > rates.error_bound(3.0, 50, constant)).mean() == pytest.approx(rates.DELTA, abs=0.002)


def test_the_slope_of_a_power_is_its_exponent():
    places = [1.0, 2.0, 5.0, 10.0]
    assert rates.slope(places, np.array([[1.0], [3.0]]) * np.power(places, -0.5)).mean == pytest.approx(-0.5)


@pytest.mark.slow
def test_greedy_regret_falls_with_the_root_of_the_samples_and_stays_below_the_bound(monkeypatch):
    monkeypatch.setattr(rates, "RUNS_OF_A_SEED", 20)
    monkeypatch.setattr(rates, "GRIDS", {name: rates.GRIDS[name] for name in list(rates.GRIDS)[:1]})
    (row,) = rates.table(seed=1).splitlines()[2:]
    _, _, _, measured, of_bound, share, _ = row.split("|")
    assert float(measured.split()[0]) == pytest.approx(-0.5, abs=0.05)
    assert float(of_bound) == pytest.approx(-0.5, abs=0.05)
    assert float(share) < 1
