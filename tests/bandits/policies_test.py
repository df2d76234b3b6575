import hypothesis
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bandits import inference, policies, registry, schedules

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
    "epsilon_decay": (policies.EpsilonGreedy(0.2), [[0.45, 0.05, 0.45, 0.05], [0.05, 0.85, 0.05, 0.05]]),
    "falcon": (
        policies.InverseGapWeighting(5.0, 10.0),
        [
            [(1 - 1 / 8 - 1 / 9) / 2, 1 / 8, (1 - 1 / 8 - 1 / 9) / 2, 1 / 9],
            [1 / 8, 1 - 1 / 8 - 1 / 7 - 1 / 6, 1 / 7, 1 / 6],
        ],
    ),
}
# With the number of actions, 4, for mu.
_BY_ACTIONS = [
    [(1 - 1 / 7 - 1 / 8) / 2, 1 / 7, (1 - 1 / 7 - 1 / 8) / 2, 1 / 8],
    [1 / 7, 1 - 1 / 7 - 1 / 6 - 1 / 5, 1 / 6, 1 / 5],
]
for _name in ("falcon_epochs", "squarecb"):
    EXPECTED[_name] = policies.InverseGapWeighting(None, 10.0), _BY_ACTIONS


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


FIRST_OF_TIES["epsilon_decay"] = FIRST_OF_TIES["epsilon_greedy"]
for _name in ("falcon_epochs", "squarecb"):
    FIRST_OF_TIES[_name] = (
        {"mu": None, "gamma": 10.0},
        [[1 - 1 / 7 - 1 / 4 - 1 / 8, 1 / 7, 1 / 4, 1 / 8], _BY_ACTIONS[1]],
    )


@pytest.mark.parametrize("name", FIRST_OF_TIES)
def test_the_first_of_tied_actions_is_the_best_where_asked(name):
    values, expected = FIRST_OF_TIES[name]
    policy = registry.POLICIES[name].chosen({**values, "first_of_ties": True}).build()
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
    np.testing.assert_allclose(
        policies.InverseGapWeighting(mu, gamma)(tf.constant(PREDICTED)), EXPECTED["greedy"][1], atol=1e-7
    )


def test_falcon_with_a_mu_too_small_for_float32_scales_as_with_a_small_one():
    # All but the best have 1 / (mu + gap), scaled to a sum of 1.
    rows = policies.InverseGapWeighting(1e-300, 1.0)(tf.constant([[0.5, 0.4, 0.2]])).numpy()
    np.testing.assert_allclose(rows, [[0, 3 / 4, 1 / 4]], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("gamma", [0.0, 10.0, 1e39])
def test_falcon_plays_gaps_beyond_float32_as_infinite_ones(gamma):
    rows = policies.InverseGapWeighting(5.0, gamma)(tf.constant([[3e38, -3e38, -3e38]])).numpy()
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
    rows = policies.InverseGapWeighting(1.0, 1.0)(tf.constant([[0.5, 0.4, 0.2]])).numpy()
    others = np.array([1 / 1.1, 1 / 1.3])
    np.testing.assert_allclose(rows, [[0, *(others / others.sum())]], rtol=1e-5, atol=1e-7)


def test_falcon_with_all_tied_is_uniform_even_where_scaled():
    np.testing.assert_allclose(policies.InverseGapWeighting(1.0, 9.0)(tf.zeros([1, 4])), [[0.25] * 4], rtol=1e-6)


def test_falcon_needs_no_scaling_at_mu_of_actions_minus_one():
    rows = policies.InverseGapWeighting(3.0, 0.5)(tf.constant([[0.3, 0.2, 0.1, 0.0]])).numpy()
    np.testing.assert_allclose(rows[0, 1:], [1 / 3.05, 1 / 3.1, 1 / 3.15], rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: policies.EpsilonGreedy(1.5), r"epsilon must lie in \[0, 1\], got 1.5"),
        (lambda: policies.EpsilonGreedy(float("nan")), "epsilon must lie"),
        (lambda: policies.Softmax(0), "temperature must be above 0, got 0"),
        (lambda: policies.InverseGapWeighting(0, 1), "mu must be above 0, got 0"),
        (lambda: policies.InverseGapWeighting(1, -1), "gamma must be at least 0, got -1"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# What Vowpal Wabbit 9.11.9 gives with `--cb_explore_adf --squarecb --noconstant`: its --gamma_scale, --gamma_exponent,
# examples so far, the costs that it predicts, negated, and its probabilities. The first row has ties for the best.
OF_VOWPAL_WABBIT = [
    (10, 0.5, 1, [0.0, 0.0, -0.21022923, 0.0], [0.3361272, 0.25, 0.1638729, 0.25]),
    (10, 0.5, 4, [0.20445561, 0.16962054, 0.09179151, -0.16585724], [0.5394974, 0.2129154, 0.159916, 0.0876712]),
    (10, 0.5, 3, [0.29237518, 0.42867142], [0.2293199, 0.7706801]),
    (5, 1.0, 4, [0.35370141, 0.25335136, 0.0], [0.7010145, 0.1997204, 0.0992652]),
]


@pytest.mark.parametrize(("scale", "exponent", "examples", "predicted", "expected"), OF_VOWPAL_WABBIT)
def test_squarecb_plays_as_vowpal_wabbit_does(scale, exponent, examples, predicted, expected):
    # One interaction a deployment: before deployment t + 1 there were t of them.
    schedule = schedules.Power(scale, exponent, counts_interactions=True)
    gamma = schedule.value(examples, schedules.Planned(len(predicted), interactions=1))
    policy = registry.POLICIES["squarecb"].chosen({"mu": None, "gamma": gamma, "first_of_ties": True}).build()
    np.testing.assert_allclose(policy(tf.constant([predicted])), [expected], atol=3e-7)


@pytest.mark.parametrize("num_actions", [2, 1000])
@pytest.mark.parametrize("gamma", [0.0, 10.0, 1e30])
def test_with_mu_of_all_actions_nothing_is_scaled_and_the_best_leads(num_actions, gamma):
    predicted = np.random.default_rng(0).random((5, num_actions)).astype(np.float32)
    rows = policies.InverseGapWeighting(None, gamma)(tf.constant(predicted)).numpy()
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-5)
    assert (rows > 0).all()
    np.testing.assert_allclose(rows[np.arange(5), predicted.argmax(axis=1)], rows.max(axis=1), rtol=1e-3)
    gaps = predicted.max(axis=1, keepdims=True).astype(float) - predicted
    np.testing.assert_allclose(rows[gaps > 0], (1 / (num_actions + gamma * gaps))[gaps > 0], rtol=1e-4)


@hypothesis.settings(derandomize=True, deadline=None, max_examples=150)
@hypothesis.given(
    predicted=arrays(
        np.float32,
        st.tuples(st.integers(1, 3), st.integers(2, 8)),
        elements=st.floats(-4, 4, width=32, allow_subnormal=False) | st.sampled_from([0.0, 0.5]),
    ),
    mu=st.none() | st.floats(1e-3, 100),
    gamma=st.sampled_from([0.0, 1e6]) | st.floats(0, 1e4),
    first_of_ties=st.booleans(),
)
def test_inverse_gap_weighting_gives_distributions_that_fall_with_the_gap(predicted, mu, gamma, first_of_ties):
    num_actions = predicted.shape[1]
    rows = policies.InverseGapWeighting(mu, gamma, first_of_ties)(tf.constant(predicted)).numpy().astype(float)
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-5)
    best = np.arange(len(rows)), predicted.argmax(axis=1)
    rounding = 1e-6
    if mu is None or mu >= num_actions:  # The best has the most; below that it can be left with less than it gives.
        assert (rows[best][:, None] >= rows - rounding).all()
    if mu is None and gamma == 0:
        np.testing.assert_allclose(rows, 1 / num_actions, rtol=1e-5)
    for row, values in zip(rows, predicted, strict=True):
        others = np.flatnonzero(values < values.max())
        falling = row[others[np.argsort(-values[others], kind="stable")]]
        assert (np.diff(falling) <= rounding).all()
        if not first_of_ties:
            np.testing.assert_allclose(row[values == values.max()], row[values.argmax()], rtol=1e-6)


MOVING = {name: entry for name, entry in registry.POLICIES.items() if entry.moving}


def test_each_parameter_of_exploration_may_move():
    assert {entry.moving for entry in MOVING.values()} == {"epsilon", "temperature", "gamma"}


@pytest.mark.parametrize("name", MOVING)
def test_a_parameter_that_comes_as_data_gives_what_the_number_gives(name):
    entry = MOVING[name]
    values = {one: 5.0 if parameter.default is None else 0.5 for one, parameter in entry.parameters.items()}
    chosen = entry.chosen(values).moved_by(schedules.Power(0.5, 0.0), entry.moving)

    @tf.function(autograph=False)
    def played(moved):
        return chosen.build(moved)(tf.constant(PREDICTED))

    for value in (0.0, 0.25, 1.0, 3e38):
        if entry.parameters[entry.moving].complaint(value):
            continue
        expected = entry.chosen({**values, entry.moving: value}).build()(tf.constant(PREDICTED))
        np.testing.assert_allclose(played(tf.constant(value)), expected, rtol=1e-6, atol=1e-7)
    assert played.experimental_get_tracing_count() == 1
