"""A deployment's log beside what its labels know: which reward each action would have earned. Imports TensorFlow."""

import dataclasses
import functools
import pathlib

import numpy as np

from bandits import inference, interactions
from bandits import registry as bandits
from bandits.evaluation import run_policy, terms
from bandits.options import phases
from data import interaction_log, log_checks, tasks
from data.errors import UsageError
from data.tasks import registry
from data.tasks.options import TaskOptions


@dataclasses.dataclass(frozen=True)
class Deployment:
    """A log, and each of its contexts once.

    Attributes:
      log: The log, with contexts.
      distinct: A row of it for each context, however often clients met it.
      context: int64 [rows], which of these each row's is.
      expected: float64 [contexts, actions], the expected reward of each action, from the labels.
    """

    log: interaction_log.InteractionLog
    distinct: interaction_log.InteractionLog
    context: np.ndarray
    expected: np.ndarray

    def true_reward(self, played: np.ndarray) -> float:
        """Returns the expected mean reward of an interaction: over the log's own rows, exact, with nothing drawn.

        Args:
          played: float64 [contexts, actions], what a policy plays.
        """
        return float((played * self.expected).sum(axis=1)[self.context].mean())

    def terms(self, played: np.ndarray, predictions: np.ndarray | None) -> terms.Terms:
        """Returns the terms of the log's rows for a policy; see `terms.of_rows`.

        Args:
          played: float64 [contexts, actions], what the policy plays.
          predictions: float64 [rows, actions], of a reward model; None for none.
        """
        log = self.log
        target = played[self.context]
        return terms.of_rows(log.clients, log.actions, log.rewards, log.propensities, target, predictions)


def read(folder: pathlib.Path) -> Deployment:
    """Reads the log of a run.

    Raises:
      UsageError: If it is deterministic, its rewards drift, or its data is not there any more.
    """
    run = interactions.read_run(folder)
    if run.options.drift.kind != "none":
        raise UsageError(f"{folder}: true rewards are those of labels, and --reward_drift changed what was paid.")
    log_checks.check_random(run.log.propensities, str(folder))
    distinct, context = each_once(run.log)
    phase = phases(run.options, run.task)[-1]
    return Deployment(run.log, distinct, context, expected_rewards(run.task, phase.rewards, distinct))


def each_once(log: interaction_log.InteractionLog) -> tuple[interaction_log.InteractionLog, np.ndarray]:
    """Returns the first row of each context, as a log, and int64 [rows], which of these has each row's context."""
    keys = np.stack([log.clients, np.asarray(log.rows)], axis=1)
    _, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return log.take(first[order]), np.argsort(order)[number]


def expected_rewards(task: tasks.Task, phase: str, log: interaction_log.InteractionLog) -> np.ndarray:
    """Returns what each action is expected to earn in the contexts of a log's rows, float64 [rows, actions].

    Args:
      task: The task that it was played on.
      phase: Key of the task's rewards.
      log: The log.
    """
    place = {name: index for index, name in enumerate(task.clients.client_ids)}
    bounds = np.searchsorted(log.clients, np.arange(len(log.client_ids) + 1))
    labels = [
        task.clients.load(place[name]).labels[np.asarray(log.rows)[bounds[client] : bounds[client + 1]]]
        for client, name in enumerate(log.client_ids)
    ]
    return inference.reward_vectors(np.concatenate(labels), task.rewards[phase]).numpy().astype(np.float64)


def played(folder: pathlib.Path, temperature: float, deployment: Deployment) -> np.ndarray:
    """Returns what a run's final model plays by softmax of a temperature, float64 [contexts, actions]."""
    chosen = run_policy.options(str(folder))
    policy = bandits.POLICIES["softmax"].chosen({"temperature": temperature})
    contexts = deployment.distinct.contexts
    assert contexts is not None
    return run_policy.of_contexts(_task(chosen.task), contexts, len(deployment.distinct), str(folder), chosen, policy)


@functools.lru_cache(maxsize=1)  # Candidates share it.
def _task(options: TaskOptions) -> tasks.Task:
    return registry.load(options)
