"""Posts as the files that tasks read: TFF's older Stack Overflow, and dumps of Stack Exchange sites."""

import collections
import contextlib
import gzip
import json
import pathlib
import sqlite3
import sys
from collections.abc import Callable

from data import convert, posts
from data.errors import Failure, UsageError

_SPLITS = {"train": "stackoverflow_train.h5", "heldout": "stackoverflow_held_out.h5"}
_FEATURES = ("tags", "title", "tokens")
_TABLES = """
PRAGMA journal_mode = OFF;
CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB);
CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER);
"""


def stackoverflow(source: pathlib.Path) -> Callable[[pathlib.Path], None]:
    """TFF's Stack Overflow as SQLite, from the HDF5 files that TFF published before.

    Args:
      source: Folder of `stackoverflow_train.h5` and `stackoverflow_held_out.h5`, with a group
        `examples/USER` that holds the texts `tokens`, `title` and `tags` of each post.

    Returns:
      Function that writes the database to a path.

    Raises:
      UsageError: If a file is missing, or, when the function is called, damaged.
    """
    paths = {split: convert.find(source, name) for split, name in _SPLITS.items()}

    def write(target: pathlib.Path) -> None:
        with contextlib.closing(sqlite3.connect(target)) as database:
            try:
                database.executescript(_TABLES)
                for split, path in paths.items():
                    _copy(path, split, database)
                database.commit()
            except sqlite3.Error as error:
                raise Failure(f"{target} cannot be written ({error}).") from error

    return write


def _copy(path: pathlib.Path, split: str, database: sqlite3.Connection) -> None:
    import h5py
    import tensorflow as tf
    import tqdm

    def serialized(post: tuple[bytes, ...]) -> bytes:
        values = zip(_FEATURES, post, strict=True)
        features = {name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value])) for name, value in values}
        return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()

    try:
        with h5py.File(path) as file:
            users = file["examples"]
            for user in tqdm.tqdm(users, desc=path.name, unit=" users"):
                columns = [users[user][name][()] for name in _FEATURES]
                rows = [(split, user, serialized(post)) for post in zip(*columns, strict=True)]
                database.executemany("INSERT INTO examples VALUES (?, ?, ?)", rows)
                database.execute("INSERT INTO client_metadata VALUES (?, ?, ?)", (user, split, len(rows)))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise convert.damaged(path, error) from error


def stackexchange(source: pathlib.Path) -> Callable[[pathlib.Path], None]:
    """Posts of Stack Exchange sites as JSON lines, without HTML and code.

    Args:
      source: Folder with a folder for each site, named like it, that holds the dump's unpacked `Posts.xml`.

    Returns:
      Function that writes the compressed file to a path.

    Raises:
      UsageError: If there is no dump, or, when the function is called, if one is damaged.
    """
    if not (paths := sorted(source.glob("*/Posts.xml"))):
        raise UsageError(f"There is no folder with a Posts.xml in {source}: SOURCE_DIR must hold one a site.")

    def write(target: pathlib.Path) -> None:
        report: collections.Counter[str] = collections.Counter()
        with target.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
            for path in paths:
                for post in posts.read_dump(path, report):
                    report["posts"] += 1
                    file.write(f"{json.dumps(post._asdict(), ensure_ascii=False)}\n".encode())
        print(", ".join(f"{what}: {count}" for what, count in report.items()), file=sys.stderr)

    return write
