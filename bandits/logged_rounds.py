"""Rounds that train on logs, which clients wrote before the round, or which the server pools for a whole cohort.

**A run that writes its log.** Rounds return only sums. Therefore the clients' inference is a separate computation, and
the round trains on its output, with `feedback="logged"` in `process.BanditProcess`. The results are the same as if the
clients acted during the round.

**Pooled logs.** Each client acts as in a federated round. The cohort's logs are then pooled, and train the model as
those of a single client.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits import interactions, losses, process, round_parts
from bandits.round_parts import Participation
from data import clients, keys, tasks, text
from data.action_sets import ActionSets
from optimization import fed_avg, models
from optimization.runtime import rounds
from optimization.study import run_folder

_LOGGED = {"action": tf.int32, "reward": tf.float32, "propensity": tf.float32}


def trained(definition: process.BanditProcess) -> process.BanditProcess:
    """Returns the definition of the same rounds for clients who have already acted."""
    return dataclasses.replace(definition, feedback="logged", label_spec=tf.TensorSpec((None, len(_LOGGED))))


class Group(NamedTuple):
    """Several clients, concatenated, because a call for each small client would take longer than its inference.

    Attributes:
      features: Contexts of all clients, in the format of `process.ClientInput`.
      labels: Labels of all clients, in the format of `process.ClientInput`.
      bounds: int32 [clients + 1], where each client's examples begin, and where the last ones end.
      keys: int32 [clients, 2], keys of their actions.
      scalars: Scalar fields of `process.ClientInput`, each [clients].
      half: bool [examples], the clients' `half`, concatenated.
    """

    features: clients.Features
    labels: np.ndarray
    bounds: np.ndarray
    keys: np.ndarray
    scalars: dict[str, np.ndarray]
    half: np.ndarray

    def client(self, place: tf.Tensor) -> process.ClientInput:
        """Input of the client at an index, in TensorFlow, with the same key for its actions and its mini-batches."""
        start, end = self.bounds[place], self.bounds[place + 1]
        features = _rows(self.features, start, end)
        keys = process.ClientKeys(cache=self.keys[place], training=self.keys[place])
        scalars = {name: values[place] for name, values in self.scalars.items()}
        return process.ClientInput(features, self.labels[start:end], keys, **scalars, half=self.half[start:end])


def _rows(features: Any, start: tf.Tensor, end: tf.Tensor) -> Any:
    """Features of the rows from `start` up to, but not including, `end`, in TensorFlow."""
    if isinstance(features, ActionSets):
        return ActionSets(
            _rows(features.contexts, start, end), features.entries[start:end], features.actions[start:end]
        )
    if not isinstance(features, text.Bags):
        return features[start:end]
    offsets = features.offsets[start : end + 1]
    first, last = offsets[0], offsets[-1]
    return text.Bags(features.ids[first:last], features.values[first:last], offsets - first)


_SCALARS = {"delay": np.int32, "position": np.int32, "scheduled": np.float32, "environment_position": np.float32}


def type_of_group(definition: process.BanditProcess) -> tff.Type:
    """TFF type of a `Group`."""
    return tff.StructWithPythonType(
        [
            ("features", tff.types.tensorflow_to_type(definition.feature_spec)),
            ("labels", tff.types.tensorflow_to_type(definition.label_spec)),
            ("bounds", tff.TensorType(np.int32, (None,))),
            ("keys", tff.TensorType(np.int32, (None, 2))),
            ("scalars", tff.to_type({name: tff.TensorType(dtype, (None,)) for name, dtype in _SCALARS.items()})),
            ("half", tff.TensorType(np.bool_, (None if definition.halves else 0,))),
        ],
        Group,
    )


class LoggedRounds(round_parts.FederatedRounds):
    """Rounds whose clients act before the round trains on their logs, so that the logs can be written.

    Attributes:
      logged: The log of the last round.
    """

    logged: interactions.LoggedRound

    def __init__(self, task: tasks.Task, acting: process.BanditProcess, process_of: Callable[[int], Any]):
        """Builds the computation.

        Args:
          task: The task.
          acting: Definition of rounds in which clients act.
          process_of: Returns the process of a round of `trained(acting)`, given the round number.
        """
        super().__init__(process_of, acting)
        self.loggers = [interactions.LogFiles(task, acting.deploy_every, lambda: self.logged)]
        # All clients act, even if their rewards are observed later.
        all_act = dataclasses.replace(acting, is_delayed=False)
        deployed_type = tff.to_type((acting.weights_type,) * (1 + acting.max_delay))

        @tff.tensorflow.computation(deployed_type, acting.client_type)
        def act(deployed, client):
            cache, _ = all_act.act(deployed, client)
            return [cache[name] for name in _LOGGED]

        self._each = fed_avg.at_clients(act)

    def prepared(self, participations: Sequence[Participation], round_num: int) -> Sequence[Participation]:
        return participations

    def next(
        self, server: fed_avg.State, inputs: Sequence[Participation], round_num: int
    ) -> tuple[fed_avg.State, fed_avg.RoundMetrics]:
        return super().next(server, self.act(server.deployed, inputs, round_num), round_num)

    def finish(self, server: fed_avg.State, folder: run_folder.RunFolder) -> Sequence[str]:
        shown = "each client's rounds, actions and rewards, and no privacy guarantee covers them"
        return [f"Interactions are in {folder.path / run_folder.INTERACTIONS}. Keep them secret: they show {shown}."]

    def act(
        self, deployed: Sequence, participations: Sequence[Participation], round_num: int
    ) -> list[process.ClientInput]:
        """Lets a round's clients act, stores their log in `logged`, and returns the inputs that train on it.

        Args:
          deployed: Deployed models before the round, as in `fed_avg.State`.
          participations: Clients of the round.
          round_num: The round.
        """
        deployment, cohort = (round_num - 1) // self.definition.deploy_every, [each.inputs for each in participations]
        columns, sizes = self._columns(deployed, cohort), [len(each.rows) for each in participations]
        labels = np.split(np.stack(columns, axis=1).astype(np.float32), np.cumsum(sizes[:-1], dtype=int))
        acted = [max(0, deployment - int(each.delay)) for each in cohort]
        log = {
            "clients": np.repeat(np.array([each.client for each in participations], np.int32), sizes),
            "models": np.repeat(np.array(acted, np.int32), sizes),
            "rows": np.concatenate([np.zeros(0, np.int64), *(each.rows for each in participations)]),
            **dict(zip(("actions", "rewards", "propensities"), columns, strict=True)),
        }
        observed = np.concatenate([np.zeros(0, bool), *(each.observed for each in cohort)])
        if len(observed):  # The log has only rewards that were observed.
            log = {name: column[observed] for name, column in log.items()}
        model = dict(zip(self.definition.model.shapes, deployed[0], strict=True))
        self.logged = interactions.LoggedRound(round_num, deployment, model, log)
        return [each._replace(labels=logged) for each, logged in zip(cohort, labels, strict=False)]

    def _columns(self, deployed: Sequence, cohort: Sequence[process.ClientInput]) -> list[np.ndarray]:
        """All clients' actions (int32), rewards and propensities (float32), concatenated, each [examples]."""
        logs: list[Sequence] = [()] * len(cohort)
        rounds.current_context().each_client(self._each, [deployed], cohort, logs.__setitem__)
        empty = [np.zeros(0, dtype.as_numpy_dtype) for dtype in _LOGGED.values()]
        return [np.concatenate([np.asarray(part) for part in column]) for column in zip(empty, *logs, strict=True)]


def grouped(cohort: Sequence[process.ClientInput]) -> Group:
    """Returns a group of at least one client."""
    features, labels = clients.joined([clients.Examples(each.features, each.labels) for each in cohort])
    return Group(
        features,
        labels,
        np.cumsum([0, *(len(each.labels) for each in cohort)]).astype(np.int32),
        np.stack([each.keys.cache for each in cohort]),
        {name: np.array([getattr(each, name) for each in cohort], dtype) for name, dtype in _SCALARS.items()},
        np.concatenate([each.half for each in cohort]),
    )


_ROWS: tuple = (None,)


class PooledInput(NamedTuple):
    """Input of a whole cohort to a round.

    Attributes:
      group: Clients of the cohort.
      key: int32 [2], key of the mini-batches.
      position: int32, place of the single client in its cohort; always 0.
    """

    group: Group
    key: np.ndarray
    position: np.int32 = np.int32(0)


def pooled_inputs(cohort: Sequence[process.ClientInput], key: np.ndarray) -> list[PooledInput]:
    """Returns the cohort as one client; no client if the cohort is empty."""
    return [PooledInput(grouped(cohort), key)] if cohort else []


class PooledRounds(round_parts.FederatedRounds):
    """Rounds of one client who has the logs of a whole cohort."""

    def __init__(self, process_of: Callable[[int], Any], definition: process.BanditProcess, seed: int, population: int):
        """Stores the rounds, the seed of the run, and the task's number of clients."""
        super().__init__(process_of, definition)
        self._seed, self._population = seed, population

    def prepared(self, participations: Sequence[Participation], round_num: int) -> Any:
        key = keys.tensorflow_key(self._seed, keys.Purpose.TRAINING, round_num, self._population)
        return pooled_inputs([each.inputs for each in participations], key)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PooledProcess(process.BanditProcess):
    """Defines rounds that train on the pooled logs of a cohort; see `process.BanditProcess`."""

    @property
    def client_type(self) -> tff.Type:
        """TFF type of a `PooledInput`."""
        key = tff.TensorType(np.int32, (2,))
        parts = [("group", type_of_group(self)), ("key", key), ("position", tff.TensorType(np.int32))]
        return tff.StructWithPythonType(parts, PooledInput)

    def log(self, deployed: tuple, client: Any) -> fed_avg.Log:
        group: Group = client.group
        count = tf.shape(group.keys)[0]
        logs = {
            name: tf.TensorArray(dtype, count, element_shape=shape, infer_shape=False)
            for name, (dtype, shape) in self._columns.items()
        }
        sums = {"reward_sum": tf.constant(0.0), "propensity_sum": tf.constant(0.0)}
        if self.feedback != "logged":
            sums["unusable_rows"] = tf.constant(0)
        if self.halves:
            for name, dtype in (("half_rewards", tf.float32), ("half_examples", tf.int32)):
                sums[name] = tf.zeros((2, self.halves), dtype)
        if self.own_metrics:
            sums["own"] = tf.zeros((len(self.own_metrics), 2))

        def act(place, logs, sums):
            logged = process.BanditProcess.log(self, deployed, group.client(place))
            logs = {name: log.write(place, logged.examples[name]) for name, log in logs.items()}
            return place + 1, logs, {name: total + logged.sums[name] for name, total in sums.items()}

        # One client at a time, so that sums are always taken in the same order.
        _, logs, sums = tf.while_loop(lambda place, *_: place < count, act, (0, logs, sums), parallel_iterations=1)
        examples = {"features": models.dense(group.features), **{name: log.concat() for name, log in logs.items()}}
        rows = group.bounds[-1]
        return fed_avg.Log(examples, rows, tf.cast(rows, tf.float32), client.key, sums=sums)

    def only_chosen(self, examples):
        return examples  # `log` takes the features of all actions from the group.

    @property
    def _columns(self) -> dict[str, tuple[tf.DType, tuple]]:
        """Dtypes and shapes of the columns that training reads from a client's log, besides its features."""
        has_sets = isinstance(self.feature_spec, ActionSets)
        if self.loss.full_feedback:
            slots = None if has_sets else self.reward_matrix.shape[-1]
            columns = {losses.FULL_FEEDBACK: (tf.float32, (*_ROWS, slots))}
        else:
            columns = {"action": (tf.int32, _ROWS), "reward": (tf.float32, _ROWS), "propensity": (tf.float32, _ROWS)}
        if has_sets and (self.loss.full_feedback or not self.loss.needs_only_chosen_output):
            columns[losses.OFFERED] = tf.bool, (None, None)
        return columns | ({losses.BOOTSTRAP: (tf.float32, (None, self.model.heads))} if self.model.heads > 1 else {})
