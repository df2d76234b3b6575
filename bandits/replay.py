"""What the clients of a round logged, which the round itself keeps: the same inference once more.

Rounds return sums alone. But a client's draws are keyed, so its inference gives the same actions again, where it is
computed as the round computes it: by TFF's workers, for how TensorFlow draws actions depends on its threads.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits import interactions, process
from data import clients, text
from optimization import fed_avg
from optimization.runtime import rounds


class _Group(NamedTuple):
    """Several clients behind each other: one call for all, as a call takes longer than a small client's inference.

    Attributes:
      features: Their contexts, as `process.ClientInput` has those of one.
      labels: Likewise.
      bounds: int32 [clients + 1], where each one's examples begin, and the end.
      keys: int32 [clients, 2], keys of their actions.
      delays: int32 [clients], deployments that each lags behind.
      moved: float32 [clients], what a schedule says of each one's policy.
      worlds: float32 [clients], where each stood among the worlds.
      arrived: bool [examples], as `process.ClientInput` has it; empty where none is late.
    """

    features: clients.Features
    labels: np.ndarray
    bounds: np.ndarray
    keys: np.ndarray
    delays: np.ndarray
    moved: np.ndarray
    worlds: np.ndarray
    arrived: np.ndarray


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

    @property
    def logged_rows(self) -> np.ndarray:
        """Those of them that are in its log."""
        return self.rows[self.given.arrived] if len(self.given.arrived) else self.rows


_LOGGED = ("action", "reward", "propensity")
_DTYPES = (tf.int32, tf.float32, tf.float32)
_ROUNDING = 1e-3  # Of sums in single precision; another action changes them by more.


class Replay:
    """Plays the inference of rounds again.

    Attributes:
      deploy_every: Rounds between deployments.
      logged: What the clients of the last round logged.
      differing: Rounds of this start whose sums were not those of the replay.
    """

    logged: interactions.LoggedRound

    def __init__(self, definition: process.BanditProcess, deploy_every: int):
        """Builds the computation.

        Args:
          definition: The rounds.
          deploy_every: Rounds between deployments.
        """
        self.deploy_every = deploy_every
        self.differing = 0
        self._names = list(definition.model.shapes)
        self._seconds: list[tuple[float, float]] = []
        features_type = tff.types.tensorflow_to_type(definition.feature_spec)
        labels_type = tff.types.tensorflow_to_type(definition.label_spec)
        group_type = tff.StructWithPythonType(
            [
                ("features", features_type),
                ("labels", labels_type),
                ("bounds", tff.TensorType(np.int32, (None,))),
                ("keys", tff.TensorType(np.int32, (None, 2))),
                ("delays", tff.TensorType(np.int32, (None,))),
                ("moved", tff.TensorType(np.float32, (None,))),
                ("worlds", tff.TensorType(np.float32, (None,))),
                ("arrived", tff.TensorType(np.bool_, (None,))),
            ],
            _Group,
        )
        weights_type = tff.types.tensorflow_to_type(definition.model.specs)
        deployed_type = tff.to_type((weights_type,) * (1 + definition.max_delay))

        @tff.tensorflow.computation(deployed_type, group_type)
        def act(deployed, group):
            return _act(definition, deployed, group)

        self._each = fed_avg.at_clients(act)

    @property
    def share(self) -> float | None:
        """Its time as a part of a round's, the median of this start's rounds; None before the first two."""
        later = self._seconds[1:]  # The first ones compile.
        return float(np.median([own / others for own, others in later])) if later else None

    def play(
        self, deployed: Sequence, visits: Sequence[Visit], round_num: int, counts: fed_avg.RoundMetrics, seconds: float
    ) -> None:
        """Plays the inference of a round again, and keeps its log in `logged`.

        Args:
          deployed: The models of the round, as `fed_avg.State` has them before it.
          visits: Its cohort.
          round_num: The round.
          counts: What it returned.
          seconds: How long it took.
        """
        start = time.perf_counter()
        period = (round_num - 1) // self.deploy_every
        actions, rewards, propensities = self._columns(deployed, [one.given for one in visits])
        sizes = [len(one.logged_rows) for one in visits]
        acted = [max(0, period - int(one.given.delay)) for one in visits]
        sums = [counts.reward_sum, counts.propensity_sum]
        agrees = np.allclose([rewards.sum(dtype=float), propensities.sum(dtype=float)], sums, _ROUNDING, _ROUNDING)
        self.logged = interactions.LoggedRound(
            round_num,
            period,
            dict(zip(self._names, deployed[0], strict=True)),
            np.repeat(np.array([one.client for one in visits], np.int32), sizes),
            np.repeat(np.array(acted, np.int32), sizes),
            np.concatenate([np.zeros(0, np.int64), *(one.logged_rows for one in visits)]),
            actions,
            rewards,
            propensities,
            agrees and len(actions) == int(counts.examples),
        )
        self.differing += not self.logged.agrees
        self._seconds.append((time.perf_counter() - start, seconds))

    def _columns(self, deployed: Sequence, cohort: Sequence[process.ClientInput]) -> list[np.ndarray]:
        """Returns actions int32, rewards and propensities float32, each [examples], of clients behind each other."""
        context = rounds.at_hand()
        members = [one for one in np.array_split(np.arange(len(cohort)), context.concurrent_clients) if len(one)]
        groups = [_grouped([cohort[place] for place in part]) for part in members]
        found: list[Sequence] = [()] * len(groups)
        if groups:
            context.each_client(self._each, [deployed], groups, found.__setitem__)
        empty = [np.zeros(0, dtype.as_numpy_dtype) for dtype in _DTYPES]
        return [np.concatenate([np.asarray(part) for part in column]) for column in zip(empty, *found, strict=True)]


def _grouped(cohort: Sequence[process.ClientInput]) -> _Group:
    features, labels = clients.joined([clients.Examples(one.features, one.labels) for one in cohort])
    return _Group(
        features,
        labels,
        np.cumsum([0, *(len(one.labels) for one in cohort)]).astype(np.int32),
        np.stack([one.keys.cache for one in cohort]),
        np.array([one.delay for one in cohort], np.int32),
        np.array([one.moved for one in cohort], np.float32),
        np.array([one.world for one in cohort], np.float32),
        np.concatenate([one.arrived for one in cohort]),
    )


@tf.autograph.experimental.do_not_convert
def _act(definition: process.BanditProcess, deployed, group: _Group) -> list[tf.Tensor]:
    count = tf.shape(group.keys)[0]
    empty = [tf.TensorArray(dtype, count, element_shape=(None,), infer_shape=False) for dtype in _DTYPES]

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
        labels, delay, arrived = group.labels[start:end], group.delays[place], group.arrived[start:end]
        own = {"moved": group.moved[place], "world": group.worlds[place], "arrived": arrived}
        one = process.ClientInput(features, labels, keys, delay, **own)
        cache, _ = definition.act(deployed, one)
        return place + 1, [log.write(place, cache[name]) for log, name in zip(logs, _LOGGED, strict=True)]

    _, logs = tf.while_loop(lambda place, _: place < count, client, (0, empty), parallel_iterations=1)
    return [log.concat() for log in logs]
