"""A bandit log as a task: rewards are sampled from a regression on the log, or training uses its rows."""

import pathlib
import sys
from typing import Any

import numpy as np

from data import (
    clients,
    frames,
    interaction_log,
    log_checks,
    log_table,
    log_time,
    logged_clients,
    reward_bounds,
    tasks,
    text,
)
from data.action_sets import Spec
from data.errors import UsageError, counted
from data.tasks.options import REPLAY, SIMULATOR, TaskOptions

_COLUMNS = ("--client_column", "--action_column", "--reward_column", "--propensity_column")
_SAVE = "scripts.evaluate_policy --log={} --policy=logged --nomodel --save_log=log.parquet"


def load(options: TaskOptions) -> tasks.Task:
    """Opens the task of a log; `TaskOptions.learn_from` selects the labels.

    Either a fifth of the clients is held out, independent of the seed, or the latest fifth of the rows, whose clients
    may have training rows, too. With `simulator`, labels are sampled rewards. Otherwise, they are doubly robust
    rewards; on held-out rows, their mean is an unbiased estimate of the value of any policy that was not trained on
    these rows. The logged action, reward and propensity are appended to doubly robust labels, except with `dr`.

    Raises:
      UsageError: If an option is missing, or if the log is not suitable for `TaskOptions.learn_from`.
    """
    log, checksum = _read(options)
    if log.contexts is None:
        raise UsageError(
            f"{options.data_file} has no contexts, but a policy needs columns on which to base its choices. If the "
            f"file is part of a run's log, {_SAVE.format('RUN_FOLDER')} writes that log with its contexts."
        )
    if log.num_actions < 2 or len(log.client_ids) < 2:
        count = f"{counted(log.num_actions, 'action')} and {counted(len(log.client_ids), 'client')}"
        raise UsageError(f"{options.data_file} needs at least two actions and two clients, but has {count}.")
    if options.learn_from == REPLAY:
        logged_clients.check_uniform(log)
    split = log_time.hold_out(options.hold_out, log_time.of_log(log), log.clients, len(log.client_ids))
    train, held_out = log.take(np.flatnonzero(split.is_train)), log.take(np.flatnonzero(split.is_held_out))
    num_actions, width = log.num_actions, text.num_features(log.plain_contexts, log.feature_names)
    known = logged_clients.learn(train, width)
    keeps_log = options.learn_from in (REPLAY, "regression", "ips")
    feedback, furthest = logged_clients.SIMULATOR, 0.0
    if options.learn_from != SIMULATOR:
        feedback = logged_clients.DOUBLY_ROBUST
        furthest = (known.high - known.low) / float(train.propensities.min())
    # Clients with rows in both parts get different random numbers in each part.
    first = 0 if set(split.train).isdisjoint(split.held_out) else len(log.client_ids)
    position = {name: place for place, name in enumerate(log.client_ids)}

    def part(rows: interaction_log.InteractionLog, regression_of: np.ndarray) -> logged_clients.LoggedClients:
        return logged_clients.LoggedClients(
            rows,
            known,
            regression_of,
            feedback=feedback,
            keeps_log=keeps_log,
            seed=options.partition_seed,
            numbers=[position[name] + first * (rows is held_out) for name in rows.client_ids],
            checksum=checksum,
        )

    report = {
        "rows": len(log),
        "training_rows": len(train),
        "held_out_rows": len(held_out),
        "clients": len(log.client_ids),
        "actions": num_actions,
        "held_out": split.how,
        "content": clients.array_checksum(log.contexts, log.actions, log.rewards, log.propensities, log.clients),
        "regressions": [{"penalty": each.penalty, "mean_reward": each.base} for each in known.regressions],
        "log": dict(log.report),
    }
    learned = {
        SIMULATOR: ("the regression on the log, from which rewards are sampled",),
        "dr": ("the regression on the log, which is a part of the targets",),
    }.get(options.learn_from, ())
    if log.report.get("learned_statistics"):
        learned = (interaction_log.LEARNED, *["the counts of the log's actions"] * bool(log.statistics), *learned)
    learned = (*learned, *log_time.learned(options))
    print(
        f"Log: {len(log):,} rows of {len(log.client_ids):,} clients, {num_actions} actions; held out: {split.how}.",
        file=sys.stderr,
    )
    for finding in (log_checks.check(log), *log_checks.reading(log), log_checks.duplicates(log)):
        if finding.is_warning or finding.name in ("signs", log_checks.SELECTED):
            print(f"{'Warning: ' * finding.is_warning}{finding.text}", file=sys.stderr)
    matrix = tasks.exact(num_actions)
    if keeps_log:
        matrix = np.concatenate([matrix, np.zeros((logged_clients.LOG_COLUMNS, num_actions), np.float32)])
    return tasks.Task(
        clients=part(train, 1 - logged_clients.halves(len(train.client_ids))),
        held_out=part(held_out, np.full(len(held_out.client_ids), 2)),
        num_actions=num_actions,
        action_names=tuple(log.action_names),
        rewards={"exact": matrix},
        report=report,
        statistics=log.statistics,
        private_statistics=learned,
        multi_label=True,
        has_reward_labels=True,
        label_range=(known.low - furthest, known.high + furthest),
        **reward_bounds.scale(options.reward_bounds, train.rewards, train.rewards),
        **_model(options, log, width),
    )


def _read(options: TaskOptions) -> tuple[interaction_log.InteractionLog, str]:
    """Returns the log and a digest of it; the file is either a log that a run wrote, or the user's own table."""
    path, is_frame = options.data_file, options.data_file.startswith(frames.PREFIX)
    if not path:
        raise UsageError("--task_type=logged needs --data_file: the log, .parquet or .csv.")
    if options.is_log:
        log = log_table.read(path, options)
        of_actions = f"-{clients.file_checksum(options.action_table)}" if options.action_table else ""
        return log, (path.removeprefix(frames.PREFIX) if is_frame else clients.file_checksum(path)) + of_actions
    if is_frame:
        raise UsageError(f"If a DataFrame is the log, its columns must be named: give {', '.join(_COLUMNS)}.")
    log_time.check_has_columns(options, path)
    if pathlib.Path(path).is_dir():
        raise UsageError(
            f"--data_file: {path} is a folder, not a file. If it is a run's folder, {_SAVE.format(path)} writes the "
            "run's log, with contexts, to a file."
        )
    if not pathlib.Path(path).is_file():
        raise UsageError(f"There is no file {path}: --data_file must name a log.")
    if not interaction_log.is_log_file(path):
        raise UsageError(f"{path} is not a run's log: name the columns of your own log with {', '.join(_COLUMNS)}.")
    return interaction_log.read(path, "--data_file"), clients.file_checksum(path)


def _model(options: TaskOptions, log: interaction_log.InteractionLog, width: int) -> dict[str, Any]:
    """Fields of `Task` that depend on the type of the contexts, including the model."""
    contexts = log.plain_contexts
    if log.catalogue is not None:
        return tasks.catalogue_model(options, contexts, width, log.catalogue, log.catalogue_actions)
    if isinstance(contexts, text.Bags):
        for name, value in (("model", options.model_name), ("hidden", options.hidden)):
            if value:
                raise UsageError(f"--{name} has no effect on bags of words: leave it out.")
        fields = tasks.words_model(width, log.num_actions)
    else:
        fields = tasks.array_model(options, contexts.shape[1:], log.num_actions)
    return fields if contexts is log.contexts else fields | {"feature_spec": Spec(fields["feature_spec"])}
