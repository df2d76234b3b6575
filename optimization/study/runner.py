"""The one loop of rounds: metrics, progress, checkpoints, resume, interruption.

What a round is, the caller says; its state is any nest of arrays.
"""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tqdm

from optimization.study import events, interruption, metrics_file, run_folder

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
      secrets: What in the state must not be known, in words. A checkpoint is written before round 1, so that a run that
        is killed early does not start again with other secrets.
    """

    initial_state: Callable[[], State]
    play_round: Callable[[State, int], tuple[State, Metrics]]
    evaluate: Callable[[State], Metrics]
    columns: Sequence[str]
    headline: str
    secrets: Sequence[str] = ()


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
      The outcome. After Ctrl-C or SIGTERM the round in progress is finished and saved; a second signal is the caller's.

    Raises:
      Failure: If the run's files cannot be written, or those of an earlier start are damaged beyond recovery.
    """
    state = experiment.initial_state()
    leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(state)]
    first = 0
    if found := folder.newest_checkpoint(leaves, total_rounds):
        first, leaves = found
        state = tf.nest.pack_sequence_as(state, leaves)
        if 0 < first < total_rounds:
            print(f"Continuing after round {first} of {total_rounds}.", file=sys.stderr)
    elif experiment.secrets:
        folder.save_checkpoint(0, leaves)
    columns = ["round_num", *experiment.columns, "seconds"]
    table = metrics_file.MetricsFile(folder.metrics_path, columns, first, lambda rounds: _recover(folder, rounds))
    if first < total_rounds:
        folder.record_continuation(first)
    log = events.EventsFile(folder.path)
    progress = tqdm.tqdm(
        total=total_rounds,
        initial=first,
        desc=label,
        unit="round",
        disable=None,
        dynamic_ncols=True,
    )
    round_num = saved = first
    received: list[int] = []

    def stop(signum: int) -> None:
        received.append(signum)
        interruption.tell("\nStopping after this round; once more to stop at once.")

    def save() -> None:
        log.flush()
        table.sync()
        folder.save_checkpoint(round_num, [np.asarray(leaf) for leaf in tf.nest.flatten(state)])

    with contextlib.closing(log), contextlib.closing(table), progress, interruption.answered(stop):
        while round_num < total_rounds and not received:
            round_num += 1
            start = time.perf_counter()
            state, metrics = experiment.play_round(state, round_num)
            seconds = time.perf_counter() - start
            row = {"round_num": round_num, **metrics, "seconds": round(seconds, 4)}
            if is_evaluated(round_num, total_rounds, rounds_per_eval):
                row.update(experiment.evaluate(state))
            table.write(row)
            log.write(row)
            progress.set_postfix({experiment.headline: f"{row[experiment.headline]:.4f}"}, refresh=False)
            progress.update()
            if rounds_per_checkpoint and round_num % rounds_per_checkpoint == 0:
                save()
                saved = round_num
        if saved < round_num:
            save()
    return Outcome(state, round_num, received[0] if received and round_num < total_rounds else None)


def is_evaluated(round_num: int, total_rounds: int, rounds_per_eval: int) -> bool:
    """Returns whether a round ends with an evaluation."""
    return round_num == total_rounds or bool(rounds_per_eval and round_num % rounds_per_eval == 0)


def _recover(folder: run_folder.RunFolder, rounds: Sequence[int]) -> Mapping[int, Mapping[str, float]]:
    """Returns the metrics of rounds that `metrics.csv` lacks; if all are found, that is recorded."""
    found = events.read(folder.path, rounds)
    if len(found) == len(rounds):
        folder.record_recovered(rounds)
        print(
            f"{folder.metrics_path} lacked the rows of the rounds {metrics_file.spans(rounds)}: they are recovered "
            "from TensorBoard's events, in single precision.",
            file=sys.stderr,
        )
    return found
