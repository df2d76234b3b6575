"""Tests of data.images."""

import gzip
import io
import os
import pickle
import tarfile

import numpy as np
import pytest
from sklearn import datasets

from data import download, images
from data.errors import UsageError

# Archive and images' shape of each data set.
POOLS = {"fashion_mnist": ("fashion_mnist_pool.npz", (28, 28)), "cifar100": ("cifar100_subset150.npz", (32, 32, 3))}
MNIST = "mnist_with_writers.npz"


@pytest.fixture(autouse=True)
def _no_default_folder(request, monkeypatch):
    if "shared_data" not in request.fixturenames:
        monkeypatch.delenv("FEDBANDITS_DATA_DIR", raising=False)


@pytest.fixture
def folder(tmp_path):
    """Small archives; an image's first pixel is its row number, its label that modulo 5."""
    for name, shape in POOLS.values():
        np.savez(tmp_path / name, x=_pixels(210, shape), y=(np.arange(210) % 5).astype(np.uint8))
    arrays = {"x_train": _pixels(60, (28, 28)), "y_train": np.arange(60, dtype=np.uint8) % 5}
    arrays |= {"x_test": _pixels(20, (28, 28)), "y_test": np.arange(20, dtype=np.uint8) % 5}
    np.savez(tmp_path / MNIST, **arrays)
    return tmp_path


def _pixels(count: int, shape: tuple[int, ...]) -> np.ndarray:
    pixels = np.zeros((count, *shape), np.uint8)
    pixels.reshape(count, -1)[:, 0] = np.arange(count)
    return pixels


def load(name, folder, *, clients=7, concentration=0.5, examples=0, seed=0, cache=None):
    return images.load(name, clients, concentration, examples, seed, folder and str(folder), cache)


def first_pixels(population) -> list[list[int]]:
    parts = [population.load(client).features for client in range(len(population))]
    return [part.reshape(len(part), -1)[:, 0].tolist() for part in parts]


def all_of(*populations) -> list[int]:
    return sorted(pixel for population in populations for client in first_pixels(population) for pixel in client)


@pytest.mark.parametrize(("name", "held_out"), [("fashion_mnist", 30), ("cifar100", 35)])
def test_a_pool_is_held_out_in_part_and_the_rest_dealt_once(folder, name, held_out):
    train, rest = load(name, folder)
    assert all_of(train, rest) == list(range(210))
    assert len(rest.load(0).labels) == held_out
    assert {len(rows) for rows in first_pixels(train)} <= {(210 - held_out) // 7, (210 - held_out) // 7 + 1}


def test_mnist_keeps_its_official_split(folder):
    train, rest = load("mnist", folder)
    assert all_of(train) == list(range(60))
    assert first_pixels(rest) == [list(range(20))]


@pytest.mark.parametrize("name", [*POOLS, "mnist"])
def test_labels_stay_with_their_images(folder, name):
    for part in load(name, folder):
        examples = part.load(0)
        assert (examples.features.dtype, examples.labels.dtype) == (np.uint8, np.int32)
        np.testing.assert_array_equal(examples.labels, examples.features.reshape(len(examples.labels), -1)[:, 0] % 5)


def test_the_seed_changes_the_deal_and_not_what_is_held_out(folder):
    (one, rest), (again, _), (other, other_rest) = (load("fashion_mnist", folder, seed=seed) for seed in (1, 1, 2))
    assert first_pixels(one) == first_pixels(again) != first_pixels(other)
    assert one.checksum == again.checksum != other.checksum
    assert first_pixels(rest) == first_pixels(other_rest)


def test_a_small_concentration_gives_clients_of_few_labels(folder):
    def labels(concentration):
        population = load("fashion_mnist", folder, concentration=concentration)[0]
        return np.mean([len(set(population.load(client).labels)) for client in range(7)])

    assert labels(0.05) < 3 < labels(100.0)


def test_dealing_by_label_deals_every_image_once_to_clients_of_unequal_size(folder):
    train, rest = images.load("fashion_mnist", 7, 0.5, 0, 0, str(folder), None, by="label")
    assert all_of(train, rest) == list(range(210))
    assert len({len(rows) for rows in first_pixels(train)}) > 2


def test_examples_per_client(folder):
    train, _ = load("fashion_mnist", folder, clients=5, examples=12)
    assert [len(rows) for rows in first_pixels(train)] == [12] * 5
    assert len(set(all_of(train))) == 60


@pytest.mark.parametrize(("clients", "examples"), [(181, 0), (10, 19)])
def test_more_than_the_pool_holds_is_refused(folder, clients, examples):
    with pytest.raises(UsageError, match=f"--partition_clients={clients} with --partition_examples={examples} needs"):
        load("fashion_mnist", folder, clients=clients, examples=examples)


def test_normalise_maps_0_to_255_onto_0_to_1_with_channels():
    grey, colour = np.full((2, 28, 28), 51, np.uint8), np.full((2, 32, 32, 3), 255, np.uint8)
    assert images.normalise(grey).shape == (2, 28, 28, 1)
    assert images.normalise(grey[:0]).shape == (0, 28, 28, 1)
    np.testing.assert_allclose(images.normalise(grey)[0, 0, 0, 0], 0.2, rtol=1e-6)
    assert (images.normalise(colour).shape, images.normalise(colour).max()) == ((2, 32, 32, 3), 1)


def test_the_environment_names_the_folder(folder, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(folder))
    assert len(load("mnist", None)[0]) == 7


@pytest.mark.parametrize("name", [*POOLS, "mnist"])
def test_a_missing_archive_is_named_with_the_flag(tmp_path, name):
    with pytest.raises(
        UsageError, match=f"There is no .*npz in {tmp_path}: .*--data_dir or FEDBANDITS_DATA_DIR.*download it from"
    ):
        load(name, tmp_path)


@pytest.mark.parametrize("name", [*POOLS, "mnist"])
def test_a_damaged_archive_is_named_with_the_flag(folder, name):
    for path in folder.glob("*.npz"):
        path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(UsageError, match=r"is not readable.*--data_dir"):
        load(name, folder)


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Stands in for the network: files in the published forms, asked for with their address and checksum."""
    asked = {}

    def gzipped(values: np.ndarray) -> bytes:
        sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
        return gzip.compress(bytes((0, 0, 8, values.ndim)) + sizes + values.tobytes())

    def tarred() -> bytes:
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            for part, count in (("train", 30), ("test", 6)):
                pixels = np.arange(count * 3072).astype(np.uint8).reshape(count, 3072)
                content = pickle.dumps({b"data": pixels, b"fine_labels": list(range(count))})
                member = tarfile.TarInfo(f"cifar-100-python/{part}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return file.getvalue()

    mnist = io.BytesIO()
    pixels, labels = _pixels(30, (28, 28)), np.arange(30, dtype=np.uint8) % 5
    np.savez(mnist, x_train=pixels, y_train=labels, x_test=pixels[:6], y_test=labels[:6])
    contents = {
        "train-images-idx3-ubyte.gz": gzipped(pixels),
        "train-labels-idx1-ubyte.gz": gzipped(labels),
        "t10k-images-idx3-ubyte.gz": gzipped(pixels[:6]),
        "t10k-labels-idx1-ubyte.gz": gzipped(labels[:6]),
        "mnist.npz": mnist.getvalue(),
        "cifar-100-python.tar.gz": tarred(),
    }

    def plain_file(origin, file_name, cache_dir, sha256=None):
        assert sha256 is None or len(bytes.fromhex(sha256)) == 32
        path = tmp_path / file_name
        path.write_bytes(contents[origin.rpartition("/")[2]])
        asked[origin] = cache_dir
        return path

    monkeypatch.setattr(download, "plain_file", plain_file)
    return asked


@pytest.mark.parametrize("name", ["fashion_mnist", "mnist"])
def test_downloaded_digits_have_their_official_split(published, name):
    train, rest = load(name, None, cache="cache")
    assert all_of(train) == list(range(30))
    assert first_pixels(rest) == [list(range(6))]
    assert set(published.values()) == {"cache"}
    keras = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
    assert all(origin.startswith(keras) for origin in published)


def test_downloaded_cifar_has_its_channels_last(published):
    train, rest = load("cifar100", None, clients=1)
    assert sorted(train.load(0).labels.tolist()) == list(range(30))
    first = rest.load(0).features[0]
    assert first.shape == (32, 32, 3)
    np.testing.assert_array_equal(first[0, 0], np.array([0, 1024, 2048]).astype(np.uint8))
    assert first[1, 2, 0] == 34


class _Planted:
    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_cached_pickle_that_is_not_the_published_one_is_not_read(tmp_path):
    planted = _Planted()
    planted.path = str(tmp_path / "ran")
    content = pickle.dumps(planted)
    with tarfile.open(tmp_path / "cifar-100-python.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("cifar-100-python/train")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    with pytest.raises(UsageError, match=r"cifar-100-python\.tar\.gz is not the expected file: delete it"):
        load("cifar100", None, cache=str(tmp_path))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "train", "held_out", "classes"),
    [("fashion_mnist", 60_000, 10_000, 10), ("mnist", 60_000, 10_000, 10), ("cifar100", 12_500, 2_500, 100)],
)
def test_the_real_files_are_whole(shared_data, name, train, held_out, classes):
    split = images._split(name, str(shared_data), None, random=False)
    assert [len(part.labels) for part in split] == [train, held_out]
    assert set(split.train.labels) == set(range(classes))


def test_cifars_20_superclasses_have_5_classes_each():
    assert np.bincount(images.CIFAR_SUPERCLASSES).tolist() == [5] * 20
    # Fruit and vegetables: apple, mushroom, orange, pear, sweet pepper; people: baby, boy, girl, man, woman.
    assert np.flatnonzero(images.CIFAR_SUPERCLASSES == 4).tolist() == [0, 51, 53, 57, 83]
    assert np.flatnonzero(images.CIFAR_SUPERCLASSES == 14).tolist() == [2, 11, 35, 46, 98]


def test_a_hierarchy_gives_clients_of_one_superclass_several_classes(tmp_path):
    labels = (np.arange(1200) % 100).astype(np.uint8)
    np.savez(tmp_path / POOLS["cifar100"][0], x=_pixels(1200, (32, 32, 3)), y=labels)
    train, _ = images.load("cifar100", 10, 0.001, 20, 0, str(tmp_path), None, fine_concentration=10.0)
    first = train.load(0).labels
    assert len(set(images.CIFAR_SUPERCLASSES[first].tolist())) == 1
    assert len(set(first.tolist())) >= 4


@pytest.fixture(scope="module")
def population():
    return images.digits(1.0)


def _rows(*parts) -> np.ndarray:
    """Returns all clients' examples as sorted rows of pixels and label."""
    found = [part.load(index) for part in parts for index in range(len(part))]
    rows = np.concatenate([np.column_stack([examples.features * 16, examples.labels]) for examples in found])
    return rows[np.lexsort(rows.T)]


def test_sixty_clients_have_23_or_24_examples(population):
    sizes = [len(population[0].load(index).labels) for index in range(60)]
    assert len(population[0]) == 60
    # 1,438 = 58 x 24 + 2 x 23.
    assert sizes == [24] * 58 + [23] * 2


def test_a_fifth_of_the_examples_is_held_out(population):
    assert len(population[1]) == 1
    assert len(population[1].load(0).labels) == 359  # 1,797 / 5, rounded down.


def test_clients_and_held_out_examples_are_the_whole_data_set_once(population):
    source = datasets.load_digits()
    rows = np.column_stack([source.data, source.target])
    np.testing.assert_array_equal(_rows(*population), rows[np.lexsort(rows.T)])


def test_features_are_float32_between_0_and_1_and_labels_int32(population):
    for part in population:
        examples = part.load(0)
        assert (examples.features.dtype, examples.features.shape[1:]) == (np.float32, (64,))
        assert examples.labels.dtype == np.int32
    pixels = population[1].load(0).features
    assert (pixels.min(), pixels.max()) == (0.0, 1.0)


def test_clients_are_named_by_number(population):
    assert population[0].client_ids[:2] == ["client_00", "client_01"]
    assert len(set(population[0].client_ids)) == 60


def test_clients_prefer_some_labels(population):
    largest = [np.bincount(population[0].load(index).labels).max() / 24 for index in range(60)]
    # Dealt evenly, the most frequent of ten labels among 24 examples has a share of about 0.21.
    assert np.mean(largest) > 0.25


def test_every_load_deals_alike(population):
    again = images.digits(1.0)
    for part, other in zip(population, again, strict=True):
        assert part.checksum == other.checksum
        for index in range(len(part)):
            np.testing.assert_array_equal(part.load(index).features, other.load(index).features)
            np.testing.assert_array_equal(part.load(index).labels, other.load(index).labels)


def test_a_smaller_concentration_gives_clients_of_fewer_labels():
    def labels_of_a_client(concentration):
        population, _ = images.digits(concentration)
        return np.mean([len(np.unique(population.load(index).labels)) for index in range(len(population))])

    assert labels_of_a_client(0.01) < 2 < 5 < labels_of_a_client(1.0) < labels_of_a_client(10.0)
