import numpy as np
import pytest

from bandits import policies
from bandits.theory import regret, worlds


def _world(rewards):
    rewards = np.array(rewards)
    return worlds.one_client(rewards, rewards[:, None])


def test_regret_equals_hand_computed_one():
    world = _world([[0.2, 0.8], [0.5, 0.1]])
    acting = np.array([[[0.5, 0.5], [0.25, 0.75]]])
    np.testing.assert_allclose(regret.of_policy(world, acting), [0.5 * 0.5 * 0.6 + 0.5 * 0.75 * 0.4])
    # Right in the first context; a tie, of which half is wrong, in the second.
    np.testing.assert_allclose(regret.of_greedy(world, np.array([[[0.3, 0.4], [0.6, 0.6]]])), [0.5 * 0.5 * 0.4])


def test_error_equals_the_expected_excess_of_noisy_squares():
    world = _world([[0.2, 0.8]])
    predicted, log = np.array([[[0.5, 0.6]]]), np.array([[0.25, 0.75]])
    noisy = 0.0  # E[(f - r)^2 - (f* - r)^2], summed over rewards 1 and 0.
    for action in range(2):
        mean, fit = world.rewards[0, action], predicted[0, 0, action]
        for reward, chance in ((1, mean), (0, 1 - mean)):
            noisy += log[0, action] * chance * ((fit - reward) ** 2 - (mean - reward) ** 2)
    np.testing.assert_allclose(regret.error(world, predicted, log), [noisy])


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0])
def test_regret_never_exceeds_the_bound_by_error(epsilon):
    generator = np.random.default_rng(int(100 * epsilon))
    for _ in range(100):
        contexts, actions = generator.integers(1, 5), generator.integers(2, 8)
        world = _world(generator.random((contexts, actions)) ** generator.choice([0.2, 1, 5]))
        noise = generator.normal(size=(100, contexts, actions)) * 10 ** generator.uniform(-4, 0, (100, 1, 1))
        predicted = np.float32(world.rewards + noise).astype(float)
        logged = regret.probabilities(policies.EpsilonGreedy(epsilon), generator.permuted(predicted, axis=2))
        bound = regret.bound_by_error(world, predicted, logged, epsilon)
        assert (regret.of_greedy(world, predicted) <= bound * (1 + 1e-6)).all()


def test_the_bound_by_error_is_reached():
    # Both actions wrong by half the gap, and a log that favours a third: 2 K / epsilon x 2 epsilon / K x gap^2 / 4.
    world, epsilon = _world([[0.5, 0.75, 0.0]]), 0.1
    predicted = np.array([[[0.625, 0.6249, 0.0]]])
    log = np.array([[epsilon / 3, epsilon / 3, 1 - 2 * epsilon / 3]])
    np.testing.assert_allclose(regret.of_greedy(world, predicted), [0.25])
    np.testing.assert_allclose(regret.bound_by_error(world, predicted, log, epsilon), [0.25], rtol=1e-3)


def test_the_middle_term_with_noisy_rewards_exceeds_its_bound_and_with_means_does_not():
    world, epsilon = _world([[0.5, 0.5, 0.25]]), 0.1
    predicted = np.array([[[0.5, 0.6, 0.25]]])  # A tie, broken the other way.
    log = np.array([[1 - 2 * epsilon / 3, epsilon / 3, epsilon / 3]])
    bound = regret.bound_by_error(world, predicted, log, epsilon)
    np.testing.assert_allclose(bound, [np.sqrt(2 * 0.1**2)])
    np.testing.assert_allclose(regret.squared_difference(world, predicted, noisy=False), [0.0])
    # P(one is 1 and the other 0) = 1/2.
    np.testing.assert_allclose(regret.squared_difference(world, predicted, noisy=True), [np.sqrt(0.5)])
    assert regret.squared_difference(world, predicted, noisy=True) > bound


def test_the_whole_regret_is_its_two_parts():
    world, epsilon = worlds.spread_gaps(4, 3, 0.3), 0.2
    predicted = np.random.default_rng(0).random((50, 4, 3))
    whole = regret.of_policy(world, regret.probabilities(policies.EpsilonGreedy(epsilon), predicted))
    parts = (1 - epsilon) * regret.of_greedy(world, predicted) + epsilon * world.exploration_cost
    np.testing.assert_allclose(whole, parts, atol=1e-7)
