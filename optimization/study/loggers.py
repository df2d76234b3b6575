"""Loggers for the metrics of a run: the interface `Logger`, and `metrics.csv`."""

import abc
import contextlib
import csv
import hashlib
import io
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from data import files
from data.errors import Failure
from optimization.study import run_folder

_SECONDS = "seconds"


class Logger(abc.ABC):
    """Receives one row per round, for all rounds after the one from which the run continues."""

    @abc.abstractmethod
    def write(self, row: Mapping[str, Any]) -> None:
        """Receives the metrics of a round by name, with `round_num` and `seconds`. Missing values are None."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Writes all rows to disk. This is called before the checkpoint of the last row's round."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the logger."""


# (opened folder of the run, names of its metrics, round from which it continues) -> logger.
MakeLogger = Callable[[run_folder.RunFolder, Sequence[str], int], Logger]


class CsvFile(Logger):
    """A CSV file with one row per round, which is flushed immediately and can be read at any time.

    Checkpoints hold a checksum of the rows without the column `seconds`, which differs between identical runs.
    """

    def __init__(
        self, path: pathlib.Path, columns: Sequence[str], last_round: int, folder: run_folder.RunFolder | None = None
    ):
        """Opens the file for the rounds after `last_round`, dropping rows of later rounds.

        Args:
          path: The file.
          columns: Column names, `round_num` first.
          last_round: The round from which the run continues; 0 for a new run.
          folder: Folder of the run, whose checkpoints hold the checksum; None for a file without a checksum.

        Raises:
          Failure: If a row is missing or was changed, or the file cannot be written.
        """
        self._path = path
        self._columns = list(columns)
        self._hash = hashlib.sha256()
        self._checksums = {0: self._hash.hexdigest()}
        rows = _read(path, self._columns, last_round)
        if missing := [number for number in range(1, last_round + 1) if number not in rows]:
            raise Failure(f"{path} lacks the rows of rounds {spans(missing)}: {run_folder.RESTORE}")
        text = ",".join(self._columns) + "\n" + "".join(self._text(rows[number]) for number in sorted(rows))
        if folder:
            folder.checksums[path.name] = lambda round_num: self._checksums.get(round_num, "")
            expected = folder.expected_checksums.get(path.name)
            if expected and expected != self._checksums[last_round]:
                raise Failure(
                    f"{path} was changed, as its rows up to round {last_round} do not have their checksum in the "
                    f"checkpoint: {run_folder.RESTORE}"
                )
        files.replace(path, text.encode())
        self._file = open(path, "a", newline="")  # noqa: SIM115

    def _text(self, row: Mapping[str, Any]) -> str:
        """Formats the row of the next round as a line, and adds it to the checksum."""
        line, round_num = io.StringIO(), int(row["round_num"])
        csv.DictWriter(line, self._columns, restval="", lineterminator="\n").writerow(row)
        text = line.getvalue()
        self._hash.update((text.rpartition(",")[0] if self._columns[-1] == _SECONDS else text).encode() + b"\n")
        self._checksums = {at: of for at, of in self._checksums.items() if at == round_num - 1}
        self._checksums[round_num] = self._hash.hexdigest()
        return text

    def write(self, row: Mapping[str, Any]) -> None:
        """Appends one row. Columns without a value are left empty.

        Raises:
          Failure: If the row cannot be written.
        """
        with files.write_errors(self._path):
            self._file.write(self._text(row))
            self._file.flush()

    def flush(self) -> None:
        """Waits until all rows are on disk.

        Raises:
          Failure: If the rows cannot be written.
        """
        with files.write_errors(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file."""
        for end in (lambda: os.fsync(self._file.fileno()), self._file.close):
            with contextlib.suppress(OSError):  # Every row was flushed, or has already raised an error.
                end()


def metrics_file(folder: run_folder.RunFolder, columns: Sequence[str], first_round: int) -> CsvFile:
    """Logger for the `metrics.csv` of a run; see `MakeLogger`."""
    return CsvFile(folder.metrics_path, ["round_num", *columns, _SECONDS], first_round, folder)


def _read(path: pathlib.Path, columns: Sequence[str], last_round: int) -> dict[int, dict[str, str]]:
    """Complete rows up to a round. A crash can leave the last row incomplete, and a damaged disk any row."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return {}
    header, *lines = [line.removesuffix("\r").split(",") for line in text.split("\n")[:-1]] or [[]]
    if header != list(columns):
        return {}
    numbers = {str(number): number for number in range(1, last_round + 1)}
    return {
        numbers[fields[0]]: dict(zip(columns, fields, strict=True))
        for fields in lines
        if len(fields) == len(columns) and fields[0] in numbers and all(map(_is_number, fields))
    }


def _is_number(text: str) -> bool:
    try:
        return not text or float(text) is not None
    except ValueError:
        return False


def spans(numbers: Iterable[int]) -> str:
    """Abbreviates ascending whole numbers, such as `1-3, 7`."""
    parts = []
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        first, *others = [number for _, number in group]
        parts.append(f"{first}-{others[-1]}" if others else str(first))
    return ", ".join(parts)
