"""Synthetic(alpha, beta): generated clients that differ in model and in features; needs no file."""

from collections.abc import Mapping
from typing import Any

from data import synthetic, tasks
from data.tasks import rewards


def load(settings: Mapping[str, Any], variant: str = "") -> tasks.Task:
    """Returns the task: 60 features, 10 actions, multinomial logistic regression.

    Args:
      settings: Flags `partition_clients`, `partition_seed`, `synthetic_alpha` and `synthetic_beta`.
      variant: Not used.
    """
    del variant
    population, held_out = synthetic.load(
        settings["partition_clients"],
        settings["synthetic_alpha"],
        settings["synthetic_beta"],
        settings["partition_seed"],
    )
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=synthetic.NUM_CLASSES,
        feature_spec=((synthetic.NUM_FEATURES,), "float32"),
        model="mlp",
        model_arguments={
            "num_features": synthetic.NUM_FEATURES,
            "hidden": (),
            "num_outputs": synthetic.NUM_CLASSES,
        },
        rewards={"exact": rewards.exact(synthetic.NUM_CLASSES)},
    )
