"""The one loop of rounds: metrics, progress, checkpoints, resume, interruption.

What a round is, the caller says; its state is any nest of arrays.
"""

import contextlib
import dataclasses
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tqdm

from optimization import run_folder

State = Any
Metrics = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What the loop runs.

    Attributes:
      initial_state: () -> state before round 1. Its arrays' shapes and dtypes never change.
      play_round: (state, round number from 1) -> (state, metrics).
      evaluate: state -> metrics; called every `rounds_per_eval` rounds and after the last.
      columns: Names of all metrics, in the order of `metrics.csv`.
      headline: Metric that the progress bar shows.
    """

    initial_state: Callable[[], State]
    play_round: Callable[[State, int], tuple[State, Metrics]]
    evaluate: Callable[[State], Metrics]
    columns: Sequence[str]
    headline: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
      state: The state after the last round done.
      round_num: That round.
      signum: The signal that stopped it early, or None.
    """

    state: State
    round_num: int
    signum: int | None


def run(
    experiment: Experiment,
    folder: run_folder.RunFolder,
    *,
    total_rounds: int,
    rounds_per_eval: int,
    rounds_per_checkpoint: int,
    label: str = "",
) -> Outcome:
    """Runs, or continues, an experiment in its folder.

    Args:
      experiment: What to run.
      folder: An opened run folder.
      total_rounds: Rounds in all, those of earlier starts included.
      rounds_per_eval: Rounds between evaluations; 0 for only the last.
      rounds_per_checkpoint: Rounds between checkpoints; 0 for only the last.
      label: Text before the progress bar.

    Returns:
      The outcome. After Ctrl-C or SIGTERM the round in progress is finished and saved; a second signal exits at once.
    """
    state = experiment.initial_state()
    leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(state)]
    first = 0
    if found := folder.newest_checkpoint(leaves, total_rounds):
        first, leaves = found
        state = tf.nest.pack_sequence_as(state, leaves)
        if first < total_rounds:
            print(f"Continuing after round {first} of {total_rounds}.", file=sys.stderr)
    columns = ["round_num", *experiment.columns, "seconds"]
    metrics_file = run_folder.MetricsFile(folder.metrics_path, columns, first)
    writer = tf.summary.create_file_writer(str(folder.path))
    progress = tqdm.tqdm(
        total=total_rounds,
        initial=first,
        desc=label,
        unit="round",
        disable=None,
        dynamic_ncols=True,
    )
    round_num = saved = first
    with contextlib.closing(metrics_file), progress, _signals() as received:
        while round_num < total_rounds and not received:
            round_num += 1
            start = time.perf_counter()
            state, metrics = experiment.play_round(state, round_num)
            seconds = time.perf_counter() - start
            row = {"round_num": round_num, **metrics, "seconds": round(seconds, 4)}
            last = round_num == total_rounds
            if last or (rounds_per_eval and round_num % rounds_per_eval == 0):
                row.update(experiment.evaluate(state))
            metrics_file.write(row)
            _write_summaries(writer, row)
            progress.set_postfix({experiment.headline: f"{row[experiment.headline]:.4f}"}, refresh=False)
            progress.update()
            if rounds_per_checkpoint and round_num % rounds_per_checkpoint == 0:
                folder.save_checkpoint(round_num, _leaves(state))
                saved = round_num
        if saved < round_num:
            folder.save_checkpoint(round_num, _leaves(state))
    writer.close()
    return Outcome(state, round_num, received[0] if received and round_num < total_rounds else None)


def _leaves(state: State) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in tf.nest.flatten(state)]


def _write_summaries(writer: tf.summary.SummaryWriter, row: Mapping[str, Any]) -> None:
    # One message for all: `tf.summary.scalar` for each takes a tenth of a short round.
    summary = tf.compat.v1.Summary()
    for name, value in row.items():
        if name != "round_num" and value is not None:
            summary.value.add(tag=name, simple_value=value)
    with writer.as_default():
        tf.summary.experimental.write_raw_pb(summary.SerializeToString(), row["round_num"])


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM in the yielded list; the second one ends the program."""
    received: list[int] = []

    def note(signum, frame):
        if received:
            sys.exit(128 + signum)
        received.append(signum)
        print("\nStopping after this round; once more to stop at once.", file=sys.stderr)

    before = {signum: signal.signal(signum, note) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
