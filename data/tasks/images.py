"""Digits and other images of unknown writers, partitioned into clients with Dirichlet label skew; reads image files.

Scikit-learn's 1,797 handwritten digits (the test set of UCI's optdigits) need no file. Fashion-MNIST, MNIST and
CIFAR-100 are read from an archive in `--data_dir`, or downloaded from the URLs that Keras uses. Their pixels remain
uint8.

MNIST, QMNIST's labels and Fashion-MNIST are published as IDX files, which consist of two zero bytes, one byte for the
type of the values, one for the number of dimensions, four for each size, and the values, all big-endian. CIFAR-100 is
an archive with two pickles, `cifar-100-python/train` and `cifar-100-python/test`. Since a pickle can run any code, this
module accepts only pickles of arrays.
"""

import gzip
import importlib.metadata
import io
import math
import pathlib
import pickle
import struct
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

import numpy as np

from data import clients, download, files, keys, partition, tasks
from data.errors import UsageError
from data.tasks.options import TaskOptions

_KERAS = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
# MD5 of each file in github.com/zalandoresearch/fashion-mnist, which downloads from this mirror must match.
_FASHION_PARTS = {
    "train-images-idx3": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1": "bb300cfdad3c16e7a12a480ee83cd310",
}
_MNIST_SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"
_CIFAR_ORIGIN = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
_CIFAR_SHA256 = "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"
_SPLIT_SEED = 0  # The split is part of the task and is the same for all runs.
_NUM_DIGIT_CLIENTS = 60
_HELD_OUT_DIGITS = 0.2
_NUM_HELD_OUT = 10_000
_GREY = (28, 28)
# The superclass of each class in CIFAR-100, as a letter; classes and superclasses are in alphabetical order.
_SUPERCLASSES = b"EBOIAGHHSDDOJSHLDJHLGLFKHGNPDPALBKMOQJLFFTIIPNORSKQERECARESRKDCMMQMBJTCKABQMJNPNQTCEGTFFITSBCPGARION"
CIFAR_SUPERCLASSES = np.frombuffer(_SUPERCLASSES, np.uint8) - ord("A")

Split = list[clients.Examples]  # Training and held-out examples.


class Partitioned(NamedTuple):
    """A data set to partition into clients.

    Attributes:
      shape: Height, width and channels of an image.
      num_actions: Number of classes.
      num_training: Number of training images, as published; 10,000 other images are held out.
      model: Default model.
      hidden: Widths of the hidden layers if the model is `mlp`.
      archive: Name of the archive in the user's data folder.
      origin: URL of the download.
      read: Function that reads the archive.
      fetch: Function that downloads the data set to a cache folder.
    """

    shape: tuple[int, int, int]
    num_actions: int
    num_training: int
    model: str
    hidden: tuple[int, ...]
    archive: str
    origin: str
    read: Callable[[pathlib.Path], Split]
    fetch: Callable[[str | None], Split]


def load_digits(options: TaskOptions) -> tasks.Task:
    """Opens scikit-learn's digits, partitioned into 60 synthetic clients.

    Images have 8 x 8 pixels, and there are 10 actions. The default model has one hidden layer of 64 units. Features are
    float32 [examples, 64] in [0, 1], where ink is 1. 359 examples are held out, as one client.

    Raises:
      UsageError: If the number of digits that are rewarded in the initial training of a shift is out of range, or if
        the model requires images.
    """
    # `sklearn.datasets.load_digits` would import all of scikit-learn, which takes seconds.
    path = importlib.metadata.distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    with gzip.open(str(path), "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    examples = clients.Examples((table[:, :-1] / 16).astype(np.float32), table[:, -1].astype(np.int32))
    train, held_out = _hold_out(examples, int(len(table) * _HELD_OUT_DIGITS))
    draw = keys.generator(_SPLIT_SEED, keys.Purpose.PARTITION)
    client_of_row = partition.dirichlet_label_skew(train.labels, _NUM_DIGIT_CLIENTS, options.partition_alpha, draw)
    equally_frequent = [1] * 10  # The initial training of a shift rewards the first labels.
    return tasks.Task(
        clients=clients.ArrayClients(train, client_of_row, [f"client_{n:02d}" for n in range(_NUM_DIGIT_CLIENTS)]),
        held_out=_one_client(held_out),
        num_actions=10,
        rewards=tasks.label_rewards(equally_frequent, options.init_labels),
        **tasks.vector_model(options, 64, 10, default="mlp"),
    )


def load_partitioned(options: TaskOptions) -> tasks.Task:
    """Opens a task of images that are partitioned into clients. Pixels are uint8; grey images have no channel axis.

    `partition_by` selects what the Dirichlet distributions describe: with `client`, the labels of each client
    (`partition.dirichlet_label_skew`; equal sizes); with `label`, the clients of each label
    (`partition.dirichlet_client_shares`; unequal sizes). If `partition_beta` is set, CIFAR-100 is partitioned by
    `partition.hierarchical_label_skew`, where `partition_alpha` is the concentration of superclasses, and
    `partition_beta` that of the classes within each superclass.

    Raises:
      UsageError: If the data is missing or too small for the partition, or if the model cannot use the images.
    """
    source = TASKS[options.task_type]
    train, held_out = _open(options, source)
    population, examples = options.partition_clients, options.partition_examples
    if (wanted := max(population * examples, population)) > len(train.labels):
        raise UsageError(
            f"--partition_clients={population} with --partition_examples={examples} needs {wanted:,} images; "
            f"{options.task_type} has {len(train.labels):,} for training."
        )
    skew = train.labels, population, options.partition_alpha
    draw = keys.generator(options.partition_seed, keys.Purpose.PARTITION)
    if options.partition_by == "label":
        client_of_row = partition.dirichlet_client_shares(*skew, draw)
    elif options.partition_beta is None:
        client_of_row = partition.dirichlet_label_skew(*skew, draw, examples or None)
    else:
        coarse = CIFAR_SUPERCLASSES[train.labels]
        client_of_row = partition.hierarchical_label_skew(coarse, *skew, options.partition_beta, draw, examples or None)
    return tasks.Task(
        clients=clients.ArrayClients(train, client_of_row, [f"client_{client:03d}" for client in range(population)]),
        held_out=_one_client(held_out),
        num_actions=source.num_actions,
        feature_spec=(source.shape, "float32"),
        rewards={"exact": tasks.exact(source.num_actions)},
        normalize=normalize,
        report=clients.size_report(options.task_type, {"training images": (len(train.labels), source.num_training)}),
        **tasks.image_model(options, source.model, source.shape, source.num_actions, source.hidden),
    )


def _one_client(held_out: clients.Examples) -> clients.ClientData:
    return clients.ArrayClients(held_out, np.zeros(len(held_out.labels), np.int32), ["held_out"])


def _hold_out(examples: clients.Examples, count: int, *, in_order: bool = False) -> Split:
    order = keys.generator(_SPLIT_SEED, keys.Purpose.HELD_OUT, 0).permutation(len(examples.labels))
    parts = order[count:], order[:count]
    return [examples.take(np.sort(part) if in_order else part) for part in parts]


def _open(options: TaskOptions, source: Partitioned) -> Split:
    path = files.instead_of_download(options.data_dir, [source.archive], source.origin)
    if options.random_data and not path:
        clients.warn_of_random_data(options.task_type)
        shape = source.shape if source.shape[-1] > 1 else source.shape[:2]
        return random_images(shape, source.num_actions, (source.num_training, _NUM_HELD_OUT))
    return source.read(path) if path else source.fetch(options.cache_dir)


def random_images(shape: tuple[int, ...], num_classes: int, sizes: tuple[int, ...]) -> Split:
    """Generates data sets of several sizes, with random uint8 images and equally frequent labels."""
    draw = np.random.default_rng(0)
    return [
        clients.Examples(
            draw.integers(0, 256, (size, *shape), dtype=np.uint8), np.arange(size, dtype=np.int32) % num_classes
        )
        for size in sizes
    ]


def _read_pool(path: pathlib.Path, held_out_fraction: float, shape: tuple[int, ...], num_classes: int) -> Split:
    """Reads a pool of examples whose official split is lost, and holds out a part of it with a fixed seed."""
    examples = checked(path, files.arrays(path, "x", "y"), shape, num_classes)
    return _hold_out(examples, round(held_out_fraction * len(examples.labels)), in_order=True)


def _read_split(path: pathlib.Path) -> Split:
    pairs = [files.arrays(path, f"x_{part}", f"y_{part}") for part in ("train", "test")]
    return [checked(path, pair, _GREY, 10) for pair in pairs]


def _fetch_fashion_mnist(cache_dir: str | None) -> Split:
    parts = []
    for part, digest in _FASHION_PARTS.items():
        name = f"{part}-ubyte.gz"
        path = download.plain_file(f"{_KERAS}{name}", f"fashion-mnist-{name}", cache_dir, digest)
        try:
            parts.append(read_idx(path, "uint8", 3 if "images" in name else 1))
        except ValueError as error:
            raise UsageError(f"{path} is damaged ({error}): delete it to download it again.") from error
    return [checked(path, pair, _GREY, 10) for pair in (parts[:2], parts[2:])]


def _fetch_cifar100(cache_dir: str | None) -> Split:
    path = download.plain_file(_CIFAR_ORIGIN, "cifar-100-python.tar.gz", cache_dir, _CIFAR_SHA256)
    with open(path, "rb") as file:  # The checksum has just been verified.
        parts = read_cifar_archive(file)
    return [clients.Examples(pixels, labels.astype(np.int32)) for pixels, labels in parts]


def checked(
    path: pathlib.Path, pair: Sequence[np.ndarray], shape: tuple[int, ...], num_classes: int
) -> clients.Examples:
    """Checks images and their labels.

    Args:
      path: The file from which they were read.
      pair: Images and their labels.
      shape: Shape of an image.
      num_classes: Number of classes; labels must be smaller than this.

    Returns:
      Images, uint8 [examples, *shape], and labels, int32 [examples].

    Raises:
      UsageError: If an array has the wrong type, shape or range. The message names the file.
    """
    pixels, labels = pair
    if pixels.dtype != np.uint8 or pixels.shape[1:] != shape or not len(pixels):
        wanted = " x ".join(map(str, shape))
        raise UsageError(f"{path}: images must be uint8 {wanted}, not {pixels.dtype} {pixels.shape}: {files.UNDAMAGED}")
    return clients.Examples(pixels, indices(path, "labels", labels, len(pixels), num_classes).astype(np.int32))


def indices(path: pathlib.Path, what: str, values: np.ndarray, count: int, below: int | None = None) -> np.ndarray:
    """Checks that the values are `count` whole numbers and, unless `below` is None, at least 0 and less than `below`.

    Args:
      path: The file from which the values were read.
      what: Description of the values.
      values: The values.
      count: Required number of values, one for each example.
      below: Upper bound, which is excluded; None for no bounds.

    Raises:
      UsageError: If the check fails. The message names the file.
    """
    is_whole = values.shape == (count,) and values.dtype.kind in "iu"
    if not is_whole or (below is not None and not ((values >= 0) & (values < below)).all()):
        span = "" if below is None else f" from 0 to {below - 1}"
        actual = f"from {values.min()} to {values.max()}" if is_whole else f"{values.dtype} of shape {values.shape}"
        raise UsageError(f"{path}: {what} must be {count} whole numbers{span}, not {actual}: {files.UNDAMAGED}")
    return values


_TYPES: Mapping[str, tuple[int, Any]] = {"uint8": (0x08, np.dtype(np.uint8)), "int32": (0x0C, np.dtype(">i4"))}


def read_idx(path: pathlib.Path, values: str, dimensions: int) -> np.ndarray:
    """Reads the values of an IDX file, which is gzipped if its name ends in `.gz`.

    Args:
      path: The file.
      values: Required type of the values, `uint8` or `int32`.
      dimensions: Required number of dimensions.

    Raises:
      ValueError: If the file is not readable, or does not have this type and number of dimensions.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from error
    kind, dtype = _TYPES[values]
    start = 4 + 4 * dimensions
    magic = bytes((0, 0, kind, dimensions))
    if content[:4] != magic or len(content) < start:
        raise ValueError(f"it begins with {content[:4].hex()}, not with {magic.hex()}")
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    if (size := len(content) - start) != math.prod(shape) * dtype.itemsize:
        wanted = " x ".join(map(str, shape))
        raise ValueError(f"its header promises {wanted} values of {dtype.itemsize} bytes, and {size} bytes follow")
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(values)


CIFAR_PARTS = ("train", "test")
_FOLDER = "cifar-100-python"
# Globals that are needed to unpickle arrays, including bytes that Python 3 wrote for Python 2.
_HARMLESS = {("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in _HARMLESS:
            raise pickle.UnpicklingError(f"it calls {module_name}.{global_name}, which arrays do not need")
        return super().find_class(module_name, global_name)


def read_cifar(file: IO[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Reads the images of a pickle, uint8 [examples, 32, 32, 3], and their fine labels, int64 [examples].

    Raises:
      ValueError: If the file is not a pickle of CIFAR-100.
    """
    try:
        values = _Unpickler(io.BytesIO(file.read()), encoding="bytes").load()
        pixels, labels = values[b"data"], np.array(values[b"fine_labels"])
        return np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels
    except Exception as error:  # A damaged pickle raises many types of errors.
        raise ValueError(f"{type(error).__name__}: {error}") from error


def read_cifar_archive(file: IO[bytes]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Reads each of `CIFAR_PARTS` from `cifar-100-python.tar.gz` with `read_cifar`.

    Raises:
      ValueError: If the file is not an archive of CIFAR-100.
    """
    try:
        with tarfile.open(fileobj=file) as archive:
            members = [archive.extractfile(f"{_FOLDER}/{part}") for part in CIFAR_PARTS]
            return [read_cifar(member or io.BytesIO()) for member in members]
    except (tarfile.TarError, KeyError, OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from error


def normalize(pixels: np.ndarray) -> np.ndarray:
    """Converts images to float32 [examples, height, width, channels] in [0, 1]; the input may lack the channel axis.

    Images whose pixels are already float32 are returned unchanged.
    """
    if pixels.dtype == np.float32:
        return pixels
    with_channels = pixels if pixels.ndim == 4 else pixels[..., np.newaxis]
    return with_channels.astype(np.float32) / np.float32(255)


_GREY_IMAGES: Mapping[str, Any] = {"shape": (*_GREY, 1), "num_actions": 10, "num_training": 60_000, "origin": _KERAS}
# The held-out fraction of a pool is that of the official test set. Cho et al. 2020 use two hidden layers for
# Fashion-MNIST, but do not report their widths.
TASKS = {
    "fashion_mnist": Partitioned(
        **_GREY_IMAGES,
        model="mlp",
        hidden=(64, 30),
        archive="fashion_mnist_pool.npz",
        read=lambda path: _read_pool(path, 1 / 7, _GREY, 10),
        fetch=_fetch_fashion_mnist,
    ),
    "mnist": Partitioned(
        **_GREY_IMAGES,
        model="cnn",
        hidden=(32,),
        archive="mnist_with_writers.npz",
        read=_read_split,
        fetch=lambda cache: _read_split(download.plain_file(f"{_KERAS}mnist.npz", "mnist.npz", cache, _MNIST_SHA256)),
    ),
    "cifar100": Partitioned(
        shape=(32, 32, 3),
        num_actions=100,
        num_training=50_000,
        model="mlp",
        hidden=(256, 128),
        archive="cifar100_subset150.npz",
        origin=_CIFAR_ORIGIN,
        read=lambda path: _read_pool(path, 1 / 6, (32, 32, 3), 100),
        fetch=_fetch_cifar100,
    ),
}
