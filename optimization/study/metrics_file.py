"""`metrics.csv`: one row a round, flushed at once, readable at any time."""

import contextlib
import csv
import io
import itertools
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from data.errors import Failure
from optimization.study import files, loggers, run_folder
from optimization.study.metrics import by_todays_names, formers

Recover = Callable[[Sequence[int]], Mapping[int, Mapping[str, float]]]


class MetricsFile(loggers.Logger):
    """Appends rows to a file that may have been damaged."""

    def __init__(
        self, path: pathlib.Path, columns: Sequence[str], last_round: int, recover: Recover = lambda rounds: {}
    ):
        """Opens the file for the rounds after `last_round`, dropping rows of later rounds.

        Args:
          path: The file.
          columns: Column names, `round_num` first.
          last_round: The round that the run continues from; 0 for a new one.
          recover: Returns what it knows of rounds up to `last_round` whose rows are not there or torn, by column.

        Raises:
          Failure: If a row is missing and not recovered, or the file cannot be written.
        """
        self._path = path
        self._columns = list(columns)
        rows = _read(path, self._columns, last_round)
        if missing := [number for number in range(1, last_round + 1) if number not in rows]:
            recovered = recover(missing)
            if lost := [number for number in missing if number not in recovered]:
                raise Failure(
                    f"{path} lacks the rows of the rounds {spans(lost)}, which are not among the TensorBoard events "
                    "beside it either. Put a copy of one of them back; or give --restart, which starts over and moves "
                    "the old files aside."
                )
            rows |= _texts(recovered, rows, self._columns)
        text = io.StringIO()
        self._writer(text).writeheader()
        self._writer(text).writerows(rows[number] for number in sorted(rows))
        files.replace(path, text.getvalue().encode())
        self._file = open(path, "a", newline="")  # noqa: SIM115

    def _writer(self, file) -> csv.DictWriter:
        return csv.DictWriter(file, self._columns, restval="", lineterminator="\n")

    def write(self, row: Mapping[str, Any]) -> None:
        """Appends one row; columns without a value stay empty.

        Raises:
          Failure: If it cannot be written.
        """
        with files.told(self._path):
            self._writer(self._file).writerow(row)
            self._file.flush()

    def flush(self) -> None:
        """Waits until all rows are on the disk.

        Raises:
          Failure: If they cannot be written.
        """
        with files.told(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file."""
        for end in (lambda: os.fsync(self._file.fileno()), self._file.close):
            with contextlib.suppress(OSError):  # Every row was flushed, or has failed already.
                end()


def log(folder: run_folder.RunFolder, columns: Sequence[str], first_round: int) -> MetricsFile:
    """Returns a run's file, which takes rows that it has lost from TensorBoard's events; see `loggers.MakeLogger`."""

    def recover(rounds: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
        from optimization.study import events  # TensorFlow's: seldom needed.

        names = formers(columns)
        known = {
            number: {names.get(name, name): value for name, value in row.items()}
            for number, row in events.read(folder.path, rounds).items()
        }
        if len(known) == len(rounds):
            folder.record_recovered(rounds)
            print(
                f"{folder.metrics_path} lacked the rows of the rounds {spans(rounds)}: they are recovered from "
                "TensorBoard's events, in single precision.",
                file=sys.stderr,
            )
        return known

    return MetricsFile(folder.metrics_path, ["round_num", *columns, "seconds"], first_round, recover)


def _read(path: pathlib.Path, columns: Sequence[str], last_round: int) -> dict[int, dict[str, str]]:
    """Returns the whole rows up to a round. A crash can leave the last one half written, a damaged disk any."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return {}
    header, *lines = [line.removesuffix("\r").split(",") for line in text.split("\n")[:-1]] or [[]]
    header = by_todays_names(header, columns)
    # An earlier program may have measured less: what it did not, stays empty.
    if header[:1] != list(columns[:1]) or header != [column for column in columns if column in header]:
        return {}
    numbers = {str(number): number for number in range(1, last_round + 1)}
    rows = {}
    for fields in lines:
        if len(fields) == len(header) and fields[0] in numbers and all(map(_is_number, fields)):
            rows[numbers[fields[0]]] = dict.fromkeys(columns, "") | dict(zip(header, fields, strict=True))
    return rows


def _is_number(text: str) -> bool:
    try:
        return not text or float(text) is not None
    except ValueError:
        return False


def _texts(
    found: Mapping[int, Mapping[str, float]], rows: Mapping[int, Mapping[str, str]], columns: Sequence[str]
) -> dict[int, dict[str, str]]:
    """Returns recovered rows as text: whole numbers in columns that hold nothing else."""
    texts: dict[int, dict[str, str]] = {number: {columns[0]: str(number)} for number in found}
    for column in columns[1:]:
        values = {number: row[column] for number, row in found.items() if column in row}
        is_whole = all(float(value).is_integer() for value in values.values())
        is_whole &= all(row[column].lstrip("-").isdecimal() for row in rows.values() if row[column])
        for number, value in values.items():
            texts[number][column] = str(int(value)) if is_whole else str(value)
    return texts


def spans(numbers: Iterable[int]) -> str:
    """Returns ascending whole numbers in short, as in `1-3, 7`."""
    parts = []
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        first, *others = [number for _, number in group]
        parts.append(f"{first}-{others[-1]}" if others else str(first))
    return ", ".join(parts)
