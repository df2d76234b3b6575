"""Tests of data.tasks.images."""

import dataclasses
import json

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
        return images.load_dealt(TaskOptions(name, data_dir=str(tmp_path), **made, **more))

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


def options(folder) -> TaskOptions:
    return TaskOptions("emnist_chars", data_dir=str(folder))


def test_leafs_files_are_read_as_tffs_emnist_is(tmp_path):
    content = {"users": ["f0"], "user_data": {"f0": {"x": [[1.0] * 784, [0.4] * 784], "y": [61, 0]}}}
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "all_data_0.json").write_text(json.dumps(content))
    task = images.load_writers(options(tmp_path))
    examples = task.clients.load(0)
    features = task.normalise(examples.features)
    assert (features.shape, features.dtype, task.num_actions, task.model) == ((2, 28, 28, 1), np.float32, 62, "cnn")
    np.testing.assert_array_equal(features[:, 0, 0, 0], np.float32([1, 0.4]))
    assert examples.labels.tolist() == task.held_out.load(0).labels.tolist() == [61, 0]


def test_a_folder_with_neither_says_what_it_may_hold(tmp_path):
    with pytest.raises(UsageError, match=r"There is no emnist_all\.sqlite .* LEAF's JSON files"):
        images.load_writers(options(tmp_path))


@pytest.fixture
def load_without_data(monkeypatch):
    """Opens a task without its data."""
    monkeypatch.setattr(images.emnist, "load", lambda *_: (None, None))

    def open_task(task_type: str, **changes):
        return images.load_writers(dataclasses.replace(TaskOptions(task_type), **changes))

    return open_task


@pytest.mark.parametrize(
    ("task_type", "changes", "model", "weights"),
    [
        ("emnist_chars", {}, "cnn", "glorot_uniform"),
        ("emnist_chars", {"variant": "reference_code"}, "cnn", "glorot_normal"),
        ("emnist_chars", {"initial_weights": "glorot_normal"}, "cnn", "glorot_normal"),
        ("emnist_chars", {"variant": "reference_code", "model": "cnn_small"}, "cnn_small", "glorot_uniform"),
        ("emnist_chars", {"model": "linear_l2", "initial_weights": "zeros"}, "linear_l2", "zeros"),
        ("emnist62_linear", {}, "mlp", "glorot_uniform"),
        ("emnist10_linear", {"variant": "reference_code"}, "linear_l2", "zeros"),
        (
            "emnist62_linear",
            {"variant": "reference_code", "initial_weights": "glorot_uniform"},
            "linear_l2",
            "glorot_uniform",
        ),
    ],
)
def test_the_model_and_its_start_follow_the_variant(load_without_data, task_type, changes, model, weights):
    task = load_without_data(task_type, **changes)
    assert (task.model, task.initial_weights) == (model, weights)


@pytest.mark.parametrize("model", [None, "mlp", "resnet18"])
def test_zeros_are_refused_where_nothing_would_be_learned(load_without_data, model):
    with pytest.raises(UsageError, match="--initial_weights=zeros has no slope in the hidden layers of --model="):
        load_without_data("emnist_chars", model=model, initial_weights="zeros")
