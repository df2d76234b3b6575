"""Reads tables from CSV files, Parquet files and data frames in memory, and parses numbers that are written as text.

CSV files are read as text with Python's `csv`, since `pandas.read_csv` fills short rows with missing values and does
not report the line number of a row. `data.columns` determines the type of each column.
"""

import codecs
import csv
import dataclasses
import hashlib
import io
import itertools
import pathlib
import re
import reprlib
import sys
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from data import clients, frames, memory, schema
from data.errors import UsageError
from data.schema import COMMA, POINT

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
# The list of pandas without "None", which may just as well be a category.
MISSING = ("", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null")
MISSING_AMONG_NUMBERS = ("?", "None")  # In addition to `MISSING`; "?" is common in UCI's files.
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
PERCENT = "%"
MOSTLY = 0.9
_SAMPLED = 200  # Number of records from which the separator is determined, if the header allows several.
_NAMED = 3  # Maximum number of lines in a message.
_TRUTH = {"True": "1", "TRUE": "1", "true": "1", "False": "0", "FALSE": "0", "false": "0"}
_EXACT = 2**53  # Larger whole numbers are rounded as floats.
_END = "\0"  # A line that occurs in no file.
_ROUNDING = 4 * 2.0**-23  # Rounding error of a probability in single precision.
# The exponent is bounded because pandas.to_numeric crashes on identifiers such as 05179e2916004192.
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]{1,4})?|inf(?:inity)?)", re.IGNORECASE)
_WITH_COMMA = r"[+-]?(?:\d{1,3}(?:[.\s'’]\d{3})+|\d*)(?:,\d+)?(?:[eE][+-]?\d{1,4})?"
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
      frame: Rows, numbered from 0, without unnamed columns, which are row numbers written by pandas or R.
      nameless: Unnamed columns.
      form: `encoding` and `separator` of a CSV file.
      missing: Number of cells with each text in `--missing_values`.
      percents: Columns of percentages, which were divided by 100.
      lines: int [rows], the line on which each row begins; None if the source has no lines.
      first_row: Number of the first row in messages, if the source has no lines.
      checksum: Digest of the source and of its missing values.
    """

    path: str
    frame: pd.DataFrame
    nameless: tuple[str, ...] = ()
    form: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missing: Mapping[str, int] = dataclasses.field(default_factory=dict)
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
        self,
        column: pd.Series,
        flag: str,
        what: str,
        dtype: type = np.float64,
        within: tuple[float, float] = (-np.inf, np.inf),
        *,
        is_whole: bool = False,
    ) -> np.ndarray:
        """Returns the numbers in a column in which every cell must be a number, such as rewards.

        Args:
          column: A column of this table, with its index.
          flag: The flag that names the column, for messages.
          what: Description of a number, such as `reward`.
          dtype: Type of the result, in which the numbers must be finite.
          within: The smallest and the largest number allowed.
          is_whole: Whether the numbers must be whole.

        Returns:
          Finite numbers, [rows] of the dtype.

        Raises:
          UsageError: If a cell is missing, not finite, not a number or outside the range. The message names the place.
        """
        if pd.api.types.is_numeric_dtype(column.dtype):
            exact, written = column.to_numpy(np.float64, na_value=np.nan), column
            is_word = np.zeros(len(column), bool)
        else:
            written = as_text(column)
            exact = numbers(written.map(lambda value: _TRUTH.get(value, value)))
            is_word = np.asarray(np.isnan(exact) & written.notna())
        if within[1] == 1:  # Rounding errors may push probabilities in single precision outside the bounds.
            bounded = np.clip(exact, 0 if within[0] == 0 else -np.inf, 1)
            exact = np.where(np.abs(exact - bounded) <= _ROUNDING, bounded, exact)
        with np.errstate(over="ignore"):
            values = exact.astype(dtype)
        low, high = within
        span = f"from {low:g} to {high:g}" if np.isfinite(within).all() else "finite"
        for is_wrong, why in (
            (is_word, f"is not a number, as a {what} must be"),
            (np.isnan(exact), f"is not allowed: every row must have a {what}"),
            (~np.isfinite(values) | (exact < low) | (exact > high), f"is not a {what}, which must be {span}"),
            (is_whole & (np.nan_to_num(exact) % 1 != 0), f"is not a {what}, which must be a whole number"),
        ):
            if not is_wrong.any():
                continue
            rows, number = column.index[is_wrong], exact[is_wrong.argmax()]
            value = "a missing value" if np.isnan(number) else f"{number:.10g}"
            if is_word.any():
                words = written[is_word]
                value = _SHORT.repr(words.iloc[0])
                if words.str.contains(COMMA, regex=False).any():
                    why += "; if commas are decimal points, give --decimal=, (a comma)"
                elif words.str.contains(PERCENT, regex=False).any():
                    why += "; a column has percents in every cell, or in none"
            place = f"in column {column.name!r} ({self.place(rows[0])} of {self.path})"
            more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
            raise UsageError(f"{flag}: {value} {place} {why}{more}.")
        return values


def as_text(column: pd.Series, missing: Collection[str] = MISSING) -> pd.Series:
    """Converts cells to stripped text, NaN where missing.

    Whole numbers that became floats because of missing values are written as whole numbers.

    Args:
      column: Cells of any type.
      missing: Texts that mean a missing value. Names of clients and actions are missing only if they are empty.
    """
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


def plain_numbers(written: pd.Series, decimal: str) -> tuple[pd.Series, bool] | None:
    """Converts percentages and numbers with decimal commas to plain numbers, as text.

    Percentages are divided by 100. Every number in such a column must have a percent sign or be 0.

    Args:
      written: Texts, none of which are missing.
      decimal: The decimal sign, `.` or `,`. If it is `,`, points and spaces group thousands.

    Returns:
      The plain numbers, and whether they were percentages. None if fewer than 90% of the texts are numbers, or if they
      are plain already.

    Raises:
      UsageError: If commas are the decimal sign, and a number has a point that cannot group thousands.
    """
    is_percent = written.str.endswith(PERCENT)
    if not (is_percent.any() or decimal == COMMA):
        return None
    bare = written.str.removesuffix(PERCENT).str.strip()
    if decimal == COMMA:
        fits = bare.str.fullmatch(_WITH_COMMA)
        is_doubtful = bare.str.fullmatch(_DECIMAL) & ~bare.str.fullmatch(_MAY_GROUP)
        if is_doubtful.any() and (fits | is_doubtful).mean() >= MOSTLY:
            column, cell = schema.as_flag([written.name]), written[is_doubtful].iloc[0]
            raise UsageError(
                f"--decimal=,: column {written.name!r} has {cell!r}, whose point groups no thousands: correct it, "
                f"or add --category_columns={column} or --ignore_columns={column}."
            )
        with_point = bare.str.replace(r"[.\s'’]", "", regex=True).str.replace(COMMA, POINT, regex=False)
        bare = with_point.where(fits, bare)
    values = numbers(bare)
    is_number = ~np.isnan(values)
    if is_percent.any():
        if (is_number & ~is_percent & (values != 0)).any():
            return None
        bare = bare + "e-2"
    return (bare.where(is_number, written), bool(is_percent.any())) if is_number.mean() >= MOSTLY else None


def read(path: str, wanted: schema.Schema = _NO_ROLES) -> Table:
    """Reads a table.

    Args:
      path: A .csv file (with a header line, and commas, semicolons or tabs as separators; it may be gzipped), a
        .parquet file, or the name of a data frame in memory (see `frames`).
      wanted: Settings of the flags: how numbers and missing values are written, which columns are names, and limits.

    Raises:
      UsageError: If the file is missing, empty, too large, or not readable.
    """
    name, flag = path.lower(), wanted.file_flag
    if (lent := frames.LENT.get(path)) is not None:
        table = of_frame(lent, "the DataFrame", wanted)
        return dataclasses.replace(table, checksum=_checksum(path, wanted), first_row=0)
    if path.startswith(frames.PREFIX):
        raise UsageError(f"{flag}={path} was a DataFrame in Python: pass it there as table.")
    if not name.endswith(SUFFIXES):
        raise UsageError(f"{flag}={path} must be one of {', '.join(SUFFIXES)}: save a spreadsheet as CSV (UTF-8).")
    if not pathlib.Path(path).is_file():
        raise UsageError(
            f"There is no file {path}: {flag} must name one, by its path, or below the working directory, "
            "--data_dir (FEDBANDITS_DATA_DIR) or data/examples. docs/data.md says where to get published tables."
        )
    form: dict[str, str] = {}
    lines: np.ndarray | None = None
    try:
        if name.endswith(".parquet"):
            memory.check_parquet(path, wanted.max_table_rows)
            # With other dtypes, a missing value would round whole numbers such as identifiers.
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
    return dataclasses.replace(table, form=form, lines=lines, checksum=_checksum(path, wanted))


def _checksum(path: str, wanted: schema.Schema) -> str:
    is_lent = path.startswith(frames.PREFIX)
    digest = path.removeprefix(frames.PREFIX) if is_lent else clients.file_checksum(path)
    how = sorted(schema.listed(wanted.missing_values)) + [wanted.decimal] * (wanted.decimal != POINT)
    return f"{digest}-{hashlib.sha256(repr(how).encode()).hexdigest()[:8]}" if how else digest


def of_frame(frame: pd.DataFrame, path: str, wanted: schema.Schema = _NO_ROLES) -> Table:
    """Converts a data frame to a table.

    Args:
      frame: Any data frame; it is not changed.
      path: Name of the frame in messages.
      wanted: Settings of the flags. A missing value such as `-9` also matches the number, except in columns of names.

    Raises:
      UsageError: If the frame is empty or too long, if two columns share a name, or if numbers have other decimal
        signs.
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
        raise UsageError(f"{wanted.file_flag}={path} has two columns {twice[0]!r}: rename one.")
    frame, counts = _masked(frames.with_plain_types(frame), schema.listed(wanted.missing_values), wanted.read_as_text)
    frame, percents = _with_plain_numbers(frame, wanted)
    return Table(path, frame, nameless, missing=counts, percents=percents)


def _masked(
    frame: pd.DataFrame, missing: Sequence[str], text_columns: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Removes the cells that contain any of the missing values, as text or as a number, and counts them."""
    counts = dict.fromkeys(missing, 0)
    for name in frame.columns if missing else ():
        codes, distinct = pd.factorize(frame[name].map(str) if frames.holds_lists(frame[name]) else frame[name])
        written = as_text(pd.Series(distinct), ())
        values = numbers(written)
        for word, number in zip(missing, numbers(pd.Series(missing, dtype=object)), strict=True):
            # As floats, whole numbers beyond 2^53 would be equal to their neighbours.
            is_number = (values == number) & (abs(number) < _EXACT) & (name not in text_columns)
            holds = np.append((written == word) | is_number, False)[codes]  # The last one is for a missing cell.
            counts[word] += int(holds.sum())
            frame = frame.assign(**{name: frame[name].mask(holds)}) if holds.any() else frame
    return frame, counts


def _with_plain_numbers(frame: pd.DataFrame, wanted: schema.Schema) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Frame with plain numbers (see `plain_numbers`), and the names of the columns that held percentages."""
    percents, bare_columns = [], {}
    for name in frame.columns.difference(wanted.read_as_text, sort=False):
        if frame[name].dtype != object or frames.holds_lists(frame[name]):
            continue
        cells = as_text(frame[name], {*MISSING, *MISSING_AMONG_NUMBERS}).dropna()
        if len(cells) and (plain := plain_numbers(cells, wanted.decimal)):
            bare_columns[name] = plain[0].reindex(frame.index)
            percents += [name] * plain[1]
    return frame.assign(**bare_columns), tuple(percents)


def _read_csv(path: str, flag: str, max_rows: int) -> tuple[pd.DataFrame, np.ndarray, dict[str, str]]:
    """Returns the rows of a CSV file as text, the line on which each row begins, and the format of the file."""
    text, encoding = _decoded(path, flag)
    if '"' not in text:  # Each line is a row, so rows can be counted without parsing them.
        memory.check_rows(text.count("\n") - 1, max_rows, path)
    separator = _separator(path, text)
    # If the file was cut off within quotes, the last value would include this line.
    content = itertools.chain(io.StringIO(text, newline=""), [_END])
    records = csv.reader(content, delimiter=separator, skipinitialspace=True)
    rows, lines, begins = [], [], 1
    try:
        for record in records:
            if record == [_END]:
                break
            values = [sys.intern(value.strip()) for value in record]  # Equal cells share one object in memory.
            if len(values) > 1 or any(values):
                rows.append(values)
                lines.append(begins)
                memory.check_rows(len(rows) - 1, max_rows, path)
            begins = records.line_num + 1
        else:
            begins = lines[-1]
            raise csv.Error("the file ends within quotes")
    except csv.Error as error:
        reason = f"the value that begins in line {begins} is not readable ({error})"
        raise UsageError(f"{path}: {reason}: is a quote never closed?") from error
    header, rows = (rows[0], rows[1:]) if rows else ([], [])
    called = SEPARATORS[separator]
    wrong = [(line, len(row)) for line, row in zip(lines[1:], rows, strict=True) if len(row) != len(header)]
    if wrong:
        shown = ", ".join(f"line {line} has {count}" for line, count in wrong[:_NAMED])
        raise UsageError(
            f"The header of {path} has {len(header)} names, separated by {called}, but {len(wrong):,} rows have more "
            f"or fewer values: {shown}. Quotes must be around a value that holds a {called}, and each must be closed. "
            "Remove comments, and lines before the header such as sep=;."
        )
    names = [name or f"Unnamed: {position}" for position, name in enumerate(header)]
    frame = pd.DataFrame(rows, columns=names, dtype=object)
    return frame.replace("", None), np.array(lines[1:], np.int64), {"encoding": encoding, "separator": called}


def _decoded(path: str, flag: str) -> tuple[str, str]:
    """Returns the text of a file and the name of its encoding."""
    content = memory.content(path)
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if is_utf_16 else ("utf-8-sig", "cp1252"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            raise UsageError(f"{path} holds a NUL byte: {flag} must be a text file, not a spreadsheet.")
        return text, encoding.removesuffix("-sig")
    raise UsageError(f"{path} is neither UTF-8 nor Latin-1 or Windows-1252: {flag} must be saved as UTF-8.")


def _separator(path: str, text: str) -> str:
    """Separator in the header; if the header contains several, the one that matches the rows."""
    header = text.lstrip().partition("\n")[0]
    candidates = [separator for separator in SEPARATORS if separator in header]
    names, fitting = {}, []
    for separator in candidates if len(candidates) > 1 else ():
        records = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
        sample = [record for record in itertools.islice(records, _SAMPLED) if any(record)]
        if len(sample[0]) > 1:
            names[separator] = sample[0]
            fitting += [separator] * (len(set(map(len, sample))) == 1)
    if len(fitting) > 1:
        ways = " or ".join(f"{SEPARATORS[separator]} ({', '.join(names[separator])})" for separator in fitting)
        raise UsageError(
            f"The columns of {path} may be separated by {ways}: save it with commas, and quotes around what holds one."
        )
    return [*fitting, *names, *candidates, ","][0]


def _check_points(path: str, written: pd.DataFrame) -> None:
    """Refuses numbers such as 1.500 in a file with semicolons, unless another number shows what the point means.

    In such files, points often group thousands.
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
            "thousands: give --decimal=, (a comma) if they group thousands, save the file with commas or tabs between "
            f"its columns if they are decimals, or add --category_columns={column} or --ignore_columns={column}."
        )
