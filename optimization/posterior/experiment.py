"""Federated training with posterior aggregation, as rounds for the runner.

A round has these steps: sample the cohort, build the clients' `supervised.ClientInput`s, train the clients in a TFF
computation, aggregate their updates, take the server optimizer's step, and evaluate the model on validation data and on
the cohort's training data.
"""

import dataclasses
import functools
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.special
import tensorflow as tf

from data import clients, keys, partition, tasks
from data.settings import make_options
from optimization import client_states, client_work, cohorts, fed_avg, models, scaffold, supervised
from optimization.options import Cohorts
from optimization.posterior import algorithms, diagnostics, ensembles, flags, metrics
from optimization.study import metrics as study_metrics
from optimization.study import payloads, run_folder, training


class RoundState(NamedTuple):
    """State between rounds.

    Attributes:
      server: State of the model and of the server optimizer.
      deviation: float32 [parameters], standard deviation of FedAG's posterior around the model; empty for other
        algorithms.
      recent: float64 [window, metrics], `metrics.MEASURED` in the last rounds, newest last; NaN before round 1.
      selection: The client selector's state; empty without a selector.
      chain: Newest weights of SGLD's chain, from which clients train, while `server` has the average. Empty for other
        algorithms.
    """

    server: fed_avg.State
    deviation: np.ndarray
    recent: np.ndarray
    selection: Any = ()
    chain: Any = ()


class PosteriorRounds(training.TrainingRounds):
    """The rounds of a run with posterior aggregation."""

    def __init__(self, options: flags.PosteriorOptions, task: tasks.Task, folder: run_folder.RunFolder):
        """Prepares the rounds.

        Args:
          options: Options of the run.
          task: The task, whose clients train the model.
          folder: Folder for the diagnostics and the control variates.
        """
        self._options, self._folder = options, folder
        sgd = make_options(client_work.LocalSgd, vars(options))
        model, size = models.of_task(task), options.cohort_size
        server_features = None
        if options.server_clients:
            examples = clients.joined([task.clients.load(index) for index in range(options.server_clients)])
            server_features = task.normalize(examples.features)
        self._algorithm = algorithms.build(options.posterior, sgd, model, size, server_features)
        keeps_models = options.posterior.name in flags.KEEP_MODELS or options.client_algorithm is not None
        work = self._algorithm.client_work
        super().__init__(options, task, work, first_client=options.server_clients, keeps_models=keeps_models)
        self.weighs_examples = options.selection.weighting("num_examples") == "num_examples"
        self._warn_of_cycles(server_features)
        self._held_out = self._mixed(clients.pool(task.held_out, options.max_validation_samples, options.seed), 0)
        if options.client_algorithm:
            self._payload *= 2  # In both directions, a control variate is sent with the model or the update.
            states = client_states.ClientStates(folder.path / run_folder.CLIENT_VARIATES, folder.checkpoint_rounds)
            built = self.mean_rounds(work, size), self.definition(work, size)
            self._scaffold = scaffold.Rounds(*built, states, range(self._first, len(self._clients)))

    def definition(self, work: Any, num_clients: int) -> supervised.SupervisedProcess:
        """Definition of rounds with this client work and this many clients."""
        definition, factory = super().definition(work, num_clients), self._algorithm.factory
        return dataclasses.replace(definition, aggregator=factory) if factory else definition

    def _rounds(self, work: Any) -> Any:
        """Builds the rounds with this client work. Their initial weights are zeros."""
        size, factory = self._options.cohort_size, self._algorithm.factory
        if self._options.client_algorithm:
            return self._scaffold
        if self._algorithm.aggregate:
            what = "collected rounds", work, size
            return self._cached(what, lambda: algorithms.CollectedRounds(self.definition(work, size)))
        return self._cached(("rounds", work, size, factory), lambda: self.definition(work, size).build())

    def _mixed(self, examples: clients.Examples, round_num: int) -> clients.Examples:
        """Shuffles the examples, so that batches resemble the data as a whole if a model normalizes over a batch."""
        draw = keys.generator(self._options.seed, keys.Purpose.EVALUATION, round_num, 1)
        return examples.take(draw.permutation(len(examples.labels)))

    def initial_state(self) -> RoundState:
        """State before round 1."""
        weights = self._model.initial_weights(self._options.seed)
        server = self._rounds(self.work).initialize()._replace(weights=weights)
        deviation = algorithms.NO_DEVIATION
        if self._options.posterior.name == "fedag":
            deviation = np.zeros_like(algorithms.flat(weights))
        selection = () if self._options.selection.is_uniform else self.selected.selector.initial_state()
        recent = np.full((metrics.WINDOW, len(metrics.MEASURED)), np.nan)
        chain = tuple(server.weights) if self._algorithm.chain else ()
        return RoundState(server, deviation, recent, selection, chain)

    def _warn_of_cycles(self, server_features: Any) -> None:
        """Warns if FedBE's distillation averages nothing."""
        if self._options.posterior.name != "fedbe":
            return
        distillation = ensembles.Distillation(epochs=self._options.posterior.distillation_epochs)
        examples = len(tf.nest.flatten(server_features)[0])
        if not distillation.num_cycles(examples):
            steps = -(-examples // distillation.batch_size)
            print(
                "Warning: FedBE's distillation completes no cycle, so it averages nothing: a cycle has "
                f"{distillation.cycle} steps, but an epoch of the server's {examples:,} examples has only {steps}. "
                f"Give --distillation_epochs={-(-distillation.cycle // steps)} or more.",
                file=sys.stderr,
            )

    def cohort(self, round_num: int) -> np.ndarray:
        """Samples a cohort without a selector, int [clients]. Clients whose examples the server has are excluded."""
        options, population = self._options, len(self._clients) - self._first
        if options.client_sampling_alpha is None:
            return self._first + cohorts.draw(Cohorts(options.cohort_size), population, options.seed, round_num)
        arguments = options.cohort_size, options.client_sampling_alpha, options.seed, round_num
        return self._first + partition.dirichlet_cohort(population, *arguments)

    def run_round(self, state: RoundState, round_num: int) -> tuple[RoundState, Mapping[str, Any]]:
        """Runs one round."""
        is_uniform, selection = self._options.selection.is_uniform, ()
        chain: Any = ()
        served = state.server.weights
        if self._algorithm.chain:
            state = state._replace(server=state.server._replace(weights=state.chain))
        if is_uniform:
            ids, polled = self.cohort(round_num), np.zeros(0, int)
        else:
            ids, polled, selection = self._choose(state.selection, state.server.weights, round_num)
        examples = self._load(ids)
        inputs: Any = self._inputs(ids, examples, round_num)
        work = self._algorithm.work_of(round_num)
        if round_num in self._options.diagnose_rounds:
            definition = self.definition(work, self._options.cohort_size)
            what = "collection", work, definition.cohort_size
            collect = self._cached(what, lambda: algorithms.build_collection(definition))
            self._diagnose(collect(state.server.weights, inputs), state, round_num)
        run = self._rounds(work).next
        if aggregate := self._algorithm.aggregate:
            generator = keys.generator(self._options.seed, keys.Purpose.DECISION, round_num, 0)
            run = functools.partial(run, aggregate=functools.partial(aggregate, generator=generator))
        if self._options.client_algorithm:
            run, inputs = functools.partial(run, round_num=round_num), list(zip(inputs, ids, strict=True))
        server, counts = run(state.server, inputs)
        measurements: Mapping[str, Any] = counts.aggregator or {}
        deviation = measurements.get("deviation", state.deviation)
        if self._algorithm.chain:
            chain = self._algorithm.chain.state(server.weights, self._options.seed, round_num)
            server = server._replace(weights=self._algorithm.chain.served(served, chain, round_num))
        if not is_uniform:
            reported = counts.client_losses, counts.client_deviations
            selection = self.selected.observe(selection, ids - self._first, *reported)
        ensemble = self._ensemble(server.weights, deviation, round_num)
        everyone = self._mixed(clients.joined(examples), round_num)
        measured = self._measured(ensemble, self._held_out) + self._measured(ensemble, everyone)
        recent = np.concatenate([state.recent[1:], [measured]])
        row = {
            study_metrics.LOSS: study_metrics.mean(counts.loss_sum, counts.batch_examples),
            study_metrics.UPDATE_NORM: float(counts.update_norm),
            study_metrics.EXAMPLES: int(counts.examples),
            study_metrics.EMPTY_CLIENTS: int(counts.empty_clients),
            study_metrics.NONFINITE_CLIENTS: int(counts.nonfinite_clients),
            **payloads.of_selected(self._payload, self._payload, ids, polled),
            metrics.SHARE_MOVED: float(measurements.get("share_moved", math.nan)),
            **dict(zip(metrics.MEASURED, measured, strict=True)),
            **dict(zip(metrics.RUNNING, recent[-round_num:].mean(axis=0).tolist(), strict=True)),
        }
        return RoundState(server, deviation, recent, selection, chain), row

    def _ensemble(self, weights: models.Weights, deviation: np.ndarray, round_num: int) -> list[models.Weights]:
        """Models whose probabilities are averaged: FedAG's samples, or only the server's model for other algorithms."""
        if not deviation.size:
            return [tuple(weights)]
        generator = keys.generator(self._options.seed, keys.Purpose.EVALUATION, round_num, 0)
        posterior = ensembles.GaussianPosterior(algorithms.flat(weights), deviation)
        samples = posterior.samples(self._options.posterior.posterior_samples, generator)
        return [models.unflatten(tf.constant(sample), self._model.shapes) for sample in samples]

    def _measured(self, ensemble: Sequence[models.Weights], examples: clients.Examples) -> list[float]:
        """Values of `metrics.MEASURES` for the mean probabilities of an ensemble; NaN without examples."""
        if not len(examples.labels):
            return [float("nan")] * len(metrics.MEASURES)
        log_probabilities, batches = self._evaluation(_log_probabilities), []
        for batch in self._task.batches(examples, self._options.eval_batch_size, even=True):
            each = [log_probabilities(weights, *batch).numpy() for weights in ensemble]
            batches.append(each[0] if len(each) == 1 else scipy.special.logsumexp(each, axis=0) - np.log(len(each)))
        return metrics.measure(np.concatenate(batches), examples.labels)

    def _diagnose(self, updates: algorithms.CohortUpdates, state: RoundState, round_num: int) -> None:
        """Tests the finite models for normality, if there are two or more; writes the results to the run's folder."""
        has_finite_update = updates.sums["nonfinite_clients"][updates.sums["examples"] > 0] == 0
        trained = updates.deltas[has_finite_update] + algorithms.flat(state.server.weights)
        if len(trained) < 2:
            return
        path = self._folder.path / f"diagnosis_round_{round_num}.npz"
        normality = diagnostics.normality(trained)
        np.savez(path, **normality._asdict())
        diagnostics.draw_normality(normality, path.with_name(f"{path.stem}_normality.png"))


def _log_probabilities(outputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    return tf.nn.log_softmax(outputs)
