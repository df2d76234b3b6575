"""Tests of data.convert.images, on small files in the published forms, and on the real ones' order."""

import gzip
import hashlib
import pickle
import shutil

import numpy as np
import pytest

from data.convert import images as convert
from data.errors import UsageError
from data.tasks import handwriting, images
from data.tasks.options import TaskOptions

RANDOM = np.random.default_rng(0).integers(0, 256, (9, 28, 28), np.uint8)
# A row a digit: digit, series, writer, then five numbers that are not read.
TRAIN = np.array([[5, 4, 2154, 0, 35, 1, 0, 0], [0, 0, 7, 1, 30, 2, 0, 0], [4, 1, 7, 2, 34, 3, 0, 0]])
TEST = np.array([[7, 4, 2578, 0, 37, 4, 0, 0], [2, 4, 300, 1, 32, 5, 0, 0], [9, 1, 9, 9, 39, 6, 0, 0]])


def write(path, values: np.ndarray) -> None:
    kind = {"uint8": 8, ">i4": 12}[values.dtype.str.removeprefix("|u1") or "uint8"]
    content = bytes((0, 0, kind, values.ndim)) + np.array(values.shape, ">i4").tobytes() + values.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture
def digits(tmp_path):
    """Three training digits and two test digits; QMNIST has three test digits."""
    write(tmp_path / "train-images-idx3-ubyte.gz", RANDOM[:3])
    write(tmp_path / "train-labels-idx1-ubyte.gz", TRAIN[:, 0].astype(np.uint8))
    write(tmp_path / "t10k-images-idx3-ubyte", RANDOM[3:5])
    write(tmp_path / "t10k-labels-idx1-ubyte.gz", TEST[:2, 0].astype(np.uint8))
    write(tmp_path / "qmnist-train-labels-idx2-int.gz", TRAIN.astype(">i4"))
    write(tmp_path / "qmnist-test-labels-idx2-int.gz", TEST.astype(">i4"))
    return tmp_path


def test_mnist_gets_its_writers_and_is_read_by_the_task(digits):
    arrays = convert.mnist_writers(digits)
    parts = ("train", "test")
    assert list(arrays) == [f"{key}_{part}" for keys in ("xy", ["writer"], ["hsf"]) for part in parts for key in keys]
    np.testing.assert_array_equal(arrays["x_test"], RANDOM[3:5])
    assert arrays["y_train"].tolist() == [5, 0, 4]
    assert (arrays["writer_train"].tolist(), arrays["writer_test"].tolist()) == ([2154, 7, 7], [2578, 300])
    assert (arrays["hsf_train"].tolist(), arrays["hsf_test"].tolist()) == ([4, 0, 1], [4, 4])
    np.savez(digits / "mnist_with_writers.npz", **arrays)
    train, test = handwriting.mnist_writers(str(digits))
    assert (train.client_ids, test.client_ids) == (["writer_7", "writer_2154"], ["writer_300", "writer_2578"])
    np.testing.assert_array_equal(train.load(0).features, 255 - RANDOM[1:3])


def test_labels_of_other_digits_are_refused(digits):
    wrong = TRAIN.copy()
    wrong[1, 0] = 3
    write(digits / "qmnist-train-labels-idx2-int.gz", wrong.astype(">i4"))
    with pytest.raises(UsageError, match=r"and MNIST have different labels for digit 1"):
        convert.mnist_writers(digits)


def test_fashion_is_sorted_by_the_digests_of_its_images(tmp_path):
    for name, rows in (("train", slice(0, 6)), ("t10k", slice(6, 9))):
        write(tmp_path / f"{name}-images-idx3-ubyte.gz", RANDOM[rows])
        write(tmp_path / f"{name}-labels-idx1-ubyte.gz", np.arange(9, dtype=np.uint8)[rows])
    arrays = convert.fashion_mnist(tmp_path)
    digests = [hashlib.sha256(image.tobytes()).hexdigest() for image in arrays["x"]]
    assert digests == sorted(digests)
    np.testing.assert_array_equal(arrays["x"], RANDOM[arrays["y"]])
    np.savez(tmp_path / "fashion_mnist_pool.npz", **arrays)
    task = images.load_partitioned(TaskOptions("fashion_mnist", data_dir=str(tmp_path), partition_clients=1))
    assert len(task.clients.load(0).labels) + len(task.held_out.load(0).labels) == 9


def _cifar(labels: list[int], seed: int) -> tuple[bytes, np.ndarray]:
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), 3072), np.uint8)
    return pickle.dumps({b"data": pixels, b"fine_labels": labels}), pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


@pytest.mark.parametrize("packed", [False, True])
def test_cifar_keeps_the_150_images_of_a_class_with_the_smallest_digests(tmp_path, packed):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    images_of = []
    for name, labels in (("train", [3] * 160 + [4] * 5), ("test", [3] * 10)):
        content, pixels = _cifar(labels, len(labels))
        (folder / name).write_bytes(content)
        images_of += [pixels[:160]]
    if packed:
        shutil.make_archive(str(folder), "gztar", tmp_path, folder.name)
    arrays = convert.cifar100(tmp_path if packed else folder)
    assert np.bincount(arrays["y"]).tolist() == [0, 0, 0, 150, 5]
    digests = sorted(hashlib.sha256(image.tobytes()).digest() for image in np.concatenate(images_of))
    assert [hashlib.sha256(image.tobytes()).digest() for image in arrays["x"][arrays["y"] == 3]] == digests[:150]
