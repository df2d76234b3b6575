"""The server step of generalized FedAvg: the aggregated delta, negated, is the gradient of a server optimizer.

Reddi et al. 2021, Algorithm 2; Agarwal et al. 2023, Algorithm 3, lines 6-7.
"""

import tensorflow as tf
import tensorflow_federated as tff

from optimization import options

OPTIMIZERS = {
    "adagrad": tff.learning.optimizers.build_adagrad,
    "adam": tff.learning.optimizers.build_adam,
    "sgd": tff.learning.optimizers.build_sgdm,
    "yogi": tff.learning.optimizers.build_yogi,
}


def build(optimizer: options.ServerOptimizer) -> tff.learning.optimizers.Optimizer:
    """Returns TFF's optimizer."""
    return OPTIMIZERS[optimizer.name](optimizer.learning_rate, **dict(optimizer.hyperparameters))


def server_step(
    optimizer: tff.learning.optimizers.Optimizer,
    optimizer_state,
    weights: tuple[tf.Tensor, ...],
    delta: tuple[tf.Tensor, ...],
):
    """Applies one aggregated delta; one that is not finite, such as the mean of nobody, changes nothing.

    A delta of zeros is a step like any other: an optimizer with momentum moves on.

    Args:
      optimizer: Server optimizer.
      optimizer_state: Its state.
      weights: Model before.
      delta: Aggregated client deltas, new minus old.

    Returns:
      (optimizer state, weights) after, and float32, the delta's L2 norm, 0 where it was not finite.
    """
    norm = tf.linalg.global_norm(delta)
    is_finite = tf.math.is_finite(norm)
    before = (optimizer_state, tuple(weights))

    def step():
        gradient = tf.nest.map_structure(tf.negative, tuple(delta))
        return tf.nest.flatten(optimizer.next(*before, gradient))

    after = tf.cond(is_finite, step, lambda: [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(before)])
    return *tf.nest.pack_sequence_as(before, after), tf.where(is_finite, norm, 0.0)
