"""CSV files as people save them: encoding, separator and decimal mark are found out, and what is broken is named.

A line's number is its own in the file, also where quoted values hold line breaks.
"""

import codecs
import csv
import gzip
import io
import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from data.errors import ColumnError, UsageError

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
_SAMPLED = 200  # Records by which a separator is judged, where the header allows for several.
_NAMED = 3  # Lines that a message names.
_MOSTLY = 0.9
# Without a cell such as 1,50 a comma may group thousands.
_WHOLE = r"[+-]?\d+(?:[eE][+-]?\d+)?"
_GROUPED = r"[+-]?\d{1,3}(?:,\d{3})+"
_DECIMAL = r"[+-]?(?:\d*|\d{1,3}(?:\.\d{3})+),\d+(?:[eE][+-]?\d+)?"
_POINTS = r"[+-]?\d{1,3}(?:\.\d{3})+"
_SIGN = re.compile(r"[$€£¥₹₩₽₺₪฿₫₱₦%]")
_GROUPED_WITH_POINT = r"[+-]?\d{1,3}(?:,\d{3})+\.\d+"
_CENTS = r"[+-]?[\d.]*,(?!\d{3}(?:\D|$))\d+"  # A comma that groups no thousands.
_AMOUNT = rf"[+-]?\d*\.?\d+|{_DECIMAL}|{_GROUPED}|{_GROUPED_WITH_POINT}|{_POINTS}"
_MAY_GROUP = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+")
_POINTED = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")


class Csv(NamedTuple):
    """A CSV file.

    Attributes:
      frame: Its rows, numbered from 0.
      lines: int [rows], the line in which each row begins.
      form: What was found out: `encoding` and `separator`.
    """

    frame: "pd.DataFrame"
    lines: np.ndarray
    form: dict[str, str]


class _Record(NamedTuple):
    line: int
    values: list[str]


def read(path: str, text_columns: Sequence[str], missing: Sequence[str]) -> Csv:
    """Reads a table with a header line; it may be gzipped.

    Args:
      path: The file.
      text_columns: Columns whose values stay the text that they are.
      missing: Texts of missing values.

    Raises:
      UsageError: If it cannot be told how the file is to be read, or a line is broken.
    """
    import pandas as pd

    text, encoding = _decoded(path, _content(path))
    separator = _separator(path, text)
    header, lines, padded = _checked(path, text, separator, text_columns)
    form = {"encoding": encoding, "separator": SEPARATORS[separator]}
    if not len(lines):
        return Csv(pd.DataFrame(columns=header), lines, form)
    frame = pd.read_csv(
        io.StringIO(text),
        sep=separator,
        header=0,
        names=[name or f"Unnamed: {position}" for position, name in enumerate(header)],
        dtype={name: str for name in (*text_columns, *padded)},
        na_values=list(missing),
        keep_default_na=False,
        skipinitialspace=True,
        low_memory=False,
    )
    return Csv(frame, lines, form)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        content = file.read()
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def _decoded(path: str, content: bytes) -> tuple[str, str]:
    """Returns the text and the name of its encoding."""
    if content.startswith(b"PK\x03\x04"):
        raise UsageError(f"{path} is a spreadsheet or an archive, whatever its name says: save the table as CSV.")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16"), "utf-16"
    if (zero := content.find(b"\0")) >= 0:
        raise UsageError(
            f"Line {_line(content, zero)} of {path} holds a NUL byte, which no text does: --data_file must be a text "
            "file."
        )
    try:
        return content.decode("utf-8-sig"), "utf-8"
    except UnicodeDecodeError as other:
        try:
            return content.decode("cp1252"), "cp1252"
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{path} is neither UTF-8 (line {_line(content, other.start)}) nor Latin-1 or Windows-1252 (line "
                f"{_line(content, error.start)}): --data_file must be saved as UTF-8."
            ) from error


def _line(content: bytes, position: int) -> int:
    return content.count(b"\n", 0, position) + 1


def _records(path: str, text: str, separator: str) -> Iterator[_Record]:
    """Yields the header and the rows, without blank lines."""
    line = ""

    def remembered() -> Iterator[str]:
        nonlocal line
        for read in io.StringIO(text, newline=""):
            line = read
            yield read

    reader = csv.reader(remembered(), delimiter=separator, skipinitialspace=True)
    begins = 1
    while True:
        try:
            values = next(reader, None)
        except csv.Error as error:
            raise UsageError(
                f"The value that begins in line {begins} of {path} is not readable ({error}): is a quote never closed?"
            ) from error
        if values is None:
            return
        if len(values) > 1 or line.strip(" \t\r\n"):  # A line of two quotes is not blank.
            yield _Record(begins, values)
        begins = reader.line_num + 1


def _separator(path: str, text: str) -> str:
    """Returns the separator that the header has; if several are in it, the one that fits the rows."""
    fitting, possible = [], []
    header = text.lstrip().partition("\n")[0]
    for separator in (one for one in SEPARATORS if one in header):
        sample = [len(record.values) for record in itertools.islice(_records(path, text, separator), _SAMPLED)]
        if sample and sample[0] > 1:
            possible.append(separator)
            if len(set(sample)) == 1:
                fitting.append(separator)
    if len(fitting) > 1:
        ways = " or ".join(
            f"{SEPARATORS[one]} ({', '.join(next(_records(path, text, one)).values)})" for one in fitting
        )
        raise UsageError(
            f"It cannot be told whether the columns of {path} are separated by {ways}: save it with commas, and quotes "
            "around what holds one."
        )
    return [*fitting, *possible, ","][0]


def _checked(
    path: str, text: str, separator: str, text_columns: Sequence[str]
) -> tuple[list[str], np.ndarray, list[str]]:
    """Returns the columns' names, the lines of the rows, each of which has as many values, and columns with a 007."""
    records = _records(path, text, separator)
    header = next(records, None)
    if header is None:
        return [], np.zeros(0, np.int64), []
    names = [name.strip() for name in header.values]
    check_different(path, names)
    lines, wrong = [], []
    groups = _Groups(names, text_columns) if separator == ";" else None
    padded: set[str] = set()
    last = header
    for record in records:
        lines.append(record.line)
        if len(record.values) != len(names):
            wrong.append(record)
            last = record
            continue
        zeros = [pair for pair in zip(names, record.values, strict=True) if pair[1][:1] == "0"]
        padded.update(name for name, value in zeros if is_padded(value))
        if groups:
            groups.see(record.values)
        last = record
    _check_closed(path, text, separator, last)
    if wrong:
        told = ", ".join(f"line {record.line} has {len(record.values)}" for record in wrong[:_NAMED])
        more = f", and so on in {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        raise UsageError(
            f"The header of {path} (line {header.line}) has {len(names)} names, separated by {SEPARATORS[separator]}, "
            f"but rows have more or fewer values: {told}{more}. Quotes must stand around a value that holds a "
            f"{SEPARATORS[separator]}."
        )
    if groups:
        groups.check(path)
    return names, np.array(lines, np.int64), [name for name in names if name in padded]


def is_padded(value: str) -> bool:
    """Returns whether a text is a whole number with zeros before it, as codes have."""
    return value[:1] == "0" and value.strip().isdecimal() and len(value.strip()) > 1


class _Groups:
    """Points that may group thousands, as in 1.500: files with semicolons come from where a decimal has a comma."""

    def __init__(self, names: Sequence[str], text_columns: Sequence[str]):
        self._columns = [(position, name) for position, name in enumerate(names) if name not in text_columns]
        self._found: dict[str, str] = {}
        self._with_commas: set[str] = set()
        self._decimal_points = False

    def see(self, values: Sequence[str]) -> None:
        """Takes note of a row, until a number says what points are."""
        if self._decimal_points:
            return
        for position, name in self._columns:
            value = values[position].strip()
            if "," in value and re.fullmatch(_DECIMAL, value):
                self._with_commas.add(name)
            elif "." in value and _MAY_GROUP.fullmatch(value):
                self._found.setdefault(name, value)
            elif "." in value and _POINTED.fullmatch(value):
                self._decimal_points = True

    def check(self, path: str) -> None:
        """Raises `UsageError` if no number of the file says what its points are."""
        doubtful = [name for name in self._found if name not in self._with_commas]
        if doubtful and not self._decimal_points:
            name, column = doubtful[0], flag(doubtful[:1])
            raise UsageError(
                f"Column {name!r} of {path} holds numbers with points, such as {self._found[name]!r}, which may be "
                "decimals or group thousands: save numbers without groups, and decimals in a file with commas or tabs "
                f"between its columns. If these are none, say --category_columns={column}, or leave the column out "
                f"with --ignore_columns={column}."
            )


def _check_closed(path: str, text: str, separator: str, last: _Record) -> None:
    """Raises `UsageError` if the last record is a value whose quote is not closed."""
    lines = io.StringIO(text, newline="")
    rest = itertools.islice(lines, last.line - 1, None)
    try:
        for _ in csv.reader(rest, delimiter=separator, skipinitialspace=True, strict=True):
            pass
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise UsageError(f"The quote that opens in line {last.line} of {path} is never closed.") from error


def flag(words: Iterable[str], *, quoted: bool = False) -> str:
    """Returns words as a flag's value, as `table_file.listed` and a shell read it; in quotes if need be, or always."""
    value = ",".join(f'"{word}"' if "," in word else word for word in words)
    return f"'{value}'" if quoted and "'" not in value else shlex.quote(value)


def check_different(path: str, names: Sequence[str]) -> None:
    """Refuses two columns of one name.

    Raises:
      UsageError: If there are.
    """
    seen: set[str] = set()
    for name in filter(None, names):
        if name in seen:
            raise UsageError(f"--data_file={path} has two columns {name!r}: rename one.")
        seen.add(name)


def check_accepted(refused: Mapping[str, ColumnError]) -> None:
    """Raises the errors of all columns together, each with its own remedies, and the flags that mend all at once.

    Args:
      refused: By column.

    Raises:
      ColumnError: If there is one.
    """
    if len(refused) < 2:
        for error in refused.values():
            raise error
        return
    missing = dict.fromkeys(word for error in refused.values() for word in error.missing)
    ignored = [name for name, error in refused.items() if error.is_identifier]
    rest = [name for name, error in refused.items() if not (error.missing or error.is_identifier)]
    flags = [f"--ignore_columns={flag(ignored)}"] * bool(ignored)
    flags += [f"--missing_values={flag(missing, quoted=True)}"] * bool(missing)
    reasons = "\n".join(f"  - {error}" for error in refused.values())
    told = [f"{len(refused)} columns cannot be read as they are:\n{reasons}"]
    if flags:
        told.append(f"Add to the command, with what it names there already: {' '.join(flags)}")
    if rest:
        told.append(f"Correct in the file: {', '.join(map(repr, rest))}")
    raise ColumnError("\n".join(told), tuple(missing))


def without_signs(frame: "pd.DataFrame", text_columns: Sequence[str]) -> "tuple[pd.DataFrame, dict[str, str]]":
    """Returns a table whose amounts have no sign around them, and the sign of each such column.

    A column is of amounts if at least 90% of its cells are numbers, and some have a currency sign or % before or after
    them, all the same one. Of `$1,234.50` the commas go, too, as a point follows them.

    Args:
      frame: What was read.
      text_columns: Columns that are left as they are.
    """
    signs = {}
    for name in frame.columns.difference(list(text_columns), sort=False):
        if frame[name].dtype != object:
            continue
        cells = frame[name].dropna().map(str).str.strip()
        has_sign = cells.str.contains(_SIGN)
        found = set(cells[has_sign].str.findall(_SIGN).explode())
        bare = cells.str.replace(rf"\s*{_SIGN.pattern}\s*", "", n=1, regex=True)
        is_number = bare.str.fullmatch(_AMOUNT)
        if len(found) != 1 or is_number.mean() < _MOSTLY:
            continue
        if bare.str.fullmatch(_GROUPED_WITH_POINT).any() and not bare.str.fullmatch(_CENTS).any():
            bare = bare.str.replace(",", "", regex=False)
        (signs[name],) = found
        frame = frame.assign(**{name: bare.where(is_number, cells).reindex(frame.index)})
    return frame, signs


def with_decimal_points(
    frame: "pd.DataFrame", path: str, form: dict[str, str], text_columns: Sequence[str]
) -> "tuple[pd.DataFrame, dict[str, str], dict[str, ColumnError]]":
    """Returns a table whose numbers are written with points, its form, and columns whose commas may mean two things.

    Args:
      frame: What was read; text where a column is not of numbers alone.
      path: The file, for messages.
      form: What was found out of the file.
      text_columns: Columns that are left as they are.

    Raises:
      UsageError: If other numbers have decimal points.
    """
    written = {}
    for name in frame.columns.difference(list(text_columns), sort=False):
        if frame[name].dtype == object:
            cells = frame[name].dropna().map(str).str.strip()
            is_decimal = cells.str.fullmatch(_DECIMAL)
            is_number = is_decimal | cells.str.fullmatch(f"{_WHOLE}|{_POINTS}")
            if is_decimal.any() and is_number.mean() >= _MOSTLY:
                written[name] = cells
    if not written:
        return frame, form, {}
    first = next(iter(written))
    if form["separator"] == SEPARATORS[","] or all(
        cells[cells.str.contains(",")].str.fullmatch(_GROUPED).all() for cells in written.values()
    ):
        return frame, form, {name: _ambiguous(name, path, cells) for name, cells in written.items()}
    pointed = [name for name in frame.select_dtypes("float") if (frame[name].dropna() % 1 != 0).any()]
    pointed += [name for name, cells in written.items() if cells.str.fullmatch(r"[+-]?\d*\.\d+").any()]
    for name in pointed:
        if name not in written or not written[name].str.fullmatch(f"{_DECIMAL}|{_WHOLE}|{_POINTS}").all():
            raise UsageError(
                f"{path} has decimal commas in column {first!r} and decimal points in column {name!r}: save all its "
                "numbers with points."
            )
    for name, cells in written.items():
        points = cells.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        is_number = cells.str.fullmatch(f"{_DECIMAL}|{_WHOLE}|{_POINTS}")
        frame = frame.assign(**{name: points.where(is_number, cells).reindex(frame.index)})
    return frame, form | {"decimal": "comma"}, {}


def _ambiguous(name: str, path: str, cells: "pd.Series") -> ColumnError:
    return ColumnError(
        f"Column {name!r} of {path} holds numbers with commas, such as {_example(cells)!r}, which may be decimals or "
        "group thousands: save numbers with points and without groups. If these are none, say "
        f"--category_columns={flag([name])}, or leave the column out with --ignore_columns={flag([name])}."
    )


def _example(cells: "pd.Series") -> str:
    return cells[cells.str.contains(",")].iloc[0]
