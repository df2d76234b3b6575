"""Local SGD against gradients written out for a linear model."""

import numpy as np
import pytest
import tensorflow as tf

from optimization import client_work, models

NUM_FEATURES, NUM_OUTPUTS, BATCH = 3, 2, 4
MODEL = models.mlp(NUM_FEATURES, (), NUM_OUTPUTS)
DRAW = np.random.default_rng(3)
WEIGHTS = (DRAW.normal(size=(3, 2)).astype(np.float32), DRAW.normal(size=2).astype(np.float32))
FEATURES, TARGETS = DRAW.normal(size=(10, 3)).astype(np.float32), DRAW.normal(size=(10, 2)).astype(np.float32)
KEY = np.array([5, 8], np.int32)


def squared(outputs, batch):
    return tf.reduce_mean(tf.square(outputs - batch["targets"]))


def train(
    work: client_work.LocalSgd, features=FEATURES, targets=TARGETS, learning_rate=None
) -> client_work.ClientUpdate:
    examples = {"features": tf.constant(features), "targets": tf.constant(targets)}
    return work.build(MODEL, squared)(WEIGHTS, examples, KEY, learning_rate)


def by_hand(batches, learning_rate, momentum=0.0):
    """Returns the delta and the batches' losses."""
    kernel, bias = (weight.astype(np.float64) for weight in WEIGHTS)
    velocity, losses = [np.zeros_like(kernel), np.zeros_like(bias)], []
    for rows in batches:
        outputs = FEATURES[rows] @ kernel + bias
        losses.append(np.square(outputs - TARGETS[rows]).mean())
        error = 2 * (outputs - TARGETS[rows]) / outputs.size
        gradients = FEATURES[rows].T @ error, error.sum(axis=0)
        velocity = [momentum * v + gradient for v, gradient in zip(velocity, gradients, strict=True)]
        kernel, bias = kernel - learning_rate * velocity[0], bias - learning_rate * velocity[1]
    return (kernel - WEIGHTS[0], bias - WEIGHTS[1]), np.array(losses)


def epoch_batches(epochs: int):
    for epoch in range(epochs):
        key = tf.random.experimental.stateless_fold_in(KEY, epoch)
        order = tf.random.experimental.stateless_shuffle(tf.range(10), key).numpy()
        yield from (order[start : start + BATCH] for start in range(0, 10, BATCH))


def step_batches(steps: int):
    return tf.random.stateless_uniform([steps, BATCH], KEY, 0, 10, tf.int32).numpy()


CASES = {
    "epochs": (client_work.LocalSgd(0.1, BATCH, 2), list(epoch_batches(2))),
    "steps": (client_work.LocalSgd(0.1, BATCH, steps=7), list(step_batches(7))),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_delta_is_that_of_the_steps_by_hand(case, momentum):
    work, batches = CASES[case]
    work = client_work.dataclasses.replace(work, momentum=momentum)
    for found, expected in zip(train(work).delta, by_hand(batches, 0.1, momentum)[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_losses_are_those_before_each_step(case):
    work, batches = CASES[case]
    update, losses = train(work), by_hand(batches, 0.1)[1]
    sizes = [len(rows) for rows in batches]
    np.testing.assert_allclose(update.loss_sum, np.dot(losses, sizes), rtol=1e-5)
    np.testing.assert_allclose(update.loss_deviation, losses.std(), rtol=1e-4)
    assert work.examples_trained(tf.constant(10)) == sum(sizes)


def test_a_given_learning_rate_goes_before_the_objects():
    work, batches = CASES["steps"]
    update = train(work, learning_rate=tf.constant(0.03))
    for found, expected in zip(update.delta, by_hand(batches, 0.03)[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_momentum_starts_at_rest_in_every_round():
    work = client_work.LocalSgd(0.1, BATCH, steps=5, momentum=0.9)
    function = work.build(MODEL, squared)
    examples = {"features": tf.constant(FEATURES), "targets": tf.constant(TARGETS)}
    first, second = (function(WEIGHTS, examples, KEY) for _ in range(2))
    for one, other in zip(first.delta, second.delta, strict=True):
        np.testing.assert_array_equal(one, other)


def test_momentum_of_looked_up_rows_equals_that_of_the_dense_matrix():
    ids = np.array([[1, 4], [2, 0], [3, 1], [4, 4]], np.int32)
    values = np.array([[0.5, 0.5], [1, 0.2], [0.3, 0.7], [1, 0.4]], np.float32)
    dense = np.zeros((4, 5), np.float32)
    np.add.at(dense, (np.arange(4)[:, None], ids), values)
    weights = (DRAW.normal(size=(5, 2)).astype(np.float32), np.zeros(2, np.float32))
    deltas = []
    for model, features in [
        (models.bag_of_words(5, 2), {"ids": tf.constant(ids), "values": tf.constant(values)}),
        (models.mlp(5, (), 2), tf.constant(dense)),
    ]:
        work = client_work.LocalSgd(0.1, 2, steps=6, momentum=0.5)
        examples = {"features": features, "targets": tf.constant(TARGETS[:4])}
        deltas.append(work.build(model, squared)(weights, examples, KEY).delta)
    for sparse_part, dense_part in zip(*deltas, strict=True):
        np.testing.assert_allclose(sparse_part, dense_part, atol=1e-6)


class OfOneAction:
    """Squared error of the chosen outputs, given all outputs or only these."""

    of_one_action = True

    def __call__(self, outputs, batch):
        if outputs.shape.rank == 2:
            outputs = tf.gather(outputs, batch["action"], axis=1, batch_dims=1)
        return tf.reduce_mean(tf.square(outputs - batch["reward"]))


POSTS = {
    "ids": np.array([[1, 4, 0], [2, 0, 3], [3, 1, 0], [4, 0, 0], [4, 2, 1], [0, 0, 0]], np.int32),
    "values": np.array([[3, 3, 0], [10, 2, 3], [3, 7, 0], [1, 0, 0], [2, 1, 7], [0, 0, 0]], np.float32) / 10,
}
LOG = {"action": np.array([0, 1, 1, 0, 1, 1], np.int32), "reward": np.array([1, 0, 0.5, 0, 2, 1], np.float32)}
KERNEL = DRAW.normal(size=(5, 2)).astype(np.float32), DRAW.normal(size=2).astype(np.float32)


@pytest.mark.parametrize("counts", [{"epochs": 3}, {"steps": 7}])
@pytest.mark.parametrize("learning_rate", [None, 0.3])
def test_training_by_terms_equals_training_by_gradients(counts, learning_rate):
    model = models.bag_of_words(5, 2)
    log = tf.nest.map_structure(tf.constant, {"features": POSTS, **LOG})
    updates = [
        client_work.LocalSgd(0.1, 4, **counts).build(one, OfOneAction())(KERNEL, log, KEY, learning_rate)
        for one in (model, client_work.dataclasses.replace(model, terms=None))
    ]
    for by_terms, by_gradients in zip(*(tf.nest.flatten(update) for update in updates), strict=True):
        np.testing.assert_allclose(by_terms, by_gradients, rtol=1e-5, atol=1e-6)


def test_training_by_terms_starts_anew_with_each_call():
    train_posts = client_work.LocalSgd(0.1, 4, epochs=2).build(models.bag_of_words(5, 2), OfOneAction())
    log = tf.nest.map_structure(tf.constant, {"features": POSTS, **LOG})
    first, second = (train_posts(KERNEL, log, KEY) for _ in range(2))
    for one, other in zip(first.delta, second.delta, strict=True):
        np.testing.assert_array_equal(one, other)


def test_training_by_terms_changes_no_other_entry():
    """Only words of posts with action 1 change column 1; of action 0, column 0."""
    log = tf.nest.map_structure(tf.constant, {"features": POSTS, **LOG})
    kernel, bias = (
        client_work.LocalSgd(0.1, 4, epochs=1).build(models.bag_of_words(5, 2), OfOneAction())(KERNEL, log, KEY).delta
    )
    np.testing.assert_array_equal(np.abs(kernel) > 0, [[0, 1], [1, 1], [0, 1], [0, 1], [1, 1]])
    assert np.all(np.abs(bias) > 0)


def test_training_by_terms_that_diverges_is_reported_as_such():
    log = tf.nest.map_structure(tf.constant, {"features": POSTS, **LOG})
    update = client_work.LocalSgd(1e30, 4, epochs=9).build(models.bag_of_words(5, 2), OfOneAction())(KERNEL, log, KEY)
    assert not update.is_finite
    assert all(not np.any(part) for part in update.delta)


@pytest.mark.parametrize("case", CASES)
def test_an_empty_client_stays_where_it_is(case):
    work = CASES[case][0]
    update = train(work, FEATURES[:0], TARGETS[:0])
    assert all(not np.any(part) for part in update.delta)
    assert (update.loss_sum, update.loss_deviation, work.examples_trained(tf.constant(0))) == (0, 0, 0)
    assert update.is_finite


def test_a_client_smaller_than_a_batch_takes_full_batches():
    work = client_work.LocalSgd(0.1, BATCH, steps=3)
    update = train(work, FEATURES[:1], TARGETS[:1])
    assert work.examples_trained(tf.constant(1)) == 12
    expected = np.square(FEATURES[:1] @ WEIGHTS[0] + WEIGHTS[1] - TARGETS[:1]).mean()
    assert update.loss_sum < 12 * expected


@pytest.mark.parametrize("counts", [{}, {"epochs": 1, "steps": 1}])
def test_not_exactly_one_of_epochs_and_steps_is_refused(counts):
    with pytest.raises(ValueError, match="either epochs or steps"):
        client_work.LocalSgd(0.1, BATCH, **counts)
