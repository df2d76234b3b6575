"""Logs of bandits: contexts, actions, propensities and rewards by client.

A log has only the logged action's reward, so unlike a table it does not determine the reward of another policy, which
is estimated with propensities. `log_table` reads logs from the user's tables. This project's Parquet format (`read`,
`write`) has checksums of its pages and metadata, so that damage is detected before anything is decoded. This module
does not import TensorFlow.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from data import action_sets, columns, log_checks, table_file, text
from data.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
_METADATA = b"interaction_log"
_CHECKSUM = b"interaction_log_checksum"
_MOST_WORDS = 1 << 24  # Maximum vocabulary size if a log does not list its words.
# If a report has `learned_statistics`, the contexts reveal these statistics of all clients.
LEARNED = "the means, deviations and categories of the log's columns"
# Numeric columns of the Parquet format, with their fields and dtypes on disk.
_NUMBERS = {
    "round": ("rounds", np.int32),
    "period": ("periods", np.int32),
    "model": ("models", np.int32),
    "row": ("rows", np.int64),
    "reward": ("rewards", np.float64),
    "propensity": ("propensities", np.float64),
    "time": ("times", np.float64),
}
ROW_FIELDS = ("actions", "rewards", "propensities", "rounds", "periods", "probabilities", "models", "rows", "times")


@dataclasses.dataclass(frozen=True)
class InteractionLog:
    """A log; rows are sorted by client, and a client's rows are in the order of the source.

    Attributes:
      client_ids: Names of the clients, each with at least one row.
      clients: int32 [rows], ascending, positions in `client_ids`.
      contexts: float32 [rows, ...], or bags of words; None if unknown. With sets of actions, they are an `ActionSets`
        without features.
      actions: int32 [rows], positions in `action_names`; if actions have features, slots of the row's set.
      action_names: Names of all possible actions, including those without a row.
      rewards: float64 [rows], reward of the logged action.
      propensities: float64 [rows] in (0, 1], probability of the logged action.
      rounds: int32 [rows], from 1; None if the log has none.
      periods: int32 [rows], deployment periods of the rounds, from 0; None if the log has none.
      probabilities: float64 [rows] or [rows, actions], a target policy's probability of the logged action, or of each
        action; None if the log has no such columns.
      models: int32 [rows], the period whose deployed model acted, which is an earlier one for stale clients; or None.
      times: float64 [rows], see `log_time.Times`; None if the log has none.
      rows: int64 [rows], position of the context among the client's examples, from 0; or None.
      feature_names: Names of the contexts' features, if any.
      catalogue: float32 [entries, features], the features of actions; None if they have none.
      catalogue_actions: int32 [entries], the action of each catalogue entry, a position in `action_names`; or None.
      report: Counts of rows read and dropped, and anomalies, as JSON types.
      statistics: Statistics that encode a table's columns as contexts, as in `statistics.json`; `write` omits it.

    Raises:
      ValueError: If arrays differ in length, or rows are not sorted by client.
    """

    client_ids: tuple[str, ...]
    clients: np.ndarray
    contexts: Any
    actions: np.ndarray
    action_names: tuple[str, ...]
    rewards: np.ndarray
    propensities: np.ndarray
    rounds: np.ndarray | None = None
    periods: np.ndarray | None = None
    probabilities: np.ndarray | None = None
    models: np.ndarray | None = None
    rows: np.ndarray | None = None
    times: np.ndarray | None = None
    feature_names: tuple[str, ...] = ()
    catalogue: Any = None
    catalogue_actions: Any = None
    report: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    statistics: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        count = len(self.clients)
        for name in ("contexts", *ROW_FIELDS):
            values = getattr(self, name)
            rows = values.entries if isinstance(values, action_sets.ActionSets) else values
            rows = values.offsets[1:] if isinstance(values, text.Bags) else rows
            if rows is not None and len(rows) != count:
                raise ValueError(f"{name} has {len(rows)} rows, but clients has {count}.")
        if count and (np.diff(self.clients) < 0).any():
            raise ValueError("Rows must be sorted by client; see `interaction_log.ordered`.")

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def num_actions(self) -> int:
        """Number of actions that a policy chooses from: those in `action_names`, or slots if actions have features."""
        return len(self.action_names) if self.catalogue is None else self.contexts.entries.shape[1]

    @property
    def plain_contexts(self) -> Any:
        """The contexts without sets of actions."""
        return self.contexts.contexts if isinstance(self.contexts, action_sets.ActionSets) else self.contexts

    @property
    def encoded_contexts(self) -> Any:
        """The contexts in the form that models take, with the features of actions if there are any."""
        return self.contexts if self.catalogue is None else action_sets.with_features(self.contexts, self.catalogue)

    @property
    def offered(self) -> np.ndarray:
        """Which actions each row offers, bool [rows, actions]."""
        return np.broadcast_to(self.slot_actions >= 0, (len(self), self.num_actions))

    def take(self, rows: np.ndarray) -> "InteractionLog":
        """Log of these rows, int positions in ascending order; clients without rows are left out."""
        present, clients = np.unique(self.clients[rows], return_inverse=True)
        fields: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[rows] for name in ROW_FIELDS
        }
        return dataclasses.replace(
            self,
            client_ids=tuple(self.client_ids[client] for client in present),
            clients=clients.astype(np.int32),
            contexts=None if self.contexts is None else text.take(self.contexts, rows),
            **fields,
        )

    @property
    def has_sets(self) -> bool:
        """Whether rows offer sets of actions; otherwise, every row offers all actions."""
        return isinstance(self.contexts, action_sets.ActionSets)

    @property
    def slot_actions(self) -> np.ndarray:
        """Action in each slot, int32 [rows, slots], a position in `action_names`; -1 where none is offered.

        Without sets, the shape is [1, actions], because all rows are the same.
        """
        if not isinstance(self.contexts, action_sets.ActionSets):
            return np.arange(len(self.action_names), dtype=np.int32)[np.newaxis]
        entries = self.contexts.entries
        return entries if self.catalogue_actions is None else np.where(entries < 0, -1, self.catalogue_actions[entries])

    @property
    def logged_actions(self) -> np.ndarray:
        """Logged actions as positions in `action_names`, int32 [rows]."""
        return self.slot_actions[np.arange(len(self)), self.actions] if self.has_sets else self.actions

    @property
    def set_sizes(self) -> np.ndarray:
        """Number of actions that each row offers, int64 [rows]."""
        return np.broadcast_to((self.slot_actions >= 0).sum(axis=1), len(self))


def ordered(
    client_ids: Sequence[str],
    clients: np.ndarray,
    contexts: Any,
    action_names: Sequence[str],
    fields: Mapping[str, np.ndarray | None],
    **others: Any,
) -> InteractionLog:
    """Log from rows in any order; the rows of a client keep their order.

    Args:
      client_ids: Names of the clients; those without a row are left out.
      clients: int [rows], positions in `client_ids`.
      contexts: As in `InteractionLog`.
      action_names: As in `InteractionLog`.
      fields: The other fields with one value per row, by name; they are converted to their dtypes.
      **others: `feature_names`, `catalogue`, `catalogue_actions`, `report` and `statistics`.
    """
    order = np.argsort(clients, kind="stable")
    is_sorted = np.array_equal(order, np.arange(len(order)))
    seen, positions = np.unique(clients[order], return_inverse=True)
    dtypes = dict(_NUMBERS.values()) | {"actions": np.int32, "probabilities": np.float64}
    arrays: dict[str, Any] = {
        name: np.asarray(values, dtypes[name])[slice(None) if is_sorted else order]
        for name, values in fields.items()
        if values is not None
    }
    return InteractionLog(
        client_ids=tuple(client_ids[client] for client in seen),
        clients=positions.astype(np.int32),
        contexts=contexts if is_sorted or contexts is None else text.take(contexts, order),
        action_names=tuple(action_names),
        **arrays,
        **others,
    )


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def write(log: InteractionLog, path: str | os.PathLike | BinaryIO) -> None:
    """Writes a log in this project's format, to a path or an open file, for `read`.

    Columns hold the fields of the rows. Clients and actions have their names; if actions are slots, slot k has the name
    of action k. The metadata hold the other fields, apart from `statistics`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def names(codes: np.ndarray, distinct: Sequence[str]) -> "pa.DictionaryArray":
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(distinct), pa.string()))

    def lists(rows: np.ndarray, dtype: Any) -> "pa.Array":
        values = pa.array(np.ascontiguousarray(rows, dtype).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(values, math.prod(rows.shape[1:]))

    written = {"client": names(log.clients, log.client_ids), "action": names(log.actions, log.action_names)}
    for name, (field, dtype) in _NUMBERS.items():
        if (values := getattr(log, field)) is not None:
            written[name] = pa.array(np.asarray(values, dtype))
    contexts = log.contexts
    if isinstance(contexts, action_sets.ActionSets):
        written["entries"] = lists(contexts.entries, np.int32)
        contexts = contexts.contexts
    if log.catalogue is not None:  # Spread over the rows, since columns have equal lengths.
        bounds = np.linspace(0, len(log.catalogue), len(log) + 1).astype(np.int64)
        for name, values in (("catalogue", log.catalogue), ("catalogue_actions", log.catalogue_actions)):
            offsets = pa.array(bounds * (values.size // len(values)))
            written[name] = pa.LargeListArray.from_arrays(offsets, pa.array(values.reshape(-1)))
    if isinstance(contexts, text.Bags):
        offsets = pa.array(contexts.offsets.astype(np.int64))
        written["words"] = pa.LargeListArray.from_arrays(offsets, pa.array(contexts.ids))
        written["word_values"] = pa.LargeListArray.from_arrays(offsets, pa.array(contexts.values))
    elif contexts is not None and contexts.size:
        written["context"] = lists(contexts, np.float32)
    if log.probabilities is not None:
        written["probabilities"] = lists(log.probabilities, np.float64)
    described = {
        "format": FORMAT,
        "columns": list(written),
        "action_names": log.action_names,
        "feature_names": log.feature_names,
        "context_shape": contexts.shape[1:] if isinstance(contexts, np.ndarray) else None,
        "probabilities_axes": None if log.probabilities is None else log.probabilities.ndim,
        "report": dict(log.report),
        **({"slots": log.contexts.entries.shape[1]} if "entries" in written else {}),
    }
    metadata = json.dumps(described).encode()
    table = pa.table(written).replace_schema_metadata({_METADATA: metadata, _CHECKSUM: _digest(metadata)})
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def is_log_file(path: str | os.PathLike) -> bool:
    """Whether a file is a log in this project's format.

    Raises:
      UsageError: If the file has the name or first bytes of a Parquet file, but is not readable as one.
    """
    import pyarrow.parquet as pq

    if not os.path.isfile(path):
        return False
    with _reading(path):
        with open(path, "rb") as file:
            is_parquet = file.read(4) == b"PAR1" or pathlib.Path(path).suffix == ".parquet"
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


def read(path: str | os.PathLike | Sequence[str | os.PathLike], flag: str = "--log") -> InteractionLog:
    """Reads a log in this project's format from one file, or from several files that are its parts.

    Args:
      path: The file, or its parts.
      flag: The flag that names the file, for messages.

    Raises:
      UsageError: If a file is not such a log, has another format version, is damaged or has an invalid value, which the
        message names with its row; or if the files are not parts of one log.
    """
    import pyarrow as pa

    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    parts, every = zip(*(_read_part(part, flag) for part in paths), strict=True)
    described = every[0]
    for name, part, others in zip(paths, parts, every, strict=True):
        if part.schema != parts[0].schema or {**others, "report": None} != {**described, "report": None}:
            raise UsageError(f"{name} and {paths[0]} are not parts of one log: their columns or metadata differ.")
    merged = pa.concat_tables(parts).unify_dictionaries()
    cells = {name: merged[name].combine_chunks() for name in merged.column_names}
    contexts: Any = None
    of_sets: dict[str, Any] = {}
    if "words" in cells:
        ids, values = cells["words"], cells["word_values"]
        offsets = np.asarray(ids.offsets.to_numpy(), np.int64)
        contexts = text.Bags(_flat(ids, np.int32), _flat(values, np.float32), offsets - offsets[0])
    elif "context" in cells:
        contexts = _flat(cells["context"], np.float32).reshape(len(merged), *described["context_shape"])
    if "entries" in cells:
        entries = _flat(cells["entries"], np.int32).reshape(len(merged), -1)
        contexts = np.zeros((len(merged), 0), np.float32) if contexts is None else contexts
        contexts = action_sets.of_entries(contexts, entries)
    if "catalogue" in cells:
        of_actions = _flat(parts[0]["catalogue_actions"].combine_chunks(), np.int32)
        catalogue = _flat(parts[0]["catalogue"].combine_chunks(), np.float32).reshape(len(of_actions), -1)
        of_sets = {"catalogue": catalogue, "catalogue_actions": of_actions}
    fields = {field: cells[name].to_numpy() for name, (field, _) in _NUMBERS.items() if name in cells}
    if "probabilities" in cells:
        shape = (len(merged), -1)[: described["probabilities_axes"]]
        fields["probabilities"] = _flat(cells["probabilities"], np.float64).reshape(shape)
    clients, actions = (cells[name].to_pandas() for name in ("client", "action"))
    client_ids = columns.ordered(clients.cat.categories.to_series())
    report = {  # The report of the first part, with the lists of all parts joined.
        name: [entry for part in every for entry in part["report"].get(name, ())] if isinstance(value, list) else value
        for name, value in described["report"].items()
    }
    return ordered(
        client_ids,
        columns.codes(clients, client_ids),
        contexts,
        described["action_names"],
        fields | {"actions": columns.codes(actions, described["action_names"])},
        feature_names=tuple(described["feature_names"]),
        **of_sets,
        report=report,
    )


def _flat(column: Any, dtype: Any) -> np.ndarray:
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype)


def _read_part(path: str | os.PathLike, flag: str) -> "tuple[pa.Table, dict[str, Any]]":
    """Checked columns of one file, in the types that `write` uses, and its metadata; other columns are ignored."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not is_log_file(path):
        raise UsageError(f"{path} is not a log in this program's format: to read your own table, name its columns.")
    with _reading(path):
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
        table.validate(full=True)
        metadata = table.schema.metadata[_METADATA]
        if table.schema.metadata.get(_CHECKSUM) != _digest(metadata):
            raise ValueError("its metadata does not match its checksum")
        described = json.loads(metadata)
        if described["format"] != FORMAT:
            raise UsageError(f"{path} is a log of format {described['format']}, but this version reads only {FORMAT}.")
        names = table.select(described["columns"]).column_names
        cells = {
            name: pa.concat_arrays(table[name].cast(kind).unify_dictionaries().chunks or [pa.array([], kind)])
            for name, kind in _kinds(described, names).items()
        }
        numbers = [table[name].to_pandas().rename(name) for name in _NUMBERS if name in names]
    _check_cells(cells, described, flag, path)
    if "words" in cells and cells["words"].value_lengths() != cells["word_values"].value_lengths():
        raise UsageError(f"{path} is not a valid log: some rows do not have as many word_values as words.")
    for column in numbers:
        values = log_checks.numbers(table_file.Table(str(path), column.to_frame()), column, flag, column.name)
        cells[column.name] = pa.array(values.astype(_NUMBERS[column.name][1]))
    return pa.table(cells), described


def _kinds(described: Mapping[str, Any], names: Sequence[str]) -> "dict[str, pa.DataType]":
    """Types of the columns that are not numbers, by name."""
    import pyarrow as pa

    kinds: dict[str, Any] = dict.fromkeys(("client", "action"), pa.dictionary(pa.int32(), pa.string()))
    if "context" in names:
        kinds["context"] = pa.list_(pa.float32(), math.prod(described["context_shape"]))
    if "words" in names:
        kinds |= {"words": pa.large_list(pa.int32()), "word_values": pa.large_list(pa.float32())}
    if "entries" in names:
        kinds["entries"] = pa.list_(pa.int32(), described["slots"])
    if "catalogue" in names:
        kinds |= {"catalogue": pa.large_list(pa.float32()), "catalogue_actions": pa.large_list(pa.int32())}
    if "probabilities" in names:
        is_of_all = described["probabilities_axes"] == 2
        num_actions = described.get("slots") or len(described["action_names"])
        kinds["probabilities"] = pa.list_(pa.float64(), num_actions if is_of_all else 1)
    return kinds


def _check_cells(
    cells: "Mapping[str, pa.Array]", described: Mapping[str, Any], flag: str, path: str | os.PathLike
) -> None:
    """Refuses rows without a client, with an unknown action, or with invalid contexts or probabilities."""
    words, most = len(described["feature_names"]) or _MOST_WORDS, float(np.finfo(np.float32).max)
    limits = {"words": (0, words - 1), "probabilities": (0, 1)}
    for name, column in cells.items():
        low, high = limits.get(name, (-most, most))
        if name in ("client", "action"):
            named, must = column.to_pandas(), "one of the names in its metadata"
            is_wrong = np.asarray(named.isna() if name == "client" else ~named.isin([*described["action_names"]]))
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
