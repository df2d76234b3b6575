"""Optimizers of TensorFlow Federated, chosen by name or given by the user."""

from collections.abc import Sequence
from typing import TypeAlias

import tensorflow_federated as tff

from data.objects import UserObject

Optimizer: TypeAlias = tff.learning.optimizers.Optimizer

OPTIMIZERS = {
    "adagrad": tff.learning.optimizers.build_adagrad,
    "adam": tff.learning.optimizers.build_adam,
    "sgd": tff.learning.optimizers.build_sgdm,
    "yogi": tff.learning.optimizers.build_yogi,
}


def build(owner: str, name: str, learning_rate: float, others: Sequence[tuple[str, float]]) -> Optimizer:
    """Builds an optimizer.

    Args:
      owner: `client` or `server`; error messages name the flag of this owner.
      name: One of `OPTIMIZERS`, or the user's `UserObject`, for which the other arguments are not used.
      learning_rate: Learning rate.
      others: (name, value) of the other hyperparameters that differ from their defaults.

    Raises:
      UsageError: If the user's object is not an optimizer.
    """
    if isinstance(name, UserObject):
        return name.made(f"{owner}_optimizer", Optimizer, "a tff.learning.optimizers.Optimizer")
    return OPTIMIZERS[name](learning_rate, **dict(others))
