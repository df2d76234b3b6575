"""Tables from CSV and Parquet files, as pandas frames."""

import csv
import dataclasses
import hashlib
import pathlib
import re
import reprlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from data import clients, csv_file, frames
from data.errors import ColumnError, UsageError

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers")
# pandas' own list without "None", which is as likely a category.
MISSING = ("", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as it was read.

    Attributes:
      path: Where it comes from, as messages name it.
      frame: Its rows, numbered from 0. It goes without columns that have no name: row numbers that pandas and R write.
      nameless: Those columns.
      form: What was found out of how a CSV file is written: `encoding`, `separator` and `decimal`.
      missing: How many cells hold each of the texts that were said to be missing values.
      signs: The currency sign or % that was read past, by column.
      refused: Columns whose numbers may mean two things.
      lines: int [rows], the line in which each row begins; None where a table has none.
      first_row: Where it has none, the first row's number in messages.
      checksum: Digest of the source, and of what is missing in it.
    """

    path: str
    frame: "pd.DataFrame"
    nameless: tuple[str, ...] = ()
    form: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missing: Mapping[str, int] = dataclasses.field(default_factory=dict)
    signs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused: Mapping[str, ColumnError] = dataclasses.field(default_factory=dict)
    lines: np.ndarray | None = None
    checksum: str = ""
    first_row: int = 1

    def refused_of(self, names: Collection[str]) -> dict[str, ColumnError]:
        """Returns the errors of columns that are used."""
        return {name: error for name, error in self.refused.items() if name in names}

    def place(self, row: int) -> str:
        """Returns where a row of the frame stands, for messages."""
        return f"row {row + self.first_row}" if self.lines is None else f"line {self.lines[row]}"

    def cells(self, column: "pd.Series", most: int = 3) -> str:
        """Returns what some cells hold and where they stand, for messages; of many, the first ones."""
        told = ", ".join(f"{_SHORT.repr(value)} ({self.place(row)})" for row, value in column.iloc[:most].items())
        return f"{told} and {len(column) - most} more" if len(column) > most else told


def listed(flag: str | None) -> list[str]:
    """Returns the words of a flag, separated by commas; one that holds a comma is quoted."""
    return [name.strip() for name in next(csv.reader([flag], skipinitialspace=True))] if flag else []


def read(path: str, text_columns: Sequence[str] = (), missing_values: str | None = None) -> Table:
    """Reads a table.

    Args:
      path: A .csv file (a header line; commas, semicolons or tabs; also gzipped) or a .parquet file; or the name of a
        frame that is lent, see `frames`.
      text_columns: Columns of names: in a CSV, 007 is no number there.
      missing_values: Texts, separated by commas, that are missing values besides `MISSING`.

    Raises:
      UsageError: If the file is missing, empty, or not readable.
    """
    import pandas as pd

    name, missing = path.lower(), listed(missing_values)
    if (lent := frames.find(path)) is not None:
        table = of_frame(lent, "the DataFrame", missing, text_columns)
        return dataclasses.replace(table, checksum=_checksum(path, missing), first_row=0)
    if path.startswith(frames.PREFIX):
        raise UsageError(f"--data_file={path} was a DataFrame of Python's: only there it can be given, as table.")
    if name.endswith(_SPREADSHEETS):
        raise UsageError(
            f"--data_file={path} is a spreadsheet: save its sheet as CSV (Save as, CSV UTF-8), and name that file."
        )
    if not name.endswith(SUFFIXES):
        raise UsageError(f"--data_file={path} must be one of {', '.join(SUFFIXES)}.")
    if not pathlib.Path(path).is_file():
        raise UsageError(
            f"There is no file {path}: --data_file must name one, by its path, or below the working directory, "
            "--data_dir (FEDBANDITS_DATA_DIR) or data/examples."
        )
    try:
        if name.endswith(".parquet"):
            table = of_frame(pd.read_parquet(path, engine="pyarrow"), path, missing, text_columns)
            return dataclasses.replace(table, checksum=_checksum(path, missing))
        found = csv_file.read(path, text_columns, MISSING)
        table = of_frame(found.frame, path, missing, text_columns)
    except UsageError:
        raise
    except ImportError as error:
        raise UsageError(
            f"--data_file={path} needs pyarrow, which cannot be imported: bring the environment up to date, or save "
            "the table as .csv."
        ) from error
    except Exception as error:  # What pandas, pyarrow and gzip raise over a damaged file is almost anything.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{path} is not readable ({reason}): --data_file must be an undamaged table.") from error
    frame, form, refused = csv_file.with_decimal_points(table.frame, path, found.form, text_columns)
    frame, counts = _masked(frame, missing, text_columns)  # What was -9,0 is -9.0 now.
    return dataclasses.replace(
        table,
        frame=frame,
        form=form,
        refused=refused,
        missing={word: count + counts[word] for word, count in table.missing.items()},
        lines=found.lines,
        checksum=_checksum(path, missing),
    )


def _checksum(path: str, missing: Sequence[str]) -> str:
    is_lent = path.startswith(frames.PREFIX)
    digest = path.removeprefix(frames.PREFIX) if is_lent else clients.file_checksum(path)
    return f"{digest}-{hashlib.sha256(repr(sorted(missing)).encode()).hexdigest()[:8]}" if missing else digest


def of_frame(frame: "pd.DataFrame", path: str, missing: Sequence[str] = (), text_columns: Sequence[str] = ()) -> Table:
    """Returns a frame as a table.

    Args:
      frame: Any; rows may be named, columns of any type. It is not changed.
      path: What messages call it.
      missing: Texts that are missing values, besides `MISSING`; such as `-9`, which is so as a number too.
      text_columns: Columns of names, where -9.0 is not -9.

    Raises:
      UsageError: If it is empty, or two columns have one name.
    """
    # The client column may have been saved as the index.
    frame = frames.with_index(frame, path)
    if frame.empty:
        raise UsageError(f"{path} is empty: --data_file must have named columns and at least one row.")
    frame.columns = [str(name).strip() for name in frame.columns]
    csv_file.check_different(path, list(frame.columns))
    nameless = tuple(name for name in frame.columns if re.fullmatch(r"Unnamed: \d+|", name))
    frame = frame.loc[:, [name not in nameless for name in frame.columns]]
    frame, counts = _masked(frame, missing, text_columns)
    frame, signs = csv_file.without_signs(frame, text_columns)
    return Table(path, frame, nameless, missing=counts, signs=signs)


def _masked(
    frame: "pd.DataFrame", missing: Sequence[str], text_columns: Sequence[str]
) -> "tuple[pd.DataFrame, dict[str, int]]":
    """Returns a frame without cells that hold one of several texts, and how many held each."""
    counts = dict.fromkeys(missing, 0)
    for name in frame.columns if missing else ():
        for word in missing:
            holds = _holds(frame[name], word, is_text=name in text_columns)
            if holds.any():
                counts[word] += int(holds.sum())
                frame = frame.assign(**{name: frame[name].mask(holds)})
    return frame, counts


def _holds(column: "pd.Series", word: str, *, is_text: bool) -> np.ndarray:
    """Returns bool [rows], whether a cell holds a text, or the number that it is."""
    import pandas as pd

    number = pd.to_numeric(word, errors="coerce")
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return np.asarray((column == number).fillna(False), bool)
    written = column.astype(object).map(str).str.strip()
    holds = np.asarray(written == word, bool)
    if is_text or pd.isna(number):
        return holds
    return holds | np.asarray(pd.to_numeric(written, errors="coerce") == number, bool)
