"""Logs of bandits: who acted when, on which context, with which probability, and what it earned.

A log has the reward of the action that was played alone, so it cannot be played on like a table; what another policy
would have earned is estimated from its propensities. Here it is in memory, and in a Parquet form of our own. Nothing
here imports TensorFlow.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from data import text
from data.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
# What contexts tell of all clients where a report has `learned_statistics`, as they are scaled by the log itself.
LEARNED = "means, deviations and categories of the log's columns"
_METADATA = b"interaction_log"
# Columns of the Parquet form that hold a number a row, the field of each, and what it is on disk.
_NUMBERS = {
    "round": ("rounds", np.int32),
    "period": ("periods", np.int32),
    "model": ("models", np.int32),
    "row": ("rows", np.int64),
    "reward": ("rewards", np.float64),
    "propensity": ("propensities", np.float64),
}
ROW_FIELDS = ("actions", "rewards", "propensities", "rounds", "periods", "probabilities", "models", "rows")


@dataclasses.dataclass(frozen=True)
class InteractionLog:
    """A log, its rows in the order of their clients, and of each client in the order of the source.

    Attributes:
      client_ids: Names of the clients, each with a row at least.
      clients: int32 [rows], ascending, positions in `client_ids`.
      contexts: float32 [rows, ...], or bags of words; None where they are not known.
      actions: int32 [rows], positions in `action_names`.
      action_names: Names of all actions that could be played, also of those that never were.
      rewards: float64 [rows], of the action that was played.
      propensities: float64 [rows] in (0, 1], the probability with which it was.
      rounds: int32 [rows], from 1; None where the log has none.
      periods: int32 [rows], deployment periods of the rounds, from 0; None where the log has none.
      probabilities: float64 [rows] or [rows, actions], what a target policy would play the action that was played, or
        each, with; None where the log has no such columns.
      models: int32 [rows], the period whose deployed model acted: an earlier one for clients that lag behind.
      rows: int64 [rows], which of the client's examples, all of them counted from 0, the context is.
      feature_names: Of the contexts, where they have names.
      report: What was read, dropped and found odd, in JSON's types.

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
    feature_names: tuple[str, ...] = ()
    report: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        count = len(self.clients)
        for name in ("contexts", *ROW_FIELDS):
            values = getattr(self, name)
            own = values.offsets[1:] if isinstance(values, text.Bags) else values
            if own is not None and len(own) != count:
                raise ValueError(f"{name} has {len(own)} rows, but clients has {count}.")
        if count and (np.diff(self.clients) < 0).any():
            raise ValueError("Rows must be in the order of their clients; see `interaction_log.ordered`.")

    def __len__(self) -> int:
        return len(self.clients)

    def take(self, rows: np.ndarray) -> "InteractionLog":
        """Returns a log of these rows, int positions in ascending order; clients without one are left out."""
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
    """Returns a log of rows in any order; those of a client keep theirs.

    Args:
      client_ids: Names of the clients; those without a row are left out.
      clients: int [rows], positions in `client_ids`.
      contexts: As `InteractionLog` has them.
      action_names: Likewise.
      columns: The other fields that have a value a row, by name; each becomes of its dtype.
      **others: `feature_names` and `report`.
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
    """Returns a log as the table that `write` writes: a column a field, names of clients and actions as such."""
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
        "format": FORMAT,
        "action_names": log.action_names,
        "feature_names": log.feature_names,
        "context_shape": shape,
        "probabilities_axes": None if log.probabilities is None else log.probabilities.ndim,
        "report": dict(log.report),
    }
    return pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(described).encode()})


def _dictionary(codes: np.ndarray, names: Sequence[str]) -> "pa.DictionaryArray":
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(names), pa.string()))


def _fixed_lists(rows: np.ndarray, dtype: Any) -> "pa.Array":
    import pyarrow as pa

    values = pa.array(np.ascontiguousarray(rows, dtype).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(values, rows.shape[1])


def write(log: InteractionLog, path: str | os.PathLike | BinaryIO) -> None:
    """Writes a log in our own form, to a path or an open file: `read` gives back an equal one."""
    import pyarrow.parquet as pq

    pq.write_table(table(log), path, compression="zstd")


def is_own(path: str | os.PathLike) -> bool:
    """Returns whether a file is a log in our own form."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return _METADATA in (pq.read_schema(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def read(path: str | os.PathLike | Sequence[str | os.PathLike]) -> InteractionLog:
    """Returns the log of one file in our own form, or of several that are parts of one.

    Raises:
      UsageError: If a file is none, or of another format.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    parts = []
    for one in paths:
        if not is_own(one):
            raise UsageError(f"{one} is no log that this program has written: name its columns to read another's.")
        parts.append(pq.read_table(one))
    every = [json.loads(part.schema.metadata[_METADATA]) for part in parts]
    described = every[0]
    if described["format"] != FORMAT:
        raise UsageError(f"{paths[0]} is a log of format {described['format']}, and this version reads {FORMAT} alone.")
    found = pa.concat_tables([part.replace_schema_metadata(None) for part in parts]).unify_dictionaries()
    columns = {name: found[name].combine_chunks() for name in found.column_names}
    contexts: np.ndarray | text.Bags | None = None
    if "words" in columns:
        ids, values = columns["words"], columns["word_values"]
        offsets = np.asarray(ids.offsets.to_numpy(), np.int64)
        contexts = text.Bags(_flat(ids, np.int32), _flat(values, np.float32), offsets - offsets[0])
    elif "context" in columns:
        contexts = _flat(columns["context"], np.float32).reshape(len(found), *described["context_shape"])
    fields = {field: columns[name].to_numpy() for name, (field, _) in _NUMBERS.items() if name in columns}
    if "probabilities" in columns:
        shape = (len(found), -1)[: described["probabilities_axes"]]
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
    """Returns the first part's report, its lists with those of all parts."""
    return {
        name: [entry for one in every for entry in one.get(name, ())] if isinstance(value, list) else value
        for name, value in every[0].items()
    }


def sorted_names(names: Sequence[str]) -> list[str]:
    """Returns distinct names in the order of numbers if they all are some, else of letters."""
    import pandas as pd

    from data import columns

    return columns.ordered(pd.Series(list(names), dtype=object))


def _codes(column: Any, names: Sequence[str]) -> np.ndarray:
    """Returns int32 [rows], positions in `names` of a column of text that is coded by its own."""
    place = {name: position for position, name in enumerate(names)}
    own = np.array([place[name] for name in column.dictionary.to_pylist()], np.int32)
    return own[column.indices.to_numpy()] if len(own) else np.zeros(0, np.int32)


def _flat(column: Any, dtype: Any) -> np.ndarray:
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype)
