"""Rounds whose clients act first and then train on this very log, which a run writes.

Rounds return sums alone. So the clients' inference is a computation of its own, and the round trains on what it gave,
by `process.BanditProcess` with `feedback="logged"`: its numbers are those of a round that acts itself.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits import interactions, process
from data import clients, text
from optimization import fed_avg
from optimization.runtime import rounds

_LOGGED = {"action": tf.int32, "reward": tf.float32, "propensity": tf.float32}


class Visit(NamedTuple):
    """A client in a round.

    Attributes:
      given: What it brings.
      client: Its position among the task's clients.
      rows: int64 [examples], which of all its examples it brings.
    """

    given: process.ClientInput
    client: int
    rows: np.ndarray


def trained(definition: process.BanditProcess) -> process.BanditProcess:
    """Returns the rounds of clients that have acted before."""
    return dataclasses.replace(definition, feedback="logged", label_spec=tf.TensorSpec((None, len(_LOGGED))))


class _Group(NamedTuple):
    """Several clients behind each other: one call for all, as a call takes longer than a small client's inference.

    Attributes:
      features: Their contexts, as `process.ClientInput` has those of one.
      labels: Likewise.
      bounds: int32 [clients + 1], where each one's examples begin, and the end.
      keys: int32 [clients, 2], keys of their actions.
      scalars: `delay`, `moved` and `world` of `process.ClientInput`, each [clients].
    """

    features: clients.Features
    labels: np.ndarray
    bounds: np.ndarray
    keys: np.ndarray
    scalars: dict[str, np.ndarray]


_SCALARS = {"delay": np.int32, "moved": np.float32, "world": np.float32}


class ActingFirst:
    """Has the clients of a round act, before it.

    Attributes:
      deploy_every: Rounds between deployments.
      logged: What the clients of the last round logged.
    """

    logged: interactions.LoggedRound

    def __init__(self, definition: process.BanditProcess):
        """Builds the computation; `definition` is that of rounds which act themselves."""
        self.deploy_every = definition.deploy_every
        self._names = list(definition.model.shapes)
        acting = dataclasses.replace(definition, is_late=False)  # All act, whenever their rewards arrive.
        group_type = tff.StructWithPythonType(
            [
                ("features", tff.types.tensorflow_to_type(definition.feature_spec)),
                ("labels", tff.types.tensorflow_to_type(definition.label_spec)),
                ("bounds", tff.TensorType(np.int32, (None,))),
                ("keys", tff.TensorType(np.int32, (None, 2))),
                ("scalars", tff.to_type({name: tff.TensorType(dtype, (None,)) for name, dtype in _SCALARS.items()})),
            ],
            _Group,
        )
        deployed_type = tff.to_type((definition.weights_type,) * (1 + definition.max_delay))

        @tff.tensorflow.computation(deployed_type, group_type)
        def act(deployed, group):
            return _act(acting, deployed, group)

        self._each = fed_avg.at_clients(act)

    def __call__(self, deployed: Sequence, visits: Sequence[Visit], round_num: int) -> list[process.ClientInput]:
        """Has a round's clients act, keeps their log in `logged`, and returns the clients as they train on it.

        Args:
          deployed: The models of the round, as `fed_avg.State` has them before it.
          visits: Its cohort.
          round_num: The round.
        """
        period, cohort = (round_num - 1) // self.deploy_every, [one.given for one in visits]
        columns, sizes = self._columns(deployed, cohort), [len(one.rows) for one in visits]
        labels = np.split(np.stack(columns, axis=1).astype(np.float32), np.cumsum(sizes[:-1], dtype=int))
        acted = [max(0, period - int(one.delay)) for one in cohort]
        log = {
            "clients": np.repeat(np.array([one.client for one in visits], np.int32), sizes),
            "models": np.repeat(np.array(acted, np.int32), sizes),
            "rows": np.concatenate([np.zeros(0, np.int64), *(one.rows for one in visits)]),
            **dict(zip(("actions", "rewards", "propensities"), columns, strict=True)),
        }
        arrived = np.concatenate([np.zeros(0, bool), *(one.arrived for one in cohort)])
        if len(arrived):  # Of late rewards, the log has what is there.
            log = {name: column[arrived] for name, column in log.items()}
        models = dict(zip(self._names, deployed[0], strict=True))
        self.logged = interactions.LoggedRound(round_num, period, models, log)
        return [one._replace(labels=own) for one, own in zip(cohort, labels, strict=False)]

    def _columns(self, deployed: Sequence, cohort: Sequence[process.ClientInput]) -> list[np.ndarray]:
        """Returns actions int32, rewards and propensities float32, each [examples], of clients behind each other."""
        context = rounds.at_hand()
        members = [one for one in np.array_split(np.arange(len(cohort)), context.concurrent_clients) if len(one)]
        groups = [_grouped([cohort[place] for place in part]) for part in members]
        found: list[Sequence] = [()] * len(groups)
        if groups:
            context.each_client(self._each, [deployed], groups, found.__setitem__)
        empty = [np.zeros(0, dtype.as_numpy_dtype) for dtype in _LOGGED.values()]
        return [np.concatenate([np.asarray(part) for part in column]) for column in zip(empty, *found, strict=True)]


def _grouped(cohort: Sequence[process.ClientInput]) -> _Group:
    features, labels = clients.joined([clients.Examples(one.features, one.labels) for one in cohort])
    return _Group(
        features,
        labels,
        np.cumsum([0, *(len(one.labels) for one in cohort)]).astype(np.int32),
        np.stack([one.keys.cache for one in cohort]),
        {name: np.array([getattr(one, name) for one in cohort], dtype) for name, dtype in _SCALARS.items()},
    )


@tf.autograph.experimental.do_not_convert
def _act(definition: process.BanditProcess, deployed, group: _Group) -> list[tf.Tensor]:
    count = tf.shape(group.keys)[0]
    empty = [tf.TensorArray(dtype, count, element_shape=(None,), infer_shape=False) for dtype in _LOGGED.values()]

    def client(place, logs):
        start, end = group.bounds[place], group.bounds[place + 1]
        features = group.features
        if isinstance(features, text.Bags):
            offsets = features.offsets[start : end + 1]
            first, last = offsets[0], offsets[-1]
            features = text.Bags(features.ids[first:last], features.values[first:last], offsets - first)
        else:
            features = features[start:end]
        keys = process.ClientKeys(cache=group.keys[place], training=group.keys[place])
        own = {name: values[place] for name, values in group.scalars.items()}
        one = process.ClientInput(features, group.labels[start:end], keys, **own)
        cache, _ = definition.act(deployed, one)
        return place + 1, [log.write(place, cache[name]) for log, name in zip(logs, _LOGGED, strict=True)]

    _, logs = tf.while_loop(lambda place, _: place < count, client, (0, empty), parallel_iterations=1)
    return [log.concat() for log in logs]
