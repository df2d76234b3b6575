"""The server step of generalized FedAvg: the aggregated delta, negated, is the gradient of a server optimizer.

Reddi et al. 2021, Algorithm 2; Agarwal et al. 2023, Algorithm 3, lines 6-7.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from optimization import server_flags

OPTIMIZERS = {
    "adagrad": tff.learning.optimizers.build_adagrad,
    "adam": tff.learning.optimizers.build_adam,
    "sgd": tff.learning.optimizers.build_sgdm,
    "yogi": tff.learning.optimizers.build_yogi,
}


def build(settings: Mapping[str, Any], name: str, learning_rate: float) -> tff.learning.optimizers.Optimizer:
    """Returns an optimizer with the hyperparameters that were given for it.

    Args:
      settings: Flags, see `server_flags`.
      name: Of the optimizer.
      learning_rate: Its learning rate.
    """
    values = {key: settings[f"server_{name}_{key}"] for key in server_flags.HYPERPARAMETERS[name]}
    return OPTIMIZERS[name](learning_rate, **{key: value for key, value in values.items() if value is not None})


def server_step(
    optimizer: tff.learning.optimizers.Optimizer,
    optimizer_state,
    weights: tuple[tf.Tensor, ...],
    delta: tuple[tf.Tensor, ...],
):
    """Applies one aggregated delta.

    Args:
      optimizer: Server optimizer.
      optimizer_state: Its state.
      weights: Model before.
      delta: Aggregated client deltas, new minus old.

    Returns:
      (optimizer state, weights) after.
    """
    gradient = tf.nest.map_structure(tf.negative, tuple(delta))
    return optimizer.next(optimizer_state, tuple(weights), gradient)
