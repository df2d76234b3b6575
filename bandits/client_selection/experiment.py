"""Federated training with selected clients, as rounds that the runner can play.

One round: the selector polls candidates, if it wants to, and chooses the cohort -> the cohort's inputs -> the TFF round
of `optimization.supervised` -> the selector observes the losses that came back. The losses of all clients, which no
server would know, are evaluated beside that, in TensorFlow alone.
"""

import csv
import functools
import io
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits.client_selection import flags, metrics
from data import clients, keys, tasks
from optimization import client_work, models, server, supervised, task_model
from optimization.selection import selected
from optimization.study import compiled, runner, selector_flags, server_flags


class Progress(NamedTuple):
    """State between rounds.

    Attributes:
      server: State of the TFF process.
      selector: The selector's state.
      selections: int64 [clients], rounds that each was chosen for.
    """

    server: supervised.SupervisedState
    selector: Any
    selections: np.ndarray


class Computations:
    """TFF's computations, which all runs of a command share: each is compiled once for a number of clients."""

    def __init__(self, settings: Mapping[str, Any], task: tasks.Task):
        """Takes what the runs have in common.

        Args:
          settings: Flags; those of the training count.
          task: One of the runs' tasks: they differ in their clients only.
        """
        self._task = task
        shape = (task.model, task.model_arguments, task.feature_spec, task.multi_label)
        self._optimizer = server_flags.options(settings)
        self._work = client_work.LocalSgd(
            settings["client_learning_rate"], settings["client_batch_size"], steps=settings["client_steps_per_round"]
        )
        self._weighting = selector_flags.options(settings).weighting(settings["client_weighting"])
        self._key = repr(shape), self._optimizer, self._work, self._weighting
        self.model: models.Model = task_model.build(task)

    def definition(self, num_clients: int) -> supervised.SupervisedProcess:
        """Returns what defines rounds of so many clients."""
        task = self._task
        if self._weighting == "num_examples":
            mean = tff.aggregators.MeanFactory(no_nan_division=True)
        else:
            mean = tff.aggregators.as_weighted_aggregator(tff.aggregators.UnweightedMeanFactory())
        return supervised.SupervisedProcess(
            model=self.model,
            local_work=self._work,
            aggregator=mean,
            server_optimizer=server.build(self._optimizer),
            feature_spec=task_model.feature_spec(task),
            label_spec=task_model.label_spec(task),
            cohort_size=num_clients,
        )

    def rounds(self, cohort_size: int) -> tff.templates.IterativeProcess:
        """Returns the process of rounds with so many clients; its initial weights are of seed 0."""
        return compiled.kept(
            ("rounds", cohort_size, self._key),
            lambda: self.definition(cohort_size).build(self.model.initial_weights(0)),
        )

    def poll(self, num_candidates: int) -> tff.Computation:
        """Returns the computation that asks so many clients for their loss."""
        return compiled.kept(
            ("poll", num_candidates, self._key),
            lambda: self.definition(num_candidates).build_loss_poll(num_candidates),
        )


class Run:
    """One run's rounds."""

    def __init__(self, settings: Mapping[str, Any], task: tasks.Task, computations: Computations):
        """Reads every client once, to count its examples.

        Args:
          settings: Flags.
          task: The task.
          computations: TFF's computations of this model.

        Raises:
          UsageError: If cohort, candidates and population do not go together.
        """
        self._settings = settings
        self._task = task
        self._computations = computations
        self._clients = clients.CappedClients(task.clients, settings["max_examples_per_client"], settings["seed"])
        self._sizes = clients.sizes(self._clients, range(len(self._clients)))
        self.selector = selector_flags.options(settings).build(self._sizes, settings["clients_per_round"])
        self._selected = selected.SelectedCohorts(self.selector, settings["seed"])
        self._drops = flags.numbers("learning_rate_drops", settings["learning_rate_drops"])

    @property
    def model(self) -> models.Model:
        """The model."""
        return self._computations.model

    def initial_progress(self) -> Progress:
        """Returns the state before round 1."""
        state = self._computations.rounds(self.selector.cohort_size).initialize()
        weights = self.model.initial_weights(self._settings["seed"])
        selections = np.zeros(self.selector.population, np.int64)
        return Progress(state._replace(weights=weights), self.selector.initial_state(), selections)

    def learning_rate(self, round_num: int) -> float:
        """Returns the clients' learning rate in a round."""
        drops = sum(round_num > drop for drop in self._drops)
        return self._settings["client_learning_rate"] * self._settings["learning_rate_factor"] ** drops

    def play_round(self, progress: Progress, round_num: int) -> tuple[Progress, Mapping[str, Any]]:
        """Plays one round."""

        def poll(ids: np.ndarray) -> np.ndarray:
            return self._computations.poll(len(ids))(progress.server.weights, self._inputs(ids, round_num))

        cohort, polled, state = self._selected.choose(progress.selector, round_num, poll)
        server_state, counts = self._computations.rounds(len(cohort)).next(
            progress.server, self._inputs(cohort, round_num)
        )
        state = self._selected.observe(state, cohort, counts.client_losses, counts.client_deviations)
        members = np.unique(cohort)
        selections = progress.selections.copy()
        selections[members] += 1
        trained = int(counts.trained_examples)
        row = {
            metrics.LOSS: float(counts.loss_sum) / trained if trained else float("nan"),
            metrics.UPDATE_NORM: float(counts.update_norm),
            metrics.LEARNING_RATE: self.learning_rate(round_num),
            metrics.EMPTY_CLIENTS: int(counts.empty_clients),
            metrics.NONFINITE_CLIENTS: int(counts.nonfinite_clients),
            metrics.MODEL_TRANSFERS: len(np.union1d(polled, members)) + len(members),
            metrics.LOSS_POLLS: len(polled),
        }
        return Progress(server_state, state, selections), row

    def _inputs(self, ids: np.ndarray, round_num: int) -> list[supervised.ClientInput]:
        rate = np.float32(self.learning_rate(round_num))
        inputs = []
        for position, client in enumerate(ids):
            examples = self._clients.load(int(client))
            inputs.append(
                supervised.ClientInput(
                    features=self._task.normalise(examples.features),
                    labels=examples.labels,
                    key=keys.tensorflow_key(self._settings["seed"], keys.Purpose.TRAINING, round_num, int(client)),
                    position=np.int32(position),
                    weight=np.float32(len(examples.labels)),
                    learning_rate=rate,
                )
            )
        return inputs

    @functools.cached_property
    def _evaluated(self) -> tuple[np.ndarray, clients.Examples]:
        """Indices of the evaluated clients, all with examples, and their examples one after another."""
        ids = np.flatnonzero(self._sizes)
        most = self._settings["max_eval_clients"]
        if most and most < len(ids):
            draw = keys.generator(self._settings["seed"], keys.Purpose.EVALUATION, 0, 0)
            ids = np.sort(draw.choice(ids, most, replace=False))
        return ids, clients.joined([self._clients.load(int(client)) for client in ids])

    @functools.cached_property
    def _held_out(self) -> clients.Examples:
        return clients.pool(self._task.held_out, self._settings["max_validation_samples"], self._settings["seed"])

    @functools.cached_property
    def _measure(self) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
        """The function (weights, features, labels) -> each example's loss, and whether its prediction is right."""
        definition = self._computations.definition(1)
        specs = [definition.model.specs, definition.feature_spec, definition.label_spec]

        @tf.function(input_signature=specs, autograph=False)
        def measure(weights, features, labels):
            logits = definition.model.forward(weights, models.dense(features))
            answer = tf.argmax(logits, axis=1, output_type=tf.int32)
            is_right = labels == answer if labels.dtype.is_integer else tf.gather(labels, answer, batch_dims=1) > 0
            return supervised.example_losses(logits, labels), is_right

        return measure

    def _measured(self, weights: models.Weights, examples: clients.Examples) -> tuple[np.ndarray, np.ndarray]:
        batches = self._task.batches(examples, self._settings["eval_batch_size"])
        found = [self._measure(tuple(weights), *batch) for batch in batches]
        losses, is_right = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return losses, is_right

    def client_losses(self, weights: models.Weights) -> tuple[np.ndarray, np.ndarray]:
        """Returns int64 ids of the evaluated clients, and float64 mean losses of a model on each one's examples."""
        ids, examples = self._evaluated
        losses, _ = self._measured(weights, examples)
        starts = np.cumsum(self._sizes[ids]) - self._sizes[ids]
        return ids, np.add.reduceat(losses.astype(np.float64), starts) / self._sizes[ids]

    def evaluate(self, progress: Progress) -> dict[str, float]:
        """Returns metrics of the model on all clients' examples and on held-out ones."""
        ids, losses = self.client_losses(progress.server.weights)
        return {
            metrics.GLOBAL_LOSS: float(np.average(losses, weights=self._sizes[ids])),
            metrics.JAIN_INDEX: metrics.jain_index(losses),
            metrics.WORST_DECILE_LOSS: metrics.worst_decile(losses),
            metrics.ACCURACY: float(self._measured(progress.server.weights, self._held_out)[1].mean()),
        }

    def experiment(self) -> runner.Experiment:
        """Returns what the runner plays."""
        return runner.Experiment(
            initial_state=self.initial_progress,
            play_round=self.play_round,
            evaluate=self.evaluate,
            columns=metrics.COLUMNS,
            headline=metrics.LOSS,
        )

    def clients_csv(self, progress: Progress) -> bytes:
        """Returns `clients.csv`: examples, selections and, where evaluated, the final model's loss of each client."""
        losses = dict(zip(*self.client_losses(progress.server.weights), strict=True))
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["client", "examples", "selections", "loss"])
        for index, name in enumerate(self._clients.client_ids):
            loss = f"{losses[index]:.6g}" if index in losses else ""
            writer.writerow([name, self._sizes[index], progress.selections[index], loss])
        return file.getvalue().encode()
