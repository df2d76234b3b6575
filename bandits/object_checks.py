"""Tests of a user's policy and metrics before the first round, on a few contexts of the task.

The policy and the metrics are executed in a TensorFlow graph, as on clients.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bandits import policies, process
from data import clients, objects, tasks
from data.action_sets import ActionSets
from data.errors import UsageError
from data.objects import UserObject
from optimization import models

_ROWS = 16


def check_policy(policy: policies.Policy, task: tasks.Task, heads: int) -> None:
    """Tests on random predictions whether a policy's rows are distributions, and whether its statistics are sums.

    The policy is tested with two keys, in two rounds, with statistics of random actions and with statistics of 0.

    Args:
      policy: The policy.
      task: The task, which provides the contexts.
      heads: Number of heads of the model.

    Raises:
      UsageError: If the policy fails, a row is not a distribution, the policy samples actions without their
        probabilities, or statistics are not declared as `Policy` describes.
    """
    name, model = f"policy {policy.name}", models.of_task(task, heads)
    is_declared = not policy.reads or policy.at_deployment in (policies.ACCUMULATE, policies.RESTART, policies.WITHIN)
    if ("statistics" in policy.asks) != bool(policy.reads) or not is_declared:
        raise UsageError(
            f"{name}: its statistics need a method, a probabilities argument, and at_deployment; see policies.Policy."
        )
    if "representation" in policy.reads and policy.at_deployment == policies.ACCUMULATE and len(model.shapes) > 2:
        raise UsageError(f"{name}: at_deployment must be restart or within: a deployment changes the representation.")
    examples = clients.joined([part for _, part in clients.chosen(task.clients, range(len(task.clients)), _ROWS, 0)])
    examples = examples.take(np.resize(np.arange(len(examples.labels)), _ROWS))
    contexts = models.dense(tf.nest.map_structure(tf.constant, task.normalize(examples.features)))
    offered = contexts.entries >= 0 if isinstance(contexts, ActionSets) else None
    num_actions = task.num_actions if offered is None else offered.shape[1]
    more = {"contexts": contexts, **_random(model, contexts, num_actions)}
    if offered is not None:
        more["action"] = tf.argmax(offered, axis=1, output_type=tf.int32)
        more["predicted_rewards"] = tf.where(offered, more["predicted_rewards"], -np.inf)
        more["head_rewards"] = tf.where(offered[:, tf.newaxis], more["head_rewards"], -np.inf)
    predicted, rows = more["predicted_rewards"], []
    try:
        sums = _checked_sums(policy, more)
        zeros = {each: tf.zeros_like(total) for each, total in sums.items()}
        for key, round_num, statistics in (1, 1, sums), (2, 1, sums), (1, 1000, sums), (2, 1000, sums), (1, 1, zeros):
            more |= {"key": tf.constant([0, key]), "round_num": tf.constant(round_num), "statistics": statistics}
            asked = {each: more[each] for each in policy.asks}
            with policies.shows_invalid_rows():
                rows.append(tf.function(policy.__call__, autograph=False)(predicted, offered, **asked))
    except Exception as error:  # The user's code can raise anything.
        raise UsageError(f"{name} fails on random predictions: {objects.first_line(error)}") from error
    if rows[0].dtype != tf.float32 or rows[0].shape != predicted.shape:
        returned = f"{rows[0].dtype.name} {list(rows[0].shape)}"
        raise UsageError(f"{name} returned {returned} for {_ROWS} contexts, not float32 {list(predicted.shape)}.")
    first, other = np.concatenate([rows[0], rows[2]]), np.concatenate([rows[1], rows[3]])
    if ((first.max(axis=1) == 1) & (other.max(axis=1) == 1) & (first != other).any(axis=1)).any():
        raise UsageError(
            f"{name} samples actions with its key, so their logged propensities would be 1: return probabilities "
            "instead, for example with policies.from_samples."
        )


def _random(model: models.Model, contexts: Any, num_actions: int) -> dict[str, Any]:
    """Random arguments of a policy and of its statistics."""
    draw = np.random.default_rng(0)
    weights = [draw.normal(0, 0.1, shape).astype(np.float32) for shape in model.shapes.values()]
    made = {
        "predicted_rewards": draw.random((_ROWS, num_actions), np.float32),
        "head_rewards": draw.random((_ROWS, model.heads, num_actions), np.float32),
        "action": draw.integers(num_actions, size=_ROWS, dtype=np.int32),
        "reward": draw.random(_ROWS, np.float32),
        "target": draw.random(_ROWS, np.float32),
        "propensity": draw.random(_ROWS, np.float32),
        "round_num": np.int32(1),
        policies.COUNT: np.float32(0),
    }
    made |= {"representation": model.body(weights, contexts)} if model.body is not None else {}
    return tf.nest.map_structure(tf.convert_to_tensor, made)


def _checked_sums(policy: policies.Policy, more: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """The policy's statistics for a log.

    Raises:
      ValueError: If a statistic of two parts does not add up to that of the whole, is not float32, or has a reserved
        name.
    """
    log, summed = {each: more[each] for each in policy.reads}, tf.function(policy.statistics, autograph=False)
    parts = [tf.nest.map_structure(lambda each, rows=rows: each[rows], log) for rows in (slice(5), slice(5, None))]
    total, *halves = [dict(summed(**rows)) for rows in (log, *parts)]
    for name, each in total.items():
        is_sum = each.dtype == tf.float32 and np.allclose(each, halves[0][name] + halves[1][name], 1e-3, 1e-3)
        if not is_sum or name in (policies.ROUND, policies.COUNT, policies.NOISE):
            raise ValueError(f"its statistic {name!r} is not a float32 sum over interactions, or has a reserved name")
    return total


def check_metrics(given: Sequence[UserObject], task: tasks.Task) -> None:
    """Calls metrics with the contexts of the first client, and with an empty log.

    Raises:
      UsageError: If a metric fails, or does not return a finite number or a pair that begins with one.
    """
    first = task.clients.load(0)
    for each, count in itertools.product(given, (len(first.labels), 0)):
        features = models.dense(task.normalize(first.take(np.arange(count)).features))
        log = {"action": tf.zeros(count, tf.int32), "reward": tf.zeros(count), "propensity": tf.ones(count)}
        try:
            totals = tf.function(process.metric_sums, autograph=False)([each], log, features).numpy()
            if not np.isfinite(totals[:, 0]).all():
                raise ValueError("the value is not finite")
        except Exception as error:  # The user's code can raise anything.
            raise UsageError(
                f"metrics: {each.label} returns no sums for {count} interactions: {objects.first_line(error)}."
            ) from error
