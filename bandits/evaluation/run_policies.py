"""The policy of a run's model on logged contexts: of its final one, or of each period's where it logged itself."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from bandits import experiment, interactions, losses, policies, process
from bandits.options import Phase, phases
from data import clients, files, text
from data.errors import UsageError
from optimization import models

_BATCH = 4096


def batches(contexts: clients.Features, count: int) -> Iterator[clients.Features]:
    """Yields contexts, [rows, ...] or bags of words, so many rows in all, in parts that fit into memory."""
    for start in range(0, count, _BATCH):
        rows = np.arange(start, min(start + _BATCH, count))
        yield contexts.take(rows) if isinstance(contexts, text.Bags) else contexts[rows]


def outputs(model: models.Model, weights: models.Weights, contexts: clients.Features, count: int) -> np.ndarray:
    """A model's outputs, float32 [rows, actions], on encoded contexts."""
    parts = [
        model.forward(weights, models.dense(tf.nest.map_structure(tf.convert_to_tensor, part))).numpy()
        for part in batches(contexts, count)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, *model.specs[-1].shape), np.float32)


def probabilities(
    model: models.Model,
    weights: models.Weights,
    loss: losses.Loss,
    policy: policies.Policy,
    contexts: clients.Features,
    count: int,
) -> np.ndarray:
    """Action probabilities of a policy on a model's predictions, float64 [rows, actions].

    Args:
      model: The model.
      weights: Its weights.
      loss: The loss that it was trained with, which says how outputs predict rewards.
      policy: The exploration.
      contexts: [rows, ...] or bags, as the model takes them.
      count: How many rows.

    Raises:
      UsageError: If contexts are not as the model takes them.
    """
    parts = [np.zeros((0, list(model.shapes.values())[-1][0] // model.heads))]
    try:
        for number, part in enumerate(batches(contexts, count)):
            seen = models.dense(tf.nest.map_structure(tf.convert_to_tensor, part))
            # What a policy draws itself, it draws once here.
            rows = process.probabilities(policy, model, weights, loss, seen, tf.constant([0, number]))
            parts.append(rows.numpy().astype(np.float64))
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        shape = "bags of words" if isinstance(contexts, text.Bags) else f"{contexts.shape[1:]}"
        raise UsageError(f"--policy: the run's model does not take the log's contexts, {shape}: {error}") from error
    rows = np.concatenate(parts)
    return rows / rows.sum(axis=1, keepdims=True)  # In float64, they sum to 1 more exactly.


def of_period(phase: Phase, num_actions: int, period: int) -> policies.Policy:
    """Policy that a run deploys in a period, counted from 0, with the scheduled parameter."""
    value = phase.scheduled_value(num_actions, period)
    return phase.policy.build(None if value is None else tf.constant(value, tf.float32))


def of_periods(run: interactions.LoggedRun) -> np.ndarray:
    """Action probabilities of the deployed model that acted in each logged row.

    Args:
      run: The run, its log read with contexts.

    Returns:
      float64 [rows, actions]; at the logged actions, the logged propensities but for rounding.

    Raises:
      UsageError: If a period's model is not there, or damaged.
      ValueError: If the log has no contexts.
    """
    log = run.log
    if log.contexts is None:
        raise ValueError("The log was read without contexts.")
    *_, phase = phases(run.options, run.task)
    model = models.of_task(run.task, run.options.heads)
    loss = experiment.build_loss(phase, run.task.num_actions)
    by_row = np.zeros((len(log), run.task.num_actions))
    acted = np.asarray(log.models)
    for period in np.unique(acted):
        if period not in run.models:
            raise UsageError(f"{run.folder} has no model of period {period} any more.")
        kept = files.read_arrays(run.models[period])
        shapes = {name: array.shape for name, array in kept.items() if np.isfinite(array).all()}
        if not model.shapes.items() <= shapes.items():
            raise UsageError(f"{run.models[period]} is not a model of this run with finite weights: restore a copy.")
        weights = tuple(kept[name] for name in model.shapes)
        policy = of_period(phase, run.task.num_actions, int(period))
        rows = np.flatnonzero(acted == period)
        contexts = log.take(rows).contexts
        assert contexts is not None
        by_row[rows] = probabilities(model, weights, loss, policy, contexts, len(rows))
    return by_row
