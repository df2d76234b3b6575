"""Reader of tables from CSV and Parquet files, and from DataFrames in memory, and parser of numbers written as text.

CSV files are read as text by Python's `csv`, since `pandas.read_csv` fills short rows with missing values, and does not
report the line of a row. `data.columns` determines the type of each column.
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
# pandas' own list without "None", which is as likely a category.
MISSING = ("", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null")
MISSING_AMONG_NUMBERS = ("?", "None")  # In addition; UCI's files have the former.
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
PERCENT = "%"
MOSTLY = 0.9
_SAMPLED = 200  # Records that choose a separator, if the header allows several.
_NAMED = 3  # Number of lines in a message.
_TRUTH = {"True": "1", "TRUE": "1", "true": "1", "False": "0", "FALSE": "0", "false": "0"}
_EXACT = 2**53  # Floats round larger whole numbers.
_END = "\0"  # A line that no file has.
_ROUNDING = 4 * 2.0**-23  # Rounding error of a probability in single precision.
# The exponent is bounded: pandas.to_numeric crashes on 05179e2916004192, which is an identifier.
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
      path: Source, for messages.
      frame: Rows, numbered from 0, without unnamed columns, which are row numbers written by pandas or R.
      nameless: Unnamed columns.
      form: `encoding` and `separator` of a CSV file.
      missing: Number of cells with each text of `--missing_values`.
      percents: Columns whose percents were read as hundredths.
      lines: int [rows], the line where each row begins; None without lines.
      first_row: Number of the first row in messages, without lines.
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
        """Content and place of cells, for messages; only the first ones of many."""
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
        """Numbers of a column in which every cell must be a number, such as rewards.

        Args:
          column: A column of this table, with its index.
          flag: The flag that names it, for messages.
          what: Description of a number, such as `reward`.
          dtype: Type in which they must be finite.
          within: The least and the largest number that is allowed.
          is_whole: Whether they must be whole.

        Returns:
          [rows] of the dtype, finite.

        Raises:
          UsageError: If a cell is missing, not finite, not a number or outside the range; it names the place.
        """
        if pd.api.types.is_numeric_dtype(column.dtype):
            exact, written = column.to_numpy(np.float64, na_value=np.nan), column
            is_word = np.zeros(len(column), bool)
        else:
            written = as_text(column)
            exact = numbers(written.map(lambda value: _TRUTH.get(value, value)))
            is_word = np.asarray(np.isnan(exact) & written.notna())
        if within[1] == 1:  # Probabilities in single precision may exceed the bounds by rounding errors.
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
    """Stripped text, NaN where missing; whole numbers that gaps have made float are written as whole numbers.

    Args:
      column: Cells of any type.
      missing: Texts that are missing values. Names of clients and actions are missing only if they are empty.
    """
    filled = column.dropna()
    if pd.api.types.is_float_dtype(column.dtype) and (filled % 1 == 0).all():
        filled = filled.map("{:.0f}".format)
    filled = filled.astype(object).map(str).map(str.strip)
    return filled[~filled.isin(missing)].astype(object).reindex(column.index)


def numbers(written: pd.Series) -> np.ndarray:
    """Numbers of texts, float64 [rows]; NaN for anything else. 1e400 is infinite, and 1e99999 is not a number."""
    codes, distinct = pd.factorize(written)
    values = [float(text) if _NUMBER.fullmatch(text) else np.nan for text in distinct]
    return np.array([*values, np.nan])[codes]


def plain_numbers(written: pd.Series, decimal: str) -> tuple[pd.Series, bool] | None:
    """Plain numbers, and whether they were percents; None unless at least 90% of the texts are such numbers.

    Percents become hundredths: all of them have the sign, or are 0.

    Args:
      written: Texts, none of them missing.
      decimal: The decimal sign, `.` or `,`. If it is `,`, points and spaces group thousands.

    Raises:
      UsageError: If a point among decimal commas cannot group thousands.
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
      path: A .csv file (a header line; commas, semicolons or tabs; also gzipped) or a .parquet file; or the name of a
        frame that is lent, see `frames`.
      wanted: The flags: how numbers and missing values are written, which columns are names, and limits.

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
            # Otherwise a missing value would turn whole numbers, such as identifiers, into rounded ones.
            frame = pd.read_parquet(path, engine="pyarrow", dtype_backend="numpy_nullable")
        else:
            frame, lines, form = _read_csv(path, flag, wanted.max_table_rows)
            if form["separator"] == "semicolon" and wanted.decimal == POINT:
                _check_points(path, frame.drop(columns=wanted.read_as_text, errors="ignore"))
        table = of_frame(frame, path, wanted)
    except UsageError:
        raise
    except Exception as error:  # pandas, pyarrow and gzip raise many types for a damaged file.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{path} is not readable ({reason}): {flag} must be an undamaged table.") from error
    return dataclasses.replace(table, form=form, lines=lines, checksum=_checksum(path, wanted))


def _checksum(path: str, wanted: schema.Schema) -> str:
    is_lent = path.startswith(frames.PREFIX)
    digest = path.removeprefix(frames.PREFIX) if is_lent else clients.file_checksum(path)
    how = sorted(schema.listed(wanted.missing_values)) + [wanted.decimal] * (wanted.decimal != POINT)
    return f"{digest}-{hashlib.sha256(repr(how).encode()).hexdigest()[:8]}" if how else digest


def of_frame(frame: pd.DataFrame, path: str, wanted: schema.Schema = _NO_ROLES) -> Table:
    """Makes a table of a frame.

    Args:
      frame: Any frame; it is not changed.
      path: Name in messages.
      wanted: The flags. A missing value such as `-9` is one as a number, too, except in columns of names.

    Raises:
      UsageError: If it is empty or too long, if two columns share a name, or if numbers have other decimal signs.
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
    """Frame without the cells that hold one of several texts, or the number that it spells; and their counts."""
    counts = dict.fromkeys(missing, 0)
    for name in frame.columns if missing else ():
        codes, distinct = pd.factorize(frame[name].map(str) if frames.holds_lists(frame[name]) else frame[name])
        written = as_text(pd.Series(distinct), ())
        values = numbers(written)
        for word, number in zip(missing, numbers(pd.Series(missing, dtype=object)), strict=True):
            # As floats, whole numbers beyond 2^53 would equal their neighbours.
            is_number = (values == number) & (abs(number) < _EXACT) & (name not in text_columns)
            holds = np.append((written == word) | is_number, False)[codes]  # The last one is for a missing cell.
            counts[word] += int(holds.sum())
            frame = frame.assign(**{name: frame[name].mask(holds)}) if holds.any() else frame
    return frame, counts


def _with_plain_numbers(frame: pd.DataFrame, wanted: schema.Schema) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Table whose numbers are plain ones, see `plain_numbers`, and its columns of percents."""
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
    """Rows of a CSV file as text, the line where each begins, and the file's format."""
    text, encoding = _decoded(path, flag)
    if '"' not in text:  # Each line is a row, so no memory needs to be taken to count them.
        memory.check_rows(text.count("\n") - 1, max_rows, path)
    separator = _separator(path, text)
    # In a file that was cut off within quotes, the last line would be a part of the last value.
    content = itertools.chain(io.StringIO(text, newline=""), [_END])
    records = csv.reader(content, delimiter=separator, skipinitialspace=True)
    rows, lines, begins = [], [], 1
    try:
        for record in records:
            if record == [_END]:
                break
            values = [sys.intern(value.strip()) for value in record]  # Equal cells are one object in memory.
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
    """Text of a file and the name of its encoding."""
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
    """Separator in the header; if there are several, the one that fits the rows."""
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
            "thousands: give --decimal=, (a comma) if they group thousands, save the file with commas or tabs between "
            f"its columns if they are decimals, or add --category_columns={column} or --ignore_columns={column}."
        )
