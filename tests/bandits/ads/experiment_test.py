"""The federation against its pseudo-code in plain Python."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from bandits import decision_rules
from bandits.ads import experiment, flags

CLIENTS, PULLS, ACTIONS = 7, 12, 4
EPSILON = 0.3
RNG = np.random.default_rng(11)
CLICKS = RNG.integers(0, 2, (CLIENTS, PULLS, ACTIONS)).astype(np.uint8)
KEYS = RNG.integers(-(2**31), 2**31, (CLIENTS, 2)).astype(np.int32)
MODEL = np.float32([0.5, 0.25, 0.75, 0.125])
RULE = decision_rules.EpsilonGreedy(epsilon=EPSILON)
MEAN = tff.aggregators.MeanFactory()


def algorithm_1(model, clicks, key):
    """Values after each pull, the actions, the clicks and the number of pulls that explored."""
    values, executed = list(np.float32(model)), [0] * ACTIONS
    history, actions, rewards, explored = [], [], [], 0
    for pull, shown in enumerate(clicks):
        # The rule's draws: a number for each action to break ties, then for whether to explore and for the action.
        *noise, coin, choice = tf.random.stateless_uniform((ACTIONS + 2,), [key[0], key[1] + pull]).numpy()
        best = max(values)
        action = max((index for index in range(ACTIONS) if values[index] == best), key=lambda index: noise[index])
        if coin < EPSILON:
            action = int(choice * ACTIONS)
        explored += values[action] < best
        reward = np.float32(shown[action])
        executed[action] += 1
        values[action] += np.float32(1 / executed[action]) * (reward - values[action])
        history.append(list(values))
        actions.append(action)
        rewards.append(reward)
    return np.array(history), actions, rewards, explored


def build(rule=RULE, aggregator=MEAN, **arguments):
    return experiment.AdsProcess(rule, ACTIONS, aggregator, **arguments)


def shards(size):
    return [experiment.Shard(CLICKS[at : at + size], KEYS[at : at + size]) for at in range(0, CLIENTS, size)]


@pytest.fixture(scope="module")
def by_hand():
    return [algorithm_1(MODEL, clicks, key) for clicks, key in zip(CLICKS, KEYS, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("client", range(3))
def test_a_clients_values_are_the_pseudo_codes_after_any_number_of_pulls(by_hand, client):
    history, actions, rewards, explored = by_hand[client]
    for pulls in (1, 2, 5, PULLS):
        shard = experiment.Shard(tf.constant(CLICKS[[client], :pulls]), tf.constant(KEYS[[client]]))
        delta, played = build().client_pulls(tf.constant(MODEL), shard)
        np.testing.assert_allclose(delta[0], history[pulls - 1] - MODEL, atol=1e-6)
        assert played.clicks[0] == sum(rewards[:pulls])
        np.testing.assert_array_equal(played.executed[0], np.bincount(actions[:pulls], minlength=ACTIONS))
    assert played.explored[0] == explored


@pytest.mark.parametrize(("size", "weight", "norm"), [(3, 0, None), (100, 0, None), (3, 0.5, None), (1, 0, 0.6)])
def test_a_round_adds_the_mean_of_weighted_or_clipped_differentials(tff_worker, by_hand, size, weight, norm):
    aggregator = MEAN
    if norm:
        clipped = tff.aggregators.clipping_factory(norm, tff.aggregators.UnweightedMeanFactory())
        aggregator = tff.aggregators.as_weighted_aggregator(clipped)
    federation = build(aggregator=aggregator, exploration_weight=weight).build()
    start = federation.initialize()
    np.testing.assert_array_equal(start.model, np.zeros(ACTIONS))
    state, metrics = federation.next(start._replace(model=MODEL), shards(size))
    each = np.array([history[-1] for history, *_ in by_hand]) - MODEL
    norms = np.linalg.norm(each, axis=1, keepdims=True)
    assert 0 < np.mean(norms > 0.6) < 1
    weights = [1 + weight * explored for _, _, _, explored in by_hand]  # Exploring clients weigh more if asked.
    assert len(set(weights)) > bool(weight)
    expected = np.average(each * np.minimum(1, (norm or np.inf) / norms), axis=0, weights=weights)
    np.testing.assert_allclose(state.model, MODEL + expected, atol=1e-6)
    assert metrics.clicks == sum(sum(rewards) for _, _, rewards, _ in by_hand)
    actions = np.concatenate([actions for _, actions, _, _ in by_hand])
    np.testing.assert_array_equal(metrics.executed, np.bincount(actions, minlength=ACTIONS))


@pytest.mark.parametrize("name", ["greedy", "discounted_ucb", "thompson", "gradient_epsilon", "federated_ucb"])
def test_every_kind_of_rule_acts_in_the_worker_as_it_does_here(tff_worker, name):
    entry = flags.RULES[name]
    rule = entry.chosen({key: parameter.default for key, parameter in entry.parameters.items()}).build()
    federation = build(rule).build()
    start = federation.initialize()
    after, metrics = federation.next(start, shards(3))
    shard = experiment.Shard(tf.constant(CLICKS), tf.constant(KEYS))
    delta, played = build(rule).client_pulls(tf.constant(start.model), shard)
    np.testing.assert_allclose(after.model, start.model + np.mean(delta, axis=0), atol=1e-6)
    np.testing.assert_array_equal(metrics.executed, np.sum(played.executed, axis=0))


def test_epsilon_falls_along_the_gradient_by_hand():
    rule = experiment.GradientEpsilon(epsilon=0.5, epsilon_step=0.1)
    state = rule.init(2)
    # max Q - mean Q after each step, from Q: 1 0 | .5 0 | .5 1 | .5 .5 | 2/3 .5 | .75 .5
    gaps = [0.5, 0.25, 0.25, 0, 1 / 12, 0.125]
    for (action, reward), spent in zip([(0, 1), (0, 0), (1, 1), (1, 0), (0, 1), (0, 1)], np.cumsum(gaps), strict=True):
        state = rule.update(state, action, reward)
        np.testing.assert_allclose(state.epsilon, [0.5 - 0.1 * spent], rtol=1e-6)
    np.testing.assert_allclose(state.values, [0.75, 0.5], rtol=1e-6)


def test_the_interval_is_that_of_its_executions_and_decides():
    rule, executions = experiment.FederatedUcb(c=2.0), np.ones(2)
    state = rule.init(2)
    for action in (0, 0, 1, 0):
        state = rule.update(state, action, 0)
        executions[action] += 1
        np.testing.assert_allclose(state.interval, 2 / np.sqrt(executions), rtol=1e-6)
    rule = experiment.FederatedUcb(c=1.0)
    state = experiment.IntervalState(np.float32([0.5, 0.2]), np.zeros(2, np.float32), np.float32([0.1, 0.5]))
    key = np.array([1, 2], np.int32)
    assert rule.select(state, key) == 1
    # 0.2 + 1 / sqrt(1 / 0.5^2 + 1) = 0.65, then 0.61, and the first click of three makes it less.
    assert rule.select(rule.update(state, 1, 0), key) == 0
    # A negative interval counts as 0.
    negative = state._replace(interval=np.float32([-0.1, 0.5]))
    np.testing.assert_allclose(rule.update(negative, 0, 1).interval, [0, 0.5])


@pytest.mark.parametrize(
    ("rule", "size"),
    [
        (decision_rules.EpsilonGreedy(), 3),
        (decision_rules.Thompson(), 6),
        (experiment.GradientEpsilon(), 4),
        (experiment.FederatedUcb(), 6),
    ],
)
def test_clients_take_the_averaged_fields_and_reset_the_others(rule, size):
    vector = np.arange(1, size + 1, dtype=np.float32)
    state = experiment.server_state(rule.init(3), vector)
    np.testing.assert_array_equal(experiment.averaged_vector(state), vector)
    for name in set(state._fields) - set(experiment.AVERAGED[type(state)]):
        np.testing.assert_array_equal(getattr(state, name), np.zeros(3))
