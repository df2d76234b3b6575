import numpy as np
import pytest

from bandits import policies
from bandits.theory import findings, oracles, simulation, worlds


def _epsilon_greedy(epsilon):
    return lambda period: policies.EpsilonGreedy(epsilon)


def test_periods_measure_what_acts_and_what_was_fitted():
    world = worlds.hidden_best(3, 0.3)
    first = world.candidates[:, 0]
    played = simulation.play(
        world,
        _epsilon_greedy(0.3),
        simulation.exact_oracle(world),
        first,
        simulation.Sampling(400),
        3,
        500,
        np.random.default_rng(0),
    )
    np.testing.assert_allclose(played.greedy[0], 0.3)
    np.testing.assert_array_equal(played.greedy[1:], played.after[:-1])
    # 0.7 x gap, and what a mean action loses.
    np.testing.assert_allclose(played.whole[0], 0.7 * 0.3 + 0.3 * 0.2, rtol=1e-6)
    # Wrong by 0.3 at two actions of three, both rare or one frequent, or right.
    assert set(np.round(played.error[0], 4)) <= {0.0, round(0.3**2 * 0.2, 4), round(0.3**2 * 0.9, 4)}
    assert played.after[-1].mean() < 0.03


def test_the_probability_of_a_mistake_is_the_exact_one():
    # Uniform log, two actions: the mistake is that a difference of binomials is negative, half of the ties.
    world, samples, gap = worlds.hidden_best(2, 0.1), 100, 0.1
    played = simulation.play(
        world,
        _epsilon_greedy(1.0),
        simulation.exact_oracle(world),
        world.candidates[:, 0],
        simulation.Sampling(samples),
        1,
        40_000,
        np.random.default_rng(1),
    )
    # By the normal approximation: statistic sum (r - 0.55) of one action less the other's.
    from scipy import stats

    mean = samples / 2 * gap
    deviation = np.sqrt(samples / 2 * (0.6 * 0.4 + 0.5 * 0.5 + 2 * 0.05**2))
    expected = stats.norm.cdf(-mean / deviation)
    assert (played.after[-1] > 0).mean() == pytest.approx(expected, abs=0.02)


def test_samples_of_few_clients_show_their_contexts_alone():
    world = worlds.split(worlds.spread_gaps(6, 2, 0.3), 6, 1.0)
    contexts = simulation.Sampling(60, clients=2).contexts(world, 200, np.random.default_rng(2))
    assert (contexts.sum(axis=1) == 60).all()
    assert set(np.unique(contexts)) == {0, 30, 60}
    alone = simulation.Sampling(60).contexts(world, 2000, np.random.default_rng(3))
    np.testing.assert_allclose(alone.mean(axis=0), 10, atol=0.4)


def test_clients_must_divide_the_samples():
    with pytest.raises(ValueError, match="clients=7 must divide samples=60"):
        simulation.Sampling(60, 7)


def test_fitting_after_each_sample_is_playing_periods_of_one_sample():
    world = worlds.spread_gaps(2, 2, 0.4)
    first = world.candidates[:, 0]
    arguments = 400, np.random.default_rng(4)
    periods = simulation.play(
        world, _epsilon_greedy(0.5), simulation.exact_oracle(world), first, simulation.Sampling(1), 60, *arguments
    )
    each = simulation.fitted_after_each(world, 0.5, first, 60, 400, np.random.default_rng(5))
    np.testing.assert_allclose(each[0], periods.greedy[0])
    np.testing.assert_allclose(each.mean(axis=1), periods.greedy.mean(axis=1), atol=0.03)
    assert each[-1].mean() < each[0].mean() / 2


def test_equal_draws_give_equal_bits():
    world = worlds.spread_gaps(3, 3, 0.3)
    found = [
        simulation.play(
            world,
            _epsilon_greedy(0.2),
            oracles.StoppedEarly(1e-3),
            world.candidates[:, 0],
            simulation.Sampling(100),
            3,
            10,
            np.random.default_rng(6),
        )
        for _ in range(2)
    ]
    for mine, others in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, others)


def test_a_linear_world_without_noise_in_its_fit_has_no_regret():
    world = worlds.fan(3)
    found = simulation.play_linear(world, 1.0, 4000, 2, [1, 2], 10, np.random.default_rng(7), evaluated=500)
    assert found.shape == (2, 10)
    assert (found >= 0).all()
    assert found[1].mean() < 0.01  # A random action loses 0.3.


def test_slopes_of_powers_and_exponentials_are_exact():
    places = np.array([1.0, 2.0, 5.0, 10.0])
    seeds = np.array([[1.0], [3.0]])
    assert findings.loglog(places, seeds * places**-0.5).mean == pytest.approx(-0.5)
    assert findings.semilog(places, seeds * np.exp(-0.2 * places)).mean == pytest.approx(-0.2)
    with pytest.raises(ValueError, match="values must be above 0"):
        findings.loglog(places, np.zeros((2, 4)))


def test_runs_of_a_seed_are_averaged():
    np.testing.assert_allclose(findings.by_seed(np.array([[1.0, 3.0, 5.0, 9.0]]), 2), [[2.0, 7.0]])
