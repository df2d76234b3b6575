"""Federated EMNIST, as TensorFlow Federated ships it: 62 characters or 10 digits of real writers."""

from collections.abc import Mapping
from typing import Any

from bandits import rewards, tasks
from data import emnist


def load(settings: Mapping[str, Any], variant: str) -> tasks.Task:
    """Returns the task: 28 x 28 x 1 pixels, the two-layer CNN or a linear model.

    Args:
      settings: Flags; `data_dir` and `cache_dir` say where the database is, or goes.
      variant: `chars` or `digits`, with `_linear` for the linear model.
    """
    kind, _, linear = variant.partition("_")
    population, held_out = emnist.load(kind, settings["data_dir"], settings["cache_dir"])
    phases = tasks.characters(settings) if kind == "chars" else {"exact": rewards.exact(10)}
    num_actions = len(phases["exact"])
    arguments = {"num_outputs": num_actions}
    if linear:
        arguments |= {"num_features": 28 * 28, "hidden": ()}
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=num_actions,
        feature_spec=((28, 28, 1), "float32"),
        model="mlp" if linear else "cnn",
        model_arguments=arguments,
        rewards=phases,
    )
