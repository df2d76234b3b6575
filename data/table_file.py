"""Reader of tables from CSV and Parquet files, and from DataFrames in memory, to pandas frames.

`data.columns` determines the type of each column.
"""

import codecs
import csv
import dataclasses
import gzip
import hashlib
import io
import itertools
import pathlib
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from data import clients, frames, schema
from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers")
# pandas' own list without "None", which is as likely a category.
MISSING = ("", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null")
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
_SAMPLED = 200  # Records that choose a separator, if the header allows several.
_NAMED = 3  # Number of lines in a message.
_TRUTH = {"True": "1", "TRUE": "1", "true": "1", "False": "0", "FALSE": "0", "false": "0"}
SIGNS = "[$€£¥₹₩₽₺₪฿₫₱₦%]"
_MOSTLY_AMOUNTS = 0.9
_GROUPED_WITH_POINT = r"[+-]?\d{1,3}(?:,\d{3})+\.\d+"
_CENTS = r"[+-]?[\d.]*,(?!\d{3}(?:\D|$))\d+"  # A comma that does not group thousands.
_MAY_GROUP = r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+"
_DECIMAL = r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?"
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as it was read.

    Attributes:
      path: Its source in messages.
      frame: Its rows, numbered from 0, without unnamed columns: row numbers that pandas and R write.
      nameless: The unnamed columns.
      form: `encoding` and `separator` of a CSV file.
      missing: Number of cells with each text of `--missing_values`.
      signs: The currency sign or % that was removed from cells, by column.
      lines: int [rows], the line where each row begins; None without lines.
      first_row: The first row's number in messages, without lines.
      checksum: Digest of the source and of its missing values.
    """

    path: str
    frame: "pd.DataFrame"
    nameless: tuple[str, ...] = ()
    form: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missing: Mapping[str, int] = dataclasses.field(default_factory=dict)
    signs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lines: np.ndarray | None = None
    checksum: str = ""
    first_row: int = 1

    def place(self, row: int) -> str:
        """Place of a row in its file, for messages."""
        return f"row {row + self.first_row}" if self.lines is None else f"line {self.lines[row]}"

    def cells(self, column: "pd.Series", most: int = 3) -> str:
        """Content and place of cells, for messages; only the first ones of many."""
        shown = ", ".join(f"{_SHORT.repr(value)} ({self.place(row)})" for row, value in column.iloc[:most].items())
        return f"{shown} and {len(column) - most} more" if len(column) > most else shown

    def numbers(
        self,
        column: "pd.Series",
        flag: str,
        what: str,
        dtype: type = np.float64,
        within: tuple[float, float] = (-np.inf, np.inf),
    ) -> np.ndarray:
        """Numbers of a column in which every cell must be a number, such as rewards.

        Args:
          column: A column of this table, with its index.
          flag: The flag that names it, for messages.
          what: Description of a number, such as `reward`.
          dtype: Type in which they must be finite.
          within: The least and the largest number that is allowed.

        Returns:
          [rows] of the dtype, finite.

        Raises:
          UsageError: If a cell is missing, not finite, not a number or outside the range; it names the place.
        """
        import pandas as pd

        values = column
        if not pd.api.types.is_numeric_dtype(column.dtype):
            written = as_text(column)
            values = pd.to_numeric(written.map(lambda value: _TRUTH.get(value, value)), errors="coerce")
            if (is_word := values.isna() & written.notna()).any():
                self._refuse(
                    column, flag, is_word, repr(written[is_word].iloc[0]), f"is not a number, as a {what} must be"
                )
        exact = values.to_numpy(np.float64, na_value=np.nan)
        with np.errstate(over="ignore"):
            numbers = exact.astype(dtype)
        is_missing = np.isnan(exact)
        self._refuse(column, flag, is_missing, "a missing value", f"is not allowed: every row must have a {what}")
        is_wrong = ~np.isfinite(numbers) | (exact < within[0]) | (exact > within[1])
        span = f"from {within[0]:g} to {within[1]:g}" if np.isfinite(within).all() else "finite"
        self._refuse(column, flag, is_wrong, f"{exact[is_wrong.argmax()]:g}", f"is not a {what}, which must be {span}")
        return numbers

    def _refuse(self, column: "pd.Series", flag: str, is_wrong: Any, value: str, why: str) -> None:
        rows = column.index[is_wrong]
        if len(rows):
            more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
            raise UsageError(
                f"{flag}: {value} in column {column.name!r} ({self.place(rows[0])} of {self.path}) {why}{more}."
            )


def as_text(column: "pd.Series") -> "pd.Series":
    """Stripped text, NaN where missing; whole numbers that gaps have made float are written as whole numbers."""
    import pandas as pd

    filled = column.dropna()
    if pd.api.types.is_float_dtype(column.dtype) and (filled % 1 == 0).all():
        filled = filled.map("{:.0f}".format)
    filled = filled.astype(object).map(str).map(str.strip)
    return filled[~filled.isin(MISSING)].astype(object).reindex(column.index)


def read(
    path: str, text_columns: Sequence[str] = (), missing_values: str | None = None, flag: str = "--data_file"
) -> Table:
    """Reads a table.

    Args:
      path: A .csv file (a header line; commas, semicolons or tabs; also gzipped) or a .parquet file; or the name of a
        frame that is lent, see `frames`.
      text_columns: Columns of names, where -9.0 is not -9.
      missing_values: Texts, separated by commas, that are missing values besides `MISSING`.
      flag: The flag that names the file, for messages.

    Raises:
      UsageError: If the file is missing, empty, or not readable.
    """
    import pandas as pd

    name, missing = path.lower(), schema.listed(missing_values)
    if (lent := frames.find(path)) is not None:
        table = of_frame(lent, "the DataFrame", missing, text_columns, flag)
        return dataclasses.replace(table, checksum=_checksum(path, missing), first_row=0)
    if path.startswith(frames.PREFIX):
        raise UsageError(f"{flag}={path} was a DataFrame in Python: pass it there as table.")
    if name.endswith(_SPREADSHEETS):
        raise UsageError(
            f"{flag}={path} is a spreadsheet: save its sheet as CSV (Save as, CSV UTF-8), and name that file."
        )
    if not name.endswith(SUFFIXES):
        raise UsageError(f"{flag}={path} must be one of {', '.join(SUFFIXES)}.")
    if not pathlib.Path(path).is_file():
        raise UsageError(
            f"There is no file {path}: {flag} must name one, by its path, or below the working directory, "
            "--data_dir (FEDBANDITS_DATA_DIR) or data/examples. docs/data.md says where to get published tables."
        )
    form: dict[str, str] = {}
    lines: np.ndarray | None = None
    try:
        if name.endswith(".parquet"):
            frame = pd.read_parquet(path, engine="pyarrow")
        else:
            frame, lines, form = _read_csv(path, flag)
            if form["separator"] == "semicolon":
                _check_points(path, frame.drop(columns=list(text_columns), errors="ignore"))
        table = of_frame(frame, path, missing, text_columns, flag)
    except UsageError:
        raise
    except ImportError as error:
        raise UsageError(
            f"{flag}={path} needs pyarrow, which cannot be imported: bring the environment up to date, or save the "
            "table as .csv."
        ) from error
    except Exception as error:  # pandas, pyarrow and gzip raise many types for a damaged file.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{path} is not readable ({reason}): {flag} must be an undamaged table.") from error
    return dataclasses.replace(table, form=form, lines=lines, checksum=_checksum(path, missing))


def _checksum(path: str, missing: Sequence[str]) -> str:
    is_lent = path.startswith(frames.PREFIX)
    digest = path.removeprefix(frames.PREFIX) if is_lent else clients.file_checksum(path)
    return f"{digest}-{hashlib.sha256(repr(sorted(missing)).encode()).hexdigest()[:8]}" if missing else digest


def of_frame(
    frame: "pd.DataFrame",
    path: str,
    missing: Sequence[str] = (),
    text_columns: Sequence[str] = (),
    flag: str = "--data_file",
) -> Table:
    """Makes a table of a frame.

    Args:
      frame: Any frame; it is not changed.
      path: Its name in messages.
      missing: Texts that are missing values, besides `MISSING`; such as `-9`, which is so as a number too.
      text_columns: Columns of names, where -9.0 is not -9.
      flag: The flag that names the file, for messages.

    Raises:
      UsageError: If it is empty, or two columns share a name.
    """
    # The client column may have been saved as the index.
    frame = frames.with_index(frame, path)
    if frame.empty:
        raise UsageError(f"{path} is empty: {flag} must have named columns and at least one row.")
    frame.columns = [str(name).strip() for name in frame.columns]
    _check_different(path, list(frame.columns), flag)
    nameless = tuple(name for name in frame.columns if re.fullmatch(r"Unnamed: \d+|", name))
    frame = frame.loc[:, [name not in nameless for name in frame.columns]]
    frame, counts = _masked(frame, missing, text_columns)
    frame, signs = _without_signs(frame, text_columns)
    return Table(path, frame, nameless, missing=counts, signs=signs)


def _check_different(path: str, names: Sequence[str], flag: str) -> None:
    for name in names:
        if name and names.count(name) > 1:
            raise UsageError(f"{flag}={path} has two columns {name!r}: rename one.")


def _masked(
    frame: "pd.DataFrame", missing: Sequence[str], text_columns: Sequence[str]
) -> "tuple[pd.DataFrame, dict[str, int]]":
    """Frame without the cells that hold one of several texts, and the number of cells with each."""
    counts = dict.fromkeys(missing, 0)
    for name in frame.columns if missing else ():
        for word in missing:
            holds = _holds(frame[name], word, is_text=name in text_columns)
            counts[word] += int(holds.sum())
            frame = frame.assign(**{name: frame[name].mask(holds)}) if holds.any() else frame
    return frame, counts


def _holds(column: "pd.Series", word: str, *, is_text: bool) -> np.ndarray:
    """Whether each cell holds a text, or the number that it spells, bool [rows]."""
    import pandas as pd

    number = pd.to_numeric(word, errors="coerce")
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return np.asarray((column == number).fillna(False), bool)
    written = column.astype(object).map(str).str.strip()
    holds = written == word
    if not is_text and not pd.isna(number):
        holds |= pd.to_numeric(written, errors="coerce") == number
    return np.asarray(holds, bool)


def _without_signs(frame: "pd.DataFrame", text_columns: Sequence[str]) -> "tuple[pd.DataFrame, dict[str, str]]":
    """Table whose amounts have no currency or percent sign, and the sign of each such column.

    A column is of amounts if at least 90% of its cells are numbers, and some have a currency sign or % before or after
    them, all the same one. Of `$1,234.50` the commas go, too, as a point follows them.
    """
    import pandas as pd

    signs, bare_columns = {}, {}
    for name in frame.columns.difference(list(text_columns), sort=False):
        if frame[name].dtype != object:
            continue
        cells = frame[name].dropna().map(str).str.strip()
        if not cells.str.contains(SIGNS).any():
            continue
        marks = set(cells.str.findall(SIGNS).explode().dropna())
        bare = cells.str.replace(rf"\s*{SIGNS}\s*", "", n=1, regex=True)
        if bare.str.fullmatch(_GROUPED_WITH_POINT).any() and not bare.str.fullmatch(_CENTS).any():
            bare = bare.str.replace(",", "", regex=False)
        is_number = pd.to_numeric(bare, errors="coerce").notna()
        if len(marks) == 1 and is_number.mean() >= _MOSTLY_AMOUNTS:
            (signs[name],) = marks
            bare_columns[name] = bare.where(is_number, cells).reindex(frame.index)
    return frame.assign(**bare_columns), signs


def _read_csv(path: str, flag: str) -> "tuple[pd.DataFrame, np.ndarray, dict[str, str]]":
    """Rows of a CSV file as text, the line where each begins, and the file's format."""
    import pandas as pd

    text, encoding = _decoded(path, flag)
    separator = _separator(path, text)
    header, rows, lines = _records(path, text, separator)
    _check_different(path, header, flag)
    names = [name or f"Unnamed: {position}" for position, name in enumerate(header)]
    form = {"encoding": encoding, "separator": SEPARATORS[separator]}
    return pd.DataFrame(rows, columns=names, dtype=object), np.array(lines, np.int64), form


def _decoded(path: str, flag: str) -> tuple[str, str]:
    """Text of a file and the name of its encoding."""
    content = pathlib.Path(path).read_bytes()
    content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    if content.startswith(b"PK\x03\x04"):
        raise UsageError(f"{path} is a spreadsheet or an archive, despite its name: save the table as CSV.")
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if is_utf_16 else ("utf-8-sig", "cp1252"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            raise UsageError(f"{path} holds a NUL byte, which no text does: {flag} must be a text file.")
        return text, encoding.removesuffix("-sig")
    raise UsageError(f"{path} is neither UTF-8 nor Latin-1 or Windows-1252: {flag} must be saved as UTF-8.")


def _separator(path: str, text: str) -> str:
    """Separator in the header; if there are several, the one that fits the rows."""
    header = text.lstrip().partition("\n")[0]
    candidates = [separator for separator in SEPARATORS if separator in header]
    splits = {}
    for separator in candidates if len(candidates) > 1 else ():
        records = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
        sample = [record for record in itertools.islice(records, _SAMPLED) if any(record)]
        if len(sample[0]) > 1:
            splits[separator] = sample
    fitting = [separator for separator, sample in splits.items() if len(set(map(len, sample))) == 1]
    if len(fitting) > 1:
        ways = " or ".join(f"{SEPARATORS[separator]} ({', '.join(splits[separator][0])})" for separator in fitting)
        raise UsageError(
            f"The columns of {path} may be separated by {ways}: save it with commas, and quotes around what holds one."
        )
    return [*fitting, *splits, *candidates, ","][0]


def _records(path: str, text: str, separator: str) -> tuple[list[str], list[list[str | None]], list[int]]:
    """Names of the columns, the rows (stripped values, None for a missing one), and the line of each row."""
    records = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    header: list[str] = []
    rows, lines, wrong, begins = [], [], [], 1
    cells: dict[str, str | None] = dict.fromkeys(MISSING)  # Equal cells are one object in memory.
    try:
        for record in records:
            values = [value.strip() for value in record]
            is_blank = len(values) < 2 and not any(values)
            if not header:
                header = [] if is_blank else values
            elif not is_blank:
                rows.append([cells.setdefault(value, value) for value in values])
                lines.append(begins)
                if len(values) != len(header):
                    wrong.append(f"line {begins} has {len(values)}")
            begins = records.line_num + 1
    except csv.Error as error:
        raise UsageError(
            f"The value that begins in line {begins} of {path} is not readable ({error}): is a quote never closed?"
        ) from error
    if wrong:
        more = f", and so on in {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        raise UsageError(
            f"The header of {path} has {len(header)} names, separated by {SEPARATORS[separator]}, but rows have more "
            f"or fewer values: {', '.join(wrong[:_NAMED])}{more}. Quotes must be around a value that holds a "
            f"{SEPARATORS[separator]}, and each must be closed."
        )
    return header, rows, lines


def _check_points(path: str, written: "pd.DataFrame") -> None:
    """Refuses numbers such as 1.500 in a file with semicolons, if no other number clarifies the point.

    In such files a point often groups thousands.
    """
    doubtful = {}
    for name in written.columns:
        may_group = written[name].str.fullmatch(_MAY_GROUP, na=False)
        if (written[name].str.fullmatch(_DECIMAL, na=False) & ~may_group).any():
            return
        if may_group.any():
            doubtful[name] = written[name][may_group].iloc[0]
    for name, value in doubtful.items():
        column = schema.as_flag([name])
        raise UsageError(
            f"Column {name!r} of {path} holds numbers with points, such as {value!r}, which may be decimals or group "
            "thousands: save numbers without groups, and decimals in a file with commas or tabs between its columns, "
            f"or add --category_columns={column} or --ignore_columns={column}."
        )
