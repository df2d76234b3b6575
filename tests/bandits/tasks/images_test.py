"""Tests of the tasks `fashion_mnist`, `mnist` and `cifar100`."""

import numpy as np
import pytest

from bandits import tasks
from bandits.tasks import images
from optimization import models


@pytest.fixture
def load(tmp_path):
    """Opens a task on small archives."""
    for name, shape in (("fashion_mnist_pool", (28, 28)), ("cifar100_subset150", (32, 32, 3))):
        labels = np.arange(70, dtype=np.uint8) % 10
        np.savez(tmp_path / f"{name}.npz", x=np.full((70, *shape), 255, np.uint8), y=labels)
    pixels = np.full((20, 28, 28), 255, np.uint8)
    labels = np.arange(20, dtype=np.uint8) % 10
    np.savez(tmp_path / "mnist_with_writers.npz", x_train=pixels, y_train=labels, x_test=pixels, y_test=labels)

    def open_task(name: str) -> tasks.Task:
        settings = {
            "data_dir": str(tmp_path),
            "cache_dir": None,
            "partition_clients": 5,
            "partition_alpha": 0.3,
            "partition_examples": 2,
            "partition_seed": 0,
        }
        return images.load(settings, name)

    return open_task


@pytest.mark.parametrize(("name", "num_actions"), [("fashion_mnist", 10), ("mnist", 10), ("cifar100", 100)])
def test_the_model_takes_the_normalised_images(load, name, num_actions):
    task = load(name)
    assert (len(task.clients), task.num_actions) == (5, num_actions)
    features = task.normalise(task.clients.load(0).features)
    assert (features.shape, features.dtype, features.max()) == ((2, *task.feature_spec[0]), np.float32, 1)
    model = getattr(models, task.model)(**task.model_arguments)
    assert model.forward(model.initial_weights(0), features).shape == (2, num_actions)


def test_fashion_mnist_has_two_hidden_layers(load):
    assert (load("fashion_mnist").model, len(load("fashion_mnist").model_arguments["hidden"])) == ("mlp", 2)
