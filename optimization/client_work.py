"""A client's training: SGD over its own cache of examples (Agarwal et al. 2023, Algorithm 3, ClientUpdate).

Plain TensorFlow on dense tensors. The weights live in variables that start at zero and are assigned, so no random
initialiser runs, and a gradient step works in place.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from optimization import models

Batch = Mapping[str, tf.Tensor]
# (model outputs [batch, actions], that mini-batch of the cache) -> scalar, the mean over the mini-batch.
Loss = Callable[[tf.Tensor, Batch], tf.Tensor]


class ClientUpdate(NamedTuple):
    """What a client's training gives.

    Attributes:
      delta: New minus old weights, in the order of the model's weights; all zero where `is_finite` is false.
      loss_sum: float32 scalar, each example's mini-batch loss before its step, summed over examples and epochs.
      is_finite: bool scalar, whether the weights after training were finite.
    """

    delta: tuple[tf.Tensor, ...]
    loss_sum: tf.Tensor
    is_finite: tf.Tensor


@dataclasses.dataclass(frozen=True)
class LocalSgd:
    """SGD for a number of epochs of shuffled mini-batches; the last, partial one is kept.

    Attributes:
      learning_rate: Step size.
      batch_size: Examples of a mini-batch.
      epochs: Passes over the cache.
    """

    learning_rate: float
    batch_size: int
    epochs: int

    def build(self, model: models.Model, loss: Loss) -> Callable[..., ClientUpdate]:
        """Returns the training function.

        Call this once in the graph or eager context where the function will run: it creates the variables.

        Args:
          model: The model to train.
          loss: Mean loss of a mini-batch.

        Returns:
          A function of (weights, cache, key): float32 tensors in the model's order; a mapping with `features` and
          whatever `loss` reads, all with the examples as first axis; the int32 [2] key of the shuffles.
        """
        variables = [tf.Variable(tf.zeros(shape), trainable=True) for shape in model.shapes.values()]

        @tf.function
        def train(weights: Sequence[tf.Tensor], cache: Batch, key: tf.Tensor) -> ClientUpdate:
            for variable, weight in zip(variables, weights, strict=True):
                variable.assign(weight)
            num_examples = tf.shape(tf.nest.flatten(cache)[0])[0]
            loss_sum = tf.constant(0.0)
            for epoch in tf.range(self.epochs):
                epoch_key = tf.random.experimental.stateless_fold_in(key, epoch)
                order = tf.random.experimental.stateless_shuffle(tf.range(num_examples), epoch_key)
                for start in tf.range(0, num_examples, self.batch_size):
                    rows = order[start : start + self.batch_size]
                    batch = tf.nest.map_structure(lambda values, rows=rows: tf.gather(values, rows), dict(cache))
                    with tf.GradientTape() as tape:
                        value = loss(model.forward(variables, batch["features"]), batch)
                    for variable, gradient in zip(variables, tape.gradient(value, variables), strict=True):
                        self._step(variable, gradient)
                    loss_sum += value * tf.cast(tf.size(rows), tf.float32)
            deltas = [variable - weight for variable, weight in zip(variables, weights, strict=True)]
            # One number that is not finite makes the sum so; a sum reads the model once and copies nothing.
            is_finite = tf.math.is_finite(tf.add_n([tf.reduce_sum(delta) for delta in deltas]))
            deltas = tf.cond(is_finite, lambda: deltas, lambda: [tf.zeros_like(delta) for delta in deltas])
            return ClientUpdate(tuple(deltas), loss_sum, is_finite)

        return train

    def _step(self, variable: tf.Variable, gradient: tf.Tensor | tf.IndexedSlices) -> None:
        """Steps in place; for looked-up rows of a matrix, only in those rows."""
        if isinstance(gradient, tf.IndexedSlices):
            variable.scatter_sub(tf.IndexedSlices(self.learning_rate * gradient.values, gradient.indices))
        else:
            tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=self.learning_rate, delta=gradient)


def no_training(weights: Sequence[tf.Tensor]) -> ClientUpdate:
    """Returns the update of a client that leaves the weights as they are."""
    return ClientUpdate(tuple(tf.zeros_like(weight) for weight in weights), tf.constant(0.0), tf.constant(True))
