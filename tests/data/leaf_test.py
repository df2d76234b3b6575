"""Tests of data.leaf, with small files in the form of LEAF's."""

import json

import numpy as np
import pytest

from data import leaf
from data.errors import UsageError


def write(path, **writers):
    """Writes a file; a writer's characters are of one grey level and label each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {name: {"x": [[level / 255] * 784 for level in levels], "y": levels} for name, levels in writers.items()}
    content = {"users": list(data), "num_samples": [len(one["y"]) for one in data.values()], "user_data": data}
    path.write_text(json.dumps(content))


def load(folder, num_classes=62):
    return leaf.load(*leaf.find(str(folder)), num_classes)


def levels(population) -> list[list[int]]:
    found = []
    for index in range(len(population)):
        examples = population.load(index)
        assert (examples.features.dtype, examples.features.shape[1:]) == (np.uint8, (28, 28))
        np.testing.assert_array_equal(examples.features[:, 3, 5], examples.labels)
        found.append(examples.labels.tolist())
    return found


def test_split_files_are_training_and_held_out_clients(tmp_path):
    write(tmp_path / "data" / "train" / "all_data_0_keep_2_train_9.json", f0000_14=[1, 2, 3], f0001_41=[4, 5])
    write(tmp_path / "data" / "train" / "all_data_1_keep_2_train_9.json", f0002_10=[6])
    write(tmp_path / "data" / "test" / "all_data_0_keep_2_test_9.json", f0000_14=[7])
    train, held_out = load(tmp_path)
    assert list(train.client_ids) == ["f0000_14", "f0001_41", "f0002_10"]
    assert (levels(train), levels(held_out)) == ([[1, 2, 3], [4, 5], [6]], [[7]])
    assert train.checksum == load(tmp_path / "data")[0].checksum != held_out.checksum


@pytest.mark.parametrize("place", ["all_data/all_data_0.json", "all_data_0.json"])
def test_files_that_are_not_split_hold_a_tenth_of_each_writer_out(tmp_path, place):
    write(tmp_path / place, one=list(range(20)), two=list(range(20, 25)))
    train, held_out = load(tmp_path)
    assert [len(part) for part in levels(train)] == [18, 4]
    together = [sorted(mine + rest) for mine, rest in zip(levels(train), levels(held_out), strict=True)]
    assert together == [list(range(20)), list(range(20, 25))]


def test_a_folder_without_such_files_has_none(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    assert leaf.find(str(tmp_path)) == ([], [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not a file of LEAF's FEMNIST"),
        ("{}", "KeyError: 'users'"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[0.5, 0.5]], "y": [1]}}}', "cannot reshape"),
        (json.dumps({"users": ["a"], "user_data": {"a": {"x": [[0.7071] * 784], "y": [1]}}}), "whole grey levels"),
        (json.dumps({"users": ["a"], "user_data": {"a": {"x": [[1.0] * 784], "y": [62]}}}), "labels from 0 to 61"),
        (json.dumps({"users": ["a"], "user_data": {"a": {"x": [[1.0] * 784], "y": [1, 2]}}}), "must be 1 labels"),
        (json.dumps({"users": ["a", "a"], "user_data": {"a": {"x": [], "y": []}}}), "names a writer twice"),
    ],
)
def test_damaged_files_are_named(tmp_path, content, message):
    (tmp_path / "all_data_0.json").write_text(content)
    with pytest.raises(UsageError, match=r"all_data_0|twice") as error:
        load(tmp_path)
    assert message in str(error.value)
