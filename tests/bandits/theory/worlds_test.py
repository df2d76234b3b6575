import numpy as np
import pytest

from bandits.theory import worlds


def test_contexts_come_as_often_whoever_brings_them():
    base = worlds.spread_gaps(6, 3, 0.3)
    for heterogeneity in (0.0, 0.4, 1.0):
        np.testing.assert_allclose(worlds.split(base, 4, heterogeneity).contexts, base.contexts)


def test_heterogeneity_1_gives_disjoint_supports_and_0_equal_clients():
    base = worlds.spread_gaps(5, 3, 0.3)
    disjoint = worlds.split(base, 2, 1.0).client_contexts
    np.testing.assert_allclose(disjoint, [[1 / 3, 0, 1 / 3, 0, 1 / 3], [0, 1 / 2, 0, 1 / 2, 0]])
    alike = worlds.split(base, 2, 0.0).client_contexts
    np.testing.assert_allclose(alike, np.full((2, 5), 0.2))


def test_class_sizes_count_each_function_once():
    assert worlds.hidden_best(5, 0.1).log_class_size == pytest.approx(np.log(5))
    assert worlds.costly_exploration(5, 0.1).log_class_size == pytest.approx(np.log(5))  # The known half has one row.
    assert worlds.spread_gaps(3, 4, 0.3).log_class_size == pytest.approx(3 * np.log(4))


def test_exploration_costs_what_a_mean_action_loses():
    # Half of the contexts: 1 against a mean of 1/4; the others: 0.2 against a mean of 0.2 / 4 above the middle.
    assert worlds.costly_exploration(4, 0.2).exploration_cost == pytest.approx(0.5 * 0.75 + 0.5 * 0.15)


def test_slices_of_linear_clients_are_disjoint_and_together_the_whole():
    world = worlds.LinearWorld(worlds.fan(3).coefficients, num_clients=4, heterogeneity=1.0)
    clients = np.repeat(np.arange(4), 5000)
    first = world.features(clients, np.random.default_rng(0))[:, 1]
    for client in range(4):
        own = first[clients == client]
        assert own.min() >= -1 + client / 2
        assert own.max() <= -0.5 + client / 2
    np.testing.assert_allclose(np.quantile(first, [0.1, 0.5, 0.9]), [-0.8, 0, 0.8], atol=0.03)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: worlds.one_client(np.array([[0.1, 0.2]]), np.array([[[0.2, 0.1]]])), "candidates"),
        (lambda: worlds.hidden_best(2, 0.6), "rewards"),
        (
            lambda: worlds.FiniteWorld(np.zeros((1, 2)), np.zeros((1, 1, 2)), np.ones((1, 1)), np.array([0.5])),
            "weights",
        ),
        (lambda: worlds.split(worlds.hidden_best(2, 0.1), 2, 0.5), "num_clients"),
        (lambda: worlds.split(worlds.hidden_best(2, 0.1), 1, 1.5), "heterogeneity"),
        (lambda: worlds.LinearWorld(np.array([[0.5], [0.3], [0.3]])), "coefficients"),
        (lambda: worlds.LinearWorld(worlds.fan(3).coefficients, 2, -0.1), "heterogeneity"),
    ],
)
def test_bad_worlds_are_refused(make, named):
    with pytest.raises(ValueError, match=named):
        make()


def test_the_greedy_regret_of_a_linear_world_by_hand():
    world = worlds.LinearWorld(np.array([[0.5, 0.5], [0.25, -0.25]]))  # Two actions, one coordinate.
    features = np.array([[1.0, 1.0], [1.0, -0.5]])  # Losses of the other action: 0.5 and 0.25.
    always_first = np.array([[[1.0, 0.0], [0.0, 0.0]]])
    np.testing.assert_allclose(
        world.greedy_regret(features, np.concatenate([always_first, world.coefficients[None]])), [0.125, 0]
    )
