"""Federated data sets: a population of clients, each with its examples, in arrays or in TFF's SQLite files.

Clients of an SQLite file are read one at a time, so that memory holds a cohort, not the population. This module does
not import TensorFlow, so that missing data is reported at once.
"""

import abc
import contextlib
import hashlib
import itertools
import os
import pathlib
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tqdm

from data import action_sets, files, keys, text
from data.errors import Failure, UsageError

OTHER_SIZE = "other_size"  # Key of a report on data whose size differs from that of the published data set.
_CHECKED_END_BYTES = 128 << 20
_MAX_ROW = 2**63 - 1
_QUERY = (
    "SELECT serialized_example_proto FROM examples "
    "WHERE split_name = ? AND client_id = ? AND rowid BETWEEN ? AND ? ORDER BY rowid"
)

Features = np.ndarray | text.Bags | action_sets.ActionSets


class Examples(NamedTuple):
    """Examples of one client, or held-out examples.

    Attributes:
      features: One array [examples, ...] in the data set's dtype, bags of words, or sets of actions.
      labels: int32 [examples] class indices; or float32 [examples, labels], with several labels or the rewards of
        actions for each example.
    """

    features: Features
    labels: np.ndarray

    def take(self, rows: np.ndarray) -> "Examples":
        """Returns the examples in these rows."""
        return Examples(text.take(self.features, rows), self.labels[rows])


class ClientData(abc.ABC):
    """A population of clients.

    Attributes:
      client_ids: Names of the clients; a client's position here is its index everywhere else.
      checksum: A digest that changes when the data does.
    """

    client_ids: Sequence[str]
    checksum: str

    @abc.abstractmethod
    def load(self, index: int) -> Examples:
        """Returns the examples of the client at this index."""

    def __len__(self) -> int:
        return len(self.client_ids)


class ArrayClients(ClientData):
    """Clients whose examples are rows of arrays in memory."""

    def __init__(self, examples: Examples, client_of_row: np.ndarray, client_ids: Sequence[str], checksum: str = ""):
        """Groups rows by client.

        Args:
          examples: All clients' examples; labels of type bool are loaded as float32.
          client_of_row: int [rows] index into `client_ids`.
          client_ids: Names of the clients. A client may have no rows.
          checksum: Digest of the source. If empty, it is computed from the arrays.
        """
        order = np.argsort(client_of_row, kind="stable")
        bounds = np.searchsorted(client_of_row[order], np.arange(len(client_ids) + 1))
        self._rows = [order[start:end] for start, end in itertools.pairwise(bounds)]
        self._examples = examples
        self.client_ids = list(client_ids)
        self.checksum = checksum or array_checksum(examples.features, examples.labels, client_of_row)

    def load(self, index: int) -> Examples:
        examples = self._examples.take(self._rows[index])
        is_bool = examples.labels.dtype == bool
        return examples._replace(labels=examples.labels.astype(np.float32)) if is_bool else examples


class SqliteClients(ClientData):
    """One split of a database with the tables `examples` and `client_metadata`, the format of TFF's data sets.

    Clients are sorted by name, and their examples are read when they are loaded. If `examples` has no index on clients,
    as in TFF's files, the rows of each client are found when the database is first opened, and stored in a file beside
    it.
    """

    def __init__(self, path: str | os.PathLike, split: str, parse: Callable[[list[bytes]], Examples]):
        """Opens the database.

        Args:
          path: The file.
          split: Value of `split_name`.
          parse: Function that converts the serialized tf.train.Example protos of a client into `Examples`.

        Raises:
          UsageError: If the file is not such a database, or does not have the split.
        """
        self._path, self._split, self._parse = pathlib.Path(path), split, parse
        # Clients are prefetched in another thread, which is safe, because SQLite serves one thread at a time.
        name = f"{self._path.absolute().as_uri()}?mode=ro"
        with self._reading():
            self._connection = sqlite3.connect(name, uri=True, check_same_thread=False)
            pages, page_bytes = (
                self._connection.execute(f"PRAGMA {size}").fetchone()[0] for size in ("page_count", "page_size")
            )
            if pages * page_bytes > self._path.stat().st_size:  # Otherwise, SQLite would fail in a later round.
                raise sqlite3.DatabaseError("it is cut off")
            query = "SELECT DISTINCT client_id FROM client_metadata WHERE split_name = ? ORDER BY client_id"
            self.client_ids = [row[0] for row in self._connection.execute(query, (split,))]
            plan = self._connection.execute(f"EXPLAIN QUERY PLAN {_QUERY}", (split, "", 0, 0)).fetchall()
            if not self.client_ids:
                raise sqlite3.DatabaseError(f"no clients in split {split!r}")
            query = "SELECT SUM(num_examples) FROM client_metadata WHERE split_name = ?"
            self.num_examples = int(self._connection.execute(query, (split,)).fetchone()[0])
        self.checksum = file_checksum(self._path)
        has_index = any("client_id=?" in row[-1] for row in plan)
        self._rows = None if has_index else self._find_rows()

    def load(self, index: int) -> Examples:
        client = self.client_ids[index]
        first, last = (0, _MAX_ROW) if self._rows is None else self._rows[index].tolist()
        with self._reading(f" of client {client}"):
            rows = self._connection.execute(_QUERY, (self._split, client, first, last)).fetchall()
            return self._parse([row[0] for row in rows])

    def _find_rows(self) -> np.ndarray:
        """First and last row of each client, int64 [clients, 2]; without rows, the last precedes the first."""
        known_rows = self._path.with_name(f"{self._path.name}.{self._split}.rows.npz")
        with contextlib.suppress(UsageError, KeyError):  # It is missing or damaged.
            known = files.read_arrays(known_rows)
            if str(known["checksum"]) == self.checksum and len(known["rows"]) == len(self.client_ids):
                return known["rows"]
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        query = "SELECT client_id, rowid FROM examples WHERE split_name = ? ORDER BY rowid"
        with self._reading():
            for client, row in self._connection.execute(query, (self._split,)):
                first.setdefault(client, row)
                last[client] = row
        rows = np.array([[first.get(client, _MAX_ROW), last.get(client, 0)] for client in self.client_ids])
        with contextlib.suppress(Failure):  # An unwritable folder costs only the time of another search.
            files.save_arrays(known_rows, {"rows": rows, "checksum": np.array(self.checksum)})
        return rows

    @contextlib.contextmanager
    def _reading(self, where: str = "") -> Iterator[None]:
        """Converts all errors to a UsageError, including errors of TensorFlow, which is not imported here."""
        try:
            yield
        except Exception as error:
            reason = error if isinstance(error, sqlite3.Error) else f"{type(error).__name__}{where}"
            remedy = "delete it, or name the folder of another copy with --data_dir"
            raise UsageError(f"{self._path} is not readable as TFF's SQLite data ({reason}): {remedy}.") from error


class CappedClients(ClientData):
    """Samples at most `max_examples` of each client, either once or again in each participation."""

    def __init__(self, clients: ClientData, max_examples: int, seed: int):
        """Caps clients.

        Args:
          clients: The clients.
          max_examples: Maximum number of examples of one client; 0 for all.
          seed: Seed for sampling.
        """
        self.clients, self.max_examples, self.seed = clients, max_examples, seed
        self.client_ids, self.checksum = clients.client_ids, clients.checksum

    def load(self, index: int, participation: int | None = None) -> Examples:
        """Examples of the client at this index, sampled again for each `participation`, or once if it is None."""
        return self.load_with_rows(index, participation)[0]

    def load_with_rows(self, index: int, participation: int | None = None) -> tuple[Examples, np.ndarray]:
        """Examples as in `load`, and their positions among all of the client's examples, int64 [examples]."""
        examples = self.clients.load(index)
        if not self.max_examples or len(examples.labels) <= self.max_examples:
            return examples, np.arange(len(examples.labels))
        if participation is None:
            draw = keys.generator(self.seed, keys.Purpose.EXAMPLES, index)
        else:
            draw = keys.generator(self.seed, keys.Purpose.PARTICIPATION, participation, index)
        rows = np.sort(draw.choice(len(examples.labels), self.max_examples, replace=False))
        return examples.take(rows), rows


class RandomClients(ClientData):
    """Clients with random examples, seeded by the client's index, to measure time and memory without a file."""

    checksum = "random"

    def __init__(self, num_clients: int, make: Callable[[np.random.Generator], Examples]):
        """Stores the number of clients, and the function that samples a client's examples."""
        self.client_ids, self._make = [f"random_{index}" for index in range(num_clients)], make

    def load(self, index: int) -> Examples:
        return self._make(np.random.default_rng(index))


def size_report(name: str, sizes: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """Compares a file's size with that of the published data set in the same format; warns if they differ.

    Args:
      name: Name of the data set.
      sizes: Actual and published number of everything that is counted.

    Returns:
      A report for `config.json` with the differences under `OTHER_SIZE`; empty if there are none.
    """
    differing = [f"{found:,} {what} instead of {known:,}" for what, (found, known) in sizes.items() if found != known]
    if not differing:
        return {}
    text = f"a file in the format of {name}, with {', '.join(differing)}"
    print(f"Warning: The data is {text}, so results on it are not results on {name}.", file=sys.stderr)
    return {OTHER_SIZE: text}


def warn_of_random_data(what: str) -> None:
    """Warns that random examples replace a data set."""
    print(f"Warning: --random_data uses random examples, not {what}, so rewards are meaningless.", file=sys.stderr)


def pool(clients: ClientData, max_examples: int, seed: int) -> Examples:
    """Examples of randomly chosen clients, joined; see `chosen`."""
    return joined([examples for _, examples in chosen(clients, range(len(clients)), max_examples, seed)])


def chosen(clients: ClientData, indices: Sequence[int], max_examples: int, seed: int) -> list[tuple[int, Examples]]:
    """Indices of randomly chosen clients and their examples, up to a number of examples.

    Args:
      clients: The population.
      indices: Clients to choose from; at least one.
      max_examples: Number of examples at which to stop, in the middle of a client if needed; 0 for all.
      seed: Seed for sampling.
    """
    draw = keys.generator(seed, keys.Purpose.EVALUATION, 0, 0)
    pairs, count = [], 0
    for place in draw.permutation(len(indices)):
        index = int(indices[place])
        examples = clients.load(index)
        if max_examples and count + len(examples.labels) > max_examples:
            examples = examples.take(draw.choice(len(examples.labels), max_examples - count, replace=False))
        pairs.append((index, examples))
        count += len(examples.labels)
        if max_examples and count == max_examples:
            break
    return pairs


def second_half(seed: int, client: int, rows: np.ndarray) -> np.ndarray:
    """Returns whether a client's examples are in half B, bool [rows]. Of examples 2n and 2n + 1, one at random is.

    Args:
      seed: Seed of the run.
      client: The client's index.
      rows: int [rows], indices of examples in the client's data. An example's half does not depend on other examples.
    """
    pairs = int(rows.max()) // 2 + 1 if len(rows) else 0
    swapped = keys.generator(seed, keys.Purpose.HALVES, client).random(pairs) < 0.5
    return swapped[rows // 2] ^ (rows % 2 == 1)


def joined(parts: Sequence[Examples]) -> Examples:
    """Joins parts in order; there must be at least one."""
    features, labels = zip(*parts, strict=True)
    return Examples(action_sets.joined(features), np.concatenate(labels))


def sizes(clients: ClientData, indices: Sequence[int]) -> np.ndarray:
    """Number of examples of each of these clients, int64 [indices].

    Loads all of these clients, with a progress bar in a terminal if that takes long.
    """
    counted = tqdm.tqdm(indices, "Counting examples", unit="client", delay=2, leave=False, disable=None)
    return np.array([len(clients.load(index).labels) for index in counted], np.int64)


def arrays(features: Features) -> list[np.ndarray]:
    """Returns the arrays of features: one array, or those of bags of words or sets of actions."""
    return [features] if isinstance(features, np.ndarray) else [one for part in features for one in arrays(part)]


def array_checksum(*features: Features) -> str:
    """Digest of the arrays' dtypes, shapes and contents."""
    digest = hashlib.sha256()
    for array in itertools.chain.from_iterable(map(arrays, features)):
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def file_checksum(path: str | os.PathLike) -> str:
    """Digest of a file's contents. Above 256 MiB, only the size and 128 MiB at either end are used."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        for start in sorted({0, max(0, size - _CHECKED_END_BYTES)}):
            file.seek(start)
            digest.update(file.read(_CHECKED_END_BYTES))
    digest.update(str(size).encode())
    return digest.hexdigest()[:16]
