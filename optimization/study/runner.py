"""Loop over the rounds of a run: metrics, progress, checkpoints, resuming and interruption.

A study defines its rounds. Their state can be any nested structure of arrays.
"""

import abc
import contextlib
import dataclasses
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from data.errors import Failure
from optimization.options import Length
from optimization.study import interruption, run_folder
from optimization.study.loggers import Callback, CsvFile, ObservedRun, ProgressBar
from optimization.study.metrics import Metric

State = Any
Metrics = Mapping[str, Any]


class Rounds(abc.ABC):
    """Interface of the rounds of a run.

    Attributes:
      columns: Metrics of these rounds in addition to the metrics that all runs of the study have.
      secrets: Descriptions of the parts of the state that must stay secret. If there are any, a checkpoint is written
        before round 1, so that a run that is killed early does not restart with new secrets.
    """

    columns: Sequence[Metric] = ()
    secrets: Sequence[str] = ()

    @abc.abstractmethod
    def initial_state(self) -> State:
        """State before round 1. The shapes and dtypes of its arrays never change."""

    @abc.abstractmethod
    def run_round(self, state: State, round_num: int) -> tuple[State, Metrics]:
        """Runs a round, numbered from 1."""

    def model(self, state: State) -> Mapping[str, np.ndarray]:
        """Weights of the model by name, to save after the last round; empty by default."""
        return {}

    def evaluate(self, state: State) -> Metrics:
        """Evaluation metrics, computed every `rounds_per_eval` rounds and after the last round."""
        return {}

    def is_finished(self, state: State, round_num: int) -> bool:
        """Whether the run ends early, after this round."""
        return False


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
      state: The state after the last finished round.
      round_num: Number of the last finished round.
      signum: The signal that stopped it early, or None.
    """

    state: State
    round_num: int
    signum: int | None


def run(
    rounds: Rounds,
    folder: run_folder.RunFolder,
    length: Length,
    columns: Sequence[str],
    *,
    headline: str | None = None,
    label: str = "",
    loggers: Sequence[Callback] = (),
    callbacks: Callback = Callback(),  # noqa: B008
) -> Outcome:
    """Starts or continues a run in its folder.

    Args:
      rounds: Definition of the rounds.
      folder: An opened run folder.
      length: Number of rounds, and periods of evaluation and checkpoints.
      columns: Names of all metrics, in the order of `metrics.csv`.
      headline: Metric that the progress bar shows; the first metric by default.
      label: Text in front of the progress bar.
      loggers: Callbacks that write further results of the run, besides `metrics.csv` and TensorBoard's events.
      callbacks: The user's callbacks. A round counts even if a callback fails on it.

    Returns:
      The outcome. After a signal (see `interruption.hold`), the round in progress is finished and saved. A second
      signal goes to the caller's handler. From the first round on, signals are held until the end of the caller's
      `interruption.held`.

    Raises:
      Failure: If the run's files cannot be written, or those of an earlier start are damaged; or if a round raises
        `Failure`. The last finished round is saved first.
    """
    state, headline = rounds.initial_state(), headline or columns[0]
    leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(state)]
    first = 0
    if checkpoint := folder.newest_checkpoint(leaves, length.total_rounds):
        first, leaves = checkpoint
        state = tf.nest.pack_sequence_as(state, leaves)
    elif rounds.secrets:
        folder.save_checkpoint(0, leaves)
    round_num = saved = first

    def goes_on() -> bool:
        return round_num < length.total_rounds and not rounds.is_finished(state, round_num)

    with interruption.held(), contextlib.ExitStack() as stack:
        observed = ObservedRun(folder, folder.path, folder.flags, label, columns, length.total_rounds, first)
        logs: list[Callback] = []

        def observe(*observers: Callback) -> None:
            for log in observers:
                log.on_start(observed)
                stack.callback(log.on_end, observed)
                logs.append(log)

        observe(CsvFile(), EventsFile(), *loggers)
        if goes_on():
            folder.record_continuation(first)
            if first:
                print(f"Continuing after round {first} of {length.total_rounds}.", file=sys.stderr)
        observe(ProgressBar(headline))
        callbacks.on_start(observed)
        received = interruption.hold("\nStopping as soon as this round is saved; press Ctrl-C again to stop now.")

        def save() -> None:
            for log in logs:
                log.on_save()
            folder.save_checkpoint(round_num, [np.asarray(leaf) for leaf in tf.nest.flatten(state)])

        try:
            while goes_on() and not received:
                now, start = round_num + 1, time.perf_counter()
                try:
                    after, metrics = rounds.run_round(state, now)
                except Failure as error:
                    raise Failure(f"Round {now} failed: {error}") from error
                seconds = time.perf_counter() - start
                row = {"round_num": now, **metrics, "seconds": round(seconds, 4)}
                if length.ends_in_evaluation(now):
                    row.update(rounds.evaluate(after))
                for log in logs:
                    log.on_round(row)
                state, round_num = after, now
                callbacks.on_round(row)
                if length.rounds_per_checkpoint and round_num % length.rounds_per_checkpoint == 0:
                    save()
                    saved = round_num
        except Failure as error:
            with contextlib.suppress(Failure):
                if saved < round_num:
                    save()
            if str(folder.path) in str(error):
                raise
            raise Failure(f"{error} The run is in {folder.path}.") from error
        if saved < round_num:
            save()
    return Outcome(state, round_num, received[0] if received and goes_on() else None)


class EventsFile(Callback):
    """TensorBoard's events for one start of a run: the values in `metrics.csv`, as float32.

    All methods raise `Failure` if the events cannot be written.
    """

    def on_start(self, run: ObservedRun) -> None:
        """Begins a new file in a run's folder."""
        with _event_errors():
            self._writer = tf.summary.create_file_writer(str(run.folder))

    def on_round(self, row: Mapping[str, Any]) -> None:
        """Buffers the metrics of a round."""
        # One message for all metrics, because a `tf.summary.scalar` for each would take a tenth of a short round.
        summary = tf.compat.v1.Summary()
        for name, value in row.items():
            if name != "round_num" and value is not None:
                summary.value.add(tag=name, simple_value=value)
        with _event_errors(), self._writer.as_default():
            tf.summary.experimental.write_raw_pb(summary.SerializeToString(), row["round_num"])

    def on_save(self) -> None:
        """Writes the buffered metrics."""
        with _event_errors():
            self._writer.flush()

    def on_end(self, run: ObservedRun) -> None:
        """Writes the buffered metrics and closes the file."""
        with _event_errors():
            self._writer.close()


@contextlib.contextmanager
def _event_errors() -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as error:
        reason = re.sub(r"\{\{.*?\}\} ?", "", error.message.partition("\n")[0])
        raise Failure(f"TensorBoard's events cannot be written ({reason}). Earlier events are kept.") from error
