"""A model's weights as one vector, in the order of its weights."""

import itertools
import math
from collections.abc import Mapping, Sequence

import tensorflow as tf


def flatten(weights: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns float32 [parameters]."""
    return tf.concat([tf.reshape(weight, [-1]) for weight in weights], axis=0)


def unflatten(vector: tf.Tensor, shapes: Mapping[str, tuple[int, ...]]) -> tuple[tf.Tensor, ...]:
    """Returns the weights of a vector float32 [parameters], given `models.Model.shapes`."""
    ends = itertools.accumulate(math.prod(shape) for shape in shapes.values())
    return tuple(
        tf.reshape(vector[end - math.prod(shape) : end], shape)
        for shape, end in zip(shapes.values(), ends, strict=True)
    )
