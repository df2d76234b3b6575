import numpy as np
import pytest
import tensorflow as tf

from bandits import losses, policies, process, registry, schedules
from data.errors import Failure
from optimization import models

PREDICTED = [[0.5, 0.2, 0.5, 0.1], [0.0, 0.3, 0.1, 0.2]]  # A tie in the first row.
# Of three heads: the first row's votes are a tie of actions 0 and 2, and two for action 1; the mean is PREDICTED.
HEADS = np.array([[[0.9, 0.1, 0.9, 0.2], [0.1, 0.3, 0.2, 0], [0.5, 0.2, 0.4, 0.1]], [[0, 0.3, 0.1, 0.2]] * 3])

# Worked by hand from Algorithm 2. Softmax at temperature 0.1: the second row's weights are e^-3, 1, e^-2, e^-1.
# Inverse gap weighting, mu 5, gamma 10: row 2 has 1/(5+3), 1/(5+2), 1/(5+1) for the others; row 1 has 1/8 and 1/9, and
# each of the two best is the greedy one half of the time, or with the first of ties the second one's gap is 0.
_E = np.exp([-3.0, 0.0, -2.0, -1.0])
_T = np.exp([0.0, -3.0, 0.0, -4.0])
_GREEDY = [[0.5, 0, 0.5, 0], [0, 1, 0, 0]]
_EPSILON = [[0.45, 0.05, 0.45, 0.05], [0.05, 0.85, 0.05, 0.05]]
_FIRST_EPSILON = [[0.85, 0.05, 0.05, 0.05], _EPSILON[1]]
_GAPS = [1 / 8, 1 - 1 / 8 - 1 / 7 - 1 / 6, 1 / 7, 1 / 6]
_FALCON = [[(1 - 1 / 8 - 1 / 9) / 2, 1 / 8, (1 - 1 / 8 - 1 / 9) / 2, 1 / 9], _GAPS]
# With the number of actions, 4, for mu.
_GAPS_OF_ACTIONS = [1 / 7, 1 - 1 / 7 - 1 / 6 - 1 / 5, 1 / 6, 1 / 5]
_OF_ACTIONS = [[(1 - 1 / 7 - 1 / 8) / 2, 1 / 7, (1 - 1 / 7 - 1 / 8) / 2, 1 / 8], _GAPS_OF_ACTIONS]
_FIRST_OF_ACTIONS = [[1 - 1 / 7 - 1 / 4 - 1 / 8, 1 / 7, 1 / 4, 1 / 8], _GAPS_OF_ACTIONS]
# Parameters, probabilities, and those with the first of ties for the best, where a policy has one.
EXPECTED = {
    "greedy": ({}, _GREEDY, [[1, 0, 0, 0], [0, 1, 0, 0]]),
    "uniform": ({}, [[0.25] * 4, [0.25] * 4], None),
    "epsilon_greedy": ({"epsilon": 0.2}, _EPSILON, _FIRST_EPSILON),
    "epsilon_decay": ({"epsilon": 0.2}, _EPSILON, _FIRST_EPSILON),
    "softmax": ({"temperature": 0.1}, [_T / _T.sum(), _E / _E.sum()], None),
    "falcon": ({"mu": 5.0, "gamma": 10.0}, _FALCON, [[1 - 1 / 8 - 1 / 5 - 1 / 9, 1 / 8, 1 / 5, 1 / 9], _GAPS]),
    "falcon_epochs": ({"mu": None, "gamma": 10.0}, _OF_ACTIONS, _FIRST_OF_ACTIONS),
    "squarecb": ({"mu": None, "gamma": 10.0}, _OF_ACTIONS, _FIRST_OF_ACTIONS),
    "bag": ({}, [[1 / 2, 1 / 3, 1 / 6, 0], [0, 1, 0, 0]], [[2 / 3, 1 / 3, 0, 0], [0, 1, 0, 0]]),
}


def play(policy: policies.Policy, predicted, heads=None) -> np.ndarray:
    predicted = tf.constant(predicted, tf.float32)
    heads = predicted[:, tf.newaxis] if heads is None else tf.constant(heads, tf.float32)
    every = {"head_rewards": heads, "key": tf.constant([1, 2]), "contexts": predicted, "representation": predicted}
    return policy(predicted, **{name: every[name] for name in policy.asks}).numpy()


def test_every_registered_policy_is_tested_by_hand():
    assert set(EXPECTED) == {name for name, entry in registry.POLICIES.items() if not entry.sums}
    assert {name for name, entry in registry.POLICIES.items() if entry.breaks_ties} == {
        name for name, (_, _, first) in EXPECTED.items() if first
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_probabilities_equal_hand_computed_ones(name):
    values, expected, of_first = EXPECTED[name]
    entry = registry.POLICIES[name]
    policy = entry.chosen(values).build()
    np.testing.assert_allclose(play(policy, PREDICTED, HEADS), expected, rtol=1e-5, atol=1e-7)
    if of_first:
        policy = entry.chosen({**values, "first_of_ties": True}).build()
        np.testing.assert_allclose(play(policy, PREDICTED, HEADS), of_first, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", EXPECTED)
def test_every_row_is_a_distribution_and_uniform_where_predictions_are_not_finite(name):
    policy = registry.POLICIES[name].chosen(EXPECTED[name][0]).build()
    rows = play(policy, [[1e30, -1e30, 0.0], [1e-30, 0.0, 0.0], [0.0, 0.0, 0.0], [3e38, -3e38, 3e38]])
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(play(policy, [[np.nan, 0.0], [np.inf, 0.0], [-np.inf, 1.0]]), np.full((3, 2), 0.5))


_UNIFORM, _INVERSE = EXPECTED["uniform"][1], policies.InverseGapWeighting


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (policies.EpsilonGreedy(0), _GREEDY),
        (policies.EpsilonGreedy(1), _UNIFORM),
        (policies.Softmax(1e-45), _GREEDY),
        (policies.Softmax(1e12), _UNIFORM),
        (_INVERSE(5.0, 1e308), _GREEDY),
        (_INVERSE(1e300, 1e300), _GREEDY),
    ],
)
def test_parameters_at_their_limits_and_beyond_float32_are_greedy_or_uniform(policy, expected):
    np.testing.assert_allclose(play(policy, PREDICTED), expected, atol=1e-7)


@pytest.mark.parametrize(
    ("mu", "gamma", "predicted", "expected"),
    [
        # A mu too small for float32 scales as a small one: all but the best have 1 / (mu + gap), scaled to a sum of 1.
        (1e-300, 1.0, [0.5, 0.4, 0.2], [0, 3 / 4, 1 / 4]),
        # Gaps beyond float32 are infinite.
        (5.0, 0.0, [3e38, -3e38, -3e38], [0.6, 0.2, 0.2]),
        (5.0, 1e39, [3e38, -3e38, -3e38], [1, 0, 0]),
        # The others get 1 / 1.1 and 1 / 1.3 before scaling, and the best is left with nothing.
        (1.0, 1.0, [0.5, 0.4, 0.2], [0, 1.3 / 2.4, 1.1 / 2.4]),
        # Nothing is scaled at actions - 1.
        (3.0, 0.5, [0.3, 0.2, 0.1, 0.0], [1 - 1 / 3.05 - 1 / 3.1 - 1 / 3.15, 1 / 3.05, 1 / 3.1, 1 / 3.15]),
    ],
)
def test_inverse_gap_weighting_by_hand(mu, gamma, predicted, expected):
    np.testing.assert_allclose(play(_INVERSE(mu, gamma), [predicted]), [expected], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("row", [[np.nan, 1.0], [np.inf, 0.0], [1.5, -0.5], [0.0, 0.0], [2.0, 2.0]])
def test_a_row_that_is_no_distribution_is_shown(row):
    class Wrong(policies.Policy):
        def probabilities(self, predicted_rewards):
            return tf.constant([row, [0.25, 0.75]])

    for function in (Wrong(), tf.function(Wrong())):
        message = r"policy Wrong returned the invalid row \[\S+ \S+\]"
        with pytest.raises(Failure, match=message), policies.shows_invalid_rows():
            function(tf.zeros([2, 2]))
    np.testing.assert_allclose(Wrong()(tf.constant([[np.nan, 0], [0, 0]])), [[0.5, 0.5], [0.25, 0.75]])


def test_a_policy_is_given_what_it_asks_for():
    seen = {}

    class Curious(policies.Policy):
        def probabilities(self, predicted_rewards, key, contexts, representation, head_rewards):
            seen.update(locals())
            return tf.ones_like(predicted_rewards) / 2

    model = models.mlp(3, (4,), 2)
    weights, contexts = model.initial_weights(0), tf.ones([5, 3])
    keys = []
    for key in ([1, 2], [1, 2], [1, 3]):
        process.probabilities(Curious(), model, weights, losses.BanditLoss(), contexts, tf.constant(key))
        keys.append(tuple(seen["key"].numpy()))
    assert keys[0] == keys[1] != keys[2]
    hidden = np.maximum(np.ones([5, 3]) @ weights[0], 0)
    np.testing.assert_array_equal(seen["contexts"], contexts)
    np.testing.assert_allclose(seen["representation"], hidden, rtol=1e-6)
    np.testing.assert_allclose(seen["head_rewards"], (hidden @ weights[2])[:, np.newaxis], rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match="weather"):

        class Impossible(policies.Policy):
            def probabilities(self, predicted_rewards, weather):
                return predicted_rewards


# What Vowpal Wabbit 9.11.9 gives with `--cb_explore_adf --squarecb --noconstant`: its --gamma_scale, --gamma_exponent,
# examples so far, the costs that it predicts, negated, and its probabilities. The first row has ties for the best.
OF_VOWPAL_WABBIT = [
    (10, 0.5, 1, [0.0, 0.0, -0.21022923, 0.0], [0.3361272, 0.25, 0.1638729, 0.25]),
    (10, 0.5, 3, [0.29237518, 0.42867142], [0.2293199, 0.7706801]),
    (5, 1.0, 4, [0.35370141, 0.25335136, 0.0], [0.7010145, 0.1997204, 0.0992652]),
]


@pytest.mark.parametrize(("scale", "exponent", "examples", "predicted", "expected"), OF_VOWPAL_WABBIT)
def test_squarecb_plays_as_vowpal_wabbit_does(scale, exponent, examples, predicted, expected):
    # One interaction a deployment: before deployment t + 1 there were t of them.
    schedule = schedules.Power(scale, exponent, counts_interactions=True)
    gamma = schedule.value(examples, schedules.Planned(len(predicted), interactions=1))
    policy = registry.POLICIES["squarecb"].chosen({"mu": None, "gamma": gamma, "first_of_ties": True}).build()
    np.testing.assert_allclose(play(policy, [predicted]), [expected], atol=3e-7)


# What Vowpal Wabbit 9.11.9 gives with `--cb_explore_adf --bag 4 --noconstant`: whether with --first_only, the costs
# that its heads predict, negated, and its probabilities.
BAGS_OF_VOWPAL_WABBIT = [
    (
        False,
        [[0.0, 0.111164, 0.0], [0.0, -0.054282, 0.0], [0.0, -0.007111, 0.0], [0.0, 0.079335, 0.0]],
        [0.25, 0.5, 0.25],
    ),
    (False, [[0.153487, 0, 0], [-0.118849, 0, 0], [0.148325, 0, 0], [0.095375, 0, 0]], [0.75, 0.125, 0.125]),
    (True, [[0.143238, 0, 0], [-0.147579, 0, 0], [0.134816, 0, 0], [0.053956, 0, 0]], [0.75, 0.25, 0]),
]


@pytest.mark.parametrize(("first_only", "heads", "expected"), BAGS_OF_VOWPAL_WABBIT)
def test_bag_plays_as_vowpal_wabbit_does(first_only, heads, expected):
    found = play(policies.Bag(first_of_ties=first_only), [np.mean(heads, axis=0)], [heads])
    np.testing.assert_allclose(found, [expected], atol=1e-6)


MOVING = {name: entry for name, entry in registry.POLICIES.items() if entry.scheduled}


@pytest.mark.parametrize("name", MOVING)
def test_a_parameter_that_comes_as_data_gives_what_the_number_gives(name):
    entry = MOVING[name]
    values = {one: 5.0 if parameter.default is None else 0.5 for one, parameter in entry.parameters.items()}
    chosen = entry.chosen(values).with_schedule(schedules.Power(0.5, 0.0), entry.scheduled)

    @tf.function(autograph=False)
    def played(moved):
        return chosen.build(moved)(tf.constant(PREDICTED))

    for value in (0.0, 0.25, 1.0, 3e38):
        if entry.parameters[entry.scheduled].complaint(value):
            continue
        expected = entry.chosen({**values, entry.scheduled: value}).build()(tf.constant(PREDICTED))
        np.testing.assert_allclose(played(tf.constant(value)), expected, rtol=1e-6, atol=1e-7)
    assert played.experimental_get_tracing_count() == 1


def test_shares_of_samples_are_probabilities_with_a_floor():
    logits = tf.constant([[0.0, 1.0, 2.0], [0.0, 0.0, -20.0]])

    def draws(key, predicted_rewards):
        return tf.random.stateless_categorical(predicted_rewards, 1, key)[:, 0]

    policy = policies.from_samples(draws, floor=0.01, num_draws=2000)
    rows = policy(logits, key=tf.constant([1, 2])).numpy()
    np.testing.assert_allclose(rows, 0.01 + 0.97 * tf.nn.softmax(logits).numpy(), atol=0.04)
    np.testing.assert_allclose(rows[1, 2], 0.01, rtol=1e-5)
    one_hot = policies.from_samples(lambda key, predicted: tf.one_hot(draws(key, predicted), 3), 0.01, 2000)
    np.testing.assert_array_equal(one_hot(logits, key=tf.constant([1, 2])), rows)
    assert policy.asks == ("key",)
    with pytest.raises(ValueError, match="above 0"):
        policies.from_samples(draws, floor=0)


_SAMPLED = policies.from_samples(lambda key, predicted: tf.argmax(predicted, axis=1), 0.01)


# Others are compared with Vowpal Wabbit.
@pytest.mark.parametrize("policy", [policies.Uniform(), policies.Greedy(), _SAMPLED], ids=repr)
def test_probabilities_on_a_set_equal_those_of_its_actions_alone(policy):
    predicted = np.random.default_rng(3).normal(size=(6, 7)).astype(np.float32)
    key = {"key": tf.constant([1, 2])} if policy.asks else {}
    for size in (1, 2, 7):
        offered = np.broadcast_to(np.arange(7) < size, predicted.shape)[:, ::-1]
        rows = policy(tf.where(offered, predicted, np.nan), tf.constant(offered), **key).numpy()
        assert (rows[~offered] == 0).all()
        alone = policy(tf.constant(predicted[:, 7 - size :]), **key)
        np.testing.assert_allclose(rows[:, 7 - size :], alone, rtol=1e-6)


def test_predictions_that_are_not_finite_give_a_uniform_row_over_the_offered_actions():
    offered = tf.constant([[True, True, False], [True, False, False]])
    rows = policies.Greedy()(tf.constant([[np.nan, 1.0, 2.0], [1.0, 2.0, np.inf]]), offered)
    np.testing.assert_array_equal(rows, [[0.5, 0.5, 0], [1, 0, 0]])
