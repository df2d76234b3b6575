"""Tests of data.tasks.images."""

import gzip
import io
import os
import pickle
import tarfile

import numpy as np
import pytest
from sklearn import datasets

from data import clients, download
from data.tasks import images
from data.tasks.options import TaskOptions

# Archive and images' shape of each data set.
POOLS = {"fashion_mnist": ("fashion_mnist_pool.npz", (28, 28)), "cifar100": ("cifar100_subset150.npz", (32, 32, 3))}


@pytest.fixture
def folder(tmp_path):
    """Small archives; an image's first pixel is its row number, its label that modulo 5."""
    for name, shape in POOLS.values():
        np.savez(tmp_path / name, x=_pixels(210, shape), y=(np.arange(210) % 5).astype(np.uint8))
    return tmp_path


def _pixels(count: int, shape: tuple[int, ...]) -> np.ndarray:
    pixels = np.zeros((count, *shape), np.uint8)
    pixels.reshape(count, -1)[:, 0] = np.arange(count)
    return pixels


def load(name, folder, **options) -> tuple[clients.ClientData, clients.ClientData]:
    options = {"partition_clients": 7, "partition_alpha": 0.5} | options
    task = images.load_partitioned(TaskOptions(name, data_dir=folder and str(folder), **options))
    return task.clients, task.held_out


def first_pixels(population) -> list[list[int]]:
    parts = [population.load(client).features for client in range(len(population))]
    return [part.reshape(len(part), -1)[:, 0].tolist() for part in parts]


def all_of(*populations) -> list[int]:
    return sorted(pixel for population in populations for client in first_pixels(population) for pixel in client)


@pytest.mark.parametrize(("name", "held_out"), [("fashion_mnist", 30), ("cifar100", 35)])
def test_a_pool_is_held_out_in_part_and_the_rest_partitioned(folder, name, held_out):
    train, rest = load(name, folder)
    assert all_of(train, rest) == list(range(210))
    assert len(rest.load(0).labels) == held_out
    assert {len(rows) for rows in first_pixels(train)} <= {(210 - held_out) // 7, (210 - held_out) // 7 + 1}


def _archive(**contents: bytes) -> bytes:
    """CIFAR's archive, with one member for each argument."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for part, content in contents.items():
            member = tarfile.TarInfo(f"cifar-100-python/{part}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Stands in for the network: files in the published forms, asked for with their address and checksum."""
    asked = {}

    def gzipped(values: np.ndarray) -> bytes:
        sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
        return gzip.compress(bytes((0, 0, 8, values.ndim)) + sizes + values.tobytes())

    def pickled(count: int) -> bytes:
        return pickle.dumps({b"data": _pixels(count, (3072,)), b"fine_labels": labels[:count].tolist()})

    mnist = io.BytesIO()
    pixels, labels = _pixels(30, (28, 28)), np.arange(30, dtype=np.uint8) % 5
    np.savez(mnist, x_train=pixels, y_train=labels, x_test=pixels[:6], y_test=labels[:6])
    contents = {"mnist.npz": mnist.getvalue()}
    contents["cifar-100-python.tar.gz"] = _archive(train=pickled(30), test=pickled(6))
    for part, size in (("train", 30), ("t10k", 6)):
        contents[f"{part}-images-idx3-ubyte.gz"] = gzipped(pixels[:size])
        contents[f"{part}-labels-idx1-ubyte.gz"] = gzipped(labels[:size])

    def plain_file(origin, file_name, cache_dir, digest):
        assert len(bytes.fromhex(digest)) == (16 if "fashion" in file_name else 32)
        path = tmp_path / file_name
        path.write_bytes(contents[origin.rpartition("/")[2]])
        asked[origin] = cache_dir
        return path

    monkeypatch.setattr(download, "plain_file", plain_file)
    return asked


KERAS, TORONTO = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/", "https://www.cs.toronto.edu/"


@pytest.mark.parametrize(("name", "origin"), [("fashion_mnist", KERAS), ("mnist", KERAS), ("cifar100", TORONTO)])
def test_downloaded_images_have_their_official_split(published, name, origin):
    train, rest = load(name, None, cache_dir="cache")
    assert all_of(train) == list(range(30))
    assert (first_pixels(rest), rest.load(0).labels.tolist()) == ([list(range(6))], [0, 1, 2, 3, 4, 0])
    assert set(published.values()) == {"cache"}
    assert all(asked.startswith(origin) for asked in published)


@pytest.mark.parametrize(
    ("name", "train", "held_out", "classes"),
    [("fashion_mnist", 60_000, 10_000, 10), ("mnist", 60_000, 10_000, 10), ("cifar100", 12_500, 2_500, 100)],
)
def test_the_real_files_are_whole(shared_data, name, train, held_out, classes):
    population, rest = load(name, shared_data, partition_clients=1, partition_by="label")
    labels = population.load(0).labels
    assert (len(labels), len(rest.load(0).labels)) == (train, held_out)
    assert set(labels) == set(range(classes))


def test_digits_are_partitioned_over_60_clients_but_for_a_fifth():
    task, again = (images.load_digits(TaskOptions("digits", partition_alpha=1.0)) for _ in range(2))
    assert task.num_actions == 10
    assert task.clients.client_ids == [f"client_{number:02d}" for number in range(60)]
    parts = [[part.load(index) for index in range(len(part))] for part in (task.clients, task.held_out)]
    # 1,438 = 58 x 24 + 2 x 23, and 1,797 / 5, rounded down.
    assert [[len(one.labels) for one in part] for part in parts] == [[24] * 58 + [23] * 2, [359]]
    rows = np.concatenate([np.column_stack([one.features * 16, one.labels]) for part in parts for one in part])
    source = datasets.load_digits()
    expected = np.column_stack([source.data, source.target])
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)])
    assert (parts[0][0].features.dtype, parts[0][0].labels.dtype) == (np.float32, np.int32)
    # Dealt evenly, the most frequent of ten labels among 24 examples has a share of about 0.21.
    assert np.mean([np.bincount(one.labels).max() / 24 for one in parts[0]]) > 0.25
    assert (again.clients.checksum, again.held_out.checksum) == (task.clients.checksum, task.held_out.checksum)


# Two files, written out by hand.
BYTES = bytes((0, 0, 8, 2)) + bytes((0, 0, 0, 2)) + bytes((0, 0, 0, 3)) + bytes((1, 2, 3, 4, 5, 255))
WORDS = bytes((0, 0, 12, 1)) + bytes((0, 0, 0, 2)) + bytes((0, 0, 1, 2)) + bytes((255, 255, 255, 254))


@pytest.mark.parametrize("name", ["plain", "packed.gz"])
def test_bytes_and_big_endian_words_are_read(tmp_path, name):
    path = tmp_path / name
    for content, values, expected in ((BYTES, "uint8", [[1, 2, 3], [4, 5, 255]]), (WORDS, "int32", [258, -2])):
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        read = images.read_idx(path, values, np.ndim(expected))
        assert read.dtype == values
        np.testing.assert_array_equal(read, expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with , not with 00000802"),
        (BYTES[:7], "begins with 00000802, not with"),
        (WORDS, "begins with 00000c01, not with 00000802"),
        (BYTES + b"1", "promises 2 x 3 values of 1 bytes, and 7 bytes follow"),
        (BYTES[:4] + b"\xff" * 8, "promises 4294967295 x 4294967295 values of 1 bytes, and 0 bytes follow"),
    ],
)
def test_another_file_is_refused(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        images.read_idx(path, "uint8", 2)
    packed = tmp_path / "file.gz"
    for damaged in (content, gzip.compress(BYTES)[:-9], gzip.compress(BYTES)[:12] + bytes(20)):
        packed.write_bytes(damaged)
        with pytest.raises(ValueError, match=r".+"):
            images.read_idx(packed, "uint8", 2)


PIXELS = np.arange(2 * 3072).astype(np.uint8).reshape(2, 3072)


@pytest.mark.parametrize("protocol", [2, 4])  # Of Python 2 and of Python 3.
def test_the_three_colours_of_a_pixel_lie_together(protocol):
    values = {b"data": PIXELS, b"fine_labels": [7, 99], b"filenames": [b"a.png", b"b.png"]}
    pixels, labels = images.read_cifar(io.BytesIO(pickle.dumps(values, protocol)))
    assert (pixels.shape, pixels.dtype) == ((2, 32, 32, 3), np.uint8)
    np.testing.assert_array_equal(pixels[1, 2, 5], PIXELS[1].reshape(3, 32, 32)[:, 2, 5])
    assert labels.tolist() == [7, 99]


class _Planted:
    def __init__(self, path: str):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_pickle_that_runs_something_is_refused_before_it_does(tmp_path):
    planted = pickle.dumps({b"data": PIXELS, b"fine_labels": _Planted(str(tmp_path / "ran"))})
    with pytest.raises(ValueError, match=r"it calls posix\.mkdir, which arrays do not need"):
        images.read_cifar(io.BytesIO(planted))
    with pytest.raises(ValueError, match=r"it calls posix\.mkdir"):
        images.read_cifar_archive(io.BytesIO(_archive(train=planted, test=planted)))
    assert not (tmp_path / "ran").exists()
