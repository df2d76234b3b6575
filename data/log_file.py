"""Checked reader of Parquet files in the format of `interaction_log.write`.

Pages and metadata have checksums, so that damage is detected before anything is decoded. Values pass the checks of
`log_table`.
"""

import contextlib
import hashlib
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from data import log_checks, table_file
from data.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
_METADATA = b"interaction_log"
_CHECKSUM = b"interaction_log_checksum"
_MAGIC = b"PAR1"  # Parquet files begin with it.
_MOST_WORDS = 1 << 24  # Size of a vocabulary that a log does not name.
# Whether an entry of the metadata is valid, by name.
_VALID: Mapping[str, Callable[[Any], bool]] = {
    "action_names": lambda names: _are_texts(names) and len(set(names)) == len(names),
    "feature_names": lambda names: _are_texts(names),
    "context_shape": lambda shape: shape is None or _are_counts(shape),
    "probabilities_axes": lambda axes: axes is None or (isinstance(axes, int) and axes in (1, 2)),
    "columns": lambda names: _are_texts(names),
    "report": lambda report: (
        isinstance(report, dict)
        and isinstance(report.get("cohorts", {}), dict)
        and isinstance(report.get("duplicated_rows"), int | None)
        and isinstance(report.get("dropped_rows", {}), dict)
        and _are_counts([*report.get("dropped_rows", {}).values()])
    ),
}


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, int) and value >= 0 for value in values)


def with_metadata(table: "pa.Table", described: Mapping[str, Any]) -> "pa.Table":
    """The columns of a log with the metadata that `read` needs."""
    metadata = json.dumps({"format": FORMAT, "columns": table.column_names, **described}).encode()
    return table.replace_schema_metadata({_METADATA: metadata, _CHECKSUM: _digest(metadata)})


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def is_log_file(path: str | os.PathLike) -> bool:
    """Whether a file is a log in this project's format.

    Raises:
      UsageError: If it is a Parquet file by its name or first bytes, but not readable as one.
    """
    import pyarrow.parquet as pq

    if not os.path.isfile(path):
        return False
    with _reading(path):
        with open(path, "rb") as file:
            is_parquet = file.read(len(_MAGIC)) == _MAGIC or pathlib.Path(path).suffix == ".parquet"
        return is_parquet and _METADATA in (pq.read_schema(path).metadata or {})


@contextlib.contextmanager
def _reading(path: str | os.PathLike) -> Iterator[None]:
    """Converts errors of reading a file to a UsageError that names it."""
    try:
        yield
    except Exception as error:  # pyarrow raises many types for a damaged file.
        reason = " ".join(str(error).split()) or type(error).__name__
        remedy = "" if getattr(error, "errno", None) else ": it is truncated or damaged: copy it again"
        raise UsageError(f"{path} is not readable ({reason}){remedy}.") from error


def read(path: str | os.PathLike, flag: str, dtypes: Mapping[str, Any]) -> "tuple[pa.Table, dict[str, Any]]":
    """Reads and checks one file.

    Args:
      path: The file.
      flag: The flag that names it, for messages.
      dtypes: NumPy types of the columns of numbers; columns with neither these names nor the format's are ignored.

    Returns:
      The columns, in the types that are written, and the metadata.

    Raises:
      UsageError: If it is not a log, of another format, damaged or invalid. It names the row and the value.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not is_log_file(path):
        raise UsageError(f"{path} is not a log in this program's format: name its columns to read another one.")
    with _reading(path):
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
        table.validate(full=True)
        metadata = table.schema.metadata[_METADATA]
        if table.schema.metadata.get(_CHECKSUM, _digest(metadata)) != _digest(metadata):
            raise ValueError("its metadata does not match its checksum")
        described = json.loads(metadata)
    kinds = _kinds(described, table.column_names, path)
    columns = {}
    for name in filter(table.column_names.__contains__, dtypes):
        cells = table[name].to_pandas().rename(name)
        numbers = log_checks.numbers(table_file.Table(str(path), cells.to_frame()), cells, flag, name)
        columns[name] = pa.array(numbers.astype(dtypes[name]))
    for name, kind in kinds.items():
        try:
            columns[name] = pa.concat_arrays(table[name].cast(kind).unify_dictionaries().chunks or [pa.array([], kind)])
        except pa.ArrowException as error:
            raise UsageError(
                f"{path} is not a valid log: column {name!r} is {table[name].type}, not {kind}."
            ) from error
        if name in ("client", "action"):
            names = described["action_names"] if name == "action" else None
            _check_names(columns[name], names, name, flag, path)
        else:
            _check_cells(columns[name], described, name, flag, path)
    if "words" in columns and not columns["words"].value_lengths().equals(columns["word_values"].value_lengths()):
        raise UsageError(f"{path} is not a valid log: a row has more or fewer word_values than words.")
    return pa.table(columns), described


def _kinds(described: Any, names: Sequence[str], path: str | os.PathLike) -> "dict[str, pa.DataType]":
    """Types of the columns that are not numbers, by name; checks the metadata and that no column is missing."""
    import pyarrow as pa

    described = described if isinstance(described, dict) else {}
    if described.get("format") != FORMAT:
        raise UsageError(f"{path} is a log of format {described.get('format')}, and this version reads only {FORMAT}.")
    described.setdefault("columns", [])  # The first logs did not list them.
    for name, is_valid in _VALID.items():
        if not is_valid(described.get(name, ...)):
            raise UsageError(f"{path} is not a valid log: entry {name!r} of its metadata is missing or invalid.")
    kinds: dict[str, Any] = dict.fromkeys(("client", "action"), pa.dictionary(pa.int32(), pa.string()))
    if (shape := described["context_shape"]) is not None:
        kinds["context"] = pa.list_(pa.float32(), math.prod(shape))
    if "words" in names:
        kinds |= {"words": pa.large_list(pa.int32()), "word_values": pa.large_list(pa.float32())}
    if axes := described["probabilities_axes"]:
        kinds["probabilities"] = pa.list_(pa.float64(), 1 if axes == 1 else len(described["action_names"]))
    if missing := {"reward", "propensity", *kinds, *described.pop("columns")}.difference(names):
        raise UsageError(f"{path} is not a valid log: it lacks the column {min(missing)!r}.")
    if unknown := {"context", "probabilities"}.intersection(names).difference(kinds):
        raise UsageError(f"{path} is not a valid log: its metadata does not describe the column {min(unknown)!r}.")
    return kinds


def _check_names(
    column: "pa.DictionaryArray", names: Sequence[str] | None, what: str, flag: str, path: str | os.PathLike
) -> None:
    """Refuses a row without a client or an action, or with an action that is not among all actions."""
    is_known = [name is not None and (names is None or name in names) for name in column.dictionary.to_pylist()]
    codes = column.indices.fill_null(len(is_known)).to_numpy(zero_copy_only=False)
    is_wrong = ~np.array([*is_known, False])[codes]
    if is_wrong.any():
        row = int(is_wrong.argmax())
        why = "is missing" if (name := column[row].as_py()) is None else f"{name!r} is not among its metadata's"
        raise UsageError(f"{flag}: the {what} of row {row + 1} of {path} {why}.")


def _check_cells(
    column: "pa.Array", described: Mapping[str, Any], name: str, flag: str, path: str | os.PathLike
) -> None:
    """Refuses contexts, words and probabilities that are missing, not finite or out of their range."""
    values, rows = column.flatten().to_numpy(zero_copy_only=False), column.value_parent_indices().to_numpy()
    words, most = len(described["feature_names"]) or _MOST_WORDS, float(np.finfo(np.float32).max)
    low, high = {"words": (0, words - 1), "probabilities": (0, 1)}.get(name, (-most, most))
    is_wrong = column.is_null().to_numpy(zero_copy_only=False)
    is_wrong[rows[~((values >= low) & (values <= high))]] = True
    if is_wrong.any():
        row = int(is_wrong.argmax())
        raise UsageError(
            f"{flag}: column {name!r} of row {row + 1} of {path} must hold numbers from {low:g} to {high:g}, not "
            f"{column[row].as_py()}."
        )
    if name == "probabilities" and column.type.list_size > 1:
        log_checks.check_sums(values.reshape(len(column), -1), flag, lambda row: f"row {row + 1} of {path}")
