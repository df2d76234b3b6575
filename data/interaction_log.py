"""Logs of bandits: contexts, actions, propensities and rewards by client.

A log has only the logged action's reward, so it cannot simulate a policy like a table; the reward of another policy is
estimated from its propensities. Logs are in memory, or in this project's Parquet format. Nothing here imports
TensorFlow.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from data import log_file, text
from data.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

is_log_file = log_file.is_log_file
# Contexts reveal these statistics of all clients if a report has `learned_statistics`.
LEARNED = "means, deviations and categories of the log's columns"
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
    """A log; rows are in the order of clients, and of each client in the order of the source.

    Attributes:
      client_ids: Names of the clients, each with at least one row.
      clients: int32 [rows], ascending, positions in `client_ids`.
      contexts: float32 [rows, ...], or bags of words; None if unknown.
      actions: int32 [rows], positions in `action_names`.
      action_names: Names of all possible actions, including those without a row.
      rewards: float64 [rows], reward of the logged action.
      propensities: float64 [rows] in (0, 1], probability of the logged action.
      rounds: int32 [rows], from 1; None if the log has none.
      periods: int32 [rows], deployment periods of the rounds, from 0; None if the log has none.
      probabilities: float64 [rows] or [rows, actions], a target policy's probability of the logged action, or of each
        action; None if the log has no such columns.
      models: int32 [rows], the period whose deployed model acted: an earlier one for stale clients.
      times: float64 [rows], see `log_time.Times`; None if the log has none.
      rows: int64 [rows], position of the context among the client's examples, from 0.
      feature_names: Names of the contexts' features, if any.
      report: Counts of read and dropped rows, and oddities, in JSON's types.
      statistics: Statistics that encode a table's columns as contexts, as in `statistics.json`; not written to files.

    Raises:
      ValueError: If arrays have other lengths, or rows are not in the order of clients.
    """

    client_ids: tuple[str, ...]
    clients: np.ndarray
    contexts: np.ndarray | text.Bags | None
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
    report: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    statistics: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        count = len(self.clients)
        for name in ("contexts", *ROW_FIELDS):
            values = getattr(self, name)
            rows = values.offsets[1:] if isinstance(values, text.Bags) else values
            if rows is not None and len(rows) != count:
                raise ValueError(f"{name} has {len(rows)} rows, but clients has {count}.")
        if count and (np.diff(self.clients) < 0).any():
            raise ValueError("Rows must be in the order of their clients; see `interaction_log.ordered`.")

    def __len__(self) -> int:
        return len(self.clients)

    def take(self, rows: np.ndarray) -> "InteractionLog":
        """Log of these rows, int positions in ascending order; clients without rows are left out."""
        kept, clients = np.unique(self.clients[rows], return_inverse=True)
        fields: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[rows] for name in ROW_FIELDS
        }
        return dataclasses.replace(
            self,
            client_ids=tuple(self.client_ids[client] for client in kept),
            clients=clients.astype(np.int32),
            contexts=_taken(self.contexts, rows),
            **fields,
        )


def _taken(contexts: np.ndarray | text.Bags | None, rows: np.ndarray) -> np.ndarray | text.Bags | None:
    if isinstance(contexts, text.Bags):
        return contexts.take(rows)
    return None if contexts is None else contexts[rows]


def ordered(
    client_ids: Sequence[str],
    clients: np.ndarray,
    contexts: np.ndarray | text.Bags | None,
    action_names: Sequence[str],
    columns: Mapping[str, np.ndarray | None],
    **others: Any,
) -> InteractionLog:
    """Log of rows in any order; the rows of a client keep their order.

    Args:
      client_ids: Names of the clients; those without a row are left out.
      clients: int [rows], positions in `client_ids`.
      contexts: As in `InteractionLog`.
      action_names: Likewise.
      columns: The other fields with a value per row, by name, converted to their dtypes.
      **others: `feature_names`, `report` and `statistics`.
    """
    order = np.argsort(clients, kind="stable")
    is_sorted = np.array_equal(order, np.arange(len(order)))
    seen, positions = np.unique(clients[order], return_inverse=True)
    dtypes = dict(_NUMBERS.values()) | {"actions": np.int32, "probabilities": np.float64}
    fields: dict[str, Any] = {
        name: np.asarray(column, dtypes[name])[slice(None) if is_sorted else order]
        for name, column in columns.items()
        if column is not None
    }
    return InteractionLog(
        client_ids=tuple(client_ids[client] for client in seen),
        clients=positions.astype(np.int32),
        contexts=contexts if is_sorted else _taken(contexts, order),
        action_names=tuple(action_names),
        **fields,
        **others,
    )


def table(log: InteractionLog) -> "pa.Table":
    """Log as a table, as `write` writes it: one column per field, with names of clients and actions."""
    import pyarrow as pa

    columns = {
        "client": _dictionary(log.clients, log.client_ids),
        "action": _dictionary(log.actions, log.action_names),
    }
    for name, (field, dtype) in _NUMBERS.items():
        values = getattr(log, field)
        if values is not None:
            columns[name] = pa.array(np.asarray(values, dtype))
    shape = None
    if isinstance(log.contexts, text.Bags):
        offsets = pa.array(log.contexts.offsets.astype(np.int64))
        columns["words"] = pa.LargeListArray.from_arrays(offsets, pa.array(log.contexts.ids))
        columns["word_values"] = pa.LargeListArray.from_arrays(offsets, pa.array(log.contexts.values))
    elif log.contexts is not None:
        shape = log.contexts.shape[1:]
        columns["context"] = _fixed_lists(log.contexts.reshape(len(log), -1), np.float32)
    if log.probabilities is not None:
        columns["probabilities"] = _fixed_lists(log.probabilities.reshape(len(log), -1), np.float64)
    described = {
        "action_names": log.action_names,
        "feature_names": log.feature_names,
        "context_shape": shape,
        "probabilities_axes": None if log.probabilities is None else log.probabilities.ndim,
        "report": dict(log.report),
    }
    return log_file.with_metadata(pa.table(columns), described)


def _dictionary(codes: np.ndarray, names: Sequence[str]) -> "pa.DictionaryArray":
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(names), pa.string()))


def _fixed_lists(rows: np.ndarray, dtype: Any) -> "pa.Array":
    import pyarrow as pa

    values = pa.array(np.ascontiguousarray(rows, dtype).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(values, rows.shape[1])


def write(log: InteractionLog, path: str | os.PathLike | BinaryIO) -> None:
    """Writes a log in this project's format, to a path or an open file; `read` returns an equal one."""
    import pyarrow.parquet as pq

    pq.write_table(table(log), path, compression="zstd", write_page_checksum=True)


def read(path: str | os.PathLike | Sequence[str | os.PathLike], flag: str = "--log") -> InteractionLog:
    """Reads a log in this project's format from one file, or from several that are its parts; see `log_file.read`.

    Args:
      path: The file, or the parts.
      flag: The flag that names it, for messages.

    Raises:
      UsageError: If a file is not such a log, or an invalid one, or if the files are not parts of one log.
    """
    import pyarrow as pa

    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    dtypes = {name: dtype for name, (_, dtype) in _NUMBERS.items()}
    parts, every = zip(*(log_file.read(one, flag, dtypes) for one in paths), strict=True)
    described = every[0]
    for one, part, others in zip(paths, parts, every, strict=True):
        if part.schema != parts[0].schema or {**others, "report": None} != {**described, "report": None}:
            raise UsageError(f"{one} and {paths[0]} are not parts of one log: their columns or metadata differ.")
    merged = pa.concat_tables(parts).unify_dictionaries()
    columns = {name: merged[name].combine_chunks() for name in merged.column_names}
    contexts: np.ndarray | text.Bags | None = None
    if "words" in columns:
        ids, values = columns["words"], columns["word_values"]
        offsets = np.asarray(ids.offsets.to_numpy(), np.int64)
        contexts = text.Bags(_flat(ids, np.int32), _flat(values, np.float32), offsets - offsets[0])
    elif "context" in columns:
        contexts = _flat(columns["context"], np.float32).reshape(len(merged), *described["context_shape"])
    fields = {field: columns[name].to_numpy() for name, (field, _) in _NUMBERS.items() if name in columns}
    if "probabilities" in columns:
        shape = (len(merged), -1)[: described["probabilities_axes"]]
        fields["probabilities"] = _flat(columns["probabilities"], np.float64).reshape(shape)
    action_names = described["action_names"]
    fields["actions"] = _codes(columns["action"], action_names)
    client_ids = sorted_names(columns["client"].dictionary.to_pylist())
    return ordered(
        client_ids,
        _codes(columns["client"], client_ids),
        contexts,
        action_names,
        fields,
        feature_names=tuple(described["feature_names"]),
        report=_reports([one["report"] for one in every]),
    )


def _reports(every: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """First part's report, with the lists of all parts joined."""
    return {
        name: [entry for one in every for entry in one.get(name, ())] if isinstance(value, list) else value
        for name, value in every[0].items()
    }


def sorted_names(names: Sequence[str]) -> list[str]:
    """Distinct names in numeric order if all are numbers, else in alphabetical order."""
    import pandas as pd

    from data import columns

    return columns.ordered(pd.Series(list(names), dtype=object))


def _codes(column: Any, names: Sequence[str]) -> np.ndarray:
    """Positions in `names` of a dictionary-encoded column of text, int32 [rows]."""
    place = {name: position for position, name in enumerate(names)}
    positions = np.array([place[name] for name in column.dictionary.to_pylist()], np.int32)
    return positions[column.indices.to_numpy()] if len(positions) else np.zeros(0, np.int32)


def _flat(column: Any, dtype: Any) -> np.ndarray:
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype)
