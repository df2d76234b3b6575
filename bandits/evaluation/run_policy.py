"""A run's policy: its options, and its action probabilities on logged contexts."""

import dataclasses
import pathlib
from typing import TYPE_CHECKING

import numpy as np

from bandits import flags, object_flags, registry, run_federated
from bandits.options import BanditOptions, phases
from bandits.results import runs
from data import clients, interaction_log, schema, statistics, tasks, text
from data.errors import UsageError
from data.tasks import registry as tasks_registry
from optimization.study import cli, frame, run_folder

if TYPE_CHECKING:
    from data.statistics import OfTable


def options(folder: str) -> BanditOptions:
    """Options of a run's flags.

    Raises:
      UsageError: If the folder is no run of run_federated, or has no model yet.
    """
    try:
        run = runs.read(pathlib.Path(folder))
    except UsageError as error:
        raise UsageError(f"--policy=run:{folder} is no run's folder: {error}") from error
    if "bandits_type" not in run.flags:
        raise UsageError(f"--policy=run:{folder} is no run of run_federated.")
    run_folder.find_model(folder)
    settings = frame.flag_set(run_federated.STUDY).parse(["evaluate_policy"])
    made = flags.options(settings.replace(**{name: run.flags[name] for name in settings if name in run.flags}))
    if "python_model" in run.flags and not (pathlib.Path(folder) / run_folder.KERAS_FILE).is_file():
        raise UsageError(f"{folder} trained a Keras model, which an earlier version did not keep: run it again.")
    if recorded := run.flags.get("python_policy"):
        made = dataclasses.replace(made, policy=object_flags.of_record(recorded))
    return made


def exploration(settings: cli.Settings, run_options: BanditOptions) -> registry.Chosen:
    """Exploration of `--bandits_type` and its parameters; the run's own by default."""
    if not settings.bandits_type:
        return run_options.policy
    entry = registry.POLICIES[settings.bandits_type]
    return entry.chosen({name: settings[f"bandits_{name}"] for name in entry.parameters})


def known_statistics(folder: str) -> "OfTable | None":
    """Statistics with which a run encodes a table's columns; None if it recorded none."""
    path = pathlib.Path(folder) / "statistics.json"
    return statistics.read_table(str(path)) if path.is_file() else None


def contexts(log: interaction_log.InteractionLog, task: tasks.Task, folder: str) -> clients.Features:
    """The log's contexts encoded for a run's model; read from the task if the log has none.

    Raises:
      UsageError: If the log has neither contexts nor rows of the task's clients.
    """
    if log.contexts is not None:
        return log.contexts
    place = {name: index for index, name in enumerate(task.clients.client_ids)}
    if log.rows is None or not set(log.client_ids) <= place.keys():
        raise UsageError(f"--policy=run:{folder}: the log has no contexts, and its clients are not those of the run.")
    parts = []
    for client, name in enumerate(log.client_ids):
        rows = log.rows[log.clients == client]
        parts.append(task.normalize(task.clients.load(place[name]).take(rows).features))
    bags = [part for part in parts if isinstance(part, text.Bags)]
    return text.joined(bags) if bags else np.concatenate(parts)


def probabilities(
    log: interaction_log.InteractionLog, folder: str, chosen: BanditOptions, policy: registry.Chosen
) -> np.ndarray:
    """Action probabilities of the run's final model, float64 [rows, actions]; imports TensorFlow.

    Of a schedule it is the value of the deployment that would come next.

    Raises:
      UsageError: If the log's contexts or actions are not the model's.
    """
    task = object_flags.with_recorded_model(tasks_registry.load(chosen.task), pathlib.Path(folder))
    if task.num_actions != len(log.action_names):
        raise UsageError(
            f"--policy=run:{folder} chooses among {task.num_actions} actions, and the log has {len(log.action_names)}: "
            "--action_names adds actions that were never chosen."
        )
    by_position = of_contexts(task, contexts(log, task, folder), len(log), folder, chosen, policy)
    numbers = tuple(map(str, range(task.num_actions)))
    if not task.action_names or log.action_names == numbers:
        return by_position
    by_action = schema.by_name(task.action_names, log.action_names)
    if by_action is None:
        raise UsageError(
            f"--policy=run:{folder} names its actions {', '.join(task.action_names)}, and the log names them "
            f"{', '.join(log.action_names)}: rename the log's actions, so that it is clear which are the same."
        )
    return by_position[:, [task.action_names.index(name) for name in by_action.values()]]


def of_contexts(
    task: tasks.Task, inputs: clients.Features, count: int, folder: str, chosen: BanditOptions, policy: registry.Chosen
) -> np.ndarray:
    """Action probabilities of the run's final model, for contexts instead of a log.

    Args:
      task: The run's.
      inputs: Contexts encoded for its model.
      count: How many.
      folder: The run's.
      chosen: What its flags mean.
      policy: The exploration.

    Raises:
      UsageError: If contexts are not as the model takes them.
    """
    from bandits import experiment
    from bandits.evaluation import run_policies
    from optimization import models

    model = models.of_task(task, chosen.heads)
    weights = tuple(run_folder.load_model(folder, model.shapes))
    phase = dataclasses.replace(phases(chosen, task)[-1], policy=policy)
    loss = experiment.build_loss(phase, task.num_actions)
    acting = run_policies.of_period(phase, task.num_actions, phase.periods)
    return run_policies.probabilities(model, weights, loss, acting, inputs, count)
