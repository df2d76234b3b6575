"""Image data sets without writers, dealt to clients with Dirichlet label skew.

Scikit-learn's 1,797 handwritten digits (the test set of UCI's optdigits) need no file. Fashion-MNIST, MNIST and
CIFAR-100 come from an archive in `--data_dir`, or are downloaded from where Keras' loaders find them; their pixels stay
uint8.
"""

import gzip
import importlib.metadata
import pathlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from data import clients, download, files, image_files, keys, partition, random_data
from data.errors import UsageError

_KERAS = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
_FASHION_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_MNIST_SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"
_CIFAR_ORIGIN = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
_CIFAR_SHA256 = "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"
_SPLIT_SEED = 0  # The split is part of the task, not of a run's chance.
NUM_DIGIT_CLIENTS = 60
_HELD_OUT_DIGITS = 0.2
_GREY, _COLOUR = (28, 28), (32, 32, 3)
# The superclass of each class as a letter, both in alphabetical order, as CIFAR-100 was published with them.
_SUPERCLASSES = b"EBOIAGHHSDDOJSHLDJHLGLFKHGNPDPALBKMOQJLFFTIIPNORSKQERECARESRKDCMMQMBJTCKABQMJNPNQTCEGTFFITSBCPGARION"
CIFAR_SUPERCLASSES = np.frombuffer(_SUPERCLASSES, np.uint8) - ord("A")


class Split(NamedTuple):
    """A whole data set.

    Attributes:
      train: Examples to deal to clients.
      held_out: Examples for evaluation.
    """

    train: clients.Examples
    held_out: clients.Examples


class _Source(NamedTuple):
    """Where a data set comes from.

    Attributes:
      archive: File of the user.
      origin: Address of the download.
      published: Shape of an image, classes, and numbers of images for training and testing, of the download.
      read: Reads the archive.
      fetch: Downloads the data set to a cache folder.
    """

    archive: str
    origin: str
    published: tuple[tuple[int, ...], int, tuple[int, int]]
    read: Callable[[pathlib.Path], Split]
    fetch: Callable[[str | None], Split]


def load(
    name: str,
    num_clients: int,
    concentration: float,
    examples_per_client: int,
    seed: int,
    data_dir: str | None,
    cache_dir: str | None,
    fine_concentration: float | None = None,
    by: str = "client",
    random: bool = False,
) -> tuple[clients.ClientData, clients.ClientData]:
    """Returns the training images dealt to clients, and the held-out ones as one client.

    Features are uint8 [examples, height, width] or [examples, height, width, 3]; labels int32.

    Args:
      name: `fashion_mnist`, `mnist` or `cifar100`.
      num_clients: Clients.
      concentration: Dirichlet parameter, of what `by` says.
      examples_per_client: Examples of a client; 0 to deal all.
      seed: Seed of the deal.
      data_dir: Folder of the archive; None for the environment's FEDBANDITS_DATA_DIR, if it has it, else to download.
      cache_dir: Folder for downloads.
      fine_concentration: `cifar100`: deal by `partition.hierarchical_label_skew`, where `concentration` is that of the
        superclasses and this that of the classes within each.
      by: Whose shares are drawn: `client`, those of a client's labels (`partition.dirichlet_label_skew`; equal sizes),
        or `label`, those of a label's clients (`partition.dirichlet_client_shares`; unequal sizes).
      random: Whether random images take the place of the download.

    Raises:
      UsageError: If the archive is missing or damaged, cannot be downloaded, or has too few images.
    """
    train, held_out = _split(name, data_dir, cache_dir, random)
    available = len(train.labels)
    wanted = num_clients * examples_per_client
    if max(wanted, num_clients) > available:
        raise UsageError(
            f"--partition_clients={num_clients} with --partition_examples={examples_per_client} needs "
            f"{max(wanted, num_clients):,} images; {name} has {available:,} for training."
        )
    draw = keys.generator(seed, keys.Purpose.PARTITION)
    sizes = {"examples_per_client": examples_per_client or None}
    if by == "label":
        client_of_row = partition.dirichlet_client_shares(train.labels, num_clients, concentration, draw)
    elif fine_concentration is None:
        client_of_row = partition.dirichlet_label_skew(train.labels, num_clients, concentration, draw, **sizes)
    else:
        coarse = CIFAR_SUPERCLASSES[train.labels]
        client_of_row = partition.hierarchical_label_skew(
            coarse, train.labels, num_clients, concentration, fine_concentration, draw, **sizes
        )
    names = [f"client_{client:03d}" for client in range(num_clients)]
    return clients.ArrayClients(train, client_of_row, names), _one_client(held_out)


def _one_client(held_out: clients.Examples) -> clients.ClientData:
    return clients.ArrayClients(held_out, np.zeros(len(held_out.labels), np.int32), ["held_out"])


def digits(concentration: float) -> tuple[clients.ClientData, clients.ClientData]:
    """Returns scikit-learn's digits: 60 clients of 23 or 24 examples, and 359 held-out examples as one client.

    Features are float32 [examples, 64] in [0, 1], ink 1; labels int32 [examples].

    Args:
      concentration: Dirichlet parameter of the clients' labels; small values give clients of few labels.
    """
    pixels, labels = _digits()
    features = (pixels / 16).astype(np.float32)
    order = keys.generator(_SPLIT_SEED, keys.Purpose.HELD_OUT, 0).permutation(len(labels))
    cut = int(len(labels) * _HELD_OUT_DIGITS)
    examples = clients.Examples(features, labels)
    train, held_out = examples.take(order[cut:]), examples.take(order[:cut])
    draw = keys.generator(_SPLIT_SEED, keys.Purpose.PARTITION)
    client_of_row = partition.dirichlet_label_skew(train.labels, NUM_DIGIT_CLIENTS, concentration, draw)
    names = [f"client_{index:02d}" for index in range(NUM_DIGIT_CLIENTS)]
    return clients.ArrayClients(train, client_of_row, names), _one_client(held_out)


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Reads scikit-learn's own file: `sklearn.datasets.load_digits` would import it all, which takes seconds."""
    path = importlib.metadata.distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    with gzip.open(str(path), "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int32)


def normalise(pixels: np.ndarray) -> np.ndarray:
    """Returns float32 [examples, height, width, channels] in [0, 1], from uint8 with or without channels."""
    with_channels = pixels if pixels.ndim == 4 else pixels[..., np.newaxis]
    return with_channels.astype(np.float32) / np.float32(255)


def _split(name: str, data_dir: str | None, cache_dir: str | None, random: bool) -> Split:
    source = _SOURCES[name]
    path = files.instead_of_download(data_dir, [source.archive], source.origin)
    if random and not path:
        random_data.warn(name)
        return Split(*random_data.images(*source.published))
    return source.read(path) if path else source.fetch(cache_dir)


def _examples(pixels: np.ndarray, labels: np.ndarray) -> clients.Examples:
    return clients.Examples(pixels, np.ravel(labels).astype(np.int32))


def _read_pool(path: pathlib.Path, held_out_fraction: float, shape: tuple[int, ...], num_classes: int) -> Split:
    """Reads a pool whose official split is lost, and holds a seeded part of it out."""
    examples = files.images(path, "x", "y", shape, num_classes)
    labels = examples.labels
    order = keys.generator(_SPLIT_SEED, keys.Purpose.HELD_OUT, 0).permutation(len(labels))
    cut = round(held_out_fraction * len(labels))
    return Split(examples.take(np.sort(order[cut:])), examples.take(np.sort(order[:cut])))


def _read_split(path: pathlib.Path) -> Split:
    return Split(*(files.images(path, f"x_{part}", f"y_{part}", _GREY, 10) for part in ("train", "test")))


def _fetch_fashion_mnist(cache_dir: str | None) -> Split:
    parts = []
    for name in _FASHION_FILES:
        path = download.plain_file(f"{_KERAS}{name}", f"fashion-mnist-{name}", cache_dir)
        try:
            parts.append(image_files.read_idx(path, "uint8", 3 if "images" in name else 1))
        except ValueError as error:
            raise UsageError(f"{path} is damaged ({error}): delete it, and it is downloaded again.") from error
    return Split(*(files.checked_images(path, *pair, shape=_GREY, num_classes=10) for pair in (parts[:2], parts[2:])))


def _fetch_mnist(cache_dir: str | None) -> Split:
    return _read_split(download.plain_file(f"{_KERAS}mnist.npz", "mnist.npz", cache_dir, _MNIST_SHA256))


def _fetch_cifar100(cache_dir: str | None) -> Split:
    path = download.plain_file(_CIFAR_ORIGIN, "cifar-100-python.tar.gz", cache_dir, _CIFAR_SHA256)
    with open(path, "rb") as file:  # Its checksum was just compared.
        return Split(*(_examples(*part) for part in image_files.read_cifar_archive(file)))


# Pools hold out as large a part as the official test sets are.
_SOURCES: Mapping[str, _Source] = {
    "fashion_mnist": _Source(
        "fashion_mnist_pool.npz",
        _KERAS,
        (_GREY, 10, (60_000, 10_000)),
        lambda path: _read_pool(path, 1 / 7, _GREY, 10),
        _fetch_fashion_mnist,
    ),
    "mnist": _Source("mnist_with_writers.npz", _KERAS, (_GREY, 10, (60_000, 10_000)), _read_split, _fetch_mnist),
    "cifar100": _Source(
        "cifar100_subset150.npz",
        _CIFAR_ORIGIN,
        (_COLOUR, 100, (50_000, 10_000)),
        lambda path: _read_pool(path, 1 / 6, _COLOUR, 100),
        _fetch_cifar100,
    ),
}
