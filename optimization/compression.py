"""Compression of a client's update, and its decoding, in TensorFlow.

The largest entries are kept, and values rounded to a grid at random without bias (Alistarh et al. 2017, "QSGD", with a
uniform grid from the smallest to the largest value). What follows, such as clipping, sees the decoded update.
"""

import tensorflow as tf

from optimization import models, options

_KEY = 0x636D7072  # Keeps these samples apart from those of mini-batches.


def decoded(compression: options.Compression, delta: tuple[tf.Tensor, ...], key: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Update as the server decodes it; the update itself without compression.

    Args:
      compression: What is compressed.
      delta: float32 arrays of fixed shapes.
      key: int32 [2], random key of the client in the round.
    """
    if compression == options.NO_COMPRESSION:
        return delta
    shapes = {str(place): tuple(part.shape) for place, part in enumerate(delta)}
    vector = models.flatten(delta)
    size = vector.shape[0]
    places, values = tf.range(size), vector
    if compression.top_k is not None:
        _, places = tf.math.top_k(tf.abs(vector), compression.entries(size))
        values = tf.gather(vector, places)
    if compression.bits is not None:
        values = quantized(values, compression.bits, tf.random.experimental.stateless_fold_in(key, _KEY))
    return models.unflatten(tf.scatter_nd(places[:, tf.newaxis], values, [size]), shapes)


def quantized(values: tf.Tensor, bits: int, key: tf.Tensor) -> tf.Tensor:
    """Values rounded to one of their two neighbours on a grid, at random so that their expectation stays.

    The grid has 2^bits points from the smallest to the largest value. The variance of a value is at most a quarter of
    the squared distance of two points.

    Args:
      values: float32 [values].
      bits: Bits of a value.
      key: int32 [2].
    """
    low, steps = tf.reduce_min(values), float(2**bits - 1)
    step = (tf.reduce_max(values) - low) / steps
    noise = tf.random.stateless_uniform(tf.shape(values), key)
    point = tf.minimum(tf.floor(tf.math.divide_no_nan(values - low, step) + noise), steps)
    return low + point * step
