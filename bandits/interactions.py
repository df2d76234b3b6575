"""Writes the log of a run's interactions to the run's folder (`--log_interactions`), and reads it.

The log is written in parts, at least one for each checkpoint, along with the deployed model of each period. This module
does not import TensorFlow.
"""

import dataclasses
import functools
import itertools
import os
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits import flags as bandit_flags
from bandits import object_flags
from bandits.options import BanditOptions
from data import action_sets, clients, files, interaction_log, tasks
from data.errors import UsageError
from data.tasks import registry
from optimization.study import cli, loggers, results, run_folder

# Description, in `privacy.json`, of data that no privacy guarantee covers.
IN_WORDS = "the log of interactions, which shows each client's rounds, actions and rewards"
_PART = re.compile(r"rounds_(\d+)_(\d+)\.parquet")
_PERIOD = re.compile(r"period_(\d+)\.npz")
SETS = "has_sets"  # Entry in the report on a log whose contexts contain a set of actions for each row.
_MOST_ROWS = 1 << 20  # Maximum rows in memory; beyond it, rows are written before the checkpoint.


class LoggedRound(NamedTuple):
    """Log of the clients of a round.

    Attributes:
      round_num: The round, from 1.
      period: Deployment period of the round, from 0.
      deployed: The model that is deployed in the period, by variable name.
      columns: Arrays with one row per interaction, named like those of `interaction_log.InteractionLog`. `clients`
        (int32) holds positions among the task's clients, `models` (int32) the periods whose deployed models acted, and
        `rows` (int64) the positions of contexts among the client's examples. The other columns are `actions` (int32),
        `rewards` and `propensities` (float32).
    """

    round_num: int
    period: int
    deployed: Mapping[str, np.ndarray]
    columns: Mapping[str, np.ndarray]


class LogFiles(loggers.Callback):
    """Writes a run's log in parts. Each part is complete before its last round's checkpoint is saved."""

    def __init__(self, task: tasks.Task, deploy_every: int, last_logged: Callable[[], LoggedRound]):
        """Stores the task and the source of the rows.

        Args:
          task: The run's task.
          deploy_every: Rounds between deployments.
          last_logged: Returns the log of the last round.
        """
        self._task, self._deploy_every, self._last_logged = task, deploy_every, last_logged

    def on_start(self, run: loggers.ObservedRun) -> None:
        """Deletes the files of rounds after `run.first_round`, because these rounds will run again.

        Raises:
          Failure: If the folders cannot be written.
        """
        self._parts = run.folder / run_folder.INTERACTIONS
        self._models = run.folder / run_folder.DEPLOYED_MODELS
        self._waiting: list[LoggedRound] = []
        self._period = -1
        with files.write_errors(self._parts):
            for path in (self._parts, self._models):
                path.mkdir(exist_ok=True)
            self._parts.chmod(0o700)
            for part, (first, _) in _numbered(self._parts, _PART):
                if first > run.first_round:
                    part.unlink()
            for model, (period,) in _numbered(self._models, _PERIOD):
                if period * self._deploy_every >= run.first_round:
                    model.unlink()

    def on_round(self, row: Mapping[str, Any]) -> None:
        """Adds the log of the last round to the rows in memory.

        Raises:
          Failure: If a file cannot be written.
        """
        logged = self._last_logged()
        if logged.period != self._period:
            path = self._models / f"period_{logged.period:06d}.npz"
            if not path.exists():
                files.save_arrays(path, logged.deployed)
            self._period = logged.period
        self._waiting.append(logged._replace(deployed={}))
        if sum(len(each.columns["rows"]) for each in self._waiting) >= _MOST_ROWS:
            self.on_save()

    def on_save(self) -> None:
        """Writes the rows in memory to disk as one part.

        Raises:
          Failure: If it cannot be written.
        """
        if not self._waiting:
            return
        first, last = self._waiting[0].round_num, self._waiting[-1].round_num
        with files.whole(self._parts / f"rounds_{first:08d}_{last:08d}.parquet", 0o600) as file:
            interaction_log.write(_joined(self._waiting, self._task), file)
        self._waiting = []

    def on_end(self, run: loggers.ObservedRun) -> None:
        """Drops rows that were not written, because they belong to no checkpoint."""
        self._waiting = []


def _numbered(folder: pathlib.Path, pattern: re.Pattern) -> list[tuple[pathlib.Path, tuple[int, ...]]]:
    """Files of a folder that match a pattern, each with the numbers in its name, sorted by these numbers."""
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    matches = [match for name in names if (match := pattern.fullmatch(name))]
    return [(folder / match.string, tuple(map(int, match.groups()))) for match in matches]


def _joined(logged: Sequence[LoggedRound], task: tasks.Task) -> interaction_log.InteractionLog:
    """Several rounds as one log. It has no contexts, because `rows` identifies them."""
    sizes = [len(each.columns["rows"]) for each in logged]
    columns = {name: np.concatenate([each.columns[name] for each in logged]) for name in logged[0].columns}
    columns["rounds"] = np.repeat([each.round_num for each in logged], sizes)
    columns["periods"] = np.repeat([each.period for each in logged], sizes)
    owners, report = columns.pop("clients"), {SETS: True} if isinstance(task.feature_spec, action_sets.Spec) else {}
    return interaction_log.ordered(task.clients.client_ids, owners, None, action_names(task), columns, report=report)


def action_names(task: tasks.Task) -> list[str]:
    """Names of a task's actions; their numbers if they have no names, or if actions are slots of sets."""
    return list(() if task.has_action_features else task.action_names) or [
        str(action) for action in range(task.num_actions)
    ]


@dataclasses.dataclass(frozen=True)
class LoggedRun:
    """A run that wrote a log.

    Attributes:
      folder: Folder of the run.
      options: Options of the run.
      models: File of the deployed model, by period.
      log: Log of the run's clients, without contexts; `with_contexts` adds them in the format that the models expect.
    """

    folder: pathlib.Path
    options: BanditOptions
    models: Mapping[int, pathlib.Path]
    log: interaction_log.InteractionLog

    @functools.cached_property
    def task(self) -> tasks.Task:
        """The task of the run.

        Raises:
          UsageError: If its data has changed or no longer exists.
        """
        task = object_flags.with_recorded_model(registry.load(self.options.task), self.folder)
        recorded = results.read_json(self.folder / "config.json").get("data_checksum")
        if recorded not in (None, task.checksum):
            raise UsageError(
                f"The data of {self.folder} has changed, so the contexts of its log can no longer be read."
            )
        return task

    def with_contexts(self) -> "LoggedRun":
        """Copy of the run whose log has contexts, which are read from the data that the run's configuration names.

        If actions have features, the log also gets their catalogue and their names.

        Raises:
          UsageError: If the data has changed, no longer exists, or does not fit the log.
        """
        fields: dict[str, Any] = {}
        contexts, task = action_sets.joined(_contexts(self.log, self.task, self.folder)), self.task
        if task.has_action_features:
            contexts, catalogue, actions = action_sets.catalogued(contexts, task.catalogue_actions)
            names = task.action_names or self.log.action_names
            fields = {"catalogue": catalogue, "catalogue_actions": actions, "action_names": names}
        return dataclasses.replace(self, log=dataclasses.replace(self.log, contexts=contexts, **fields))


def is_logged(folder: str | os.PathLike) -> bool:
    """Whether a folder belongs to a run that wrote a log."""
    return bool(_numbered(pathlib.Path(folder) / run_folder.INTERACTIONS, _PART))


def is_part(path: str | os.PathLike) -> bool:
    """Whether a file is one part of a run's log."""
    part = pathlib.Path(path)
    return bool(_PART.fullmatch(part.name)) and part.parent.name == run_folder.INTERACTIONS


def read_run(folder: str | os.PathLike) -> LoggedRun:
    """Reads the log that a finished or unfinished run has written so far, without contexts.

    An interaction is returned once, even if it was trained on several times: in several rounds of a period with
    `--cache=persistent`, or twice in one round because a selector sampled its client twice.

    Args:
      folder: The run's folder.

    Raises:
      UsageError: If the run wrote no log, a part of the log is missing, or the run's configuration is not readable.
    """
    path = pathlib.Path(folder)
    parts = _numbered(path / run_folder.INTERACTIONS, _PART)
    if not parts:
        raise UsageError(f"{path} holds no log of interactions: start its run with --log_interactions.")
    for (_, (_, before)), (part, (first, _)) in itertools.pairwise([(path, (0, 0)), *parts]):
        if first != before + 1:
            raise UsageError(f"{part.parent} lacks the part of the log after round {before}: restore it from a copy.")
    log, options = interaction_log.read([part for part, _ in parts]), _options(path)
    when = log.periods if options.keeps_cache else log.rounds
    keys = np.stack([log.clients, np.asarray(when), np.asarray(log.rows)], axis=1)
    _, first_rows = np.unique(keys, axis=0, return_index=True)
    report = {**log.report, "repeated_rows": len(log) - len(first_rows), "duplicated_rows": 0}
    models = {period: model for model, (period,) in _numbered(path / run_folder.DEPLOYED_MODELS, _PERIOD)}
    return LoggedRun(path, options, models, dataclasses.replace(log.take(np.sort(first_rows)), report=report))


def _options(folder: pathlib.Path) -> BanditOptions:
    path = folder / "config.json"
    config = results.read_json(path)
    run_folder.check_format(folder, config)
    try:
        return bandit_flags.options(cli.Settings(dict(config["flags"])))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not readable as the configuration of a run of run_federated.") from error


def _contexts(log: interaction_log.InteractionLog, task: tasks.Task, folder: pathlib.Path) -> list[clients.Features]:
    """Contexts of each client's rows, in the order of the rows.

    Raises:
      UsageError: If the log does not belong to the task.
    """
    other = UsageError(f"The log in {folder} does not belong to the run's data: clients, examples or actions differ.")
    if list(log.action_names) != action_names(task) or not set(log.client_ids) <= set(task.clients.client_ids):
        raise other
    place = {name: index for index, name in enumerate(task.clients.client_ids)}
    bounds = np.searchsorted(log.clients, np.arange(len(log.client_ids) + 1))
    parts = []
    for client, name in enumerate(log.client_ids):
        rows = np.asarray(log.rows)[bounds[client] : bounds[client + 1]]
        examples = task.clients.load(place[name])
        if rows.max() >= len(examples.labels):
            raise other
        parts.append(task.normalize(examples.take(rows).features))
    return parts
