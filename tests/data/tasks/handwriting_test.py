"""Tests of data.tasks.handwriting: small files and, where they are, the real ones."""

import numpy as np
import pytest
import tensorflow as tf

from data import download
from data.errors import UsageError
from data.tasks import handwriting, tags
from data.tasks.options import TaskOptions

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
def database(tmp_path_factory, write_database):
    folder = tmp_path_factory.mktemp("emnist")
    splits = {
        split: {writer: [_serialized(label) for label in labels] for writer, labels in writers.items()}
        for split, writers in SPLITS.items()
    }
    return write_database(folder / handwriting.FILE_NAME, splits).parent


@pytest.fixture(autouse=True)
def _no_download(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("nothing may be fetched here")

    monkeypatch.setattr(download, "_fetch", refuse)


def _labels(population) -> dict[str, list[int]]:
    return {name: population.load(index).labels.tolist() for index, name in enumerate(population.client_ids)}


def _emnist(data_dir, cache_dir=None, task_type="emnist_chars", **options):
    options |= {"data_dir": data_dir and str(data_dir), "cache_dir": cache_dir and str(cache_dir)}
    task = handwriting.load(TaskOptions(task_type, **options))
    return task.clients, task.held_out


@pytest.mark.parametrize(("task_type", "split"), [("emnist_chars", "all"), ("emnist10_linear", "digits_only")])
def test_tffs_writers_have_their_training_and_held_out_examples_in_the_order_of_their_names(database, task_type, split):
    train, held_out = _emnist(database, task_type=task_type)
    assert list(train.client_ids) == list(held_out.client_ids) == sorted(train.client_ids)
    assert (_labels(train), _labels(held_out)) == (SPLITS[f"{split}_train"], SPLITS[f"{split}_test"])
    examples = train.load(len(train) - 1)
    assert (examples.features.dtype, examples.labels.dtype) == (np.float32, np.int32)
    assert examples.features.shape[1:] == (28, 28, 1)
    values = examples.features.reshape(len(examples.labels), -1)
    np.testing.assert_allclose(values, np.tile(examples.labels[:, np.newaxis] / 100, 784), rtol=1e-6)


def test_random_writers_replace_a_download_alone(database, tmp_path, capsys):
    train, held_out = _emnist(None, tmp_path, random_data=True)
    assert (len(train), len(held_out), train.checksum) == (3400, 3400, "random")
    assert "Warning: --random_data uses random examples, not EMNIST" in capsys.readouterr().err
    assert len(_emnist(database, random_data=True)[0]) == 2


CODE = {"variant": "reference_code"}


@pytest.mark.parametrize(
    ("task_type", "changes", "model", "weights"),
    [
        ("emnist_chars", {}, "cnn", "glorot_uniform"),
        ("emnist_chars", CODE, "cnn", "glorot_normal"),
        ("emnist_chars", {"initial_weights": "glorot_normal"}, "cnn", "glorot_normal"),
        ("emnist_chars", CODE | {"model": "cnn_small"}, "cnn_small", "glorot_uniform"),
        ("emnist_chars", {"model": "linear_l2", "initial_weights": "zeros"}, "linear_l2", "zeros"),
        ("emnist62_linear", {}, "mlp", "glorot_uniform"),
        ("emnist10_linear", CODE, "linear_l2", "zeros"),
        ("emnist62_linear", CODE | {"initial_weights": "glorot_uniform"}, "linear_l2", "glorot_uniform"),
    ],
)
def test_the_model_and_its_start_follow_the_variant(monkeypatch, task_type, changes, model, weights):
    monkeypatch.setattr(handwriting, "_emnist", lambda *_: (None, None, {}))
    task = handwriting.load(TaskOptions(task_type, **changes))
    assert (task.model, task.initial_weights) == (model, weights)


def test_models_of_actions_are_refused_for_images():
    with pytest.raises(UsageError, match="--model=bilinear scores features of actions, which this task does not have"):
        handwriting.load(TaskOptions("emnist_chars", model="bilinear", random_data=True))


def test_zeros_are_refused_where_nothing_would_be_learned(monkeypatch):
    monkeypatch.setattr(handwriting, "_emnist", lambda *_: (None, None, {}))
    for model in (None, "mlp", "resnet18"):
        with pytest.raises(UsageError, match="--initial_weights=zeros is only for linear models: --model="):
            handwriting.load(TaskOptions("emnist_chars", model=model, initial_weights="zeros"))


# Writers b, a and c of 20, 5 and 1 characters; each character's first pixel is its row number.
UNIPEN_SIZES = {"b": 20, "a": 5, "c": 1}
# The training digits' and the test digits' writers.
MNIST_WRITERS = {"train": [7, 3, 7, 11], "test": [9, 9, 2]}


@pytest.fixture
def folder(tmp_path):
    """A folder with small, sound archives."""
    pixels = np.full((26, 28, 28), 255, np.uint8)
    pixels[:, 0, 0] = np.arange(26)
    characters = {"pixels": pixels, "label": (np.arange(26) + 30).astype(np.uint8)}
    characters["writer"] = np.repeat(np.arange(3), list(UNIPEN_SIZES.values())).astype(np.int32)
    np.savez_compressed(tmp_path / "unipen62_writers.npz", writer_ids=np.array(list(UNIPEN_SIZES)), **characters)
    digits = {}
    for split, owners in MNIST_WRITERS.items():
        numbers = np.arange(len(owners), dtype=np.uint8)
        digits[f"x_{split}"] = np.zeros((len(owners), 28, 28), np.uint8)
        digits[f"x_{split}"][:, 0, 0] = numbers + 1
        digits |= {f"y_{split}": numbers, f"writer_{split}": np.array(owners, np.int16)}
    np.savez_compressed(tmp_path / "mnist_with_writers.npz", **digits)
    return tmp_path


def _rows(population) -> list[list[int]]:
    """First pixel of each client's examples."""
    return [population.load(index).features[:, 0, 0].tolist() for index in range(len(population))]


def _totals(population) -> tuple[int, int, np.ndarray]:
    """Number of examples, of the smallest client's examples, and of each label's."""
    labels = [population.load(index).labels for index in range(len(population))]
    sizes = [len(client) for client in labels]
    return sum(sizes), min(sizes), np.bincount(np.concatenate(labels))


def test_a_tenth_of_each_unipen_writers_characters_is_held_out_rounded_up(folder):
    train, held_out = handwriting.unipen62(str(folder))
    assert list(train.client_ids) == list(held_out.client_ids) == list(UNIPEN_SIZES)
    pairs = list(zip(_rows(train), _rows(held_out), strict=True))
    assert [(len(mine), len(rest)) for mine, rest in pairs] == [(18, 2), (4, 1), (0, 1)]
    assert [sorted(mine + rest) for mine, rest in pairs] == [list(range(20)), list(range(20, 25)), [25]]
    for part in (train, held_out):
        for index in range(3):
            examples = part.load(index)
            np.testing.assert_array_equal(examples.labels, examples.features[:, 0, 0].astype(int) + 30)
    assert _rows(handwriting.unipen62(str(folder))[1]) == _rows(held_out)


def test_mnist_clients_are_the_writers_of_each_part_with_inverted_pixels(folder):
    train, test = handwriting.mnist_writers(str(folder))
    assert list(train.client_ids) == ["writer_3", "writer_7", "writer_11"]
    assert list(test.client_ids) == ["writer_2", "writer_9"]
    assert _rows(train) == [[255 - 2], [255 - 1, 255 - 3], [255 - 4]]
    assert [train.load(index).labels.tolist() for index in range(3)] == [[1], [0, 2], [3]]
    assert _rows(test) == [[255 - 3], [255 - 1, 255 - 2]]


def test_the_real_unipen_has_211_writers_of_62_characters(shared_data):
    train, held_out = handwriting.unipen62(str(shared_data))
    assert len(train) == len(held_out) == len(set(train.client_ids)) == 211
    assert train.client_ids == held_out.client_ids
    (*sizes, _), (*held_out_sizes, labels) = _totals(train), _totals(held_out)
    assert (sizes, held_out_sizes) == ([75_454, 18], [8_486, 2])
    pixels = train.load(0).features
    assert (np.median(pixels), pixels.min() < 50) == (255, True)
    assert (len(labels), (labels > 0).all()) == (62, True)


def test_the_real_mnist_is_whole_and_its_test_writers_are_others(shared_data):
    train, test = handwriting.mnist_writers(str(shared_data))
    assert (len(train), len(test)) == (539, 297)
    assert not set(train.client_ids) & set(test.client_ids)
    # The published class sizes.
    assert _totals(train)[2].tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert _totals(test)[2].tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.parametrize(("mean", "classes"), [(671_585 / 3_400, 62), (341_873 / 3_383, 10)])
def test_random_writers_have_the_mean_number_of_examples_of_the_data_set(mean, classes):
    train, _ = handwriting.random_writers(classes)
    some = [train.load(index) for index in range(300)]
    assert np.mean([len(one.labels) for one in some]) == pytest.approx(mean, rel=0.09)  # Four standard errors.
    assert (some[0].features.shape[1:], some[0].features.dtype) == ((28, 28, 1), np.float32)
    assert set(np.concatenate([one.labels for one in some])) == set(range(classes))


def test_random_users_have_the_mean_number_of_posts_of_the_data_set_and_tags():
    train, _ = tags.random_posts(50, 5, 8)
    some = [train.load(index) for index in range(400)]
    sizes = [len(one.labels) for one in some]
    assert min(sizes) >= 100
    assert np.mean(sizes) == pytest.approx(135_818_730 / 342_477, rel=0.15)  # Four standard errors.
    assert all((one.labels.sum(axis=1) >= 1).all() for one in some)
    bags = some[0].features
    lengths = np.diff(bags.offsets)
    assert (lengths.min(), lengths.max()) == (5, 8)
    np.testing.assert_allclose(np.add.reduceat(bags.values**2, bags.offsets[:-1]), 1, rtol=1e-6)
