"""Rounds whose server trains on the collected logs of a cohort.

Each client acts as in a federated round; to training, the cohort is one client with all of their logs.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits import logged_rounds, losses, process
from optimization import fed_avg, models

_ROWS: tuple = (None,)


class PooledInput(NamedTuple):
    """Input of a cohort to a round.

    Attributes:
      group: Its clients.
      key: int32 [2], key of the mini-batches.
      position: int32, 0.
    """

    group: logged_rounds.Group
    key: np.ndarray
    position: np.int32 = np.int32(0)


def inputs(cohort: Sequence[process.ClientInput], key: np.ndarray) -> list[PooledInput]:
    """The cohort as one client; none of none."""
    return [PooledInput(logged_rounds.grouped(cohort), key)] if cohort else []


@dataclasses.dataclass(frozen=True, kw_only=True)
class PooledProcess(process.BanditProcess):
    """Rounds of one client that has the logs of a cohort."""

    @property
    def client_type(self) -> tff.Type:
        """TFF type of a `PooledInput`."""
        key = tff.TensorType(np.int32, (2,))
        parts = [("group", logged_rounds.type_of_group(self)), ("key", key), ("position", tff.TensorType(np.int32))]
        return tff.StructWithPythonType(parts, PooledInput)

    def log(self, deployed: tuple, client: Any) -> fed_avg.Log:
        group: logged_rounds.Group = client.group
        count = tf.shape(group.keys)[0]
        logs = {
            name: tf.TensorArray(dtype, count, element_shape=shape, infer_shape=False)
            for name, (dtype, shape) in self._columns.items()
        }
        sums = {"reward_sum": tf.constant(0.0), "propensity_sum": tf.constant(0.0)}
        if self.halves:
            for name, dtype in (("half_rewards", tf.float32), ("half_examples", tf.int32)):
                sums[name] = tf.zeros((2, self.halves), dtype)

        def act(place, logs, sums):
            one = process.BanditProcess.log(self, deployed, group.client(place))
            logs = {name: log.write(place, one.examples[name]) for name, log in logs.items()}
            return place + 1, logs, {name: total + one.sums[name] for name, total in sums.items()}

        # One after the other, so that sums have one order.
        _, logs, sums = tf.while_loop(lambda place, *_: place < count, act, (0, logs, sums), parallel_iterations=1)
        examples = {"features": models.dense(group.features), **{name: log.concat() for name, log in logs.items()}}
        rows = group.bounds[-1]
        return fed_avg.Log(examples, rows, tf.cast(rows, tf.float32), client.key, sums=sums)

    @property
    def _columns(self) -> dict[str, tuple[tf.DType, tuple]]:
        """Dtype and shape of what training reads of a client's log, beside its features."""
        if self.loss.full_feedback:
            columns = {losses.FULL_FEEDBACK: (tf.float32, (*_ROWS, self.reward_matrix.shape[-1]))}
        else:
            columns = {"action": (tf.int32, _ROWS), "reward": (tf.float32, _ROWS), "propensity": (tf.float32, _ROWS)}
        return columns | ({losses.BOOTSTRAP: (tf.float32, (None, self.model.heads))} if self.model.heads > 1 else {})
