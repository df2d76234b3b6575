"""Tasks to measure rounds on: data made in the shapes of data sets, so that no file is needed."""

import numpy as np

from data import clients, random_data, tasks, text
from data.tasks import images, rewards

WORDS, TAGS = 10_000, 50
_MOST_WORDS = 256  # Of a post, as the published presets have it.


def emnist(population: int) -> tasks.Task:
    """Returns EMNIST's task on a number of clients with 197.5 examples on average, as in the data set."""
    generated, _ = random_data.emnist("chars", population)
    return tasks.Task(
        clients=generated,
        held_out=generated,
        num_actions=62,
        feature_spec=((28, 28, 1), "float32"),
        model="cnn",
        model_arguments={"num_outputs": 62},
        rewards={"exact": rewards.exact(62)},
    )


def fashion_mnist(population: int) -> tasks.Task:
    """Returns Fashion-MNIST's task on clients of 600 examples."""

    def make(draw: np.random.Generator) -> clients.Examples:
        features = draw.random((600, 28, 28, 1), dtype=np.float32)
        return clients.Examples(features, draw.integers(0, 10, 600, dtype=np.int32))

    shape, num_actions, _, hidden = images.TASKS["fashion_mnist"]
    generated = random_data.RandomClients(population, make)
    return tasks.Task(
        clients=generated,
        held_out=generated,
        num_actions=num_actions,
        feature_spec=(shape, "float32"),
        model="mlp",
        model_arguments={"num_features": 784, "hidden": hidden, "num_outputs": num_actions},
        rewards={"exact": rewards.exact(num_actions)},
    )


def stackoverflow(population: int) -> tasks.Task:
    """Returns Stack Overflow's task on a number of clients with 100 or more posts of 5 to 130 words."""
    generated, _ = random_data.stackoverflow(WORDS, TAGS, _MOST_WORDS, population)
    return tasks.Task(
        clients=generated,
        held_out=generated,
        num_actions=TAGS,
        feature_spec=text.Bags,
        model="bag_of_words",
        model_arguments={"vocabulary_size": WORDS, "num_outputs": TAGS},
        rewards={"exact": rewards.exact(TAGS)},
        multi_label=True,
    )
