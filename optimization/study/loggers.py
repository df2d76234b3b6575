"""Callbacks of a run: their interface, `metrics.csv`, the progress bar, and the user's callbacks."""

import contextlib
import csv
import dataclasses
import functools
import hashlib
import io
import itertools
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tqdm

from data import files, objects
from data.errors import Failure, UsageError
from data.objects import UserObject
from optimization.study import run_folder

_SECONDS = "seconds"
_METHODS = ("on_start", "on_round", "on_end")


@dataclasses.dataclass(frozen=True)
class ObservedRun:
    """The information on a run that its callbacks receive.

    Attributes:
      opened: The run's opened folder, for the callbacks of this project.
      folder: Path of this folder.
      flags: All settings of the run by name, as in `config.json`.
      label: Name of the run in the progress bar.
      columns: Names of the metrics in the rows of `on_round`, in the order of `metrics.csv`.
      total_rounds: Planned number of rounds.
      first_round: Round after which the run continues; 0 for a new run.
      status: `running`; in `on_end`, `finished`, `failed`, or the signal that stopped the run, such as `SIGINT`.
      results: In `on_end`, a function that reads the run's results, as `bandits.load` does.
    """

    opened: run_folder.RunFolder
    folder: pathlib.Path
    flags: Mapping[str, Any]
    label: str
    columns: Sequence[str]
    total_rounds: int
    first_round: int
    status: str = "running"
    results: Callable[[], Any] | None = None


class Callback:
    """Observes the rounds that run after the latest start or continuation. By default, the methods do nothing."""

    def on_start(self, run: ObservedRun) -> None:
        """Called before the first of these rounds."""

    def on_round(self, row: Mapping[str, Any]) -> None:
        """Receives the metrics of a round by name, with `round_num` and `seconds`. Missing values are None."""

    def on_save(self) -> None:
        """Writes all rows to disk. This is called before the checkpoint of the newest row's round is written."""

    def on_end(self, run: ObservedRun) -> None:
        """Called at the end, even if the run was stopped or has failed."""


class OwnCallbacks(Callback):
    """The user's callbacks of one run: objects with any of the methods `on_start`, `on_round` and `on_end`.

    The loop over the rounds calls all methods of the objects except `on_end`, which needs the run's results. `finish`
    calls that method after they are written.

    Attributes:
      run: The run between its start and its end; otherwise None.
    """

    def __init__(self, given: Sequence[UserObject]):
        """Stores the objects.

        Raises:
          UsageError: If an object cannot be imported, or has none of these methods.
        """
        self._given = given
        self.run: ObservedRun | None = None
        for each in given:
            if set(_METHODS).isdisjoint(dir(each.value)):
                raise UsageError(f"--callbacks: {each.label} needs a method on_start, on_round or on_end.")

    def on_start(self, run: ObservedRun) -> None:
        self.run = run
        self._call("on_start", run)

    def on_round(self, row: Mapping[str, Any]) -> None:
        self._call("on_round", row)

    def finish(self, status: str, results: Callable[[pathlib.Path], Any]) -> None:
        """Calls the objects' `on_end` if a run has started since the last call; otherwise does nothing.

        Args:
          status: How the run ended; see `ObservedRun`.
          results: Function that reads the results in a folder.

        Raises:
          Failure: If an object fails; the message also has the failure that ended the run.
        """
        run, self.run = self.run, None
        if run:
            read = functools.partial(results, run.folder)
            self._call("on_end", dataclasses.replace(run, status=status, results=read))

    def _call(self, method: str, argument: Any) -> None:
        for each in self._given:
            try:
                getattr(each.value, method, lambda _: None)(argument)
            except (Exception, SystemExit) as error:  # The user's code can raise anything.
                before = f"{error.__context__} " if isinstance(error.__context__, Failure) else ""
                text = f"{before}The callback {each.label} failed in {method}: {objects.first_line(error)}."
                raise Failure(text) from error


class ProgressBar(Callback):
    """A bar on stderr, which is shown in terminals and notebooks, but not in files and pipes."""

    def __init__(self, headline: str):
        """Stores the name of the metric that the bar shows."""
        self._headline = headline

    def on_start(self, run: ObservedRun) -> None:
        hidden = False if type(sys.stderr).__module__.startswith("ipykernel") else None
        hidden = hidden if sys.stderr else True  # Programs without a terminal may have no stderr.
        rounds = {"total": run.total_rounds, "initial": run.first_round, "unit": "round"}
        self._bar = tqdm.tqdm(desc=run.label, disable=hidden, dynamic_ncols=True, **rounds)

    def on_round(self, row: Mapping[str, Any]) -> None:
        self._bar.set_postfix({self._headline: f"{row[self._headline]:.4f}"}, refresh=False)
        self._bar.update()

    def on_end(self, run: ObservedRun) -> None:
        self._bar.close()


class CsvFile(Callback):
    """A CSV file with one row per round, which is flushed immediately and can be read at any time.

    Checkpoints hold a checksum of the rows without the column `seconds`, which differs between identical runs. All
    methods except `on_end` raise `Failure` if the file cannot be written.
    """

    def on_start(self, run: ObservedRun) -> None:
        """Opens the file for the rounds after `run.first_round`, and drops existing rows of these rounds.

        Raises:
          Failure: If a row is missing or was changed.
        """
        self._path = path = run.opened.metrics_path
        self._columns = ["round_num", *run.columns, _SECONDS]
        self._hash = hashlib.sha256()
        self._checksums = {0: self._hash.hexdigest()}
        rows = _read(path, self._columns, run.first_round)
        if missing := [number for number in range(1, run.first_round + 1) if number not in rows]:
            raise Failure(f"{path} lacks the rows of rounds {spans(missing)}: {run_folder.RESTORE}")
        text = ",".join(self._columns) + "\n" + "".join(self._text(rows[number]) for number in sorted(rows))
        run.opened.checksums[path.name] = lambda round_num: self._checksums.get(round_num, "")
        expected = run.opened.expected_checksums.get(path.name)
        if expected and expected != self._checksums[run.first_round]:
            raise Failure(
                f"{path} was changed: its rows up to round {run.first_round} do not match the checksum in the "
                f"checkpoint; {run_folder.RESTORE}"
            )
        files.replace(path, text.encode())
        self._file = open(path, "a", newline="")  # noqa: SIM115

    def _text(self, row: Mapping[str, Any]) -> str:
        """Formats the row of the next round as a line, and adds it to the checksum."""
        line, round_num = io.StringIO(), int(row["round_num"])
        csv.DictWriter(line, self._columns, restval="", lineterminator="\n").writerow(row)
        text = line.getvalue()
        self._hash.update(text.rpartition(",")[0].encode() + b"\n")
        self._checksums = {at: of for at, of in self._checksums.items() if at == round_num - 1}
        self._checksums[round_num] = self._hash.hexdigest()
        return text

    def on_round(self, row: Mapping[str, Any]) -> None:
        """Appends one row. Columns without a value are left empty."""
        with files.write_errors(self._path):
            self._file.write(self._text(row))
            self._file.flush()

    def on_save(self) -> None:
        """Waits until all rows are on disk."""
        with files.write_errors(self._path):
            os.fsync(self._file.fileno())

    def on_end(self, run: ObservedRun) -> None:
        """Closes the file."""
        for end in (lambda: os.fsync(self._file.fileno()), self._file.close):
            with contextlib.suppress(OSError):  # Every row was flushed, or has already raised an error.
                end()


def _read(path: pathlib.Path, columns: Sequence[str], last_round: int) -> dict[int, dict[str, str]]:
    """Complete rows up to a round, by round. A crash can damage the last row, and a faulty disk any row."""
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
    """Abbreviates ascending whole numbers: 1, 2, 3 and 7 become `1-3, 7`."""
    parts = []
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        first, *others = [number for _, number in group]
        parts.append(f"{first}-{others[-1]}" if others else str(first))
    return ", ".join(parts)
