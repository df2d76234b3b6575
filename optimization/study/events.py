"""TensorBoard's events of a run: what `metrics.csv` says, as float32."""

import contextlib
import pathlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import message

from data.errors import Failure
from optimization.study import loggers, run_folder


class EventsFile(loggers.Logger):
    """The events of one start of a run."""

    def __init__(self, folder: pathlib.Path):
        """Begins a new file in a run's folder.

        Raises:
          Failure: If it cannot be written.
        """
        with _told():
            self._writer = tf.summary.create_file_writer(str(folder))

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
        with _told(), self._writer.as_default():
            tf.summary.experimental.write_raw_pb(summary.SerializeToString(), row["round_num"])

    def flush(self) -> None:
        """Writes what it has taken.

        Raises:
          Failure: If it cannot be written.
        """
        with _told():
            self._writer.flush()

    def close(self) -> None:
        """Writes what it has taken, and ends.

        Raises:
          Failure: If it cannot be written.
        """
        with _told():
            self._writer.close()


def log(folder: run_folder.RunFolder, columns: Sequence[str], first_round: int) -> EventsFile:
    """Returns the events of a start of a run; see `loggers.MakeLogger`."""
    del columns, first_round
    return EventsFile(folder.path)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as error:
        reason = re.sub(r"\{\{.*?\}\} ?", "", error.message.partition("\n")[0])
        raise Failure(f"TensorBoard's events cannot be written ({reason}). What was written before is kept.") from error


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
