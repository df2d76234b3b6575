"""Tests of the task `emnist_chars` on LEAF's files."""

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
