"""TensorBoard's events of a run: what `metrics.csv` says, as float32."""

import pathlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import message

from data.errors import Failure


class EventsFile:
    """The events of one start of a run."""

    def __init__(self, folder: pathlib.Path):
        """Begins a new file in a run's folder."""
        self._folder = folder
        self._writer = self._told(lambda: tf.summary.create_file_writer(str(folder)))

    def _told(self, action):
        try:
            return action()
        except tf.errors.OpError as error:
            raise Failure(f"TensorBoard's events in {self._folder} cannot be written ({error.message}).") from error

    def write(self, row: Mapping[str, Any]) -> None:
        """Takes the metrics of a round.

        Raises:
          Failure: If it cannot be written.
        """
        # One message for all: `tf.summary.scalar` for each takes a tenth of a short round.
        summary = tf.compat.v1.Summary()
        for name, value in row.items():
            if name != "round_num" and value is not None:
                summary.value.add(tag=name, simple_value=value)
        content = summary.SerializeToString()
        with self._writer.as_default():
            self._told(lambda: tf.summary.experimental.write_raw_pb(content, row["round_num"]))

    def flush(self) -> None:
        """Writes what it has taken.

        Raises:
          Failure: If it cannot be written.
        """
        self._told(self._writer.flush)

    def close(self) -> None:
        """Writes what it has taken, and ends.

        Raises:
          Failure: If it cannot be written.
        """
        self._told(self._writer.close)


def read(folder: pathlib.Path, rounds: Collection[int]) -> dict[int, dict[str, np.float32]]:
    """Returns the metrics of those rounds that are known, by name.

    A run that continues plays the rounds after its checkpoint again: the last event of a round counts.
    """
    wanted = set(rounds)
    found: dict[int, tuple[float, dict[str, np.float32]]] = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        try:
            for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
                event = tf.compat.v1.Event.FromString(record)
                values = {value.tag: np.float32(value.simple_value) for value in event.summary.value}
                is_last = event.step not in found or event.wall_time >= found[event.step][0]
                if event.step in wanted and values and is_last:
                    found[event.step] = event.wall_time, values
        except (tf.errors.OpError, message.DecodeError):  # A crash cuts a file off: what comes before is sound.
            continue
    return {step: values for step, (_, values) in found.items()}
