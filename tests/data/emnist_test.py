"""Tests of data.emnist: TFF's database, and LEAF's files."""

import json
import lzma

import numpy as np
import pytest
import tensorflow as tf

from data import download, emnist
from data.errors import UsageError

# split -> writer -> labels; an image is filled with its label / 100.
SPLITS = {
    "all_train": {"f0002": [61, 10], "f0001": [36]},
    "all_test": {"f0002": [12], "f0001": [0, 1]},
    "digits_only_train": {"f0003": [9, 8, 7]},
    "digits_only_test": {"f0003": [5]},
}


def _serialized(label: int) -> bytes:
    pixels = tf.train.FloatList(value=np.full(28 * 28, label / 100, np.float32))
    features = {
        "pixels": tf.train.Feature(float_list=pixels),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, write_database):
    made = tmp_path_factory.mktemp("emnist")
    splits = {
        split: {writer: [_serialized(label) for label in labels] for writer, labels in writers.items()}
        for split, writers in SPLITS.items()
    }
    write_database(made / emnist.FILE_NAME, splits)
    return made


@pytest.fixture(autouse=True)
def _no_download(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("nothing may be fetched here")

    monkeypatch.setattr(download, "_fetch", refuse)
    monkeypatch.delenv("FEDBANDITS_DATA_DIR", raising=False)


def _labels(population) -> dict[str, list[int]]:
    return {name: population.load(index).labels.tolist() for index, name in enumerate(population.client_ids)}


def test_chars_are_the_writers_of_all_characters_in_the_order_of_their_names(folder):
    train, held_out = emnist.load("chars", str(folder), None)
    assert list(train.client_ids) == list(held_out.client_ids) == ["f0001", "f0002"]


def test_chars_have_their_training_and_held_out_examples(folder):
    train, held_out = emnist.load("chars", str(folder), None)
    assert (_labels(train), _labels(held_out)) == (SPLITS["all_train"], SPLITS["all_test"])


def test_digits_have_their_training_and_held_out_examples(folder):
    train, held_out = emnist.load("digits", str(folder), None)
    assert (_labels(train), _labels(held_out)) == (SPLITS["digits_only_train"], SPLITS["digits_only_test"])


def test_images_are_float32_with_a_channel_and_labels_int32(folder):
    examples = emnist.load("chars", str(folder), None)[0].load(1)
    assert (examples.features.dtype, examples.features.shape) == (np.float32, (2, 28, 28, 1))
    assert (examples.labels.dtype, examples.labels.shape) == (np.int32, (2,))


def test_images_belong_to_their_labels(folder):
    examples = emnist.load("chars", str(folder), None)[0].load(1)
    expected = np.full((2, 28, 28, 1), 0.1, np.float32)
    expected[0] = np.float32(0.61)
    np.testing.assert_array_equal(examples.features, expected)


def test_data_dir_may_name_the_file_itself(folder):
    train, _ = emnist.load("digits", str(folder / emnist.FILE_NAME), None)
    assert len(train) == 1


def test_a_database_in_the_cache_folder_is_used_without_a_download(folder):
    train, _ = emnist.load("digits", None, str(folder))
    assert len(train) == 1


def test_data_dir_goes_before_the_cache_folder(folder, tmp_path):
    assert len(emnist.load("chars", str(folder), str(tmp_path))[0]) == 2


def test_the_environment_names_the_folder_that_is_looked_in_before_the_cache(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(folder))
    assert len(emnist.load("chars", None, str(tmp_path))[0]) == 2


def test_an_environments_folder_without_the_database_leaves_the_cache_folder(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(tmp_path))
    assert len(emnist.load("chars", None, str(folder))[0]) == 2


def test_without_the_database_in_either_it_is_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(tmp_path))
    with pytest.raises(AssertionError, match="nothing may be fetched"):
        emnist.load("chars", None, str(tmp_path / "cache"))


def test_random_writers_stand_in_for_a_download_alone(folder, tmp_path, capsys):
    train, held_out = emnist.load("chars", None, str(tmp_path), random=True)
    assert (len(train), len(held_out), train.checksum) == (3400, 3400, "random")
    assert "Warning: --random_data: random examples instead of EMNIST" in capsys.readouterr().err
    assert len(emnist.load("chars", str(folder), None, random=True)[0]) == 2


@pytest.mark.parametrize("way", ["flag", "environment"])
def test_the_published_archive_is_decompressed_beside_itself(folder, tmp_path, monkeypatch, way):
    content = (folder / emnist.FILE_NAME).read_bytes()
    (tmp_path / f"{emnist.FILE_NAME}.lzma").write_bytes(lzma.compress(content, lzma.FORMAT_ALONE))
    if way == "environment":
        monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(tmp_path))
    train, _ = emnist.load("chars", str(tmp_path) if way == "flag" else None, None)
    assert _labels(train) == SPLITS["all_train"]
    assert (tmp_path / emnist.FILE_NAME).read_bytes() == content


def test_a_damaged_archive_is_named(tmp_path):
    (tmp_path / f"{emnist.FILE_NAME}.lzma").write_bytes(b"no archive")
    with pytest.raises(UsageError, match=rf"{emnist.FILE_NAME}\.lzma is damaged"):
        emnist.load("chars", str(tmp_path), None)


def test_a_missing_database_is_named_with_the_flag_the_variable_and_the_download(tmp_path):
    with pytest.raises(
        UsageError, match=rf"no {emnist.FILE_NAME} .*in {tmp_path}.*--data_dir.*FEDBANDITS_DATA_DIR.*{emnist.ORIGIN}"
    ):
        emnist.load("chars", str(tmp_path), None)


@pytest.mark.parametrize(
    "damage",
    [lambda content: b"", lambda content: b"\0" * 5000, lambda content: content[: len(content) // 2]],
    ids=["empty", "no_database", "truncated"],
)
def test_a_damaged_database_is_named_with_the_flag(folder, tmp_path, damage):
    damaged = tmp_path / emnist.FILE_NAME
    damaged.write_bytes(damage((folder / emnist.FILE_NAME).read_bytes()))
    with pytest.raises(UsageError, match=f"{emnist.FILE_NAME} is not readable.*--data_dir"):
        emnist.load("chars", str(tmp_path), None)


def test_a_database_without_the_held_out_split_is_refused(tmp_path, write_database):
    write_database(tmp_path / emnist.FILE_NAME, {"all_train": {"f0001": [_serialized(3)]}})
    with pytest.raises(UsageError, match="no clients in split 'all_test'"):
        emnist.load("chars", str(tmp_path), None)


def write(path, **writers):
    """Writes a file; a writer's characters are of one grey level and label each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {name: {"x": [[level / 255] * 784 for level in levels], "y": levels} for name, levels in writers.items()}
    content = {"users": list(data), "num_samples": [len(one["y"]) for one in data.values()], "user_data": data}
    path.write_text(json.dumps(content))


def load(folder, num_classes=62):
    return emnist.load_leaf(*emnist.find_leaf(str(folder)), num_classes)


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
    assert emnist.find_leaf(str(tmp_path)) == ([], [])


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
