import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from bandits import inference, policies, registry

PREDICTED = [[0.5, 0.2, 0.5, 0.1], [0.0, 0.3, 0.1, 0.2]]  # A tie in the first row.

# Worked by hand from Algorithm 2. Softmax at temperature 0.1: the second row's weights are e^-3, 1, e^-2, e^-1.
# FALCON, mu 5, gamma 10: row 2 has 1/(5+3), 1/(5+2), 1/(5+1) for the others; row 1 has 1/8 and 1/9, and each of
# the two best is the greedy one half of the time.
_E = np.exp([-3.0, 0.0, -2.0, -1.0])
_T = np.exp([0.0, -3.0, 0.0, -4.0])
EXPECTED = {
    "greedy": (policies.Greedy(), [[0.5, 0, 0.5, 0], [0, 1, 0, 0]]),
    "uniform": (policies.Uniform(), [[0.25] * 4, [0.25] * 4]),
    "epsilon_greedy": (policies.EpsilonGreedy(0.2), [[0.45, 0.05, 0.45, 0.05], [0.05, 0.85, 0.05, 0.05]]),
    "softmax": (policies.Softmax(0.1), [_T / _T.sum(), _E / _E.sum()]),
    "falcon": (
        policies.Falcon(5.0, 10.0),
        [
            [(1 - 1 / 8 - 1 / 9) / 2, 1 / 8, (1 - 1 / 8 - 1 / 9) / 2, 1 / 9],
            [1 / 8, 1 - 1 / 8 - 1 / 7 - 1 / 6, 1 / 7, 1 / 6],
        ],
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_probabilities_equal_hand_computed_ones(name):
    policy, expected = EXPECTED[name]
    np.testing.assert_allclose(policy(tf.constant(PREDICTED)), expected, rtol=1e-5, atol=1e-7)


# As above, with the first of the two best as the best: in FALCON's first row the other's gap is 0.
FIRST_OF_TIES = {
    "greedy": ({}, [[1, 0, 0, 0], [0, 1, 0, 0]]),
    "epsilon_greedy": ({"epsilon": 0.2}, [[0.85, 0.05, 0.05, 0.05], [0.05, 0.85, 0.05, 0.05]]),
    "falcon": (
        {"mu": 5.0, "gamma": 10.0},
        [
            [1 - 1 / 8 - 1 / 5 - 1 / 9, 1 / 8, 1 / 5, 1 / 9],
            [1 / 8, 1 - 1 / 8 - 1 / 7 - 1 / 6, 1 / 7, 1 / 6],
        ],
    ),
}


@pytest.mark.parametrize("name", FIRST_OF_TIES)
def test_the_first_of_tied_actions_is_the_best_where_asked(name):
    values, expected = FIRST_OF_TIES[name]
    policy = registry.POLICIES[name].build({**values, "first_of_ties": True})
    np.testing.assert_allclose(policy(tf.constant(PREDICTED)), expected, rtol=1e-5, atol=1e-7)


def test_policies_that_tell_the_best_from_the_others_are_those_with_ties():
    assert {name for name, entry in registry.POLICIES.items() if entry.has_best} == set(FIRST_OF_TIES)


def test_every_registered_policy_is_tested_by_hand():
    assert set(EXPECTED) == set(registry.POLICIES)


@pytest.mark.parametrize("name", EXPECTED)
def test_drawn_frequencies_match_the_probabilities(name):
    policy, expected = EXPECTED[name]
    draws = 20_000
    predicted = tf.repeat(tf.constant(PREDICTED[1:]), draws, axis=0)
    cache = inference.bandit_inference(predicted, tf.zeros_like(predicted), policy, tf.constant([3, 4]))
    counts = np.bincount(cache["action"], minlength=4)
    played = np.array(expected[1]) > 0
    assert counts[~played].sum() == 0
    if played.sum() > 1:
        test = scipy.stats.chisquare(counts[played], draws * np.array(expected[1])[played])
        assert test.pvalue > 0.001


@pytest.mark.parametrize("name", EXPECTED)
def test_rows_sum_to_one_for_extreme_predictions(name):
    policy, _ = EXPECTED[name]
    predicted = tf.constant([[1e30, -1e30, 0.0], [1e-30, 0.0, 0.0], [0.0, 0.0, 0.0], [3e38, -3e38, 3e38]])
    rows = policy(predicted).numpy()
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("name", EXPECTED)
def test_predictions_that_are_not_finite_are_explored_uniformly(name):
    policy, _ = EXPECTED[name]
    rows = policy(tf.constant([[np.nan, 0.0], [np.inf, 0.0], [-np.inf, 1.0]])).numpy()
    np.testing.assert_allclose(rows, np.full((3, 2), 0.5))


@pytest.mark.parametrize("temperature", [1e-45, 1e-300])
def test_softmax_with_a_tiny_temperature_is_greedy(temperature):
    rows = policies.Softmax(temperature)(tf.constant(PREDICTED)).numpy()
    np.testing.assert_allclose(rows, EXPECTED["greedy"][1], atol=1e-7)


@pytest.mark.parametrize("temperature", [1e12, 1e300])
def test_softmax_with_a_huge_temperature_is_uniform(temperature):
    np.testing.assert_allclose(policies.Softmax(temperature)(tf.constant(PREDICTED)), EXPECTED["uniform"][1])


@pytest.mark.parametrize(("mu", "gamma"), [(5.0, 1e39), (5.0, 1e308), (1e39, 10.0), (1e300, 1e300)])
def test_falcon_with_parameters_beyond_float32_is_greedy(mu, gamma):
    np.testing.assert_allclose(policies.Falcon(mu, gamma)(tf.constant(PREDICTED)), EXPECTED["greedy"][1], atol=1e-7)


def test_falcon_with_a_mu_too_small_for_float32_scales_as_with_a_small_one():
    # All but the best have 1 / (mu + gap), scaled to a sum of 1.
    rows = policies.Falcon(1e-300, 1.0)(tf.constant([[0.5, 0.4, 0.2]])).numpy()
    np.testing.assert_allclose(rows, [[0, 3 / 4, 1 / 4]], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("gamma", [0.0, 10.0, 1e39])
def test_falcon_plays_gaps_beyond_float32_as_infinite_ones(gamma):
    rows = policies.Falcon(5.0, gamma)(tf.constant([[3e38, -3e38, -3e38]])).numpy()
    other = 0.0 if gamma else 0.2
    np.testing.assert_allclose(rows, [[1 - 2 * other, other, other]], rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("row", [[np.nan, 1.0], [np.inf, 0.0], [1.5, -0.5], [0.0, 0.0], [2.0, 2.0]])
def test_rows_of_a_policy_that_are_no_distribution_are_explored_uniformly(row):
    class Wrong(policies.Policy):
        def probabilities(self, predicted_rewards):
            return tf.constant([row, [0.25, 0.75]])

    np.testing.assert_allclose(Wrong()(tf.zeros([2, 2])), [[0.5, 0.5], [0.25, 0.75]])


def test_epsilon_zero_is_greedy_and_one_is_uniform():
    predicted = tf.constant(PREDICTED)
    np.testing.assert_allclose(policies.EpsilonGreedy(0)(predicted), EXPECTED["greedy"][1])
    np.testing.assert_allclose(policies.EpsilonGreedy(1)(predicted), EXPECTED["uniform"][1])


def test_falcon_scales_the_others_to_one_where_they_exceed_it():
    # mu = 1: the others get 1/1.1 and 1/1.3 before scaling, and the best is left with nothing.
    rows = policies.Falcon(1.0, 1.0)(tf.constant([[0.5, 0.4, 0.2]])).numpy()
    others = np.array([1 / 1.1, 1 / 1.3])
    np.testing.assert_allclose(rows, [[0, *(others / others.sum())]], rtol=1e-5, atol=1e-7)


def test_falcon_with_all_tied_is_uniform_even_where_scaled():
    np.testing.assert_allclose(policies.Falcon(1.0, 9.0)(tf.zeros([1, 4])), [[0.25] * 4], rtol=1e-6)


def test_falcon_needs_no_scaling_at_mu_of_actions_minus_one():
    rows = policies.Falcon(3.0, 0.5)(tf.constant([[0.3, 0.2, 0.1, 0.0]])).numpy()
    np.testing.assert_allclose(rows[0, 1:], [1 / 3.05, 1 / 3.1, 1 / 3.15], rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: policies.EpsilonGreedy(1.5), r"epsilon must lie in \[0, 1\], got 1.5"),
        (lambda: policies.EpsilonGreedy(float("nan")), "epsilon must lie"),
        (lambda: policies.Softmax(0), "temperature must be above 0, got 0"),
        (lambda: policies.Falcon(0, 1), "mu must be above 0, got 0"),
        (lambda: policies.Falcon(1, -1), "gamma must be at least 0, got -1"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
