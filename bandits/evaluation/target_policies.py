"""Target policies by name, and their action probabilities in the rows of a log.

TensorFlow is imported when a run's model is first used.
"""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bandits import flags, object_flags, registry, run_federated
from bandits.options import BanditOptions, Phase, phases
from bandits.results import runs
from data import action_sets, clients, files, interaction_log, log_checks, schema, statistics, tasks, text
from data.errors import UsageError, counted
from data.tasks import registry as tasks_registry
from optimization.study import cli, frame, run_folder

if TYPE_CHECKING:
    from bandits import losses, policies
    from optimization import models

KINDS = {
    "logged": "the logging policy itself, with weights of 1",
    "uniform": "every offered action equally often",
    "constant:ACTION": "always that action; uniform in rows that do not offer it",
    "column:NAME,...": "a column with the probability of the logged action; or a column for each action, matched "
    "by name (column low or pi_low for action low) or by pairs: column:low=pi_1,high=pi_2",
    "run:FOLDER": "a run's model, with the exploration of the run or of --bandits_type",
}
_WITHOUT_NAME = ("logged", "uniform")
_WITH_NAME = ("constant", "column", "run")
_BATCH = 4096


class Target(NamedTuple):
    """The policy that `--policy` names.

    Attributes:
      kind: `logged`, `uniform`, `constant`, `column` or `run`.
      name: The action, the columns, or the folder; empty for `logged` and `uniform`.
      run: The folder of the run whose predictions are in the columns; empty for other policies.
    """

    kind: str
    name: str = ""
    run: str = ""

    def __str__(self) -> str:
        if self.run:
            folder = pathlib.Path(self.run)
            return f"run:{'/'.join(folder.parts[-2:]) if folder.name.startswith('seed_') else folder.name}"
        return f"{self.kind}:{self.name}" if self.name else self.kind

    @property
    def has_each_probability(self) -> bool:
        """Whether the probability of every action is known, which estimators with a reward model require."""
        return self.kind != "logged" and (self.kind != "column" or len(schema.listed(self.name)) > 1)


def parse(policy: str) -> Target:
    """The target policy that `--policy` names.

    Raises:
      UsageError: If the policy is not one of `KINDS`, or a run's folder does not exist.
    """
    kind, _, name = policy.partition(":")
    if policy not in _WITHOUT_NAME and (kind not in _WITH_NAME or not name):
        raise UsageError(f"--policy={policy} must be one of {', '.join(KINDS)}.")
    if kind == "run" and not pathlib.Path(name).is_dir():
        raise UsageError(f"--policy={policy}: there is no folder {name}.")
    return Target(kind, name)


def probabilities(target: Target, log: interaction_log.InteractionLog) -> np.ndarray:
    """Action probabilities of a policy other than a run's.

    Args:
      target: The policy.
      log: The log. It needs `probabilities` if the policy is of kind `column`.

    Returns:
      float64 [rows, actions], or [rows, slots] if actions have features. For `logged` and for a single column, only the
      probabilities of the logged actions, float64 [rows].

    Raises:
      UsageError: If the log does not have the action or the probabilities, or a column's policy chooses an action that
        is not offered.
    """
    if target.kind == "logged":
        return log.propensities
    is_offered = log.slot_actions >= 0
    if target.kind == "column":
        if log.probabilities is None:
            raise UsageError(f"--policy={target}: the log has no such columns.")
        if log.probabilities.ndim == 2 and (wrong := int(((log.probabilities > 0) & ~is_offered).any(axis=1).sum())):
            raise UsageError(f"--policy={target} chooses actions that are not offered in {counted(wrong, 'row')}.")
        return log.probabilities
    rows = is_offered / is_offered.sum(axis=1, keepdims=True)
    if target.kind == "constant":
        is_action = log.slot_actions == log_checks.check_action(target.name, log.action_names, f"--policy={target}")
        rows = np.where(is_action.any(axis=1, keepdims=True), is_action, rows)
    return np.broadcast_to(rows, (len(log), rows.shape[1]))


def where_not_offered(target: Target, log: interaction_log.InteractionLog) -> list[log_checks.Finding]:
    """Finding on rows that do not offer a `constant` policy's action; empty for other policies and without sets."""
    if target.kind != "constant" or not log.has_sets:
        return []
    missing = len(log) - int((log.slot_actions == log.action_names.index(target.name)).sum())
    text = f"{missing:,} of {len(log):,} rows do not offer {target.name!r}: there, the policy is uniform over the set."
    return [log_checks.Finding("offered", False, text)]


def options_of_run(folder: str) -> BanditOptions:
    """The options that a run's flags define.

    Raises:
      UsageError: If the folder is not a run of run_federated, or its model is not saved.
    """
    try:
        run = runs.read(pathlib.Path(folder))
    except UsageError as error:
        raise UsageError(f"--policy=run:{folder} is not the folder of a run: {error}") from error
    if "bandits_type" not in run.flags:
        raise UsageError(f"--policy=run:{folder} is not a run of run_federated.")
    run_folder.find_model(folder)
    settings = frame.flag_set(run_federated.STUDY).parse(["evaluate_policy"])
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in run.flags.items()}
    made = flags.options(settings.replace(**{name: values[name] for name in settings if name in values}))
    is_keras = str(run.flags.get("model")).startswith("keras:")
    if is_keras and not (pathlib.Path(folder) / run_folder.KERAS_FILE).is_file():
        raise UsageError(f"{folder} has a Keras model that an earlier version did not save: run it again.")
    return made


def known_statistics(folder: str) -> statistics.OfTable | None:
    """Statistics that a run uses to encode a table's columns; None if it did not record any."""
    path = pathlib.Path(folder) / run_folder.STATISTICS_FILE
    return statistics.read_table(str(path)) if path.is_file() else None


def policy_sums(folder: str) -> dict[str, np.ndarray]:
    """Deployed sums of a run's policy, float32 by name; empty if there are none."""
    path = pathlib.Path(folder) / run_folder.POLICY_FILE
    sums = files.read_arrays(path) if path.is_file() else {}
    return {name: total.astype(np.float32) for name, total in sums.items()}


@dataclasses.dataclass(frozen=True)
class RunModel:
    """A model and policy of a run.

    Attributes:
      phase: Options of the run's last phase.
      num_actions: Number of actions.
      model: The model.
      weights: Weights of the model.
      sums: Deployed sums of the user's policy, float32 by name; empty if there are none.
    """

    phase: Phase
    num_actions: int
    model: "models.Model"
    weights: "models.Weights"
    sums: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict, kw_only=True)

    @property
    def loss(self) -> "losses.Loss":
        """The loss that the model was trained with."""
        from bandits import process_factory

        return process_factory.build_loss(self.phase, self.num_actions)

    @property
    def state(self) -> dict[str, Any]:
        """State of the user's policy after the run; see `process.ClientInput.policy_state`."""
        return {"round_num": np.int32(self.phase.total_rounds + 1), **self.sums}

    def policy(self, period: int | None = None) -> "policies.Policy":
        """The policy that the run deploys in a period, counted from 0; by default the one after the last period.

        The policy depends on the period if a parameter is scheduled.
        """
        import tensorflow as tf

        value = self.phase.scheduled_value(self.num_actions, self.phase.periods if period is None else period)
        return self.phase.policy.build(None if value is None else tf.constant(value, tf.float32))

    def probabilities(self, contexts: clients.Features, count: int, period: int | None = None) -> np.ndarray:
        """Action probabilities, float64 [rows, actions], or [rows, slots] if actions have features.

        Args:
          contexts: Contexts of all rows, in the form that the model expects.
          count: Number of rows.
          period: See `policy`.

        Raises:
          UsageError: If the contexts do not fit the model.
        """
        import tensorflow as tf

        from bandits import policies, process
        from optimization import models

        slots = contexts.entries.shape[1] if isinstance(contexts, action_sets.ActionSets) else self.num_actions
        policy, parts = self.policy(period), [np.zeros((0, slots))]
        try:
            for number, part in enumerate(_batches(contexts, count)):
                seen = models.dense(tf.nest.map_structure(tf.convert_to_tensor, part))
                key = tf.constant([0, number])  # A policy that samples random numbers gets fixed keys here.
                with policies.shows_invalid_rows():
                    rows, _ = process.probabilities(policy, self.model, self.weights, self.loss, seen, key, self.state)
                parts.append(rows.numpy().astype(np.float64))
        except (tf.errors.InvalidArgumentError, ValueError) as error:
            shape = "bags of words" if isinstance(contexts, text.Bags) else f"{clients.arrays(contexts)[0].shape[1:]}"
            raise UsageError(f"--policy: the run's model rejects the log's contexts, {shape}: {error}") from error
        rows = np.concatenate(parts)
        return rows / rows.sum(axis=1, keepdims=True)  # In float64, the sums are closer to 1.


def _batches(contexts: clients.Features, count: int) -> Iterator[Any]:
    """Yields contexts in batches that fit into memory."""
    for start in range(0, count, _BATCH):
        yield text.take(contexts, np.arange(start, min(start + _BATCH, count)))


def outputs(model: "models.Model", weights: "models.Weights", contexts: clients.Features, count: int) -> np.ndarray:
    """A model's outputs, float32 [rows, actions], on encoded contexts."""
    import tensorflow as tf

    from optimization import models

    parts = [
        model.forward(weights, models.dense(tf.nest.map_structure(tf.convert_to_tensor, part))).numpy()
        for part in _batches(contexts, count)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, *model.specs[-1].shape), np.float32)


def of_final_model(
    log: interaction_log.InteractionLog, folder: str, chosen: BanditOptions, settings: cli.Settings
) -> np.ndarray:
    """Action probabilities of a run's final model, float64 [rows, actions], or [rows, slots] if actions have features.

    A scheduled parameter has its value for the next deployment after the run.

    Args:
      log: The log.
      folder: The run's folder.
      chosen: Options of the run.
      settings: The flags; without `bandits_type`, the exploration strategy is that of the run.

    Raises:
      UsageError: If the log's contexts or actions do not fit the model.
    """
    from optimization import models

    task = object_flags.with_recorded_model(tasks_registry.load(chosen.task), pathlib.Path(folder))
    if task.has_action_features != (log.catalogue is not None):
        raise UsageError(
            f"--policy=run:{folder}: only one of the run and --log has features of actions: give both alike."
        )
    if not task.has_action_features and task.num_actions != len(log.action_names):
        raise UsageError(
            f"--policy=run:{folder} chooses among {task.num_actions} actions, but the log has {len(log.action_names)}: "
            "--action_names adds actions that were never chosen."
        )
    order = list(range(log.slot_actions.shape[1]))
    if not task.has_action_features and task.action_names and log.action_names != tuple(map(str, order)):
        by_action = schema.by_name(task.action_names, log.action_names)
        if by_action is None:
            raise UsageError(
                f"--policy=run:{folder} names its actions {', '.join(task.action_names)}, but the log names them "
                f"{', '.join(log.action_names)}: rename the log's actions, so that it is clear which are the same."
            )
        order = [task.action_names.index(name) for name in by_action.values()]
    model, contexts = models.of_task(task, chosen.heads), _contexts(log, task, folder)
    if not task.has_action_features and (log.has_sets or isinstance(task.feature_spec, action_sets.Spec)):
        is_offered = np.broadcast_to(log.slot_actions >= 0, (len(log), len(order)))[:, np.argsort(order)]
        contexts = contexts.contexts if isinstance(contexts, action_sets.ActionSets) else contexts
        contexts = action_sets.of_entries(contexts, np.where(is_offered, np.arange(len(order)), -1))
        model = model if isinstance(task.feature_spec, action_sets.Spec) else models.restricted(model)
    weights = tuple(run_folder.load_model(folder, model.shapes))
    phase = phases(chosen, task)[-1]
    if settings.bandits_type:
        entry = registry.POLICIES[settings.bandits_type]
        policy = entry.chosen({name: settings[f"bandits_{name}"] for name in entry.parameters})
        phase = dataclasses.replace(phase, policy=policy)
    run_model = RunModel(phase, task.num_actions, model, weights, sums=policy_sums(folder))
    return run_model.probabilities(contexts, len(log))[:, order]


def _contexts(log: interaction_log.InteractionLog, task: tasks.Task, folder: str) -> clients.Features:
    """The log's contexts, encoded for a run's model; they are read from the task if the log has none."""
    if (contexts := log.encoded_contexts) is not None:
        return contexts
    place = {name: index for index, name in enumerate(task.clients.client_ids)}
    if log.rows is None or not set(log.client_ids) <= place.keys():
        raise UsageError(f"--policy=run:{folder}: the log has no contexts, and its clients are not those of the run.")
    parts = []
    for client, name in enumerate(log.client_ids):
        rows = log.rows[log.clients == client]
        parts.append(task.normalize(task.clients.load(place[name]).take(rows).features))
    return action_sets.joined(parts)
