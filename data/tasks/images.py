"""Images dealt to made clients: `fashion_mnist`, `mnist` and `cifar100`."""

from collections.abc import Mapping
from typing import Any

from data import images, tasks
from data.tasks import rewards

# Shape of an image, actions, model, and hidden layers of the MLP. Cho et al. 2020 give Fashion-MNIST two and no widths.
TASKS = {
    "fashion_mnist": ((28, 28, 1), 10, "mlp", (64, 30)),
    "mnist": ((28, 28, 1), 10, "cnn", (32,)),
    "cifar100": ((32, 32, 3), 100, "mlp", (256, 128)),
}


def load(settings: Mapping[str, Any], variant: str) -> tasks.Task:
    """Returns the task.

    Args:
      settings: Flags `data_dir`, `cache_dir`, `partition_clients`, `partition_alpha`, `partition_examples`,
        `partition_seed` and, if given, `partition_beta`, `model` and `norm`.
      variant: `fashion_mnist`, `mnist` or `cifar100`.

    Raises:
      UsageError: If the data is missing, or too small for the partition, or the model does not take the images.
    """
    shape, num_actions, model, hidden = TASKS[variant]
    population, held_out = images.load(
        variant,
        settings["partition_clients"],
        settings["partition_alpha"],
        settings["partition_examples"],
        settings["partition_seed"],
        settings["data_dir"],
        settings["cache_dir"],
        settings.get("partition_beta"),
    )
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=num_actions,
        feature_spec=(shape, "float32"),
        rewards={"exact": rewards.exact(num_actions)},
        normalise=images.normalise,
        **tasks.image_model(settings, model, shape, num_actions, hidden),
    )
