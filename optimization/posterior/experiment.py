"""Federated training by posterior aggregation, as rounds that the runner can play.

One round: cohort -> `supervised.ClientInput`s -> the clients' work as a TFF computation -> the server's update -> the
server optimizer's step -> predictions on validation data and on the cohort's training data.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.special
import tensorflow as tf
import tensorflow_federated as tff

from data import clients, keys, partition, tasks
from optimization import client_work, cohorts, models, options, server, supervised, task_model
from optimization.posterior import (
    algorithm_flags,
    algorithms,
    bandwidths,
    diagnostics,
    ensembles,
    flags,
    metrics,
    process,
    vectors,
)
from optimization.selection import selected
from optimization.study import cli, compiled, runner, selector_flags, server_flags

_DRAWN_PARAMETERS = 3


class Progress(NamedTuple):
    """State between rounds.

    Attributes:
      server: Model and server optimizer.
      deviation: float32 [parameters], FedAG's posterior around the model; empty for other algorithms.
      recent: float64 [window, measured], `metrics.MEASURED` of the last rounds, newest last; NaN before the first.
      selection: The client selector's state; empty without one.
    """

    server: supervised.SupervisedState
    deviation: np.ndarray
    recent: np.ndarray
    selection: Any = ()


class Computations:
    """TFF's computations, which runs that differ in their seed share: each is compiled once."""

    def __init__(self, settings: cli.Settings, task: tasks.Task, server_features: Any):
        """Takes what the runs have in common.

        Args:
          settings: Flags; the seed does not count.
          task: The task.
          server_features: FedBE's unlabelled examples, as the model takes them, or None.
        """
        self._task = task
        self._optimizer, self._cohort_size = server_flags.options(settings), settings["clients_per_round"]
        shape = (task.model, task.model_arguments, task.feature_spec)
        self._key = repr(shape), self._optimizer, self._cohort_size
        self.model: models.Model = task_model.build(task)
        self.posterior = algorithm_flags.options(settings, "algorithm")
        sgd = client_work.LocalSgd(
            settings["client_learning_rate"],
            settings["client_batch_size"],
            epochs=settings["client_epochs_per_round"],
            momentum=settings["client_momentum"],
        )
        self.algorithm = algorithms.build(self.posterior, sgd, self.model, server_features)

    def definition(self, work: client_work.LocalSgd | algorithms.ChainWork) -> supervised.SupervisedProcess:
        """Returns what defines rounds of this client work."""
        task = self._task
        return supervised.SupervisedProcess(
            model=self.model,
            local_work=work,
            aggregator=tff.aggregators.MeanFactory(no_nan_division=True),
            server_optimizer=server.build(self._optimizer),
            feature_spec=task_model.feature_spec(task),
            label_spec=task_model.label_spec(task),
            cohort_size=self._cohort_size,
        )

    def mean_rounds(self, work) -> tff.templates.IterativeProcess:
        """Returns rounds that end in the mean; their initial weights are of seed 0."""
        return compiled.kept(
            ("rounds", self._key, work), lambda: self.definition(work).build(self.model.initial_weights(0))
        )

    def collection(self, work) -> Callable[..., process.CohortUpdates]:
        """Returns the clients' part of other rounds."""
        return compiled.kept(("collection", self._key, work), lambda: process.build_collection(self.definition(work)))

    @functools.cached_property
    def server_step(self):
        """The server's part of them."""
        return process.build_server_step(self.definition(self.algorithm.client_work))

    def poll(self, num_candidates: int) -> tff.Computation:
        """Returns the computation that asks so many clients for their loss."""
        definition = self.definition(self.algorithm.client_work)
        return compiled.kept(("poll", num_candidates, self._key), lambda: definition.build_loss_poll(num_candidates))

    @functools.cached_property
    def log_probabilities(self):
        """The function (weights, features) -> float32 [examples, classes]."""
        definition = self.definition(self.algorithm.client_work)

        @tf.function(input_signature=[self.model.specs, definition.feature_spec], autograph=False)
        def log_probabilities(weights, features):
            return tf.nn.log_softmax(self.model.forward(weights, features))

        return log_probabilities


class Run:
    """One run's rounds."""

    def __init__(self, settings: cli.Settings, task: tasks.Task, computations: Computations, folder: pathlib.Path):
        """Prepares the rounds.

        Args:
          settings: Flags.
          task: The task.
          computations: TFF's computations of these flags and this task.
          folder: Where diagnostics go.
        """
        self._settings = settings
        self._task = task
        self._folder = folder
        self._clients = clients.CappedClients(task.clients, settings["max_examples_per_client"], settings["seed"])
        self._computations = computations
        self.model, self._algorithm = computations.model, computations.algorithm
        held_out = clients.pool(task.held_out, settings["max_validation_samples"], settings["seed"])
        self._held_out = self._mixed(held_out, 0)
        self._selection = selector_flags.options(settings)
        self._selected = self._build_selected()

    def _mixed(self, examples: clients.Examples, round_num: int) -> clients.Examples:
        """Returns the examples shuffled: where a model normalises over a batch, each should be like the whole."""
        draw = keys.generator(self._settings["seed"], keys.Purpose.EVALUATION, round_num, 1)
        return examples.take(draw.permutation(len(examples.labels)))

    def _build_selected(self) -> selected.SelectedCohorts | None:
        """Returns the selected cohorts, which counts every client's examples; None for uniform ones."""
        if self._selection.is_uniform:
            return None
        sizes = clients.sizes(self._clients, range(flags.server_clients(self._settings), len(self._clients)))
        selector = self._selection.build(sizes, self._settings["clients_per_round"])
        return selected.SelectedCohorts(selector, self._settings["seed"])

    def initial_progress(self) -> Progress:
        """Returns the state before round 1."""
        work = self._algorithm.client_work
        weights = self.model.initial_weights(self._settings["seed"])
        if self._algorithm.aggregate is None:
            state = self._computations.mean_rounds(work).initialize()._replace(weights=weights)
        else:
            state = process.initial_state(self._computations.definition(work), weights)
        deviation = algorithms.NO_DEVIATION
        if self._computations.posterior.name == "fedag":
            deviation = np.zeros_like(algorithms.flat(state.weights))
        selection = self._selected.selector.initial_state() if self._selected else ()
        return Progress(state, deviation, np.full((metrics.WINDOW, len(metrics.MEASURED)), np.nan), selection)

    def _select(self, progress: Progress, round_num: int) -> tuple[np.ndarray, Any]:
        """Returns the clients of a round and the selector's state, which knows those polled for it."""
        if not self._selected:
            return self.cohort(round_num), ()
        first = flags.server_clients(self._settings)

        def poll(ids: np.ndarray) -> np.ndarray:
            examples = [self._clients.load(first + int(client)) for client in ids]
            inputs = self._inputs(first + ids, examples, round_num)
            return self._computations.poll(len(ids))(progress.server.weights, inputs)

        chosen, _, selection = self._selected.choose(progress.selection, round_num, poll)
        return first + chosen, selection

    def cohort(self, round_num: int) -> np.ndarray:
        """Returns a round's clients without a selector, none of those that gave their examples to the server."""
        first = flags.server_clients(self._settings)
        population, size = len(self._clients) - first, self._settings["clients_per_round"]
        seed, alpha = self._settings["seed"], self._settings["client_sampling_alpha"]
        if alpha is None:
            return first + cohorts.draw(options.Cohorts(size), population, seed, round_num)
        return first + partition.dirichlet_cohort(population, size, alpha, seed, round_num)

    def play_round(self, progress: Progress, round_num: int) -> tuple[Progress, Mapping[str, Any]]:
        """Plays one round."""
        ids, selection = self._select(progress, round_num)
        examples = [self._clients.load(int(client)) for client in ids]
        inputs = self._inputs(ids, examples, round_num)
        work = self._algorithm.work_of(round_num)
        if round_num == self._settings["diagnose_round"]:
            self._diagnose(
                self._computations.collection(work)(progress.server.weights, inputs), progress, examples, round_num
            )
        if self._algorithm.aggregate is None:
            state, row, local = self._mean_round(progress.server, inputs, work)
            deviation = progress.deviation
        else:
            state, deviation, row, local = self._posterior_round(progress, inputs, work, round_num)
        if self._selected:
            selection = self._selected.observe(selection, ids - flags.server_clients(self._settings), *local)
        ensemble = self._ensemble(state.weights, deviation, round_num)
        everyone = self._mixed(clients.joined(examples), round_num)
        measured = self._measured(ensemble, self._held_out) + self._measured(ensemble, everyone)
        recent = np.concatenate([progress.recent[1:], [measured]])
        row |= dict(zip(metrics.MEASURED, measured, strict=True))
        row |= dict(zip(metrics.RUNNING, recent[-round_num:].mean(axis=0).tolist(), strict=True))
        return Progress(state, deviation, recent, selection), row

    def _inputs(
        self, ids: np.ndarray, examples: Sequence[clients.Examples], round_num: int
    ) -> list[supervised.ClientInput]:
        seed = self._settings["seed"]
        is_weighted = self._selection.weighting("num_examples") == "num_examples"
        return [
            supervised.ClientInput(
                features=self._task.normalise(one.features),
                labels=one.labels,
                key=keys.tensorflow_key(seed, keys.Purpose.TRAINING, round_num, int(client)),
                position=np.int32(position),
                weight=np.float32(len(one.labels) if is_weighted else bool(len(one.labels))),
                learning_rate=np.float32(self._settings["client_learning_rate"]),
            )
            for position, (client, one) in enumerate(zip(ids, examples, strict=True))
        ]

    def _mean_round(self, state, inputs, work) -> tuple[supervised.SupervisedState, dict[str, Any], Any]:
        state, counts = self._computations.mean_rounds(work).next(state, inputs)
        local = counts.client_losses, counts.client_deviations
        row = {
            metrics.LOSS: _mean(counts.loss_sum, counts.trained_examples),
            metrics.UPDATE_NORM: float(counts.update_norm),
            metrics.EXAMPLES: int(counts.examples),
            metrics.EMPTY_CLIENTS: int(counts.empty_clients),
            metrics.NONFINITE_CLIENTS: int(counts.nonfinite_clients),
        }
        return state, row, local

    def _posterior_round(self, progress: Progress, inputs, work, round_num: int):
        updates = self._computations.collection(work)(progress.server.weights, inputs)
        before = algorithms.flat(progress.server.weights)
        update = algorithms.ServerUpdate(np.zeros_like(before), progress.deviation)
        if updates.examples.any():
            generator = keys.generator(self._settings["seed"], keys.Purpose.DECISION, round_num, 0)
            update = self._algorithm.aggregate(before, updates.with_examples(), generator)
        row = {
            metrics.LOSS: _mean(updates.loss_sums.sum(), updates.trained_examples.sum()),
            metrics.UPDATE_NORM: float(np.linalg.norm(update.delta)),
            metrics.EXAMPLES: int(updates.examples.sum()),
            metrics.EMPTY_CLIENTS: int((updates.examples == 0).sum()),
            metrics.NONFINITE_CLIENTS: int(updates.nonfinite.sum()),
        }
        with np.errstate(divide="ignore", invalid="ignore"):
            local = updates.loss_sums / updates.trained_examples, updates.deviations
        return self._computations.server_step(progress.server, update.delta), update.deviation, row, local

    def _ensemble(self, weights: models.Weights, deviation: np.ndarray, round_num: int) -> list[models.Weights]:
        """Returns the models whose probabilities are averaged: FedAG's samples, and else the server's model alone."""
        if not deviation.size:
            return [tuple(weights)]
        generator = keys.generator(self._settings["seed"], keys.Purpose.EVALUATION, round_num, 0)
        posterior = ensembles.GaussianPosterior(algorithms.flat(weights), deviation, 0)
        samples = posterior.samples(self._computations.posterior.posterior_samples, generator)
        return [vectors.unflatten(tf.constant(sample), self.model.shapes) for sample in samples]

    def _measured(self, ensemble: Sequence[models.Weights], examples: clients.Examples) -> list[float]:
        """Returns the `metrics.MEASURES` of an ensemble's mean probabilities."""
        if not len(examples.labels):
            return [float("nan")] * len(metrics.MEASURES)
        found = []
        for features, _ in self._task.batches(examples, self._settings["eval_batch_size"], even=True):
            each = [self._computations.log_probabilities(weights, features).numpy() for weights in ensemble]
            found.append(each[0] if len(each) == 1 else scipy.special.logsumexp(each, axis=0) - np.log(len(each)))
        return metrics.measure(np.concatenate(found), examples.labels)

    def _diagnose(
        self,
        updates: process.CohortUpdates,
        progress: Progress,
        examples: Sequence[clients.Examples],
        round_num: int,
    ) -> None:
        """Writes the normality of the cohort's models, and pictures of it, into the run's folder."""
        updates = updates.with_examples()
        trained = updates.deltas if updates.trained.all() else updates.deltas[updates.trained]
        trained += algorithms.flat(progress.server.weights)
        if len(trained) < 2:
            return
        stem = f"diagnosis_round_{round_num}"
        normality = diagnostics.normality(trained)
        np.savez(self._folder / f"{stem}.npz", **normality._asdict())
        diagnostics.draw_normality(
            {self._computations.posterior.name: normality}, self._folder / f"{stem}_normality.png"
        )
        shift = self._computations.posterior.mean_shift
        if shift.bandwidth == bandwidths.NEAREST:  # It has no one density.
            shift = dataclasses.replace(shift, bandwidth="silverman")
        # The last layer's, as the thesis draws: its biases come last.
        drawn = range(max(0, trained.shape[1] - _DRAWN_PARAMETERS), trained.shape[1])
        diagnostics.draw_densities(trained, drawn, shift, self._folder / f"{stem}_densities.png")
        counts = np.array([np.bincount(one.labels, minlength=self._task.num_actions) for one in examples])
        diagnostics.draw_label_allocation(
            counts, self._folder / f"{stem}_labels.png", f"Labels of the cohort of round {round_num}"
        )

    def experiment(self) -> runner.Experiment:
        """Returns what the runner plays; every round measures its model itself."""
        return runner.Experiment(
            initial_state=self.initial_progress,
            play_round=self.play_round,
            evaluate=lambda progress: {},
            columns=metrics.COLUMNS,
            headline=metrics.ACCURACY,
        )


def _mean(total: float, count: int) -> float:
    return float(total) / int(count) if count else float("nan")
