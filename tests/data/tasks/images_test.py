"""Tests of the tasks `fashion_mnist`, `mnist` and `cifar100`."""

import numpy as np
import pytest

from data import tasks
from data.errors import UsageError
from data.tasks import images
from data.tasks.options import TaskOptions
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

    def open_task(name: str, **more) -> tasks.Task:
        made = {"partition_clients": 5, "partition_alpha": 0.3, "partition_examples": 2}
        return images.load(TaskOptions(name, data_dir=str(tmp_path), **made, **more))

    return open_task


@pytest.mark.parametrize(("name", "num_actions"), [("fashion_mnist", 10), ("mnist", 10), ("cifar100", 100)])
def test_the_model_takes_the_normalised_images(load, name, num_actions):
    task = load(name)
    assert (len(task.clients), task.num_actions) == (5, num_actions)
    features = task.normalise(task.clients.load(0).features)
    assert (features.shape, features.dtype, features.max()) == ((2, *task.feature_spec[0]), np.float32, 1)
    model = models.of_task(task)
    assert model.forward(model.initial_weights(0), features).shape == (2, num_actions)


def test_fashion_mnist_has_two_hidden_layers(load):
    assert (load("fashion_mnist").model, len(load("fashion_mnist").model_arguments["hidden"])) == ("mlp", 2)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        *(("mnist", model) for model in ("linear", "mlp", "cnn", "cnn_small", "cnn_dropout", "resnet18")),
        *(("cifar100", model) for model in ("linear", "mlp", "resnet18")),
    ],
)
def test_another_model_takes_the_images(load, name, model):
    task = load(name, model=model)
    built = models.of_task(task)
    features = task.normalise(task.clients.load(0).features)
    assert built.forward(built.initial_weights(0), features).shape == (2, task.num_actions)
    assert (task.model == "mlp") == (model in ("linear", "mlp"))


def test_a_model_of_smaller_images_is_refused():
    with pytest.raises(UsageError, match="--model=cnn takes images of 28 x 28 x 1, not of 32 x 32 x 3"):
        tasks.image_model(TaskOptions("cifar100", model="cnn"), "mlp", (32, 32, 3), 100)


def test_norm_and_beta_reach_model_and_clients(load):
    task = load("cifar100", model="resnet18", norm="batch", partition_beta=10.0)
    assert task.model_arguments == {"num_outputs": 100, "image_shape": (32, 32, 3), "norm": "batch"}
    assert task.clients.checksum != load("cifar100").clients.checksum
