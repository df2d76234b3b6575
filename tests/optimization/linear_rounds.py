"""Supervised rounds of a softmax regression with full-batch steps, and the same training in NumPy."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from optimization import client_work, models, supervised

MODEL = models.mlp(3, (), 4)
_DRAW = np.random.default_rng(5)
INITIAL = (_DRAW.normal(size=(3, 4)).astype(np.float32), _DRAW.normal(size=4).astype(np.float32))
RATE, STEPS = 0.2, 3


def definition(aggregator=None, **changes) -> supervised.SupervisedProcess:
    """Rounds whose clients take `STEPS` steps on all of their examples."""
    mean = tff.aggregators.as_weighted_aggregator(tff.aggregators.UnweightedMeanFactory())
    fields = {
        "model": MODEL,
        "local_work": client_work.LocalSgd(RATE, 64, epochs=STEPS),
        "aggregator": aggregator or mean,
        "server_optimizer": tff.learning.optimizers.build_sgdm(1.0),
        "feature_spec": tf.TensorSpec((None, 3)),
        "label_spec": tf.TensorSpec((None,), tf.int32),
        "cohort_size": 0,
    }
    return supervised.SupervisedProcess(**(fields | changes))


def client(number: int, size: int) -> supervised.ClientInput:
    draw = np.random.default_rng(100 + number)
    features, labels = draw.normal(size=(size, 3)).astype(np.float32), draw.integers(0, 4, size).astype(np.int32)
    key = np.array([number, 7], np.int32)
    return supervised.ClientInput(features, labels, key, np.int32(number), np.float32(size), np.float32(RATE))


def trained(
    weights: Sequence[np.ndarray], one: supervised.ClientInput, shift: Sequence[np.ndarray] = (0.0, 0.0)
) -> list[np.ndarray]:
    """Weights after a client's steps in NumPy, float64; `shift` is added to each gradient."""
    kernel, bias = (np.array(weight, float) for weight in weights)
    for _ in range(STEPS if len(one.labels) else 0):
        logits = one.features @ kernel + bias
        errors = np.exp(logits - logits.max(axis=1, keepdims=True))
        errors = errors / errors.sum(axis=1, keepdims=True) - np.eye(4)[one.labels]
        kernel -= RATE * (one.features.T @ errors / len(errors) + shift[0])
        bias -= RATE * (errors.mean(axis=0) + shift[1])
    return [kernel, bias]


def assert_close(weights: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    for one, other in zip(weights, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def assert_same_rounds(
    aggregator: tff.aggregators.WeightedAggregationFactory,
    cohort: Sequence[supervised.ClientInput],
    aggregate: Callable[[np.ndarray], np.ndarray],
) -> None:
    """Asserts that five rounds equal those of an aggregation of deltas, [clients, ...], in NumPy."""
    rounds = definition(aggregator).build(INITIAL)
    state, expected = rounds.initialize(), list(INITIAL)
    for _ in range(5):
        state, _ = rounds.next(state, cohort)
        updates = [trained(expected, one) for one in cohort]
        changes = [np.stack(parts) - before for parts, before in zip(zip(*updates, strict=True), expected, strict=True)]
        expected = [before + aggregate(change) for before, change in zip(expected, changes, strict=True)]
        assert_close(state.weights, expected)
