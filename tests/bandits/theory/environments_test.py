"""Tests of bandits.theory.environments."""

import numpy as np
import pytest

from bandits.theory import environments


def test_class_sizes_count_each_function_once():
    rows = np.array([[[0.1, 0.2], [0.1, 0.2], [0.3, 0.2]], [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]])
    environment = environments.FiniteEnvironment(rows[:, 0], rows, np.array([0.5, 0.5]))
    assert environment.log_class_size == pytest.approx(np.log(2))
    assert environments.hidden_best(5, 0.1).log_class_size == pytest.approx(np.log(5))


def test_exploration_costs_the_gap_to_an_average_action():
    assert environments.hidden_best(4, 0.2).exploration_cost == pytest.approx(0.75 * 0.2)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (([[0.1, 0.2]], [[[0.2, 0.1]]], [1.0]), "candidates"),
        (([[0.1, 1.2]], [[[0.1, 1.2]]], [1.0]), "rewards"),
        (([[0.1, 0.2]], [[[0.1, 0.2]]], [0.5]), "contexts"),
    ],
)
def test_bad_environments_are_refused(arguments, named):
    with pytest.raises(ValueError, match=named):
        environments.FiniteEnvironment(*map(np.array, arguments))
