"""Regret and errors by hand, the inequality between them, and the rates of simulated learners."""

import numpy as np
import pytest
from scipy import stats

from bandits import policies, schedules, theory


def _environment(rewards):
    rewards = np.array(rewards)
    return theory.FiniteEnvironment(rewards, rewards[:, None], np.full(len(rewards), 1 / len(rewards)))


def test_regret_equals_hand_computed_one():
    environment = _environment([[0.2, 0.8], [0.5, 0.1]])
    acting = np.array([[[0.5, 0.5], [0.25, 0.75]]])
    np.testing.assert_allclose(theory.of_policy(environment, acting), [0.5 * 0.5 * 0.6 + 0.5 * 0.75 * 0.4])
    # Right in the first context; a tie, of which half is wrong, in the second.
    np.testing.assert_allclose(theory.of_greedy(environment, np.array([[[0.3, 0.4], [0.6, 0.6]]])), [0.5 * 0.5 * 0.4])


def test_error_equals_the_expected_excess_of_noisy_squares():
    environment = _environment([[0.2, 0.8]])
    predicted, log = np.array([[[0.5, 0.6]]]), np.array([[0.25, 0.75]])
    noisy = 0.0  # E[(f - r)^2 - (f* - r)^2], summed over rewards 1 and 0.
    for action in range(2):
        mean, fit = environment.rewards[0, action], predicted[0, 0, action]
        for reward, chance in ((1, mean), (0, 1 - mean)):
            noisy += log[0, action] * chance * ((fit - reward) ** 2 - (mean - reward) ** 2)
    np.testing.assert_allclose(theory.error(environment, predicted, log), [noisy])


def _fit(draw, kind):
    """A random environment, a model of it, and the epsilon and the probabilities of an epsilon-greedy log."""
    shape = draw.integers(1, 5), draw.integers(2, 9)
    rewards, contexts = draw.random(shape, np.float32).astype(float), np.arange(shape[0])
    environment = theory.FiniteEnvironment(rewards, rewards[:, None], draw.dirichlet(np.full(shape[0], 0.5)))
    predicted = draw.uniform(-2, 2, shape).astype(np.float32).astype(float)
    if kind == "ties":
        predicted = np.round(2 * predicted) / 2
    elif kind == "nearly right":
        predicted = np.where(draw.random(shape) < 0.5, predicted, rewards)
    elif kind == "halfway":  # The smallest error that misleads: the best action and another meet in the middle.
        predicted, other = rewards.copy(), draw.integers(0, shape[1], shape[0])
        middle = np.float32((rewards.max(axis=1) + rewards[contexts, other]) / 2)
        predicted[contexts, rewards.argmax(axis=1)] = predicted[contexts, other] = middle
    epsilon = draw.choice([1e-9, 1e-3, 0.1, 1 - 1e-9, 1.0])
    # Averaged over the deployed models, the greedy part of a log can be any distribution.
    greedy = draw.dirichlet(np.full(shape[1], draw.choice([0.01, 1.0])), shape[0])
    return environment, predicted, epsilon, epsilon / shape[1] + (1 - epsilon) * greedy


@pytest.mark.parametrize("kind", ["any", "ties", "nearly right", "halfway"])
def test_regret_never_exceeds_the_bound_by_error(kind):
    draw = np.random.default_rng(0)
    for _ in range(150):
        environment, predicted, epsilon, logged = _fit(draw, kind)
        squared = environment.contexts @ (logged * (predicted - environment.rewards) ** 2).sum(axis=1)
        np.testing.assert_allclose(theory.error(environment, predicted[None], logged[None]), [squared], rtol=1e-9)
        lost = environment.rewards.max(axis=1, keepdims=True) - environment.rewards
        is_best = predicted == predicted.max(axis=1, keepdims=True)
        worst = environment.contexts @ np.where(is_best, lost, 0.0).max(axis=1)  # However ties are broken.
        assert worst <= theory.greedy_bound(environment.rewards.shape[1], epsilon, squared) * (1 + 1e-9)
        (shared,) = theory.of_greedy(environment, predicted[None])
        assert shared <= worst * (1 + 1e-6)


def test_the_bound_by_error_is_reached():
    # Both actions wrong by half the gap, and a log that favours a third: 2 K / epsilon x 2 epsilon / K x gap^2 / 4.
    environment, epsilon = _environment([[0.5, 0.75, 0.0]]), 0.1
    predicted = np.array([[[0.625, 0.6249, 0.0]]])
    log = np.array([[epsilon / 3, epsilon / 3, 1 - 2 * epsilon / 3]])
    np.testing.assert_allclose(theory.of_greedy(environment, predicted), [0.25])
    error = theory.error(environment, predicted, log)
    np.testing.assert_allclose(theory.greedy_bound(3, epsilon, error), [0.25], rtol=1e-3)


def test_the_probability_of_a_mistake_is_the_exact_one():
    # Two actions, chosen uniformly: a mistake is a negative difference of binomials, half of the ties.
    samples, gap = 100, 0.1
    environment, generator = theory.hidden_best(2, gap), np.random.default_rng(1)
    greedy, _ = theory.simulate(environment, policies.EpsilonGreedy(1.0), samples, 1, 40_000, generator)
    # By the normal approximation to the sum of r - 0.55 of one action minus that of the other.
    deviation = np.sqrt(samples / 2 * (0.6 * 0.4 + 0.5 * 0.5 + 2 * 0.05**2))
    assert (greedy > 0).mean() == pytest.approx(stats.norm.cdf(-samples / 2 * gap / deviation), abs=0.02)


def test_bounds_equal_hand_computed_ones():
    log_term = schedules.complexity(np.log(8), 0.05, 2)
    assert log_term == pytest.approx(np.log(320))
    assert theory.greedy_bound(5, 0.1, 0.04) == pytest.approx(2.0)


@pytest.mark.slow
def test_greedy_regret_falls_with_the_root_of_the_samples_and_stays_below_the_bound(monkeypatch):
    monkeypatch.setattr(theory, "RUNS_OF_A_SEED", 20)
    monkeypatch.setattr(theory, "GRIDS", {name: theory.GRIDS[name] for name in list(theory.GRIDS)[:1]})
    _, _, measured, of_bound, share = theory.rates(seed=1).loc[0]
    assert float(measured.split()[0]) == pytest.approx(-0.5, abs=0.05)
    assert float(of_bound) == pytest.approx(-0.5, abs=0.05)
    assert float(share) < 1
