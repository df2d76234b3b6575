"""Models as pure functions of their weights.

A model is a list of named weight shapes and one function from (weights, features) to outputs, so that the same
code runs on server tensors, on a client's variables and in a test.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from data import keys

Weights = tuple[np.ndarray, ...]


@dataclasses.dataclass(frozen=True)
class Model:
    """A model without state.

    Attributes:
      shapes: Weight names and shapes, in the order of all weight tuples. All weights are float32.
      forward: (weights, features [batch, ...], one tensor or several by name) -> outputs float32 [batch, actions].
      flops: Multiply-adds times two of `forward` per example, convolutions and matrix products only.
    """

    shapes: dict[str, tuple[int, ...]]
    forward: Callable[[Sequence[tf.Tensor], tf.Tensor], tf.Tensor]
    flops: int

    def initial_weights(self, seed: int) -> Weights:
        """Draws Glorot-uniform kernels and zero biases, Keras' defaults.

        Args:
          seed: Seed of the draw.

        Returns:
          float32 arrays in the order of `shapes`.
        """
        draw = keys.generator(seed, keys.Purpose.WEIGHTS)
        weights = []
        for shape in self.shapes.values():
            if len(shape) == 1:
                weights.append(np.zeros(shape, np.float32))
                continue
            field = math.prod(shape[:-2])
            limit = math.sqrt(6 / (field * (shape[-2] + shape[-1])))
            weights.append(draw.uniform(-limit, limit, shape).astype(np.float32))
        return tuple(weights)


def mlp(num_features: int, hidden: Sequence[int], num_outputs: int) -> Model:
    """Returns dense layers with ReLU between; with no hidden layer, the linear model with bias."""
    sizes = [num_features, *hidden, num_outputs]
    shapes = {}
    for layer, (width_in, width_out) in enumerate(itertools.pairwise(sizes)):
        shapes[f"dense_{layer}/kernel"] = (width_in, width_out)
        shapes[f"dense_{layer}/bias"] = (width_out,)

    def forward(weights, features):
        hidden_values = tf.reshape(features, [-1, num_features])
        for layer in range(len(sizes) - 1):
            if layer:
                hidden_values = tf.nn.relu(hidden_values)
            hidden_values = tf.nn.bias_add(hidden_values @ weights[2 * layer], weights[2 * layer + 1])
        return hidden_values

    flops = sum(2 * a * b for a, b in itertools.pairwise(sizes))
    return Model(shapes, forward, flops)


def cnn(num_outputs: int) -> Model:
    """Returns the two-layer CNN for 28 x 28 x 1 images.

    Two 5 x 5 convolutions (32 and 64 channels, 'same' padding), each followed by ReLU and a 2 x 2 max pool, then
    a dense layer of 512 with ReLU (McMahan et al. 2017, section 3; Reddi et al. 2021; Agarwal et al. 2023,
    section 4.1).
    """
    shapes = {
        "conv_0/kernel": (5, 5, 1, 32),
        "conv_0/bias": (32,),
        "conv_1/kernel": (5, 5, 32, 64),
        "conv_1/bias": (64,),
        "dense_0/kernel": (7 * 7 * 64, 512),
        "dense_0/bias": (512,),
        "dense_1/kernel": (512, num_outputs),
        "dense_1/bias": (num_outputs,),
    }

    def forward(weights, features):
        # oneDNN's convolution miscounts the channels of an empty batch: it gets one blank example, cut off at the end.
        num_examples = tf.shape(features)[0]
        values = tf.reshape(features, [-1, 28 * 28])
        values = tf.pad(values, [[0, tf.cast(tf.equal(num_examples, 0), tf.int32)], [0, 0]])
        values = tf.reshape(values, [-1, 28, 28, 1])
        for kernel, bias in (weights[0:2], weights[2:4]):
            values = tf.nn.conv2d(values, kernel, strides=1, padding="SAME")
            values = tf.nn.relu(tf.nn.bias_add(values, bias))
            values = tf.nn.max_pool2d(values, ksize=2, strides=2, padding="SAME")
        values = tf.reshape(values, [-1, 7 * 7 * 64])
        values = tf.nn.relu(tf.nn.bias_add(values @ weights[4], weights[5]))
        return tf.nn.bias_add(values @ weights[6], weights[7])[:num_examples]

    flops = 2 * (28 * 28 * 25 * 32 + 14 * 14 * 25 * 32 * 64 + 7 * 7 * 64 * 512 + 512 * num_outputs)
    return Model(shapes, forward, flops)


def bag_of_words(vocabulary_size: int, num_outputs: int) -> Model:
    """Returns the linear model with bias of a bag of words, given as word ids and their values.

    Features are `ids` int32 [batch, words] and `values` float32 [batch, words]; padding has the value 0. Only the rows
    of the words that occur are read, and only they are changed by training.
    """
    shapes = {"dense_0/kernel": (vocabulary_size, num_outputs), "dense_0/bias": (num_outputs,)}

    def forward(weights, features):
        rows = tf.gather(weights[0], features["ids"])
        # A product with a row vector, unlike an einsum, transposes nothing.
        return tf.matmul(features["values"][:, tf.newaxis], rows)[:, 0] + weights[1]

    return Model(shapes, forward, 2 * vocabulary_size * num_outputs)
