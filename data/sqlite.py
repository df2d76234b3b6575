"""Clients in the SQLite form of TensorFlow Federated's data sets, read one client at a time."""

import contextlib
import itertools
import os
import pathlib
import sqlite3
import zipfile
from collections.abc import Callable

import numpy as np

from data import clients, files
from data.errors import Failure, UsageError

# Serialized tf.train.Example protos of one client -> its examples.
Parser = Callable[[list[bytes]], clients.Examples]
_MAX_ROW = 2**63 - 1
_SIZE = ("page_count", "page_size")
_QUERY = (
    "SELECT serialized_example_proto FROM examples "
    "WHERE split_name = ? AND client_id = ? AND rowid BETWEEN ? AND ? ORDER BY rowid"
)


class SqliteClients(clients.ClientData):
    """One split of a database with the tables `examples` and `client_metadata`.

    Clients are in the order of their names. Opening reads names only. If the table has no index, like TFF's,
    the rows of each client are located once, and kept in a file beside the database.
    """

    def __init__(self, path: str | os.PathLike, split: str, parse: Parser):
        """Opens the database.

        Args:
          path: The file.
          split: Value of `split_name`.
          parse: Turns a client's serialized examples into arrays.

        Raises:
          UsageError: If the file is no such database, or has no such split.
        """
        self._path = pathlib.Path(path)
        self._split = split
        self._parse = parse
        try:
            # Clients are read ahead in another thread; SQLite itself lets one thread at a time in.
            name = f"{self._path.absolute().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(name, uri=True, check_same_thread=False)
            pages, page_bytes = (self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _SIZE)
            if pages * page_bytes > self._path.stat().st_size:  # SQLite would notice only in some round.
                raise sqlite3.DatabaseError("it is cut off")
            rows = self._connection.execute(
                "SELECT DISTINCT client_id FROM client_metadata WHERE split_name = ? ORDER BY client_id", (split,)
            )
            self.client_ids = [row[0] for row in rows]
            plan = self._connection.execute(f"EXPLAIN QUERY PLAN {_QUERY}", (split, "", 0, 0)).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        if not self.client_ids:
            raise self._unreadable(f"no clients in split {split!r}")
        self.checksum = clients.file_checksum(str(self._path))
        has_index = any("client_id=?" in row[-1] for row in plan)
        self._rows = None if has_index else self._find_rows()

    def load(self, index: int) -> clients.Examples:
        first, last = (0, _MAX_ROW) if self._rows is None else self._rows[index].tolist()
        try:
            rows = self._connection.execute(_QUERY, (self._split, self.client_ids[index], first, last)).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        try:
            return self._parse([row[0] for row in rows])
        except Exception as error:  # TensorFlow has its own errors, and it is not imported here.
            name = f"{type(error).__name__} of client {self.client_ids[index]}"
            raise self._unreadable(name) from error

    def _find_rows(self) -> np.ndarray:
        """First and last row of each client, int64 [clients, 2]; the last precedes the first if it has no rows."""
        known_rows = self._path.with_name(f"{self._path.name}.{self._split}.rows.npz")
        try:
            with np.load(known_rows, allow_pickle=False) as known:
                if str(known["checksum"]) == self.checksum and len(known["rows"]) == len(self.client_ids):
                    return known["rows"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            pass  # It is missing or damaged.
        first, last = np.full(len(self.client_ids), _MAX_ROW), np.zeros(len(self.client_ids), np.int64)
        index = {client: position for position, client in enumerate(self.client_ids)}
        query = "SELECT client_id, rowid FROM examples WHERE split_name = ? ORDER BY rowid"
        try:
            for client, group in itertools.groupby(self._connection.execute(query, (self._split,)), lambda row: row[0]):
                if (position := index.get(client)) is None:
                    continue
                numbers = [row[1] for row in group]
                first[position] = min(first[position], numbers[0])
                last[position] = numbers[-1]
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        rows = np.stack([first, last], axis=1)
        with contextlib.suppress(Failure):  # An unwritable folder costs only the time of another search.
            files.save_arrays(known_rows, {"rows": rows, "checksum": np.array(self.checksum)})
        return rows

    def _unreadable(self, error: sqlite3.Error | str) -> UsageError:
        return UsageError(
            f"{self._path} is not readable as TFF's SQLite data ({error}): delete it, or name another with --data_dir."
        )
