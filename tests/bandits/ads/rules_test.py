"""The rules of the federation by hand. What every decision rule promises is tested with the others."""

import numpy as np
import pytest

from bandits import decision_rules
from bandits.ads import rules


def test_epsilon_falls_along_the_gradient_by_hand():
    rule = rules.GradientEpsilon(epsilon=0.5, epsilon_step=0.1)
    state = rule.init(2)
    # max Q - mean Q after each step, from Q: 1 0 | .5 0 | .5 1 | .5 .5 | 2/3 .5 | .75 .5
    gaps = [0.5, 0.25, 0.25, 0, 1 / 12, 0.125]
    for (action, reward), spent in zip([(0, 1), (0, 0), (1, 1), (1, 0), (0, 1), (0, 1)], np.cumsum(gaps), strict=True):
        state = rule.update(state, action, reward)
        np.testing.assert_allclose(state.epsilon, [0.5 - 0.1 * spent], rtol=1e-6)
    np.testing.assert_allclose(state.values, [0.75, 0.5], rtol=1e-6)


def test_epsilon_never_rises():
    rule = rules.GradientEpsilon(epsilon=0.5, epsilon_step=0.05)
    state, draw = rule.init(3), np.random.default_rng(0)
    for _ in range(40):
        before = state.epsilon
        state = rule.update(state, draw.integers(3), draw.integers(2))
        assert state.epsilon <= before


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (decision_rules.EpsilonGreedy(epsilon=0.3), (np.nan, np.nan)),
        (rules.GradientEpsilon(), (4.0, np.nan)),
        (rules.FederatedUcb(), (np.nan, 5.0)),
    ],
)
def test_what_the_server_learned_beside_the_values(rule, expected):
    fresh = rule.init(3)
    vector = np.arange(1, 1 + len(rules.averaged_vector(fresh)), dtype=np.float32)  # Values 1 2 3, then 4, or 4 5 6.
    np.testing.assert_array_equal(rules.learned(rules.server_state(fresh, vector)), expected)


@pytest.mark.parametrize(("epsilon", "expected"), [(0.0, 1), (1.0, 0.5)])
def test_the_learned_epsilon_is_the_one_that_acts(epsilon, expected):
    rule = rules.GradientEpsilon(epsilon=0.3)
    state = rule.update(rule.init(2), 0, 1)._replace(epsilon=np.float32([epsilon]))
    actions = [int(rule.select(state, np.array([7, number], np.int32))) for number in range(400)]
    # A standard error of 0.025 where epsilon is 1.
    assert np.mean(np.equal(actions, 0)) == pytest.approx(expected, abs=0.1 if epsilon else 0)


def test_an_epsilon_without_step_is_epsilon_greedy():
    learned, fixed = rules.GradientEpsilon(epsilon=0.4, epsilon_step=0.0), decision_rules.EpsilonGreedy(epsilon=0.4)
    ours, theirs = learned.init(3), fixed.init(3)
    for number in range(10):
        key = np.array([3, number], np.int32)
        action = fixed.select(theirs, key)
        assert learned.select(ours, key) == action
        ours, theirs = learned.update(ours, action, number % 2), fixed.update(theirs, action, number % 2)


def test_the_interval_is_that_of_its_executions_by_hand():
    rule = rules.FederatedUcb(c=2.0)
    state, executions = rule.init(2), np.ones(2)
    for action in (0, 0, 1, 0, 1, 0):
        state = rule.update(state, action, 0)
        executions[action] += 1
        np.testing.assert_allclose(state.interval, 2 / np.sqrt(executions), rtol=1e-6)


def test_the_interval_decides():
    rule = rules.FederatedUcb(c=1.0)
    state = rules.IntervalState(np.float32([0.5, 0.2]), np.zeros(2, np.float32), np.float32([0.1, 0.5]))
    key = np.array([1, 2], np.int32)
    assert rule.select(state, key) == 1
    # 0.2 + 1 / sqrt(1 / 0.5^2 + 1) = 0.65, then 0.61, and the first click of three makes it less.
    assert rule.select(rule.update(state, 1, 0), key) == 0


def test_a_negative_interval_is_none():
    rule = rules.FederatedUcb(c=1.0)
    state = rules.IntervalState(np.zeros(2, np.float32), np.zeros(2, np.float32), np.float32([-0.1, 0.5]))
    np.testing.assert_allclose(rule.update(state, 0, 1).interval, [0, 0.5])


@pytest.mark.parametrize(
    ("rule", "size"),
    [
        (decision_rules.EpsilonGreedy(), 3),
        (decision_rules.Thompson(), 6),
        (rules.GradientEpsilon(), 4),
        (rules.FederatedUcb(), 6),
    ],
)
def test_clients_take_the_averaged_fields_and_start_the_others_anew(rule, size):
    vector = np.arange(1, size + 1, dtype=np.float32)
    state = rules.client_state(rule.init(3), vector, 2)
    np.testing.assert_array_equal(rules.averaged_vector(state), [vector, vector])
    for name in set(state._fields) - set(rules.AVERAGED[type(state)]):
        np.testing.assert_array_equal(getattr(state, name), np.zeros((2, 3)))
