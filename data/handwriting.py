"""Characters and digits by real writers, from NumPy archives in `--data_dir`.

`unipen62_writers.npz`: UNIPEN train_r01_v07 characters, 62 classes, 211 writers. `mnist_with_writers.npz`: MNIST with
the NIST writers that QMNIST names, 539 for training and 297 others for testing. Pixels stay uint8 in memory.
"""

from collections.abc import Sequence

import numpy as np

from data import clients, files, keys
from data.errors import UsageError

_SHAPE = (28, 28)
_HELD_OUT_FRACTION = 0.1
_SPLIT_SEED = 0


def unipen62(data_dir: str | None) -> tuple[clients.ClientData, clients.ClientData]:
    """Returns 211 writers with 90% of each one's characters, and the held-out rest, split as EMNIST is.

    Features are uint8 [examples, 28, 28], background 255; labels int32 in EMNIST's order.

    Raises:
      UsageError: If the file is missing or not readable.
    """
    path = files.find(data_dir, "unipen62_writers.npz")
    examples = files.images(path, "pixels", "label", _SHAPE, 62)
    writers, names = files.arrays(path, "writer", "writer_ids")
    if names.ndim != 1 or len(set(names.tolist())) < len(names):
        raise UsageError(f"{path}: writer_ids must be different names: --data_dir must hold the undamaged file.")
    files.indices(path, "writers", writers, len(examples.labels), len(names))
    return hold_out(examples, writers, [str(name) for name in names], clients.file_checksum(path))


def hold_out(
    examples: clients.Examples, writers: np.ndarray, names: Sequence[str], checksum: str
) -> tuple[clients.ClientData, clients.ClientData]:
    """Returns 90% of each writer's examples, a seeded choice, and the held-out rest.

    Args:
      examples: Examples.
      writers: int [examples], index into `names`.
      names: The writers.
      checksum: Digest of the source.
    """
    is_held_out = np.zeros(len(writers), bool)
    for writer in range(len(names)):
        rows = np.flatnonzero(writers == writer)
        draw = keys.generator(_SPLIT_SEED, keys.Purpose.HELD_OUT, writer)
        is_held_out[draw.choice(rows, int(np.ceil(_HELD_OUT_FRACTION * len(rows))), replace=False)] = True

    def part(rows: np.ndarray) -> clients.ClientData:
        return clients.ArrayClients(examples.take(rows), writers[rows], names, checksum)

    return part(np.flatnonzero(~is_held_out)), part(np.flatnonzero(is_held_out))


def mnist_writers(data_dir: str | None) -> tuple[clients.ClientData, clients.ClientData]:
    """Returns MNIST's 539 training writers, and the 297 other writers of its test digits.

    Features are uint8 [examples, 28, 28], background 255 (MNIST's own is 0); labels int32.

    Raises:
      UsageError: If the file is missing or not readable.
    """
    path = files.find(data_dir, "mnist_with_writers.npz")

    def part(split: str) -> clients.ClientData:
        examples = files.images(path, f"x_{split}", f"y_{split}", _SHAPE, 10)
        (writers,) = files.arrays(path, f"writer_{split}")
        files.indices(path, f"writer_{split}", writers, len(examples.labels))
        names, client_of_row = np.unique(writers, return_inverse=True)
        return clients.ArrayClients(
            examples._replace(features=255 - np.asarray(examples.features)),
            client_of_row,
            [f"writer_{name}" for name in names],
            clients.file_checksum(path),
        )

    return part("train"), part("test")


def normalise(pixels: np.ndarray) -> np.ndarray:
    """Returns float32 [examples, 28, 28, 1] in [0, 1] as TFF's EMNIST has it, background 1, from uint8."""
    return pixels[..., np.newaxis].astype(np.float32) / np.float32(255)
