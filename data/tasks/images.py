"""Characters, digits and other images, of real writers or dealt to clients."""

from collections.abc import Callable
from typing import Any

import numpy as np

from data import clients, emnist, files, handwriting, images, tasks
from data.tasks import rewards
from data.tasks.options import TaskOptions

# Shape of an image, actions, model, and hidden layers of the MLP. Cho et al. 2020 give Fashion-MNIST two and no widths.
TASKS = {
    "fashion_mnist": ((28, 28, 1), 10, "mlp", (64, 30)),
    "mnist": ((28, 28, 1), 10, "cnn", (32,)),
    "cifar100": ((32, 32, 3), 100, "mlp", (256, 128)),
}
_Normalise = Callable[[Any], np.ndarray]


def load_digits(options: TaskOptions) -> tasks.Task:
    """Returns scikit-learn's digits over 60 synthetic clients: 8 x 8 pixels, 10 actions, one hidden layer of 64.

    Raises:
      UsageError: If the initial training of a shift is to pay for fewer or more digits than there are.
    """
    population, held_out = images.digits(options.partition_alpha)
    equally_frequent = [1] * 10  # The initial training of a shift pays for the first ones.
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=10,
        feature_spec=((64,), "float32"),
        model="mlp",
        model_arguments={"num_features": 64, "hidden": (64,), "num_outputs": 10},
        rewards={"exact": rewards.exact(10), **rewards.label_rewards(equally_frequent, options.init_labels)},
    )


def load_writers(options: TaskOptions) -> tasks.Task:
    """Returns a task of real writers: 28 x 28 x 1 pixels, 62 characters or 10 digits; by default the two-layer CNN.

    Raises:
      UsageError: If the data is missing or damaged, or cannot be downloaded.
    """
    has_characters = options.task_type in ("emnist_chars", "emnist62_linear", "unipen62")
    phases = {"exact": rewards.exact(10)}
    if has_characters:
        phases = rewards.character_rewards(reference_code=options.is_published)
    num_actions = len(phases["exact"])
    normalise: _Normalise = handwriting.normalise
    if options.task_type == "unipen62":
        population, held_out = handwriting.unipen62(options.data_dir)
    elif options.task_type == "mnist_writers":
        population, held_out = handwriting.mnist_writers(options.data_dir)
    else:
        population, held_out, normalise = _emnist(options, has_characters)
    model = "cnn"
    if options.task_type.endswith("_linear"):
        model = "linear_l2" if options.is_published else "linear"
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=num_actions,
        feature_spec=((28, 28, 1), "float32"),
        rewards=phases,
        normalise=normalise,
        **tasks.image_model(options, model, (28, 28, 1), num_actions),
    )


def _emnist(options: TaskOptions, has_characters: bool) -> tuple[clients.ClientData, clients.ClientData, _Normalise]:
    """Returns LEAF's files, for characters, if the data folder holds them; else TFF's database."""
    folder = options.data_dir or files.folder_of_environment()
    train, test = emnist.find_leaf(folder) if has_characters and folder else ([], [])
    if train:
        return *emnist.load_leaf(train, test, 62), handwriting.normalise
    kind = "chars" if has_characters else "digits"
    return *emnist.load(kind, options.data_dir, options.cache_dir, options.random_data), lambda pixels: pixels


def load_dealt(options: TaskOptions) -> tasks.Task:
    """Returns a task of images that are dealt to clients.

    Raises:
      UsageError: If the data is missing, or too small for the partition, or the model does not take the images.
    """
    shape, num_actions, model, hidden = TASKS[options.task_type]
    population, held_out = images.load(
        options.task_type,
        options.partition_clients,
        options.partition_alpha,
        options.partition_examples,
        options.partition_seed,
        options.data_dir,
        options.cache_dir,
        options.partition_beta,
        options.partition_by,
        options.random_data,
    )
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=num_actions,
        feature_spec=(shape, "float32"),
        rewards={"exact": rewards.exact(num_actions)},
        normalise=images.normalise,
        **tasks.image_model(options, model, shape, num_actions, hidden),
    )
