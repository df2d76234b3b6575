import numpy as np
import pytest
from scipy import stats

from bandits import policies
from bandits.theory import findings, oracles, simulation, worlds


def test_periods_measure_what_acts_and_what_was_fitted():
    world = worlds.hidden_best(3, 0.3)
    found = simulation.simulate(world, policies.EpsilonGreedy(0.3), 400, 3, 500, np.random.default_rng(0))
    np.testing.assert_allclose(found.greedy[0], 0.3)
    np.testing.assert_array_equal(found.greedy[1:], found.after[:-1])
    # 0.7 x gap, and what a mean action loses.
    np.testing.assert_allclose(found.whole[0], 0.7 * 0.3 + 0.3 * 0.2, rtol=1e-6)
    # Wrong by 0.3 at two actions of three, both rare or one frequent, or right.
    assert set(np.round(found.error[0], 4)) <= {0.0, round(0.3**2 * 0.2, 4), round(0.3**2 * 0.9, 4)}
    assert found.after[-1].mean() < 0.03


def test_the_probability_of_a_mistake_is_the_exact_one():
    # Uniform log, two actions: the mistake is that a difference of binomials is negative, half of the ties.
    samples, gap = 100, 0.1
    generator = np.random.default_rng(1)
    found = simulation.simulate(worlds.hidden_best(2, gap), policies.EpsilonGreedy(1.0), samples, 1, 40_000, generator)
    # By the normal approximation: statistic sum (r - 0.55) of one action less the other's.
    deviation = np.sqrt(samples / 2 * (0.6 * 0.4 + 0.5 * 0.5 + 2 * 0.05**2))
    assert (found.after[-1] > 0).mean() == pytest.approx(stats.norm.cdf(-samples / 2 * gap / deviation), abs=0.02)


def test_samples_of_few_clients_show_their_contexts_alone():
    world = worlds.split(worlds.spread_gaps(6, 2, 0.3), 6, 1.0)
    contexts = simulation.sampled_contexts(world, 60, 200, np.random.default_rng(2), clients=2)
    assert (contexts.sum(axis=1) == 60).all()
    assert set(np.unique(contexts)) == {0, 30, 60}
    alone = simulation.sampled_contexts(world, 60, 2000, np.random.default_rng(3))
    np.testing.assert_allclose(alone.mean(axis=0), 10, atol=0.4)
    with pytest.raises(ValueError, match="clients=7"):
        simulation.sampled_contexts(world, 60, 1, np.random.default_rng(2), clients=7)


def test_fitting_after_each_sample_equals_periods_of_one_sample():
    world = worlds.spread_gaps(2, 2, 0.4)
    periods = simulation.simulate(world, policies.EpsilonGreedy(0.5), 1, 60, 400, np.random.default_rng(4))
    each = simulation.fitted_after_each(world, 0.5, 60, 400, np.random.default_rng(5))
    np.testing.assert_allclose(each[0], periods.greedy[0])
    np.testing.assert_allclose(each.mean(axis=1), periods.greedy.mean(axis=1), atol=0.03)
    assert each[-1].mean() < each[0].mean() / 2


def test_equal_draws_give_equal_bits():
    world, oracle = worlds.spread_gaps(3, 3, 0.3), oracles.StoppedEarly(1e-3)
    first, second = (
        simulation.simulate(world, lambda _: policies.EpsilonGreedy(0.2), 100, 3, 10, generator, oracle=oracle)
        for generator in (np.random.default_rng(6), np.random.default_rng(6))
    )
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_linear_world_is_learned_from_random_actions():
    generator = np.random.default_rng(7)
    found = simulation.simulate_linear(worlds.fan(3), 1.0, 4000, 2, [1, 2], 10, generator, evaluated=500)
    assert found.shape == (2, 10)
    assert (found >= 0).all()
    assert found[1].mean() < 0.01  # A random action loses 0.3.


def test_slopes_of_powers_and_exponentials_are_exact():
    places = np.array([1.0, 2.0, 5.0, 10.0])
    seeds = np.array([[1.0], [3.0]])
    assert findings.loglog(places, seeds * places**-0.5).mean == pytest.approx(-0.5)
    assert findings.semilog(places, seeds * np.exp(-0.2 * places)).mean == pytest.approx(-0.2)
    with pytest.raises(ValueError, match="above 0"):
        findings.loglog(places, np.zeros((2, 4)))
    np.testing.assert_allclose(findings.by_seed(np.arange(40.0)), 2 * np.arange(20) + 0.5)
