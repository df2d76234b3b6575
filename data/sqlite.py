"""Clients in the SQLite form of TensorFlow Federated's data sets, read one client at a time."""

import os
import pathlib
import sqlite3
from collections.abc import Callable, Sequence

from data import clients
from data.errors import UsageError

# Serialized tf.train.Example protos of one client -> its examples.
Parser = Callable[[list[bytes]], clients.Examples]


class SqliteClients(clients.ClientData):
    """One split of a database with the tables `examples` and `client_metadata`.

    Clients are in the order of their names. Opening reads names only.
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
            self._connection = sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)
            rows = self._connection.execute(
                "SELECT DISTINCT client_id FROM client_metadata WHERE split_name = ? ORDER BY client_id",
                (split,),
            )
            self._client_ids = [row[0] for row in rows]
            self._connection.execute("SELECT serialized_example_proto FROM examples LIMIT 1").fetchone()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        if not self._client_ids:
            raise UsageError(f"{path} has no clients in split {split!r}.")
        self._checksum = clients.file_checksum(str(self._path))

    @property
    def client_ids(self) -> Sequence[str]:
        return self._client_ids

    @property
    def checksum(self) -> str:
        return self._checksum

    def load(self, index: int) -> clients.Examples:
        try:
            rows = self._connection.execute(
                "SELECT serialized_example_proto FROM examples WHERE split_name = ? AND client_id = ? ORDER BY rowid",
                (self._split, self._client_ids[index]),
            ).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        return self._parse([row[0] for row in rows])

    def _unreadable(self, error: sqlite3.Error) -> UsageError:
        return UsageError(
            f"{self._path} is not readable as TFF's SQLite data ({error}): delete it, or name another with --data_dir."
        )
