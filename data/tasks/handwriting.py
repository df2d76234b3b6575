"""Characters and digits by real writers, 28 x 28 pixels, from TFF's EMNIST, UNIPEN and MNIST.

`unipen62_writers.npz`: UNIPEN train_r01_v07 characters, 62 classes, 211 writers. `mnist_with_writers.npz`: MNIST with
the NIST writers that QMNIST names, 539 for training and 297 others for testing. TFF's database is read one writer at a
time; the other two are held in memory, as uint8 pixels with background 255.
"""

from collections.abc import Mapping

import numpy as np

from data import clients, download, files, partition, tasks
from data.errors import UsageError
from data.tasks import images
from data.tasks.options import TaskOptions

ORIGIN = "https://storage.googleapis.com/tff-datasets-public/emnist_all.sqlite.lzma"
FILE_NAME = "emnist_all.sqlite"
_SHAPE = (28, 28)
_SPLITS = {62: ("all_train", "all_test"), 10: ("digits_only_train", "digits_only_test")}
# Numbers of writers, training examples and held-out examples (documentation of TFF's EMNIST).
_SIZES = {62: (3_400, 671_585, 77_483), 10: (3_383, 341_873, 40_832)}
# Standard deviation of the number of examples per writer, divided by its mean: 88.94 / 226.83 in LEAF's FEMNIST.
_SPREAD = 0.392
_HELD_OUT_FRACTION = 0.1
_SPLIT_SEED = 0

Populations = tuple[clients.ClientData, clients.ClientData]  # For training, and held out.


def load(options: TaskOptions) -> tasks.Task:
    """Opens a task of real writers, with 28 x 28 x 1 pixels and 62 characters or 10 digits.

    The default model is linear if the task's name ends in `_linear`, and otherwise the two-layer CNN.

    Raises:
      UsageError: If the data is missing or damaged, or cannot be downloaded.
    """
    num_classes = 62 if options.task_type in ("emnist_chars", "emnist62_linear", "unipen62") else 10
    phases = {"exact": tasks.exact(10)}
    report: Mapping[str, str] = {}
    if num_classes == 62:
        phases = tasks.character_rewards(reference_code=options.is_published)
    if options.task_type == "unipen62":
        population, held_out = unipen62(options.data_dir)
    elif options.task_type == "mnist_writers":
        population, held_out = mnist_writers(options.data_dir)
    else:
        population, held_out, report = _emnist(options, num_classes)
    linear = "linear_l2" if options.is_published else "linear"
    model = linear if options.task_type.endswith("_linear") else "cnn"
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=num_classes,
        feature_spec=((*_SHAPE, 1), "float32"),
        rewards=phases,
        normalize=images.normalize,
        report=report,
        **tasks.image_model(options, model, (*_SHAPE, 1), num_classes),
    )


def _emnist(options: TaskOptions, num_classes: int) -> tuple[clients.ClientData, clients.ClientData, Mapping[str, str]]:
    """Training and held-out examples of EMNIST's writers, from TFF's database, and a report on their number.

    Features are float32 [examples, 28, 28, 1] in [0, 1], background 1.
    """
    local = files.instead_of_download(options.data_dir, (FILE_NAME, f"{FILE_NAME}.lzma"), ORIGIN)
    if options.random_data and not local:
        clients.warn_of_random_data("EMNIST")
        return (*random_writers(num_classes), {})
    path = download.decompressed(local) if local else download.lzma_file(ORIGIN, FILE_NAME, options.cache_dir)
    train, held_out = (clients.SqliteClients(path, split, _parse) for split in _SPLITS[num_classes])
    writers, examples, others = _SIZES[num_classes]
    sizes = {
        "writers": (len(train), writers),
        "training examples": (train.num_examples, examples),
        "held-out examples": (held_out.num_examples, others),
    }
    return train, held_out, clients.size_report("EMNIST", sizes)


def random_writers(num_classes: int) -> Populations:
    """Random training and held-out examples in the shapes of TFF's EMNIST.

    The number of a client's examples is normal, with the data set's mean and LEAF's relative deviation.

    Args:
      num_classes: 62 for characters, 10 for digits.
    """
    writers, *totals = _SIZES[num_classes]

    def population(mean: float) -> clients.ClientData:
        def examples(draw: np.random.Generator) -> clients.Examples:
            # Clipped symmetrically, which preserves the mean.
            size = round(float(np.clip(draw.normal(mean, _SPREAD * mean), 1, 2 * mean - 1)))
            pixels = draw.random((size, *_SHAPE, 1), dtype=np.float32)
            return clients.Examples(pixels, draw.integers(0, num_classes, size, dtype=np.int32))

        return clients.RandomClients(writers, examples)

    train, held_out = (population(total / writers) for total in totals)
    return train, held_out


def _parse(serialized: list[bytes]) -> clients.Examples:
    import tensorflow as tf

    parsed = tf.io.parse_example(
        np.array(serialized, object),
        {"pixels": tf.io.FixedLenFeature((28, 28, 1), tf.float32), "label": tf.io.FixedLenFeature((), tf.int64)},
    )
    return clients.Examples(parsed["pixels"].numpy(), parsed["label"].numpy().astype(np.int32))


def unipen62(data_dir: str | None) -> Populations:
    """Characters of 211 writers: 90% of each writer's examples for training, and the rest held out, as in EMNIST.

    Features are uint8 [examples, 28, 28], background 255; labels int32 in EMNIST's order.

    Raises:
      UsageError: If the file is missing or not readable.
    """
    path = files.find(data_dir, "unipen62_writers.npz")
    *pair, writers, names = files.arrays(path, "pixels", "label", "writer", "writer_ids")
    examples = images.checked(path, pair, _SHAPE, 62)
    if names.ndim != 1 or len(set(names.tolist())) < len(names):
        raise UsageError(f"{path}: writer_ids must be distinct names: --data_dir must hold the undamaged file.")
    images.indices(path, "writers", writers, len(examples.labels), len(names))
    is_held_out = partition.rows_of_each(
        writers, len(names), _SPLIT_SEED, lambda count: int(np.ceil(_HELD_OUT_FRACTION * count))
    )
    checksum = clients.file_checksum(path)

    def part(rows: np.ndarray) -> clients.ClientData:
        return clients.ArrayClients(examples.take(rows), writers[rows], [str(name) for name in names], checksum)

    return part(np.flatnonzero(~is_held_out)), part(np.flatnonzero(is_held_out))


def mnist_writers(data_dir: str | None) -> Populations:
    """MNIST's 539 training writers, and the 297 other writers of its test digits.

    Features are uint8 [examples, 28, 28], background 255 (MNIST's own is 0); labels int32.

    Raises:
      UsageError: If the file is missing or not readable.
    """
    path = files.find(data_dir, "mnist_with_writers.npz")

    def part(split: str) -> clients.ClientData:
        *pair, writers = files.arrays(path, *(f"{name}_{split}" for name in ("x", "y", "writer")))
        examples = images.checked(path, pair, _SHAPE, 10)
        images.indices(path, f"writer_{split}", writers, len(examples.labels))
        names, client_of_row = np.unique(writers, return_inverse=True)
        return clients.ArrayClients(
            examples._replace(features=255 - np.asarray(examples.features)),
            client_of_row,
            [f"writer_{name}" for name in names],
            clients.file_checksum(path),
        )

    return part("train"), part("test")
