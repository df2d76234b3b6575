import numpy as np
import pytest
import tensorflow as tf

from bandits import inference, losses, policies

OUTPUTS = tf.constant([[0.5, 0.2], [0.1, 0.9]])
BATCH = {
    "action": tf.constant([1, 0]),
    "reward": tf.constant([1.0, 0.5]),
    "propensity": tf.constant([0.25, 0.8]),
}


def test_regression_is_the_mean_squared_error_of_chosen_actions():
    # ((0.2 - 1)^2 + (0.1 - 0.5)^2) / 2
    np.testing.assert_allclose(losses.BanditLoss()(OUTPUTS, BATCH), (0.64 + 0.16) / 2, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_chosen_outputs_say_as_much_as_all(weighted):
    loss = losses.BanditLoss(weighted)
    assert loss.of_one_action
    assert not losses.BanditLoss(weighted, cross_entropy=True).of_one_action
    np.testing.assert_allclose(loss(tf.constant([0.2, 0.1]), BATCH), loss(OUTPUTS, BATCH), rtol=1e-6)


def test_importance_weighting_divides_by_the_propensity():
    loss = losses.BanditLoss(importance_weighted=True)(OUTPUTS, BATCH)
    np.testing.assert_allclose(loss, (0.64 / 0.25 + 0.16 / 0.8) / 2, rtol=1e-6)


def test_scaled_and_capped_weights():
    loss = losses.BanditLoss(importance_weighted=True, weight_scale=0.4, weight_cap=1.0)(OUTPUTS, BATCH)
    np.testing.assert_allclose(loss, (0.64 * 1.0 + 0.16 * 0.5) / 2, rtol=1e-6)


def test_the_published_codes_weights_only_scale_the_loss_of_epsilon_greedy():
    epsilon, actions = 0.1, 2
    propensities = policies.EpsilonGreedy(epsilon).probabilities(OUTPUTS)
    batch = BATCH | {"propensity": tf.gather(propensities, BATCH["action"], axis=1, batch_dims=1)}
    scaled = losses.BanditLoss(True, weight_scale=epsilon / actions, weight_cap=1.0)(OUTPUTS, batch)
    np.testing.assert_allclose(scaled, epsilon / actions * losses.BanditLoss(True)(OUTPUTS, batch), rtol=1e-6)


def test_supervised_is_the_mean_over_actions_too():
    rewards = tf.constant([[1.0, 0.0], [0.0, 1.0]])
    loss = losses.SupervisedLoss()(OUTPUTS, {"rewards": rewards})
    np.testing.assert_allclose(loss, (0.25 + 0.04 + 0.01 + 0.01) / 4, rtol=1e-5)


def test_supervised_cross_entropy_of_one_label():
    loss = losses.SupervisedLoss(cross_entropy=True)(OUTPUTS, {"rewards": tf.constant([[1.0, 0.0], [0.0, 1.0]])})
    first = -np.log(np.exp(0.5) / (np.exp(0.5) + np.exp(0.2)))
    second = -np.log(np.exp(0.9) / (np.exp(0.1) + np.exp(0.9)))
    np.testing.assert_allclose(loss, (first + second) / 2, rtol=1e-5)


def test_half_sums_are_the_texts():
    bandit = losses.BanditLoss(importance_weighted=True, half_sum=True)(OUTPUTS, BATCH)
    np.testing.assert_allclose(bandit, (0.64 / 0.25 + 0.16 / 0.8) / 2, rtol=1e-6)
    np.testing.assert_allclose(losses.BanditLoss(half_sum=True)(OUTPUTS, BATCH), (0.64 + 0.16) / 2, rtol=1e-6)
    three = {name: tf.concat([values, values[:1]], 0) for name, values in BATCH.items()}
    many = losses.BanditLoss(half_sum=True)(tf.concat([OUTPUTS, OUTPUTS[:1]], 0), three)
    np.testing.assert_allclose(many, (0.64 + 0.16 + 0.64) / 2, rtol=1e-6)
    supervised = losses.SupervisedLoss(half_sum=True)(OUTPUTS, {"rewards": tf.constant([[1.0, 0.0], [0.0, 1.0]])})
    np.testing.assert_allclose(supervised, (0.25 + 0.04 + 0.01 + 0.01) / 2, rtol=1e-5)


def test_sigmoid_cross_entropy_is_kerass_of_each_actions_own_logit():
    keras = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    loss = losses.BanditLoss(cross_entropy=True, sigmoid=True)
    np.testing.assert_allclose(loss(OUTPUTS, BATCH), keras([[1.0], [0.5]], [[0.2], [0.1]]), rtol=1e-6)
    np.testing.assert_allclose(loss(tf.constant([0.2, 0.1]), BATCH), loss(OUTPUTS, BATCH), rtol=1e-6)
    np.testing.assert_allclose(loss.predicted_rewards(OUTPUTS), 1 / (1 + np.exp(-OUTPUTS.numpy())), rtol=1e-6)
    assert loss.of_one_action
    rewards = tf.constant([[1.0, 0.0], [0.0, 0.5]])
    supervised = losses.SupervisedLoss(cross_entropy=True, sigmoid=True)(OUTPUTS, {"rewards": rewards})
    np.testing.assert_allclose(supervised, keras(rewards, OUTPUTS), rtol=1e-6)


def test_bandit_cross_entropy_is_that_of_the_chosen_actions_probability():
    probability = np.exp([[0.5, 0.2], [0.1, 0.9]])
    probability /= probability.sum(axis=1, keepdims=True)
    first = -np.log(probability[0, 1])
    second = -0.5 * np.log(probability[1, 0]) - 0.5 * np.log(1 - probability[1, 0])
    loss = losses.BanditLoss(cross_entropy=True)(OUTPUTS, BATCH)
    np.testing.assert_allclose(loss, (first + second) / 2, rtol=1e-5)


def test_bandit_cross_entropy_is_finite_for_certain_predictions():
    outputs = tf.constant([[100.0, -100.0], [-200.0, 200.0]])
    assert np.isfinite(losses.BanditLoss(cross_entropy=True)(outputs, BATCH))


def test_bandit_cross_entropy_unlearns_a_certain_action_that_pays_nothing():
    outputs = tf.constant([[40.0, 0.0, 1.0]])
    batch = {"action": tf.constant([0]), "reward": tf.constant([0.0]), "propensity": tf.constant([1.0])}
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = losses.BanditLoss(cross_entropy=True)(outputs, batch)
    # -log(1 - f) of f = 1 - (1 + e) e^-40; its derivative is f for the action, minus the others' shares of the rest.
    rest = np.array([1, np.e]) / (1 + np.e)
    np.testing.assert_allclose(loss, 40 - np.log(1 + np.e), rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(loss, outputs), [[1, *-rest]], rtol=1e-5)


@pytest.mark.parametrize("policy", [policies.EpsilonGreedy(0.3), policies.Softmax(0.2), policies.Uniform()])
def test_importance_weighted_loss_is_unbiased_for_the_sum_over_actions(policy):
    """The mean over 400,000 draws lies within 2% of the full-information loss (eq. 6), five standard errors or more."""
    predicted = np.array([[0.1, 0.6, 0.3]], np.float32)
    rewards = np.array([[1.0, 0.0, 0.5]], np.float32)
    draws = 400_000
    predicted_many, rewards_many = tf.repeat(predicted, draws, axis=0), tf.repeat(rewards, draws, axis=0)
    cache = inference.bandit_inference(predicted_many, rewards_many, policy, tf.constant([1, 2]))
    loss = losses.BanditLoss(importance_weighted=True)(predicted_many, cache)
    np.testing.assert_allclose(loss, np.square(predicted - rewards).sum(), rtol=0.02)
