import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from bandits import losses, policies, process
from optimization import client_work, models

OUTPUTS = tf.constant([[0.5, 0.2], [0.1, 0.9]])
BATCH = {
    "action": tf.constant([1, 0]),
    "reward": tf.constant([1.0, 0.5]),
    "propensity": tf.constant([0.25, 0.8]),
    "rewards": tf.constant([[1.0, 0.0], [0.0, 1.0]]),
}
# Squares of the chosen actions (0.2 - 1, 0.1 - 0.5) and of all; cross entropies by NumPy.
_FIRST, _SECOND = 0.64, 0.16
_ALL = 0.25 + 0.04 + 0.01 + 0.01
_P = np.exp(OUTPUTS.numpy()) / np.exp(OUTPUTS.numpy()).sum(axis=1, keepdims=True)
_CHOSEN = -np.log(_P[0, 1]), -0.5 * np.log(_P[1, 0]) - 0.5 * np.log(1 - _P[1, 0])
_OF_KERAS = tf.keras.losses.BinaryCrossentropy(from_logits=True)
LOSSES = {
    "regression": (losses.BanditLoss(), (_FIRST + _SECOND) / 2),
    "weighted": (losses.BanditLoss(importance_weighted=True), (_FIRST / 0.25 + _SECOND / 0.8) / 2),
    "scaled and capped": (
        losses.BanditLoss(importance_weighted=True, weight_scale=0.4, weight_cap=1.0),
        (_FIRST * 1.0 + _SECOND * 0.5) / 2,
    ),
    "half sum": (losses.BanditLoss(half_sum=True), (_FIRST + _SECOND) / 2),
    "softmax": (losses.BanditLoss(cross_entropy=True), sum(_CHOSEN) / 2),
    "sigmoid": (losses.BanditLoss(cross_entropy=True, sigmoid=True), _OF_KERAS([[1.0], [0.5]], [[0.2], [0.1]])),
    "supervised": (losses.SupervisedLoss(), _ALL / 4),
    "supervised half sum": (losses.SupervisedLoss(half_sum=True), _ALL / 2),
    "supervised softmax": (losses.SupervisedLoss(cross_entropy=True), -np.log(_P[[0, 1], [0, 1]]).mean()),
    "supervised sigmoid": (
        losses.SupervisedLoss(cross_entropy=True, sigmoid=True),
        _OF_KERAS(BATCH["rewards"], OUTPUTS),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_by_hand(name):
    loss, expected = LOSSES[name]
    np.testing.assert_allclose(loss(OUTPUTS, BATCH), expected, rtol=1e-5)
    if not loss.full_feedback and loss.needs_only_chosen_output:  # The chosen outputs say as much as all.
        np.testing.assert_allclose(loss(tf.constant([0.2, 0.1]), BATCH), expected, rtol=1e-5)
    # An example that weighs 2 counts twice, and one that weighs 0 not.
    twice = {key: tf.repeat(values, [2, 0], axis=0) for key, values in BATCH.items()}
    expected = loss(tf.repeat(OUTPUTS, [2, 0], axis=0), twice)
    np.testing.assert_allclose(loss(OUTPUTS, {**BATCH, "weight": tf.constant([2.0, 0.0])}), expected, rtol=1e-5)


def test_only_the_softmax_reads_all_outputs():
    of_one = {name: loss.needs_only_chosen_output for name, (loss, _) in LOSSES.items() if not loss.full_feedback}
    assert [name for name, value in of_one.items() if not value] == ["softmax"]
    found = losses.BanditLoss(cross_entropy=True, sigmoid=True).predicted_rewards(OUTPUTS)
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-OUTPUTS.numpy())), rtol=1e-6)
    np.testing.assert_allclose(losses.BanditLoss(cross_entropy=True).predicted_rewards(OUTPUTS), _P, rtol=1e-6)


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
    predicted_many, rewards_many = (tf.repeat(one, 400_000, axis=0) for one in (predicted, rewards))
    cache = process.bandit_inference(policy(predicted_many), rewards_many, tf.constant([1, 2]))
    loss = losses.BanditLoss(importance_weighted=True)(predicted_many, cache)
    np.testing.assert_allclose(loss, np.square(predicted - rewards).sum(), rtol=0.02)


# An ensemble of heads on one body.


def test_bootstrap_weights_are_poisson_and_a_function_of_the_key():
    weights = [losses.bootstrap(tf.constant(key), tf.constant(4000), 5).numpy() for key in ([1, 2], [1, 2], [1, 3])]
    assert weights[0].shape == (4000, 5)
    np.testing.assert_array_equal(weights[0], weights[1])
    counts = np.bincount(weights[0].ravel().astype(int), minlength=6)
    expected = scipy.stats.poisson(1).pmf(np.arange(5))
    observed = [*counts[:5], counts[5:].sum()]
    assert scipy.stats.chisquare(observed, 20_000 * np.array([*expected, 1 - expected.sum()])).pvalue > 0.001
    assert np.abs(np.corrcoef([*weights[0].T, weights[2][:, 0]]) - np.eye(6)).max() < 0.08
    assert losses.bootstrap(tf.constant([1, 2]), tf.constant(0), 5).shape == (0, 5)


HEADS, LOG_SIZE = 3, 6
DRAW = np.random.default_rng(5)
LOG = {
    "action": tf.constant(DRAW.integers(0, 2, LOG_SIZE), tf.int32),
    "reward": tf.constant(DRAW.random(LOG_SIZE), tf.float32),
    "propensity": tf.constant(DRAW.uniform(0.2, 1, LOG_SIZE), tf.float32),
    "rewards": tf.constant(DRAW.random((LOG_SIZE, 2)), tf.float32),
}
DENSE = tf.constant(DRAW.normal(size=(LOG_SIZE, 4)), tf.float32)
POSTS = {"ids": tf.constant(DRAW.integers(0, 4, (LOG_SIZE, 3)), tf.int32), "values": tf.abs(DENSE[:, :3])}
TIMES = np.array([[0, 1, 2, 1, 0, 3], [1, 1, 1, 1, 1, 1], [2, 0, 0, 1, 4, 0]]).T


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        *((name, False) for name in ("weighted", "half sum", "softmax", "sigmoid", "supervised")),
        # By looked-up terms of one action, and by looked-up rows.
        *((name, True) for name in ("weighted", "softmax", "supervised")),
    ],
)
def test_heads_of_a_linear_model_train_as_if_alone_with_examples_as_often_as_they_weigh(name, words):
    """One step with all examples: Vowpal Wabbit's copies of an example, all at the same weights."""
    loss = LOSSES[name][0]
    make, features = (
        (models.bag_of_words, POSTS) if words else (lambda *sizes: models.mlp(sizes[0], (), sizes[1]), DENSE)
    )
    model = models.with_heads(make(4, 2 * HEADS), HEADS)
    weights = [DRAW.normal(size=shape).astype(np.float32) for shape in model.shapes.values()]
    work = client_work.LocalSgd(0.1, LOG_SIZE, epochs=1)
    batch = {"features": features, **LOG, "bootstrap": tf.constant(TIMES, tf.float32)}
    found = work.build(model, losses.Bootstrapped(loss))(weights, batch, [1, 2])
    assert found.is_finite
    alone_losses = []
    for head in range(HEADS):
        own = [weight[..., 2 * head : 2 * head + 2] for weight in weights]
        repeated = tf.nest.map_structure(lambda one, head=head: tf.repeat(one, TIMES[:, head], axis=0), batch)
        count = int(TIMES[:, head].sum())
        # The mean is over the mini-batch, whatever its examples weigh.
        rate = 0.1 if loss.half_sum else 0.1 * count / LOG_SIZE
        alone = client_work.LocalSgd(rate, count, epochs=1).build(make(4, 2), loss)(own, repeated, [1, 2])
        alone_losses.append(alone.loss_sum / (count if loss.half_sum else LOG_SIZE))
        for delta, expected in zip(found.delta, alone.delta, strict=True):
            np.testing.assert_allclose(delta[..., 2 * head : 2 * head + 2], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.loss_sum, LOG_SIZE * np.mean(alone_losses), rtol=1e-5)


def test_the_body_takes_the_mean_of_what_each_head_would_give_it():
    single = models.mlp(4, (5,), 2)
    model = models.with_heads(models.mlp(4, (5,), 2 * HEADS), HEADS)
    weights = [DRAW.normal(size=shape).astype(np.float32) for shape in model.shapes.values()]
    batch = {"features": DENSE, **LOG, "bootstrap": tf.constant(TIMES, tf.float32)}
    work = client_work.LocalSgd(0.1, LOG_SIZE, epochs=1)
    found = work.build(model, losses.Bootstrapped(losses.BanditLoss()))(weights, batch, [1, 2]).delta
    heads = []
    for head in range(HEADS):
        own = [*weights[:2], weights[2][:, 2 * head : 2 * head + 2], weights[3][2 * head : 2 * head + 2]]
        log = {"features": DENSE, **LOG, "weight": tf.constant(TIMES[:, head], tf.float32)}
        heads.append(work.build(single, losses.BanditLoss())(own, log, [1, 2]).delta)
    for place in range(2):
        np.testing.assert_allclose(found[place], np.mean([delta[place] for delta in heads], axis=0), atol=1e-6)
    for place in range(2, 4):
        together = np.concatenate([delta[place] for delta in heads], axis=-1)
        np.testing.assert_allclose(found[place], together, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", [losses.BanditLoss(cross_entropy=True), losses.SupervisedLoss()])
def test_equal_heads_have_the_loss_of_one_head_on_sets_of_actions(loss):
    outputs, offered = tf.constant([[0.5, -np.inf], [0.1, 0.9]]), tf.constant([[True, False], [True, True]])
    batch = {**BATCH, "action": tf.constant([0, 0]), losses.OFFERED: offered}
    found = losses.Bootstrapped(loss)(tf.stack([outputs] * 2, 1), {**batch, losses.BOOTSTRAP: tf.ones((2, 2))})
    np.testing.assert_allclose(found, loss(outputs, batch), rtol=1e-6)
