"""Reads tables from CSV files, Parquet files and data frames in memory, and parses numbers that are written as text.

CSV files are read as text with Python's `csv`, since `pandas.read_csv` fills short rows with missing values and does
not report the line number of a row. `data.columns` determines the type of each column.
"""

import codecs
import contextlib
import csv
import dataclasses
import hashlib
import io
import itertools
import pathlib
import re
import reprlib
import sys
from collections.abc import Collection, Mapping
from typing import TypeAlias

import numpy as np
import pandas as pd

from data import clients, frames, memory, schema
from data.errors import UsageError, first
from data.schema import COMMA, POINT

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
# Most of the missing values of pandas, without "None", which may just as well be a category.
MISSING = ("", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null")
MISSING_AMONG_NUMBERS = ("?", "None")  # In addition to `MISSING`; "?" is common in UCI's files.
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
PERCENT = "%"
MOSTLY = 0.9  # If at least this share of the cells are numbers, or dates, the column has this type.
_SAMPLED = 200  # Number of rows from which the separator is determined.
_NAMED = 3  # Maximum number of wrong lines that a message names.
_TRUTH = {"true": "1", "false": "0"}
_EXACT = 2**53  # Larger whole numbers are rounded as floats.
_HINTS = {
    COMMA: "; if commas are decimal points, give --decimal=, (a comma)",
    PERCENT: "; if a column has percent signs, every cell must have one",
}
Bounds: TypeAlias = tuple[float, float]
_FINITE: Bounds = (-sys.float_info.max, sys.float_info.max)
_ROUNDING = 4 * 2.0**-23  # Rounding error of a probability in single precision.
# The exponent is bounded because identifiers such as 05179e2916004192 are not numbers.
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]{1,4})?|inf(?:inity)?)", re.IGNORECASE)
_WITH_COMMA = r"[+-]?(?:[1-9]\d{0,2}(?:[.\s'’]\d{3})+|\d*)(?:,\d+)?(?:[eE][+-]?\d{1,4})?"
_DECIMAL = r"[+-]?\d*\.\d+(?:[eE][+-]?\d{1,4})?"
_MAY_GROUP = r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+"
_NO_ROLES = schema.Schema()
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as it was read.

    Attributes:
      path: Source of the table, for messages.
      frame: Rows, numbered from 0, without the unnamed columns.
      nameless: Unnamed columns, which are mostly row numbers that pandas or R wrote.
      form: `encoding` and `separator` of a CSV file.
      missing_values: Number of cells with each text in `--missing_values`.
      percents: Columns of percentages, which were divided by 100.
      lines: int [rows], the line on which each row begins; None if the source has no lines.
      first_row: Number of the first row in messages, if the source has no lines.
      checksum: Digest of the source, and of the flags for missing values and decimal signs.
    """

    path: str
    frame: pd.DataFrame
    nameless: tuple[str, ...] = ()
    form: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missing_values: Mapping[str, int] = dataclasses.field(default_factory=dict)
    percents: tuple[str, ...] = ()
    lines: np.ndarray | None = None
    checksum: str = ""
    first_row: int = 1

    def place(self, row: int) -> str:
        """Place of a row in its file, for messages."""
        return f"row {row + self.first_row}" if self.lines is None else f"line {self.lines[row]}"

    def cells(self, column: pd.Series, most: int = 3) -> str:
        """Content and place of cells, for messages; only the first `most` cells are shown."""
        shown = ", ".join(f"{_SHORT.repr(value)} ({self.place(row)})" for row, value in column.iloc[:most].items())
        return f"{shown} and {len(column) - most} more" if len(column) > most else shown

    def numbers(
        self, column: pd.Series, flag: str, what: str, within: Bounds = _FINITE, *, is_whole: bool = False
    ) -> np.ndarray:
        """Returns the numbers in a column in which every cell must be a number; `true` is 1, and `false` is 0.

        Args:
          column: A column of this table, with its index.
          flag: The flag that names the column, for messages.
          what: Description of a number, such as `reward`.
          within: The smallest and the largest number allowed.
          is_whole: Whether the numbers must be whole.

        Returns:
          Finite numbers, float64 [rows].

        Raises:
          UsageError: If a cell is missing, not finite, out of range, or not a (whole) number. The message names it.
        """
        is_numeric, (low, high) = pd.api.types.is_numeric_dtype(column.dtype), within
        written = as_text(column.iloc[:0] if is_numeric else column)
        values = numbers(written.map(lambda word: _TRUTH.get(str(word).lower(), word)))
        values = column.to_numpy(np.float64, na_value=np.nan) if is_numeric else values
        written = written.reindex(column.index)
        if high == 1:  # Rounding errors may push probabilities in single precision outside the bounds.
            bounded = np.clip(values, 0 if low == 0 else -np.inf, 1)
            values = np.where(np.abs(values - bounded) <= _ROUNDING, bounded, values)
        is_word = written.notna().to_numpy() & np.isnan(values)
        is_right = (values >= low) & (values <= high) & (np.array(not is_whole) | (values == np.rint(values)))
        if is_right.all():
            return values
        wrong = np.flatnonzero(is_word if is_word.any() else ~is_right)
        number, word = values[wrong[0]], written.iloc[wrong[0]]
        cell = _SHORT.repr(word) if is_word.any() else "a missing value" if np.isnan(number) else f"{number:.10g}"
        hint = next((hint for sign, hint in _HINTS.items() if is_word.any() and sign in word), "")
        span = "finite number" if within == _FINITE else f"number from {low:.10g} to {high:.10g}"
        more = f" (and {len(wrong) - 1} more)" * (len(wrong) > 1)
        place = f"in column {column.name!r} ({self.place(column.index[wrong[0]])} of {self.path})"
        raise UsageError(
            f"{flag}: {cell} {place}{more} is not a {what}: every row needs a {'whole ' * is_whole}{span}{hint}."
        )


def as_text(column: pd.Series, missing: Collection[str] = MISSING) -> pd.Series:
    """Converts cells to stripped text, NaN where missing.

    If all floats of a column are whole, they are written as integers: pandas converts integers to floats if a value is
    missing.

    Args:
      column: Cells of any type.
      missing: Texts that mean a missing value; for names of clients and actions, only the empty text does.

    Raises:
      UsageError: See `refuse_lists`.
    """
    refuse_lists(column)
    filled = column.dropna()
    if pd.api.types.is_float_dtype(column.dtype) and (filled % 1 == 0).all():
        filled = filled.map("{:.0f}".format)
    filled = filled.astype(object).map(str).map(str.strip)
    return filled[~filled.isin(missing)].astype(object).reindex(column.index)


def numbers(written: pd.Series) -> np.ndarray:
    """Parses numbers, float64 [rows]; NaN for other texts. 1e400 is infinite, and 1e99999 is not a number."""
    codes, distinct = pd.factorize(written)
    values = [float(text) if _NUMBER.fullmatch(text) else np.nan for text in distinct]
    return np.array([*values, np.nan])[codes]


def holds_lists(column: pd.Series) -> bool:
    """Whether some cells hold several values: lists, arrays, sets or dictionaries."""
    return column.dtype == object and bool(column.map(pd.api.types.is_list_like).any())


def refuse_lists(column: pd.Series) -> None:
    """Refuses a column of lists, such as embeddings, because each list would become a category.

    Raises:
      UsageError: If a cell holds a list.
    """
    if holds_lists(column):
        name = column.name
        raise UsageError(
            f"Column {name!r} holds lists. Give each number a column, as with "
            f"pandas.DataFrame(frame[{name!r}].tolist()), or add --ignore_columns={schema.as_flag([str(name)])}."
        )


def plain_numbers(column: pd.Series, decimal: str) -> tuple[pd.Series, bool]:
    """Converts percentages and numbers with decimal commas to plain numbers, as text.

    Percentages are divided by 100. Cells that are not numbers keep their text.

    Args:
      column: Cells of any type.
      decimal: The decimal sign, `.` or `,`. If it is `,`, points, spaces and apostrophes group thousands.

    Returns:
      The plain numbers, and whether they were percentages. The column is returned unchanged if fewer than 90% of the
      cells that are not missing are numbers, if `decimal` is `.` and no cell has a percent sign, or if only some
      numbers other than 0 have percent signs.

    Raises:
      UsageError: If commas are the decimal sign, and a number has a point that cannot group thousands.
    """
    if column.dtype != object or holds_lists(column):
        return column, False
    written = as_text(column, {*MISSING, *MISSING_AMONG_NUMBERS}).dropna()
    is_percent = written.str.endswith(PERCENT).to_numpy(bool)
    are_percents, fits = bool(is_percent.any()), np.ones(len(written), bool)
    if not are_percents and decimal == POINT:
        return column, False
    bare = written.str.removesuffix(PERCENT).str.strip()
    if decimal == COMMA:
        fits = bare.str.fullmatch(_WITH_COMMA).to_numpy(bool)
        plain = bare.str.replace(r"[.\s'’]", "", regex=True).str.replace(COMMA, POINT, regex=False)
        bare = plain.where(fits, bare)
    values = numbers(bare)
    is_number = ~np.isnan(values)
    if is_number.sum() < MOSTLY * max(len(values), 1):
        return column, False
    if (is_number & ~fits).any():
        name, cell = schema.as_flag([column.name]), written[is_number & ~fits].iloc[0]
        raise UsageError(
            f"--decimal=,: column {column.name!r} has {cell!r}, in which the point cannot group thousands: correct "
            f"it, or add --category_columns={name} or --ignore_columns={name}."
        )
    if are_percents and (is_number & ~is_percent & (values != 0)).any():
        return column, False
    return (bare + "e-2" * are_percents).where(is_number, written).reindex(column.index), are_percents


def read(path: str, wanted: schema.Schema = _NO_ROLES) -> Table:
    """Reads a table.

    Args:
      path: A .csv or .tsv file (with a header line, and commas, semicolons or tabs as separators; it may be gzipped),
        a .parquet file, or the name of a data frame in memory (see `frames`).
      wanted: Settings from the flags: how numbers and missing values are written, which columns hold names, and limits.

    Raises:
      UsageError: If the file is missing, empty, too large, or not readable.
    """
    form: dict[str, str] = {}
    lines, flag = None, wanted.file_flag
    if path in frames.LENT:
        table = of_frame(frames.LENT[path], "the DataFrame", wanted)
        return dataclasses.replace(table, checksum=_checksum(path.removeprefix(frames.PREFIX), wanted), first_row=0)
    if path.startswith(frames.PREFIX):
        raise UsageError(f"{flag}={path} was a DataFrame in Python, which is not stored: pass it again as table.")
    if not path.lower().endswith(SUFFIXES):
        raise UsageError(f"{flag}={path} must end in one of {', '.join(SUFFIXES)}: save a spreadsheet as CSV (UTF-8).")
    if not pathlib.Path(path).is_file():
        places = (
            "by a path that is absolute, or relative to the working directory, --data_dir, FEDBANDITS_DATA_DIR or "
            "data/examples"
        )
        raise UsageError(f"There is no file {path}: {flag} must name one, {places} (see docs/data.md).")
    try:
        if path.lower().endswith(".parquet"):
            memory.check_parquet(path, wanted.max_table_rows)
            # With other dtypes, large whole numbers such as identifiers would be rounded if a value is missing.
            frame = pd.read_parquet(path, engine="pyarrow", dtype_backend="numpy_nullable")
        else:
            frame, lines, form = _read_csv(path, flag, wanted.max_table_rows)
            if form["separator"] == "semicolon" and wanted.decimal == POINT:
                _check_points(path, frame.drop(columns=wanted.read_as_text, errors="ignore"))
        table = of_frame(frame, path, wanted)
    except UsageError:
        raise
    except Exception as error:  # pandas, pyarrow and gzip raise many types of errors for a damaged file.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{path} is not readable ({reason}): {flag} must be an undamaged table.") from error
    return dataclasses.replace(table, form=form, lines=lines, checksum=_checksum(clients.file_checksum(path), wanted))


def _checksum(digest: str, wanted: schema.Schema) -> str:
    how = sorted(schema.listed(wanted.missing_values)) + [wanted.decimal] * (wanted.decimal != POINT)
    return f"{digest}-{hashlib.sha256(repr(how).encode()).hexdigest()[:8]}" if how else digest


def of_frame(frame: pd.DataFrame, path: str, wanted: schema.Schema = _NO_ROLES) -> Table:
    """Converts a data frame to a table.

    Args:
      frame: Any data frame; it is not changed.
      path: Name of the frame in messages.
      wanted: Settings from the flags. A missing value such as `-9` also matches equal numbers, such as -9.0, except in
        columns of names.

    Raises:
      UsageError: If the frame is empty or too long, if two columns share a name, or if numbers do not have the
        decimal sign of `wanted`.
    """
    # The client column may have been saved as the index.
    frame = frames.with_index(frame, path)
    if frame.empty:
        raise UsageError(f"{path} is empty: {wanted.file_flag} must have named columns and at least one row.")
    frame.columns = [str(name).strip() for name in frame.columns]
    memory.check_rows(len(frame), wanted.max_table_rows, path)
    nameless = tuple(name for name in frame.columns if re.fullmatch(r"Unnamed: \d+|", name))
    frame = frame.loc[:, [name not in nameless for name in frame.columns]]
    if len(twice := frame.columns[frame.columns.duplicated()]):
        raise UsageError(f"{wanted.file_flag}={path} has two columns named {twice[0]!r}: rename one of them.")
    words, percents, columns = schema.listed(wanted.missing_values), [], {}
    counts = dict.fromkeys(words, 0)
    for name in frame.columns:
        columns[name], is_text = _plain(frame[name]), name in wanted.read_as_text
        if words:
            word_of_key = dict(zip(_keys(pd.Series(words), is_text=is_text), words, strict=True))
            written = columns[name].map(str) if holds_lists(columns[name]) else as_text(columns[name], ())
            held = _keys(written, is_text=is_text).map(word_of_key)
            counts |= {word: counts[word] + count for word, count in held.value_counts().items()}
            columns[name] = columns[name].mask(held.notna())
        if not is_text:
            columns[name], is_percent = plain_numbers(columns[name], wanted.decimal)
            percents += [name] * is_percent
    return Table(path, pd.DataFrame(columns, copy=False), nameless, missing_values=counts, percents=tuple(percents))


def _plain(column: pd.Series) -> pd.Series:
    """Converts text, floats and most Arrow types to NumPy types. Nullable integers stay, since floats round them."""
    kind = column.dtype
    if isinstance(kind, pd.StringDtype) or kind.kind == "c":
        return column.astype(object)
    if pd.api.types.is_extension_array_dtype(kind) and pd.api.types.is_float_dtype(kind):
        values = column.to_numpy(getattr(kind, "numpy_dtype", np.float64), na_value=np.nan)
        return pd.Series(values, column.index, name=column.name)
    if isinstance(kind, pd.ArrowDtype) and not pd.api.types.is_integer_dtype(kind):
        import pyarrow as pa

        return pd.Series(pa.array(column).to_pandas().array, column.index, name=column.name)
    return column


def _keys(written: pd.Series, *, is_text: bool) -> pd.Series:
    """Converts texts to numbers, to compare them; texts remain if `is_text`, or if a float would round the number."""
    values = numbers(written)
    return written.astype(object).where(is_text | np.isnan(values) | (np.abs(values) >= _EXACT), values)


def _read_csv(path: str, flag: str, max_rows: int) -> tuple[pd.DataFrame, np.ndarray, dict[str, str]]:
    """Returns the rows of a CSV file as text, the line on which each row begins, and the format of the file."""
    text, encoding = _decoded(path, flag)
    separator = _separator(path, text)
    records = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    rows, lines, begins = [], [], 1
    try:
        for record in records:
            values = [sys.intern(value.strip()) for value in record]  # Equal cells share one object in memory.
            if len(values) > 1 or any(values):
                rows.append(values)
                lines.append(begins)
                memory.check_rows(len(rows) - 1, max_rows, path)
            begins = records.line_num + 1
    except csv.Error as error:
        reason = f"the row that begins on line {begins} is not readable ({error})"
        raise UsageError(f"{path}: {reason}: close all quotes, and write each quote within quotes as two.") from error
    header, *rows = rows or [[]]
    called = SEPARATORS[separator]
    if wrong := [(line, len(row)) for line, row in zip(lines[1:], rows, strict=True) if len(row) != len(header)]:
        shown = first([f"line {line} has {count}" for line, count in wrong], _NAMED)
        raise UsageError(
            f"The header of {path} has {len(header)} names, separated by {called}s. Rows with more or fewer values: "
            f"{shown}. Put quotes around values that contain a {called}, and close each quote. Remove comments, and "
            "lines before the header such as sep=;."
        )
    names = [name or f"Unnamed: {position}" for position, name in enumerate(header)]
    frame = pd.DataFrame(rows, columns=names, dtype=object)
    return frame.replace("", None), np.array(lines[1:], np.int64), {"encoding": encoding, "separator": called}


def _decoded(path: str, flag: str) -> tuple[str, str]:
    """Returns the text of a file and the name of its encoding."""
    content = memory.content(path)
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if is_utf_16 else ("utf-8-sig", "cp1252"):
        with contextlib.suppress(UnicodeDecodeError):
            text = content.decode(encoding)
            if "\0" in text:
                raise UsageError(f"{path} holds a NUL byte: {flag} must be a text file, not a spreadsheet.")
            return text, encoding.removesuffix("-sig")
    raise UsageError(f"{path} is not readable as UTF-8, UTF-16 or Windows-1252 text: {flag} must be saved as UTF-8.")


def _separator(path: str, text: str) -> str:
    """The only separator that splits the first lines into equally many values; otherwise the one with most names."""
    split: dict[str, list[list[str]]] = {sign: [] for sign in SEPARATORS}
    for sign, rows in split.items():
        records = csv.reader(io.StringIO(text, newline=""), delimiter=sign, skipinitialspace=True)
        with contextlib.suppress(csv.Error):  # A quote that is never closed.
            rows += [row for row in itertools.islice(records, _SAMPLED) if any(row)]
    fitting = [sign for sign, rows in split.items() if len({len(row) for row in rows}) == 1 < len(rows[0])]
    if len(fitting) > 1:
        ways = " or ".join(f"{SEPARATORS[sign]} ({', '.join(split[sign][0])})" for sign in fitting)
        raise UsageError(f"{path} may be separated by {ways}: save it with commas, and quote values that have commas.")
    return fitting[0] if fitting else max(SEPARATORS, key=lambda sign: len((split[sign] or [[]])[0]))


def _check_points(path: str, written: pd.DataFrame) -> None:
    """Refuses numbers such as 1.500 in a file with semicolons, unless another number shows what the point means.

    In such files, points often group thousands.
    """
    decimals = [column[column.str.fullmatch(_DECIMAL, na=False)] for _, column in written.items()]
    decimals = [cells for cells in decimals if len(cells)]
    if decimals and all(cells.str.fullmatch(_MAY_GROUP).all() for cells in decimals):
        name, cell = decimals[0].name, decimals[0].iloc[0]
        flag = schema.as_flag([name])
        raise UsageError(
            f"Column {name!r} of {path} holds numbers such as {cell!r}, whose point may group thousands: give "
            "--decimal=, (a comma) if it does, save the file with commas between columns if it does not, or add "
            f"--category_columns={flag} or --ignore_columns={flag}."
        )
