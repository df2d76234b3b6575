"""Federated EMNIST by writer: TensorFlow Federated's SQLite database, and LEAF's JSON files (FEMNIST).

LEAF's scripts (Caldas et al. 2018) write `{"users": [...], "num_samples": [...], "user_data": {user: {"x": [[784 grey
levels in [0, 1]], ...], "y": [...]}}}`, in the folders `train` and `test`, or in `all_data`, which is not split yet.
"""

import json
import os
import pathlib

import numpy as np

from data import clients, download, files, handwriting, random_data, sqlite
from data.errors import UsageError

ORIGIN = "https://storage.googleapis.com/tff-datasets-public/emnist_all.sqlite.lzma"
FILE_NAME = "emnist_all.sqlite"
_OR_LEAF = " (or, for characters, LEAF's JSON files: train and test, or all_data)"
_SIDE = 28
_GREY_TOLERANCE = 0.01  # Of a grey level: LEAF divides whole ones by 255.
_SPLITS = {"chars": ("all_train", "all_test"), "digits": ("digits_only_train", "digits_only_test")}


def load(
    kind: str, data_dir: str | None, cache_dir: str | None, random: bool = False
) -> tuple[clients.ClientData, clients.ClientData]:
    """Returns the writers' training clients, and the same writers' held-out ones.

    Features are float32 [examples, 28, 28, 1] in [0, 1], background 1; labels int32.

    Args:
      kind: `chars` (3,400 writers, 62 classes) or `digits` (3,383, 10).
      data_dir: Folder, or file, of the database, decompressed or as TFF publishes it; None for FEDBANDITS_DATA_DIR, or
        if that lacks it the cache folder, downloading on first use.
      cache_dir: That folder; None for `~/.cache/federated_bandits`.
      random: Whether random examples take the place of the cache folder and the download.

    Raises:
      UsageError: If the database is missing or damaged, or cannot be downloaded.
    """
    if data_dir and os.path.isfile(data_dir):
        found: pathlib.Path | None = pathlib.Path(data_dir)
    else:
        found = files.instead_of_download(data_dir, (FILE_NAME, f"{FILE_NAME}.lzma"), ORIGIN, _OR_LEAF)
    if random and not found:
        random_data.warn("EMNIST")
        return random_data.emnist(kind)
    path = download.decompressed(found) if found else download.lzma_file(ORIGIN, FILE_NAME, cache_dir)
    train_split, test_split = _SPLITS[kind]
    return sqlite.SqliteClients(path, train_split, _parse), sqlite.SqliteClients(path, test_split, _parse)


def _parse(serialized: list[bytes]) -> clients.Examples:
    import tensorflow as tf

    parsed = tf.io.parse_example(
        np.array(serialized, object),
        {
            "pixels": tf.io.FixedLenFeature((28, 28, 1), tf.float32),
            "label": tf.io.FixedLenFeature((), tf.int64),
        },
    )
    return clients.Examples(parsed["pixels"].numpy(), parsed["label"].numpy().astype(np.int32))


def find_leaf(data_dir: str) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
    """Returns LEAF's files of a folder: for training, and for testing; none for testing where they are not split.

    Looks in `train` and `test`, `all_data`, and for `all_data*.json` in the folder itself; in a `data` folder likewise.
    """
    for folder in (pathlib.Path(data_dir), pathlib.Path(data_dir) / "data"):
        train, test = (sorted((folder / part).glob("*.json")) for part in ("train", "test"))
        if train and test:
            return train, test
        whole = sorted((folder / "all_data").glob("*.json")) or sorted(folder.glob("all_data*.json"))
        if whole:
            return whole, []
    return [], []


def load_leaf(
    train: list[pathlib.Path], test: list[pathlib.Path], num_classes: int
) -> tuple[clients.ClientData, clients.ClientData]:
    """Returns the writers' training clients and the held-out ones.

    Features are uint8 [examples, 28, 28], background 255; labels int32 in EMNIST's order. Files that are not split hold
    a tenth of each writer's examples out. Of all files, one at a time is in memory as text.

    Args:
      train: Files for training, or all of them.
      test: Files for testing, or none.
      num_classes: Labels must be below this.

    Raises:
      UsageError: If a file is not LEAF's, or holds other than 28 x 28 grey levels and such labels.
    """
    if not test:
        return handwriting.hold_out(*_read_leaf(train, num_classes))
    return clients.ArrayClients(*_read_leaf(train, num_classes)), clients.ArrayClients(*_read_leaf(test, num_classes))


def _read_leaf(paths: list[pathlib.Path], num_classes: int) -> tuple[clients.Examples, np.ndarray, list[str], str]:
    """Returns examples, the writer of each, the writers' names and a checksum."""
    pixels, labels, writers = [], [], []
    names: list[str] = []
    for path in paths:
        try:
            content = json.loads(path.read_bytes())
            for name in content["users"]:
                one = content["user_data"][name]
                pixels.append(_grey_levels(np.array(one["x"], np.float32)))
                labels.append(_labels(np.array(one["y"]), len(pixels[-1]), num_classes))
                writers.append(np.full(len(labels[-1]), len(names), np.int32))
                names.append(str(name))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(
                f"{path} is not a file of LEAF's FEMNIST ({type(error).__name__}: {error}): --data_dir must hold TFF's "
                "emnist_all.sqlite, or LEAF's folders train and test, or all_data."
            ) from error
    if len(set(names)) < len(names):
        raise UsageError(f"{paths[0].parent} names a writer twice: does it hold files of two of LEAF's runs?")
    if not sum(map(len, labels)):
        raise UsageError(f"{paths[0]} names no writer with a character: --data_dir must hold LEAF's undamaged files.")
    examples = clients.Examples(np.concatenate(pixels), np.concatenate(labels))
    checksum = clients.array_checksum(examples.features, examples.labels, *writers)
    return examples, np.concatenate(writers), names, checksum


def _grey_levels(values: np.ndarray) -> np.ndarray:
    levels = np.rint(255 * values.reshape(-1, _SIDE, _SIDE))
    if len(levels) and not (
        levels.min() >= 0
        and levels.max() <= 255
        and np.abs(levels - 255 * values.reshape(levels.shape)).max() < _GREY_TOLERANCE
    ):
        raise ValueError("x must be whole grey levels divided by 255")
    return levels.astype(np.uint8)


def _labels(values: np.ndarray, count: int, num_classes: int) -> np.ndarray:
    labels = values.reshape(-1).astype(np.int32)
    if (
        len(labels) != count
        or (labels != values.reshape(-1)).any()
        or not ((labels >= 0) & (labels < num_classes)).all()
    ):
        raise ValueError(f"y must be {count} labels from 0 to {num_classes - 1}, one for each x")
    return labels
