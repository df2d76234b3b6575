"""Tasks to measure rounds on: data made in the shapes of data sets, so that no file is needed."""

from collections.abc import Callable

import numpy as np

from data import clients, tasks, text
from data.tasks import images, rewards

WORDS, TAGS = 10_000, 50


def emnist(population: int) -> tasks.Task:
    """Returns EMNIST's task on clients of 26 to 200 examples, 100 on average."""

    def make(draw):
        size = 26 + int(draw.beta(1.5, 2.0) * 175)
        features = draw.random((size, 28, 28, 1), dtype=np.float32)
        return clients.Examples(features, draw.integers(0, 62, size, dtype=np.int32))

    generated = _clients(population, make)
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

    def make(draw):
        features = draw.random((600, 28, 28, 1), dtype=np.float32)
        return clients.Examples(features, draw.integers(0, 10, 600, dtype=np.int32))

    shape, num_actions, _, hidden = images.TASKS["fashion_mnist"]
    generated = _clients(population, make)
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
    """Returns Stack Overflow's task on clients of 10 to 256 posts of 5 to 130 distinct words."""

    def make(draw):
        size = int(min(256, 10 + draw.exponential(120)))
        lengths = draw.integers(5, 131, size)
        is_word = np.arange(130) < lengths[:, np.newaxis]
        ids = draw.integers(0, WORDS, (size, 130))[is_word].astype(np.int32)
        values = np.repeat(1 / lengths, lengths).astype(np.float32)
        labels = (draw.random((size, TAGS)) < 0.03).astype(np.float32)
        return clients.Examples(text.Bags(ids, values, np.concatenate([[0], np.cumsum(lengths)])), labels)

    generated = _clients(population, make)
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


def _clients(population: int, make: Callable[[np.random.Generator], clients.Examples]) -> clients.ClientData:
    """Returns clients that are made, from their index, when they are read."""

    class Generated(clients.ClientData):
        client_ids = range(population)  # type: ignore[assignment]
        checksum = "generated"

        def load(self, index: int) -> clients.Examples:
            return make(np.random.default_rng(index))

    return Generated()
