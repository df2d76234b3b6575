"""Images dealt to made clients: `fashion_mnist`, `mnist` and `cifar100`."""

import math
from collections.abc import Mapping
from typing import Any

from bandits import rewards, tasks
from data import images

# Shape of an image, actions, and hidden layers; the two-layer CNN where there are none. Cho et al. 2020 give
# Fashion-MNIST two hidden layers and no widths.
TASKS = {
    "fashion_mnist": ((28, 28, 1), 10, (64, 30)),
    "mnist": ((28, 28, 1), 10, None),
    "cifar100": ((32, 32, 3), 100, (256, 128)),
}


def load(settings: Mapping[str, Any], variant: str) -> tasks.Task:
    """Returns the task.

    Args:
      settings: Flags `data_dir`, `cache_dir`, `partition_clients`, `partition_alpha`, `partition_examples` and
        `partition_seed`.
      variant: `fashion_mnist`, `mnist` or `cifar100`.

    Raises:
      UsageError: If the data is missing, or too small for the partition.
    """
    shape, num_actions, hidden = TASKS[variant]
    population, held_out = images.load(
        variant,
        settings["partition_clients"],
        settings["partition_alpha"],
        settings["partition_examples"],
        settings["partition_seed"],
        settings["data_dir"],
        settings["cache_dir"],
    )
    arguments = {"num_outputs": num_actions}
    if hidden:
        arguments |= {"num_features": math.prod(shape), "hidden": hidden}
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=num_actions,
        feature_spec=(shape, "float32"),
        model="mlp" if hidden else "cnn",
        model_arguments=arguments,
        rewards={"exact": rewards.exact(num_actions)},
        normalise=images.normalise,
    )
