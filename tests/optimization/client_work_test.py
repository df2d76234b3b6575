"""Local SGD against gradients written out for a linear model."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from data import objects
from data.errors import UsageError
from optimization import client_work, corrections, models

NUM_FEATURES, NUM_OUTPUTS, BATCH = 3, 2, 4
MODEL = models.mlp(NUM_FEATURES, (), NUM_OUTPUTS)
DRAW = np.random.default_rng(3)
WEIGHTS = (DRAW.normal(size=(3, 2)).astype(np.float32), DRAW.normal(size=2).astype(np.float32))
FEATURES, TARGETS = DRAW.normal(size=(10, 3)).astype(np.float32), DRAW.normal(size=(10, 2)).astype(np.float32)
KEY = np.array([5, 8], np.int32)


def squared(outputs, batch):
    return tf.reduce_mean(tf.square(outputs - batch["targets"]))


EXAMPLES = {"features": tf.constant(FEATURES), "targets": tf.constant(TARGETS)}


def train(work: client_work.LocalSgd, count=10, learning_rate=None) -> client_work.ClientUpdate:
    examples = {name: values[:count] for name, values in EXAMPLES.items()}
    return work.build(MODEL, squared)(WEIGHTS, examples, KEY, learning_rate)


def assert_close(parts, expected, rtol=1e-4, atol=1e-6):
    for found, part in zip(parts, expected, strict=True):
        np.testing.assert_allclose(found, part, rtol=rtol, atol=atol)


def by_hand(batches, learning_rate, momentum=0.0, proximal=0.0):
    """Delta and the batches' losses."""
    start = kernel, bias = [weight.astype(np.float64) for weight in WEIGHTS]
    velocity, losses = [np.zeros_like(kernel), np.zeros_like(bias)], []
    for rows in batches:
        outputs = FEATURES[rows] @ kernel + bias
        losses.append(np.square(outputs - TARGETS[rows]).mean())
        error = 2 * (outputs - TARGETS[rows]) / outputs.size
        gradients = FEATURES[rows].T @ error, error.sum(axis=0)
        moved = kernel - start[0], bias - start[1]
        pulled = [gradient + proximal * way for gradient, way in zip(gradients, moved, strict=True)]
        velocity = [momentum * v + gradient for v, gradient in zip(velocity, pulled, strict=True)]
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
@pytest.mark.parametrize(("momentum", "proximal"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.5), (0.9, 0.5)])
def test_the_delta_is_that_of_the_steps_by_hand_in_every_round(case, momentum, proximal):
    work, batches = CASES[case]
    chosen = corrections.chosen({"proximal_strength": proximal})
    function = dataclasses.replace(work, momentum=momentum, corrections=chosen).build(MODEL, squared)
    expected, losses = by_hand(batches, 0.1, momentum, proximal)
    sizes = [len(rows) for rows in batches]
    for _ in range(2):  # Momentum starts at rest.
        update = function(WEIGHTS, EXAMPLES, KEY)
        assert_close(update.delta, expected)
        np.testing.assert_allclose(update.loss_sum, np.dot(losses, sizes), rtol=1e-5)
        np.testing.assert_allclose(update.loss_deviation, losses.std(), rtol=1e-4)
    assert work.examples_trained(tf.constant(10)) == sum(sizes)


def adam_by_hand(batches, learning_rate, beta_1=0.9, beta_2=0.999, epsilon=1e-7, proximal=0.0):
    """Delta of Adam, float64, as in Kingma and Ba 2015 with the bias corrections in the learning rate."""
    start = weights = [weight.astype(np.float64) for weight in WEIGHTS]
    means, squares = [np.zeros_like(weight) for weight in start], [np.zeros_like(weight) for weight in start]
    for step, rows in enumerate(batches, start=1):
        error = 2 * (FEATURES[rows] @ weights[0] + weights[1] - TARGETS[rows]) / TARGETS[rows].size
        gradients = [FEATURES[rows].T @ error, error.sum(axis=0)]
        gradients = [g + proximal * (w - s) for g, w, s in zip(gradients, weights, start, strict=True)]
        means = [beta_1 * m + (1 - beta_1) * g for m, g in zip(means, gradients, strict=True)]
        squares = [beta_2 * v + (1 - beta_2) * g**2 for v, g in zip(squares, gradients, strict=True)]
        rate = learning_rate * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        moments = zip(weights, means, squares, strict=True)
        weights = [w - rate * m / (np.sqrt(v) + epsilon) for w, m, v in moments]
    return [weight - before for weight, before in zip(weights, start, strict=True)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("proximal", [0.0, 0.5])
@pytest.mark.parametrize("hyperparameters", [{}, {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 0.1}])
def test_adam_takes_the_steps_by_hand_and_forgets_them_after_the_round(case, proximal, hyperparameters):
    work, batches = CASES[case]
    chosen = corrections.chosen({"proximal_strength": proximal})
    adam = dataclasses.replace(
        work, optimizer="adam", hyperparameters=tuple(hyperparameters.items()), corrections=chosen
    )
    function, expected = adam.build(MODEL, squared), adam_by_hand(batches, 0.1, proximal=proximal, **hyperparameters)
    for _ in range(2):
        assert_close(function(WEIGHTS, EXAMPLES, KEY).delta, expected, rtol=1e-3, atol=1e-5)
    slower = adam_by_hand(batches, 0.01, proximal=proximal, **hyperparameters)
    assert_close(function(WEIGHTS, EXAMPLES, KEY, tf.constant(0.01)).delta, slower, rtol=1e-3, atol=1e-5)


def test_an_optimizer_of_the_users_keeps_its_own_rate():
    work, batches = CASES["steps"]
    theirs = dataclasses.replace(work, optimizer=objects.of(tff.learning.optimizers.build_sgdm(0.2, momentum=0.9)))
    expected, _ = by_hand(batches, 0.2, momentum=0.9)
    assert_close(train(theirs, learning_rate=tf.constant(9.0)).delta, expected)


@dataclasses.dataclass(frozen=True)
class Shift:
    """Client work that adds a number to all weights, and does not look after clients without examples."""

    by: float = 1.0
    missing: int = 0
    dtype: str = "float32"

    def examples_trained(self, num_examples):
        return num_examples + 1

    def build(self, model, loss):
        def step(weights, examples, key, learning_rate=None):
            delta = tuple(tf.fill(weight.shape, tf.cast(self.by, self.dtype)) for weight in weights)
            value = loss(model.forward(weights, examples["features"]), examples)
            delta = delta[: len(delta) - self.missing]
            return client_work.ClientUpdate(delta, value, tf.constant(True), tf.constant(0.0))

        return step


def test_client_work_of_the_users_is_called_only_for_clients_with_examples():
    work = client_work.of_user(objects.of(Shift(0.5)))
    assert [part.numpy().tolist() for part in train(work).delta] == [[[0.5, 0.5]] * 3, [0.5, 0.5]]
    empty = train(work, count=0)
    assert (float(empty.loss_sum), bool(empty.is_finite)) == (0, True)
    assert not any(np.any(part) for part in empty.delta)
    assert [int(work.examples_trained(tf.constant(count))) for count in (0, 5)] == [0, 6]


def test_an_update_of_the_users_that_is_not_finite_becomes_zeros():
    update = train(client_work.of_user(objects.of(Shift(np.inf))))
    assert not update.is_finite
    assert not any(np.any(part) for part in update.delta)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (Shift(missing=1), "it must return ClientUpdate"),
        (Shift(dtype="float64"), "it must return ClientUpdate"),
        (Shift(float("nan")), "not finite"),
    ],
)
def test_client_work_that_does_not_fit_the_model_fails_its_check(work, message):
    client_work.check(Shift(), MODEL, squared, EXAMPLES)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=message):
        client_work.check(work, MODEL, squared, EXAMPLES)


@pytest.mark.parametrize("value", [3, lambda: 3, Shift])
def test_client_work_must_have_the_two_methods(value):
    with pytest.raises(UsageError, match="client_work must be a "):
        client_work.of_user(objects.of(value))


@pytest.mark.parametrize(
    "changes",
    [
        *({"optimizer": name} for name in ("adagrad", "adam", "yogi")),
        *({"momentum": 0.5}, {"corrections": corrections.chosen({"proximal_strength": 0.5})}),
    ],
)
def test_words_train_as_dense_rows_do_although_few_are_looked_up(changes):
    dense = np.zeros((6, 5), np.float32)
    np.add.at(dense, (np.arange(6)[:, None], POSTS["ids"]), POSTS["values"])
    work = client_work.LocalSgd(0.1, 2, steps=6, **changes)
    of_words, of_rows = (
        work.build(model, OfOneAction())(KERNEL, {"features": tf.nest.map_structure(tf.constant, features), **LOG}, KEY)
        for model, features in [(models.bag_of_words(5, 2), POSTS), (models.mlp(5, (), 2), dense)]
    )
    assert_close(of_words.delta, of_rows.delta, rtol=1e-7)


class OfOneAction:
    """Squared error of the chosen outputs, given all outputs or only these."""

    needs_only_chosen_output = True

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
def test_training_by_terms_equals_training_by_gradients_with_each_call(counts, learning_rate):
    model = models.bag_of_words(5, 2)
    log = tf.nest.map_structure(tf.constant, {"features": POSTS, **LOG})
    by_terms, by_gradients = (
        client_work.LocalSgd(0.1, 4, **counts).build(one, OfOneAction())
        for one in (model, dataclasses.replace(model, terms=None))
    )
    expected = tf.nest.flatten(by_gradients(KERNEL, log, KEY, learning_rate))
    for _ in range(2):
        assert_close(tf.nest.flatten(by_terms(KERNEL, log, KEY, learning_rate)), expected, rtol=1e-5)


def test_training_by_terms_that_diverges_is_reported_as_such():
    log = tf.nest.map_structure(tf.constant, {"features": POSTS, **LOG})
    update = client_work.LocalSgd(1e30, 4, epochs=9).build(models.bag_of_words(5, 2), OfOneAction())(KERNEL, log, KEY)
    assert not update.is_finite
    assert all(not np.any(part) for part in update.delta)


@pytest.mark.parametrize("case", CASES)
def test_an_empty_client_stays_where_it_is(case):
    work = CASES[case][0]
    update = train(work, count=0)
    assert all(not np.any(part) for part in update.delta)
    assert (update.loss_sum, update.loss_deviation, work.examples_trained(tf.constant(0))) == (0, 0, 0)
    assert update.is_finite


def test_a_correction_of_strength_0_is_none_and_a_negative_one_refused():
    assert corrections.chosen(dict.fromkeys(corrections.CORRECTIONS, 0.0)) == ()
    with pytest.raises(ValueError, match="strength"):
        corrections.Proximal(-1.0)
