import numpy as np
import pytest
import tensorflow as tf

from data import action_sets
from data.action_sets import ActionSets
from optimization import models

ROWS, SLOTS, CONTEXTS, FEATURES = 5, 4, 3, 2
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(ROWS, CONTEXTS)).astype(np.float32)
A = DRAW.normal(size=(ROWS, SLOTS, FEATURES)).astype(np.float32)
ENTRIES = np.where(np.arange(SLOTS) < np.array([4, 1, 2, 3, 4])[:, np.newaxis], 0, -1).astype(np.int32)
SETS = ActionSets(tf.constant(X), tf.constant(ENTRIES), tf.constant(A))


def of(name, **arguments):
    model = models.of_sets(name, {"num_contexts": CONTEXTS, "num_features": FEATURES, **arguments})
    return model, [DRAW.normal(size=shape).astype(np.float32) for shape in model.shapes.values()]


def masked(scores):
    return np.where(ENTRIES >= 0, scores, -np.inf)


def test_linear_sums_context_action_and_their_products():
    model, (kernel, bias) = of("linear", bits=None)
    of_contexts, of_actions, of_products = np.split(kernel[:, 0], [CONTEXTS, CONTEXTS + FEATURES])
    products = np.einsum("rc,rsf,cf->rs", X, A, of_products.reshape(CONTEXTS, FEATURES))
    scores = (X @ of_contexts)[:, np.newaxis] + A @ of_actions + products + bias
    np.testing.assert_allclose(model.forward([kernel, bias], SETS), masked(scores), rtol=1e-4, atol=1e-5)


def test_hashed_products_have_a_fixed_number_of_weights():
    model, weights = of("linear", bits=2)
    assert model.shapes["dense_0/kernel"] == (CONTEXTS + FEATURES + 4, 1)
    assert np.isfinite(model.forward(weights, SETS).numpy()[ENTRIES >= 0]).all()


@pytest.mark.parametrize(
    ("name", "arguments"), [("linear", {"bits": None}), ("linear", {"bits": 2}), ("two_tower", {"hidden": (8, 5)})]
)
def test_scores_are_the_last_layer_on_the_body(name, arguments):
    model, weights = of(name, **arguments)
    scores = np.squeeze(model.body(weights, SETS) @ weights[-2], 2) + weights[-1]
    np.testing.assert_allclose(model.forward(weights, SETS), masked(scores), rtol=1e-4, atol=1e-5)


def test_bilinear_with_one_hot_actions_is_a_linear_model():
    linear = models.mlp(CONTEXTS, (), SLOTS)
    weights = [DRAW.normal(size=shape).astype(np.float32) for shape in linear.shapes.values()]
    model = models.of_sets("bilinear", {"num_contexts": CONTEXTS, "num_features": SLOTS})
    one_hot = np.broadcast_to(np.eye(SLOTS, dtype=np.float32), (ROWS, SLOTS, SLOTS))
    sets = ActionSets(X, np.zeros((ROWS, SLOTS), np.int32), one_hot)
    assert list(model.shapes.values()) == list(linear.shapes.values())
    np.testing.assert_allclose(model.forward(weights, sets), linear.forward(weights, X), rtol=1e-5, atol=1e-6)


def test_two_tower_is_a_weighted_inner_product_of_two_perceptrons():
    model, weights = of("two_tower", hidden=(8, 5))

    def tower(values, first, second):
        hidden = np.maximum(values @ weights[first] + weights[first + 1], 0)
        return hidden @ weights[second] + weights[second + 1]

    scores = np.einsum("ru,rsu,u->rs", tower(X, 0, 2), tower(A, 4, 6), weights[8][:, 0]) + weights[9]
    np.testing.assert_allclose(model.forward(weights, SETS), masked(scores), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "arguments"), [("linear", {"bits": 3}), ("bilinear", {}), ("two_tower", {"hidden": (4,)})]
)
def test_models_work_without_contexts_and_with_bags_of_words(name, arguments):
    no_contexts = SETS._replace(contexts=tf.zeros((ROWS, 0)))
    model = models.of_sets(name, {"num_contexts": 0, "num_features": FEATURES, **arguments})
    assert model.forward(model.initial_weights(0), no_contexts).shape == (ROWS, SLOTS)
    model, weights = of(name, **arguments)
    ids = tf.constant([[0, 2]] * ROWS)
    values = tf.constant(X[:, [0, 2]])
    in_bags = SETS._replace(contexts={"ids": ids, "values": values})
    in_rows = SETS._replace(contexts=tf.constant(X * [1, 0, 1], tf.float32))
    np.testing.assert_allclose(model.forward(weights, in_bags), model.forward(weights, in_rows), rtol=1e-4, atol=1e-5)


def test_an_ordinary_model_gives_minus_infinity_to_actions_that_are_not_offered():
    linear = models.mlp(CONTEXTS, (), SLOTS)
    weights = [DRAW.normal(size=shape).astype(np.float32) for shape in linear.shapes.values()]
    sets = action_sets.of_entries(X, np.where(ENTRIES >= 0, np.arange(SLOTS), -1))
    outputs = models.restricted(linear).forward(weights, sets)
    np.testing.assert_array_equal(outputs, masked(linear.forward(weights, X)))
