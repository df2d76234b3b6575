"""Tests of the task `emnist_chars` on LEAF's files."""

import dataclasses
import json

import numpy as np
import pytest

from data.errors import UsageError
from data.tasks import emnist
from data.tasks.options import TaskOptions


def options(folder) -> TaskOptions:
    return TaskOptions("emnist_chars", data_dir=str(folder))


def test_leafs_files_are_read_as_tffs_emnist_is(tmp_path):
    content = {"users": ["f0"], "user_data": {"f0": {"x": [[1.0] * 784, [0.4] * 784], "y": [61, 0]}}}
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "all_data_0.json").write_text(json.dumps(content))
    task = emnist.load(options(tmp_path))
    examples = task.clients.load(0)
    features = task.normalise(examples.features)
    assert (features.shape, features.dtype, task.num_actions, task.model) == ((2, 28, 28, 1), np.float32, 62, "cnn")
    np.testing.assert_array_equal(features[:, 0, 0, 0], np.float32([1, 0.4]))
    assert examples.labels.tolist() == task.held_out.load(0).labels.tolist() == [61, 0]


def test_a_folder_with_neither_says_what_it_may_hold(tmp_path):
    with pytest.raises(UsageError, match=r"There is no emnist_all\.sqlite .* LEAF's JSON files"):
        emnist.load(options(tmp_path))


@pytest.fixture
def load(monkeypatch):
    """Opens a task without its data."""
    monkeypatch.setattr(emnist.emnist, "load", lambda *_: (None, None))

    def load(task_type: str, **changes):
        return emnist.load(dataclasses.replace(TaskOptions(task_type), **changes))

    return load


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
def test_the_model_and_its_start_follow_the_variant_where_nothing_is_said(load, task_type, changes, model, weights):
    task = load(task_type, **changes)
    assert (task.model, task.initial_weights) == (model, weights)


@pytest.mark.parametrize("model", [None, "mlp", "resnet18"])
def test_zeros_are_refused_where_nothing_would_be_learned(load, model):
    with pytest.raises(UsageError, match="--initial_weights=zeros has no slope in the hidden layers of --model="):
        load("emnist_chars", model=model, initial_weights="zeros")
