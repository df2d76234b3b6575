"""Federated training with selected clients, as rounds for the shared training loop.

In each round, the selector chooses the cohort, after a poll of candidates if it needs one. The TFF round of
`optimization.supervised` then trains the cohort, and the selector observes the reported losses. The losses of all
clients, or of a sample of them, are evaluated in plain TensorFlow. A server could not observe these losses.
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import tensorflow as tf

from bandits import metrics as fairness
from bandits.client_selection import flags, metrics
from data import clients, files, keys, tasks
from data.settings import make_options
from optimization import client_work, fed_avg, models, supervised
from optimization.study import payloads, training
from optimization.study.metrics import mean

MOST_EVAL_CLIENTS = 1000  # With more clients, a seeded sample is evaluated.


class RoundState(NamedTuple):
    """State between rounds.

    Attributes:
      server: State of the TFF process.
      selector: The selector's state.
      selections: int64 [clients], number of rounds in which each client was selected.
    """

    server: fed_avg.State
    selector: Any
    selections: np.ndarray


class SelectionRounds(training.TrainingRounds):
    """The rounds of a run."""

    def __init__(self, options: flags.SelectionOptions, task: tasks.Task):
        """Builds the rounds from the study's options and a task."""
        work = make_options(client_work.LocalSgd, vars(options))
        super().__init__(options, task, work, options.selection.weighting(options.client_weighting))
        self._options = options

    def initial_state(self) -> RoundState:
        """State before round 1; reads every client once to count its examples."""
        selector = self.selected.selector
        server = self.mean_rounds(self.work, selector.cohort_size).initialize()
        weights = self._model.initial_weights(self._options.seed)
        selections = np.zeros(selector.population, np.int64)
        return RoundState(server._replace(weights=weights), selector.initial_state(), selections)

    def learning_rate(self, round_num: int) -> float:
        """The clients' learning rate in a round."""
        drops = sum(round_num > drop for drop in self._options.learning_rate_drops)
        return self._options.learning_rate * self._options.learning_rate_factor**drops

    def run_round(self, state: RoundState, round_num: int) -> tuple[RoundState, Mapping[str, Any]]:
        """Runs one round."""
        cohort, polled, selector = self._choose(state.selector, state.server.weights, round_num)
        inputs = self._inputs(cohort, self._load(cohort), round_num)
        server, counts = self.mean_rounds(self.work, len(cohort)).next(state.server, inputs)
        selector = self.selected.observe(selector, cohort, counts.client_losses, counts.client_deviations)
        members = np.unique(cohort)
        selections = state.selections.copy()
        selections[members] += 1
        row: dict[str, Any] = {
            metrics.LOSS: mean(counts.loss_sum, counts.batch_examples),
            metrics.UPDATE_NORM: float(counts.update_norm),
            metrics.LEARNING_RATE: self.learning_rate(round_num),
            metrics.EMPTY_CLIENTS: int(counts.empty_clients),
            metrics.NONFINITE_CLIENTS: int(counts.nonfinite_clients),
            metrics.MODEL_TRANSFERS: len(np.union1d(polled, members)) + len(members),
            metrics.LOSS_POLLS: len(polled),
            **payloads.of_selected(self._payload, self._payload, cohort, polled),
        }
        return RoundState(server, selector, selections), row

    @functools.cached_property
    def _evaluated(self) -> tuple[np.ndarray, clients.Examples]:
        """Indices of the evaluated clients, int64 [clients], all with examples, and these examples, concatenated."""
        ids = np.flatnonzero(self.sizes)
        if len(ids) > MOST_EVAL_CLIENTS:
            draw = keys.generator(self._options.seed, keys.Purpose.EVALUATION, 0, 0)
            ids = np.sort(draw.choice(ids, MOST_EVAL_CLIENTS, replace=False))
        return ids, clients.joined(self._load(ids))

    @functools.cached_property
    def _held_out(self) -> clients.Examples:
        return clients.pool(self._task.held_out, self._options.max_validation_samples, self._options.seed)

    def _measured(self, weights: models.Weights, examples: clients.Examples) -> tuple[np.ndarray, np.ndarray]:
        """Each example's loss, and whether its prediction is correct, float32 and bool [examples]."""
        measure = self._evaluation(_losses_and_hits)
        batches = self._task.batches(examples, self._options.eval_batch_size)
        losses, is_right = zip(*(measure(tuple(weights), *batch) for batch in batches), strict=True)
        return np.concatenate(losses), np.concatenate(is_right)

    def client_losses(self, weights: models.Weights) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the evaluated clients, int64 [clients], and a model's mean loss for each, float64 [clients]."""
        ids, examples = self._evaluated
        losses, _ = self._measured(weights, examples)
        starts = np.cumsum(self.sizes[ids]) - self.sizes[ids]
        return ids, np.add.reduceat(losses.astype(np.float64), starts) / self.sizes[ids]

    def evaluate(self, state: RoundState) -> dict[str, float]:
        """Metrics of the model on the evaluated clients' examples and on held-out examples."""
        ids, losses = self.client_losses(state.server.weights)
        return {
            metrics.GLOBAL_LOSS: float(np.average(losses, weights=self.sizes[ids])),
            metrics.JAIN_INDEX: fairness.jain_index(losses, of_zeros=1.0),
            metrics.WORST_DECILE_LOSS: fairness.worst_tenth(losses, largest=True),
            metrics.MEDIAN_LOSS: float(np.median(losses)),
            metrics.ACCURACY: float(self._measured(state.server.weights, self._held_out)[1].mean()),
        }

    def clients_csv(self, state: RoundState) -> bytes:
        """`private_clients.csv`: each client's numbers of examples and selections and, if evaluated, final loss."""
        ids, losses = self.client_losses(state.server.weights)
        counts = {"client": self._clients.client_ids, "examples": self.sizes, "selections": state.selections}
        table = pd.DataFrame(counts).assign(loss=pd.Series(losses, ids))
        return files.as_csv(table, float_format="%.6g")


def _losses_and_hits(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    answer = tf.argmax(logits, axis=1, output_type=tf.int32)
    is_right = labels == answer if labels.dtype.is_integer else tf.gather(labels, answer, batch_dims=1) > 0
    return supervised.example_losses(logits, labels), is_right
