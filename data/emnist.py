"""TensorFlow Federated's EMNIST by writer, read client by client from its SQLite database."""

import os
import pathlib

import numpy as np

from data import clients, download, files, random_data, sqlite

ORIGIN = "https://storage.googleapis.com/tff-datasets-public/emnist_all.sqlite.lzma"
FILE_NAME = "emnist_all.sqlite"
_LEAF = " (or, for characters, LEAF's JSON files: train and test, or all_data)"
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
        found = files.instead_of_download(data_dir, (FILE_NAME, f"{FILE_NAME}.lzma"), ORIGIN, _LEAF)
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
