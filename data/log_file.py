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
from collections.abc import Iterator, Mapping, Sequence
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
    except UsageError:
        raise
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
        if described["format"] != FORMAT:
            raise UsageError(f"{path} is a log of format {described['format']}, and this version reads only {FORMAT}.")
        _check_metadata(described)
        names = table.select(described.pop("columns", table.column_names)).column_names
        columns = {
            name: pa.concat_arrays(table[name].cast(kind).unify_dictionaries().chunks or [pa.array([], kind)])
            for name, kind in _kinds(described, names).items()
        }
        numbers = [table[name].to_pandas().rename(name) for name in dtypes if name in {"reward", "propensity", *names}]
    _check_cells(columns, described, flag, path)
    if "words" in columns and columns["words"].value_lengths() != columns["word_values"].value_lengths():
        raise UsageError(f"{path} is not a valid log: rows have more or fewer word_values than words.")
    for cells in numbers:
        values = log_checks.numbers(table_file.Table(str(path), cells.to_frame()), cells, flag, cells.name)
        columns[cells.name] = pa.array(values.astype(dtypes[cells.name]))
    return pa.table(columns), described


def _check_metadata(described: Mapping[str, Any]) -> None:
    """Raises an error of any type if an entry is missing or of another type."""
    actions, report = described["action_names"], described["report"]
    counts = [*report.get("dropped_rows", {}).values(), report.get("duplicated_rows") or 0]
    are_texts = all(isinstance(name, str) for name in [*actions, *described["feature_names"]])
    are_counts = all(isinstance(count, int) and count >= 0 for count in [*counts, *(described["context_shape"] or ())])
    if (
        not are_texts
        or not are_counts
        or len(set(actions)) < len(actions)
        or not hasattr(report.get("cohorts", {}), "get")
        or not hasattr(report.get("signs", {}), "items")
        or not isinstance(report.get("warnings", []), list)
    ):
        raise ValueError("its metadata is not that of a log")


def _kinds(described: Mapping[str, Any], names: Sequence[str]) -> "dict[str, pa.DataType]":
    """Types of the columns that are not numbers, by name."""
    import pyarrow as pa

    kinds: dict[str, Any] = dict.fromkeys(("client", "action"), pa.dictionary(pa.int32(), pa.string()))
    if (shape := described["context_shape"]) is not None or "context" in names:
        kinds["context"] = pa.list_(pa.float32(), math.prod(shape))
    if "words" in names:
        kinds |= {"words": pa.large_list(pa.int32()), "word_values": pa.large_list(pa.float32())}
    if (axes := described["probabilities_axes"]) is not None or "probabilities" in names:
        kinds["probabilities"] = pa.list_(pa.float64(), {1: 1, 2: len(described["action_names"])}[axes])
    return kinds


def _check_cells(
    columns: "Mapping[str, pa.Array]", described: Mapping[str, Any], flag: str, path: str | os.PathLike
) -> None:
    """Refuses rows without a client, of an unknown action, or with contexts or probabilities that are not possible."""
    words, most = len(described["feature_names"]) or _MOST_WORDS, float(np.finfo(np.float32).max)
    limits = {"words": (0, words - 1), "probabilities": (0, 1)}
    for name, column in columns.items():
        low, high = limits.get(name, (-most, most))
        if name in ("client", "action"):
            cells, must = column.to_pandas(), "one of the names in its metadata"
            is_wrong = np.asarray(cells.isna() if name == "client" else ~cells.isin([*described["action_names"]]))
        else:
            values, rows = column.flatten().to_numpy(zero_copy_only=False), column.value_parent_indices().to_numpy()
            is_wrong, must = column.is_null().to_numpy(zero_copy_only=False), f"numbers from {low:g} to {high:g}"
            is_wrong[rows[~((values >= low) & (values <= high))]] = True
        if is_wrong.any():
            row = int(is_wrong.argmax())
            value = f"{column[row].as_py()!r} in column {name!r} (row {row + 1} of {path})"
            raise UsageError(f"{flag}: {value} must be {must}.")
        if name == "probabilities" and column.type.list_size > 1:
            log_checks.check_sums(values.reshape(len(column), -1), flag, lambda row: f"row {row + 1} of {path}")
