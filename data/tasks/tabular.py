"""The user's own table, with an example a row, as a federated data set and as the task `tabular`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from data import clients, partition, schema, statistics, tables, tasks
from data.errors import UsageError
from data.tasks import rewards
from data.tasks.options import TaskOptions

_HIDDEN = {"linear": (), "mlp": (64,)}


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as a federated data set.

    Attributes:
      train: Training clients. Features are float32 [examples, features]; labels int32 [examples], indices into
        `action_names`, or float32 [examples, actions], the reward of each action.
      held_out: Other clients; or other rows of the same clients, where there are fewer than 5.
      feature_names: Such as `age`, `age is missing` and `color=red`.
      action_names: The labels as the table has them, or the names of the reward columns.
      label_counts: Training rows of each label; empty if the table has rewards.
      report: What was read, dropped, imputed and held out, in JSON's types.
      statistics: What was learned from training rows, or given instead.
      checksum: Digest of the file.
    """

    train: clients.ClientData
    held_out: clients.ClientData
    feature_names: tuple[str, ...]
    action_names: tuple[str, ...]
    label_counts: tuple[int, ...]
    report: Mapping[str, Any]
    statistics: statistics.OfTable
    checksum: str


def load(options: TaskOptions) -> tasks.Task:
    """Returns the task of a table with a label or with rewards; only the former has a reward shift.

    Who is held out depends on no run's seed, so that runs of several seeds are compared on the same data.

    Raises:
      UsageError: If an option is missing, or does not fit the table.
    """
    for flag, what in (("data_file", "the .csv or .parquet file"), ("client_column", "the clients' column, or rows:N")):
        if not getattr(options, flag):
            raise UsageError(f"--task_type=tabular needs --{flag}: {what}.")
    model = options.model or "linear"
    if model not in _HIDDEN:
        raise UsageError(f"--model={model} takes images; a table takes {' or '.join(_HIDDEN)}.")
    if options.reward_columns and options.init_labels is not None:
        raise UsageError("--init_labels has no effect with --reward_columns: a table of rewards has no labels.")
    known = statistics.read_table(options.public_statistics)
    table = open_table(options.data_file, schema.of_options(options), known=known)
    num_actions = len(table.action_names)
    phases = {"exact": rewards.exact(num_actions)}
    if table.label_counts:
        phases |= rewards.label_rewards(table.label_counts, options.init_labels)
    return tasks.Task(
        clients=table.train,
        held_out=table.held_out,
        num_actions=num_actions,
        feature_spec=((len(table.feature_names),), "float32"),
        model="mlp",
        model_arguments={
            "num_features": len(table.feature_names),
            "hidden": _HIDDEN[model],
            "num_outputs": num_actions,
        },
        rewards=phases,
        report=table.report,
        **tasks.learned(options, table.statistics),
        multi_label=not table.label_counts,
        label_range=(0.0, 1.0) if table.label_counts else _range(table.train),
        action_names=table.action_names,
    )


def open_table(
    path: str,
    wanted: schema.Schema,
    *,
    known: statistics.OfTable | None = None,
    seed: int = 0,
    held_out_fraction: float = 0.2,
) -> Table:
    """Opens a table, see `tables.read`, and holds clients out, see `partition.hold_out`.

    Clients and labels are in the order of their names, or of numbers. If rewards leave no feature, the only one is the
    constant 1, for a bandit without context.

    Args:
      path: The file.
      wanted: The roles of its columns.
      known: Statistics from elsewhere; None to learn them from training rows.
      seed: Seed of dealt clients and of the split.
      held_out_fraction: Part of the clients, or of each one's rows, that is held out; at least one.

    Raises:
      UsageError: If the file or a column is missing, or not what it has to be; or if it is the log of a bandit.
    """
    if not 0 < held_out_fraction < 1:
        raise ValueError(f"held_out_fraction must lie between 0 and 1, not {held_out_fraction}.")
    rows = tables.read(path, wanted, known=known, seed=seed)
    labels = rows.labels
    if labels is None:
        each = [rows.numbers(name, "--reward_columns", "reward", dtype=np.float32) for name in rows.roles.rewards]
        labels = np.stack(each, axis=1)
    split = partition.hold_out(rows.clients, len(rows.client_ids), seed, held_out_fraction)
    features = rows.features(~split.is_held_out, known)
    values, names, warnings = features.values, features.names, features.report["warnings"]
    if not names and rows.roles.label:
        raise UsageError(
            f"{path} leaves no feature: it needs a column with values beside the client's and the label's, or "
            "--feature_columns must name one."
        )
    if not names:
        values, names = np.ones((len(labels), 1), np.float32), ["constant"]
        warnings.append("no feature is left: all rows look alike, and the best is one action for all of them.")
    examples = clients.Examples(values, labels)
    checksum = rows.table.checksum

    def part(chosen: np.ndarray, members: list[int]) -> clients.ClientData:
        member_of_row = np.searchsorted(members, rows.clients[chosen])
        names = [rows.client_ids[client] for client in members]
        return clients.ArrayClients(examples.take(chosen), member_of_row, names, checksum)

    train_rows, held_out_rows = np.flatnonzero(~split.is_held_out), np.flatnonzero(split.is_held_out)
    if known is None:
        is_labelled, count = rows.roles.label is not None, len(rows.label_names)
        counts = np.bincount(labels[train_rows], minlength=count).tolist() if is_labelled else []
        known = statistics.OfTable(features.learned, dict(zip(rows.label_names, counts, strict=False)))
    return Table(
        train=part(train_rows, split.train),
        held_out=part(held_out_rows, split.held_out),
        feature_names=tuple(names),
        action_names=tuple(rows.label_names),
        label_counts=tuple(known.labels.values()),
        report={
            # Of what is learned from, however the table was read: the checksum is of its file or frame.
            "content": clients.array_checksum(values, labels, rows.clients),
            "training_rows": len(train_rows),
            "held_out_rows": len(held_out_rows),
            "held_out": split.how,
            **features.report,
        },
        statistics=known,
        checksum=checksum,
    )


def _range(rewards_of: clients.ClientData) -> tuple[float, float]:
    each = [rewards_of.load(index).labels for index in range(len(rewards_of))]
    return min(float(one.min()) for one in each if one.size), max(float(one.max()) for one in each if one.size)
