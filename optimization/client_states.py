"""States of clients on disk, such as their own models or control variates."""

import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from data import files
from data.errors import Failure


class ClientStates:
    """Saves clients' states, and keeps those that are needed to resume from any checkpoint."""

    def __init__(self, folder: pathlib.Path, checkpoint_rounds: Callable[[], Sequence[int]]):
        """Opens the folder, or creates one that only its owner can read.

        Args:
          folder: Folder for the states of all clients.
          checkpoint_rounds: Returns the rounds of all checkpoints.

        Raises:
          Failure: If the folder cannot be created.
        """
        with files.write_errors(folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        self._folder, self._checkpoint_rounds = folder, checkpoint_rounds
        self._rounds: dict[int, set[int]] = {}
        for path in folder.iterdir():
            if match := re.fullmatch(r"client_(\d+)_round_(\d+)\.npz", path.name):
                self._rounds.setdefault(int(match[1]), set()).add(int(match[2]))

    def _path(self, client: int, round_num: int) -> pathlib.Path:
        return self._folder / f"client_{client:08d}_round_{round_num:08d}.npz"

    def load(self, client: int, round_num: int, like: Any) -> Any:
        """State of a client after a round in which it took part.

        Args:
          client: Index of the client.
          round_num: The round; 0 if the client has not taken part yet.
          like: The state before a client first takes part, which defines the structure of all states.

        Raises:
          Failure: If the file cannot be read.
        """
        if not round_num:
            return like
        path = self._path(client, round_num)
        try:
            with np.load(path, allow_pickle=False) as archive:
                return tf.nest.pack_sequence_as(like, [archive[name] for name in sorted(archive.files)])
        except Exception as error:  # NumPy and zipfile raise many types for a damaged archive.
            raise Failure(f"{path} is not readable ({error}). Restore a copy of it, or start the run over.") from error

    def save(self, client: int, round_num: int, state: Any) -> None:
        """Writes a client's state after a round, and deletes its states that no checkpoint needs.

        Raises:
          Failure: If the state cannot be written.
        """
        leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(state)]
        arrays = {f"leaf_{index:04d}": leaf for index, leaf in enumerate(leaves)}
        files.save_arrays(self._path(client, round_num), arrays, mode=0o600)
        rounds = self._rounds.setdefault(client, set())
        rounds.add(round_num)
        past = [[saved for saved in rounds if saved <= checkpoint] for checkpoint in self._checkpoint_rounds()]
        needed = {round_num, *(max(before) for before in past if before)}
        for unneeded in rounds - needed:
            self._path(client, unneeded).unlink(missing_ok=True)
        rounds &= needed
