"""Tables from CSV and Parquet files, as pandas frames."""

import csv
import gzip
import itertools
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".csv.gz", ".parquet")
# pandas' own list without "None", which is as likely a category.
MISSING = ("", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null")


def read(path: str, text_columns: Sequence[str] = ()) -> "tuple[pd.DataFrame, list[str]]":
    """Reads a table.

    Args:
      path: A .csv (UTF-8, commas, a header line; also gzipped) or .parquet file.
      text_columns: Columns of names: in a CSV, 007 is no number there.

    Returns:
      The table, its rows numbered from 0, and the columns without a name, which it goes without: row numbers that
      pandas and R write.

    Raises:
      UsageError: If the file is missing, empty, or not readable.
    """
    import pandas as pd

    file = pathlib.Path(path)
    if not file.name.lower().endswith(SUFFIXES):
        raise UsageError(f"--data_file={path} must be one of {', '.join(SUFFIXES)}.")
    if not file.is_file():
        raise UsageError(f"There is no file {path}: --data_file must name one.")
    try:
        if _is_parquet(path):
            frame = pd.read_parquet(file, engine="pyarrow")
            # The client column may have been saved as the index.
            frame = frame.reset_index(drop=all(name is None for name in frame.index.names))
        else:
            form = {
                "encoding": "utf-8-sig",
                "compression": "gzip" if _is_gzip(path) else None,
                "keep_default_na": False,
                "skipinitialspace": True,
            }
            frame = pd.read_csv(
                file, dtype={name: str for name in text_columns}, na_values=list(MISSING), low_memory=False, **form
            )
            # pandas calls the second of two columns x.1.
            named = pd.read_csv(file, header=None, nrows=1, dtype=str, **form).iloc[0].str.strip()
            _check_different(path, named[named != ""])
    except UsageError:
        raise
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame()
    except ImportError as error:
        raise UsageError(
            f"--data_file={path} needs pyarrow, which cannot be imported: bring the environment up to date, or save "
            "the table as .csv."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not readable ({error}): --data_file must be saved as UTF-8.") from error
    except Exception as error:  # What pandas, pyarrow and gzip raise over a damaged file is almost anything.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{path} is not readable ({reason}): --data_file must be an undamaged table.") from error
    if frame.empty:
        raise UsageError(f"{path} is empty: --data_file must have named columns and at least one row.")
    if not isinstance(frame.index, pd.RangeIndex):
        raise UsageError(f"The rows of --data_file={path} have more values than its header has names.")
    frame.columns = [str(name).strip() for name in frame.columns]
    _check_different(path, pd.Series(frame.columns))
    nameless = [name for name in frame.columns if re.fullmatch(r"Unnamed: \d+|", name)]
    return frame.drop(columns=nameless), nameless


def _check_different(path: str, names: "pd.Series") -> None:
    """Raises UsageError if a table has two columns of one name."""
    if names.duplicated().any():
        raise UsageError(f"--data_file={path} has two columns {names[names.duplicated()].iloc[0]!r}: rename one.")


def place(path: str, row: int) -> str:
    """Returns where a row stands in the file, for messages; the line may be another number than the row.

    Args:
      path: The file.
      row: Number of the row in the table that `read` returned.
    """
    if _is_parquet(path):
        return f"row {row + 1}"
    opener: Any = gzip.open if _is_gzip(path) else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, skipinitialspace=True)
        lines = (reader.line_num for record in reader if len(record) > 1 or "".join(record).strip())
        return f"line {next(itertools.islice(lines, row + 1, None))}"


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


def _is_gzip(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"
