"""Models that score pairs of a context and the features of an action.

Each function in `MODELS` returns three parts: the weight shapes by name; a function that computes the scores, (weights,
contexts, actions) -> float32 [batch, slots]; and a function that computes the inputs of the last layer, with the same
arguments, -> float32 [batch, slots, units], or None if the last layer is not dense. Contexts are float32 [batch, ...]
or bags of words as `models.dense` returns them, and actions are float32 [batch, slots, features].
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from data import keys

Shapes = dict[str, tuple[int, ...]]
Parts = tuple[Shapes, Callable[..., tf.Tensor], Callable[..., tf.Tensor] | None]


def linear(num_contexts: int, num_features: int, bits: int | None = None) -> Parts:
    """Linear model of the context's features, the action's features and all their pairwise products, with a bias.

    Products can share 2^bits weights, by the hashing trick with random signs (Weinberger, Dasgupta, Langford, Smola and
    Attenberg, "Feature Hashing for Large Scale Multitask Learning", 2009).

    Args:
      num_contexts: Number of features of a context.
      num_features: Number of features of an action.
      bits: Base-2 logarithm of the number of shared weights; None for one weight per product.
    """
    pairs = num_contexts * num_features
    draw = keys.generator(0, keys.Purpose.HASHING)
    weight_of = np.arange(pairs) if bits is None else draw.integers(2**bits, size=pairs)
    signs = np.ones(pairs, np.float32) if bits is None else draw.choice(np.array([-1, 1], np.float32), pairs)
    products = 2**bits if bits is not None and pairs else pairs
    units = num_contexts + num_features + products

    def scores(weights, contexts, actions):
        of_contexts, of_actions, of_products = tf.split(weights[0], [num_contexts, num_features, products])
        kernel = tf.gather(of_products[:, 0], weight_of) * signs if bits is not None else of_products
        by_action = _times(contexts, tf.reshape(kernel, [num_contexts, num_features])) + of_actions[:, 0]
        return _dot(actions, by_action) + _times(contexts, of_contexts) + weights[1]

    def body(weights, contexts, actions):
        rows, slots = tf.unstack(tf.shape(actions)[:2])
        contexts = tf.reshape(as_array(contexts, num_contexts), [rows, 1, num_contexts])
        both = tf.reshape(contexts[..., tf.newaxis] * actions[:, :, tf.newaxis], [rows, slots, pairs])
        if bits is not None:
            summed = tf.math.unsorted_segment_sum(tf.transpose(both * signs, [2, 0, 1]), weight_of, products)
            both = tf.transpose(summed, [1, 2, 0])
        repeated = tf.repeat(contexts, slots, axis=1)
        return tf.concat([repeated, actions, both], axis=2)

    return {"dense_0/kernel": (units, 1), "dense_0/bias": (1,)}, scores, body


def bilinear(num_contexts: int, num_features: int) -> Parts:
    """Inner product of an action's features and an affine map of the context; a linear model if actions are one-hot."""
    shapes: Shapes = {"dense_0/kernel": (num_contexts, num_features), "dense_0/bias": (num_features,)}

    def scores(weights, contexts, actions):
        return _dot(actions, tf.nn.bias_add(_times(contexts, weights[0]), weights[1]))

    return shapes, scores, None


def two_tower(num_contexts: int, num_features: int, hidden: Sequence[int]) -> Parts:
    """Weighted inner product, with a bias, of the outputs of two multilayer perceptrons: for contexts and for actions.

    Args:
      num_contexts: Number of features of a context. Without any, the context's vector is all ones.
      num_features: Number of features of an action.
      hidden: Widths of the layers of each perceptron. All but the last layer end in a ReLU.
    """
    shapes: Shapes = {}
    towers = [("context", num_contexts)] * bool(num_contexts) + [("action", num_features)]
    for name, width in towers:
        for layer, (width_in, width_out) in enumerate(itertools.pairwise([width, *hidden])):
            shapes |= {f"{name}_{layer}/kernel": (width_in, width_out), f"{name}_{layer}/bias": (width_out,)}

    def tower(weights, values, first: int):
        for layer in range(len(hidden)):
            kernel, bias = weights[first + 2 * layer : first + 2 * layer + 2]
            values = _times(values, kernel) if layer == 0 else values @ kernel
            values = values + bias if layer == len(hidden) - 1 else tf.nn.relu(values + bias)
        return values

    def body(weights, contexts, actions):
        flat = tf.reshape(actions, [-1, num_features])
        of_actions = tower(weights, flat, 2 * len(hidden) * (len(towers) - 1))
        of_actions = tf.reshape(of_actions, [-1, tf.shape(actions)[1], hidden[-1]])
        return tower(weights, contexts, 0)[:, tf.newaxis] * of_actions if num_contexts else of_actions

    def scores(weights, contexts, actions):
        return tf.squeeze(body(weights, contexts, actions) @ weights[-2], 2) + weights[-1]

    return {**shapes, "dense/kernel": (hidden[-1], 1), "dense/bias": (1,)}, scores, body


MODELS: Mapping[str, Callable[..., Parts]] = {"linear": linear, "bilinear": bilinear, "two_tower": two_tower}


def _times(contexts: Any, kernel: tf.Tensor) -> tf.Tensor:
    """Product of contexts and a matrix, float32 [batch, columns]; zeros [1, columns] if contexts have no features."""
    if isinstance(contexts, Mapping):
        return tf.squeeze(contexts["values"][:, tf.newaxis] @ tf.gather(kernel, contexts["ids"]), 1)
    if not kernel.shape[0]:
        return tf.zeros([1, kernel.shape[1]])
    flat = contexts if len(contexts.shape) == 2 else tf.reshape(contexts, [-1, kernel.shape[0]])
    return flat @ kernel


def _dot(actions: tf.Tensor, vectors: tf.Tensor) -> tf.Tensor:
    """Inner products of each row's actions with its vector, float32 [batch, slots]."""
    if actions.shape[1] == 1:  # Only the chosen action, as in training: fewer operations, a simple gradient.
        return tf.reduce_sum(tf.squeeze(actions, 1) * vectors, axis=1, keepdims=True)
    return tf.squeeze(actions @ vectors[..., tf.newaxis], 2)


def as_array(contexts: Any, num_contexts: int) -> tf.Tensor:
    """Converts bags of words to an array, float32 [batch, num_contexts]; returns other contexts unchanged."""
    if not isinstance(contexts, Mapping):
        return contexts
    ids = contexts["ids"]
    rows = tf.broadcast_to(tf.expand_dims(tf.range(tf.shape(ids)[0]), 1), tf.shape(ids))
    return tf.scatter_nd(tf.stack([rows, ids], axis=2), contexts["values"], [tf.shape(ids)[0], num_contexts])
