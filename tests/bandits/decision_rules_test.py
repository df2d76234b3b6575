"""Decision rules: what all of them promise, each one by hand, and their regret on Bernoulli arms."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import tensorflow as tf

from bandits import decision_rules
from bandits.ads import experiment

RULES = {
    "greedy": decision_rules.Greedy(),
    "optimistic": decision_rules.Greedy(initial_value=2.0),
    "recency": decision_rules.Greedy(alpha=0.5),
    "epsilon_greedy": decision_rules.EpsilonGreedy(epsilon=0.3),
    "epsilon_nongreedy": decision_rules.EpsilonNonGreedy(epsilon=0.3),
    "ucb": decision_rules.Ucb(),
    "ucb_recency": decision_rules.Ucb(alpha=0.5),
    "discounted_ucb": decision_rules.Ucb(gamma=0.8),
    "thompson": decision_rules.Thompson(),
    "discounted_thompson": decision_rules.Thompson(gamma=0.8),
    "extreme_explore": decision_rules.ExtremeExplore(),
    "bayesian_extreme_explore": decision_rules.BayesianExtremeExplore(),
    "gradient_epsilon": experiment.GradientEpsilon(),
    "federated_ucb": experiment.FederatedUcb(),
}


def key(number: int, count: int | None = None) -> np.ndarray:
    """A key, or `count` keys."""
    keys = np.random.default_rng(number).integers(-(2**31), 2**31, (count or 1, 2)).astype(np.int32)
    return keys[0] if count is None else keys


def arrays(state) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in state]


def after(rule, steps, num_actions=3):
    """The rule's state after (action, reward) steps."""
    state = rule.init(num_actions)
    for action, reward in steps:
        state = rule.update(state, action, reward)
    return state


SOME_STEPS = [(0, 1), (2, 0), (1, 1), (1, 0), (0, 1)]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
class TestEveryRule:
    """What a caller may rely on, whatever the rule."""

    def test_states_are_named_tuples_of_float32_arrays_and_updates_make_new_ones(self, rule):
        state = rule.init(3)
        assert [type(leaf) for leaf in state] == [np.ndarray] * len(type(state)._fields)
        assert [leaf.shape for leaf in rule.init(4, (5, 6))] == [(5, 6, *leaf.shape) for leaf in rule.init(4)]
        before = [leaf.copy() for leaf in state]
        later = rule.update_all(after(rule, SOME_STEPS), [0, 1, 1])
        rule.update(state, 1, 1.0)
        for leaf, same, new in zip(state, before, arrays(later), strict=True):
            np.testing.assert_array_equal(leaf, same)
            assert (new.shape, new.dtype) == (leaf.shape, np.float32)
        assert (rule.estimates(later).shape, rule.estimates(later).dtype) == ((3,), tf.float32)

    def test_ties_are_broken_uniformly_at_random(self, rule):
        actions = tf.function(rule.select)(rule.init(4, (2000,)), key(2, 2000))
        # Fixed seed; a uniform choice fails in one of ten thousand seeds.
        assert scipy.stats.chisquare(np.bincount(actions, minlength=4)).pvalue > 1e-4

    def test_a_batch_is_its_members(self, rule):
        single = after(rule, SOME_STEPS)
        batch = type(single)(*(np.stack([leaf] * 4) for leaf in arrays(single)))
        actions = rule.select(batch, key(3, 4))
        assert [int(action) for action in actions] == [int(rule.select(single, one)) for one in key(3, 4)]
        updated = rule.update(batch, actions, np.array([1, 0, 0, 1]))
        for index, reward in enumerate([1, 0, 0, 1]):
            for ours, alone in zip(updated, rule.update(single, actions[index], reward), strict=True):
                np.testing.assert_array_equal(ours[index], alone)


def follow(rule, state, steps):
    """Checks that the rule, whatever the key, executes the steps' actions; returns the last state."""
    for number, (action, reward) in enumerate(steps):
        assert {int(rule.select(state, one)) for one in key(number, 5)} == {action}, f"step {number + 1}"
        state = rule.update(state, action, reward)
    return state


_OF_THREE = decision_rules.ValueState(np.float32([0.5, 0.4, 0]), np.float32([1, 1, 1]))
# Q: .25 .4 | .25 .2 | 1/6 .2 | 1/6 1.4/3 | 1/6 .35 | 1/6 .28
_GREEDY_STEPS = [(0, 0), (1, 0), (0, 0), (1, 1), (1, 0), (1, 0)]
_UCB, _DISCOUNTED = decision_rules.Ucb(c=1.0), decision_rules.Ucb(c=1.0, gamma=0.5)


@pytest.mark.parametrize(
    ("rule", "start", "steps", "values", "counts"),
    [
        (decision_rules.Greedy(), _OF_THREE, _GREEDY_STEPS, [1 / 6, 0.28, 0], [3, 5, 1]),
        # Q: .5 .6 | .25 .6 | .5 .6 | .625 .6 | .625 .4 | .625 .3
        (
            decision_rules.EpsilonNonGreedy(epsilon=1.0),
            decision_rules.ValueState(np.float32([0.5, 0.2]), np.float32([1, 1])),
            [(1, 1), (0, 0), (0, 1), (0, 1), (1, 0), (1, 0)],
            [0.625, 0.3],
            [4, 4],
        ),
        # Bounds before each step from the third: 2.18 1.18 | 1.55 1.48 | 1.29 1.67 | 1.37 1.77
        (_UCB, _UCB.update(_UCB.init(2), 0, 1), [(1, 0), (0, 0), (0, 0), (1, 1), (1, 0)], [1 / 3, 1 / 3], [3, 3]),
        # Bounds before each step from the third: 2.27 0.90 | 1.15 1.50 | 1.62 1.80 | 2.26 1.21
        # N = sums of 0.5^(6 - s); action 0 at steps 1, 3, 6 with rewards 1, 0, 1.
        (
            _DISCOUNTED,
            _DISCOUNTED.update(_DISCOUNTED.init(2), 0, 1),
            [(1, 0), (0, 0), (1, 1), (1, 0), (0, 1)],
            [1.03125 / 1.15625, 0.25 / 0.8125],
            [1.15625, 0.8125],
        ),
    ],
    ids=["greedy", "always_nongreedy", "ucb", "discounted_ucb"],
)
def test_value_rules_by_hand(rule, start, steps, values, counts):
    state = follow(rule, start, steps)
    np.testing.assert_allclose(state.values, values, rtol=1e-6)
    np.testing.assert_allclose(state.counts, counts, rtol=1e-6)


def test_an_optimistic_start_tries_every_action_first():
    rule, executed = decision_rules.EpsilonGreedy(epsilon=0.0, initial_value=5.0), []
    state = rule.init(6)
    for one in key(6, 6):
        executed.append(int(rule.select(state, one)))
        state = rule.update(state, executed[-1], 1)
    assert sorted(executed) == list(range(6))
    np.testing.assert_array_equal(state.values, np.ones(6))


def test_recency_weighting_is_the_weighted_sum_of_the_text():
    rewards, alpha, start = [1, 0, 0.5, 1, 0, 0.25], 0.3, 0.8
    rule = decision_rules.Greedy(alpha=alpha, initial_value=start)
    state = follow(rule, rule.init(1), [(0, reward) for reward in rewards])
    weights = [alpha * (1 - alpha) ** (6 - i) for i in range(1, 7)]
    expected = (1 - alpha) ** 6 * start + np.dot(weights, rewards)
    np.testing.assert_allclose(state.values, [expected], rtol=1e-6)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (decision_rules.EpsilonGreedy(epsilon=0.3), [0.1, 0.8, 0.1]),
        (decision_rules.EpsilonNonGreedy(epsilon=0.3), [0.15, 0.7, 0.15]),
    ],
)
def test_epsilons_two_forms_explore_as_often_as_they_say(rule, expected):
    state = decision_rules.ValueState(*(np.tile(np.float32(row), (3000, 1)) for row in ([0, 1, 0.5], [1, 1, 1])))
    counts = np.bincount(tf.function(rule.select)(state, key(7, 3000)), minlength=3)
    assert scipy.stats.chisquare(counts, np.array(expected) * 3000).pvalue > 1e-4


BETA_STEPS = [(0, 1), (1, 0), (0, 0), (0, 1), (1, 1), (2, 0)]


@pytest.mark.parametrize(
    ("gamma", "successes", "failures"),
    [(1.0, [2, 1, 0], [1, 1, 1]), (0.5, [1 / 32 + 1 / 4, 1 / 2, 0], [1 / 8, 1 / 16, 1])],
)
def test_thompson_counts_by_hand(gamma, successes, failures):
    rule = decision_rules.Thompson(gamma=gamma)
    state = after(rule, BETA_STEPS)
    np.testing.assert_allclose(state.successes, successes, rtol=1e-6)
    np.testing.assert_allclose(state.failures, failures, rtol=1e-6)
    means = [(1 + s) / (2 + s + f) for s, f in zip(successes, failures, strict=True)]
    np.testing.assert_allclose(rule.estimates(state), means, rtol=1e-6)


def test_thompson_s_prior_adds_to_the_counts_and_is_not_discounted():
    """Algorithm 4: Beta(alpha_0 + S, beta_0 + F), of which S and F alone are discounted."""
    rule = decision_rules.Thompson(gamma=0.5, prior_alpha=3.0, prior_beta=1.5)
    np.testing.assert_allclose(rule.estimates(rule.init(2)), [3 / 4.5, 3 / 4.5])
    state = after(rule, [(0, 1), (0, 0)], num_actions=2)  # S = 0.5, F = 1 of the first action.
    np.testing.assert_allclose(rule.estimates(state), [3.5 / 6, 3 / 4.5])
    first, second = scipy.stats.beta(3.5, 2.5), scipy.stats.beta(3, 1.5)
    expected, _ = scipy.integrate.quad(lambda x: first.pdf(x) * second.cdf(x), 0, 1)
    many = decision_rules.BetaState(*(np.tile(counts, (3000, 1)) for counts in state))
    wins = int(np.sum(tf.function(rule.select)(many, key(8, 3000)) == 0))
    assert scipy.stats.binomtest(wins, 3000, expected).pvalue > 1e-4


@pytest.mark.parametrize("rule", [decision_rules.ExtremeExplore(), decision_rules.BayesianExtremeExplore()])
def test_an_update_of_some_actions_leaves_the_others_as_they_were(rule):
    state = rule.update_all(rule.init(3), np.array([1.0, 0.0, 1.0]))
    some = rule.update_all(state, np.array([1.0, 0.0, 0.0]), np.array([1, 0, 1]))
    for one, other in zip(arrays(some), arrays(rule.update_all(state, np.array([1.0, 0.0, 0.0]))), strict=True):
        np.testing.assert_allclose(one[[0, 2]], other[[0, 2]])
    for one, other in zip(arrays(some), arrays(state), strict=True):
        assert one[1] == other[1]


def test_thompson_takes_negative_counts_for_none():
    rule = decision_rules.Thompson()
    noisy = decision_rules.BetaState(np.float32([-3, 1]), np.float32([2, -0.5]))
    clean = decision_rules.BetaState(np.float32([0, 1]), np.float32([2, 0]))
    np.testing.assert_array_equal(rule.estimates(noisy), rule.estimates(clean))
    assert [int(rule.select(noisy, one)) for one in key(8, 9)] == [int(rule.select(clean, one)) for one in key(8, 9)]


ROUNDS = [[1, 0, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (decision_rules.ExtremeExplore(), [1 / 2, 1 / 6, 2 / 3]),
        (decision_rules.BayesianExtremeExplore(), [4 / 8, 2 / 8, 5 / 8]),
    ],
)
def test_extreme_explore_by_hand(rule, expected):
    state = rule.init(3)
    for rewards in ROUNDS:
        state = rule.update_all(state, rewards)
    np.testing.assert_allclose(rule.estimates(state), expected, rtol=1e-6)
    assert rule.select(state, key(0)) == 2
    assert rule.explores_all
