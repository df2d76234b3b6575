"""Supervised training of a task with selected cohorts, shared by several studies.

Compiled computations are cached, so that all runs in a Python process share them if the computations are equal. They
hold no reference to a run or task.
"""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data import clients, tasks
from optimization import fed_avg, models, options, supervised
from optimization.selection.selectors import Choice, SelectedCohorts
from optimization.study import compiled, payloads, runner


class TrainingRounds(runner.Rounds):
    """Rounds that train a task's model. A study defines the round, whose state has a `fed_avg.State` as its `server`.

    Attributes:
      work: The clients' training, such as `client_work.LocalSgd`.
      weighs_examples: Whether a client's weight is its number of examples. Otherwise it is 1, or 0 without examples.
    """

    weighs_examples = True

    def __init__(
        self,
        training: options.Training,
        task: tasks.Task,
        work: Any,
        client_weighting: str = "num_examples",
        first_client: int = 0,
        *,
        keeps_models: bool = False,
    ):
        """Stores the definition of the rounds.

        Args:
          training: Options of the training.
          task: The task, whose clients train the model.
          work: The clients' training, such as `client_work.LocalSgd`.
          client_weighting: How clients are weighted in the mean. `num_examples` uses the weights of the inputs, and
            `uniform` uses equal weights.
          first_client: Index of the first client that may train.
          keeps_models: See `payloads.needed_bytes`.

        Raises:
          UsageError: If there is too little memory.
        """
        self._training, self._task, self._first, self.work = training, task, first_client, work
        self._clients = clients.CappedClients(task.clients, training.max_examples_per_client, training.seed)
        self._model, self._client_weighting = models.of_task(task), client_weighting
        self._payload = payloads.of_model(list(self._model.shapes.values()))
        payloads.check_memory(self._payload, training.cohort_size, keeps_models=keeps_models)
        self._specs = models.feature_spec(task), models.label_spec(task)
        shape = repr((task.model, task.model_arguments, self._specs))
        self._key = shape, training.server_optimizer, client_weighting

    def model(self, state: Any) -> Mapping[str, np.ndarray]:
        """Weights of the model."""
        return dict(zip(self._model.shapes, state.server.weights, strict=True))

    def learning_rate(self, round_num: int) -> float:
        """Client learning rate in a round, numbered from 1."""
        return self._training.learning_rate

    def definition(self, work: Any, num_clients: int) -> supervised.SupervisedProcess:
        """Definition of rounds with this many clients and this client work."""
        if self._client_weighting == "num_examples":
            mean = tff.aggregators.MeanFactory(no_nan_division=True)
        else:
            mean = tff.aggregators.as_weighted_aggregator(tff.aggregators.UnweightedMeanFactory())
        feature_spec, label_spec = self._specs
        return supervised.SupervisedProcess(
            model=self._model,
            local_work=work,
            aggregator=mean,
            server_optimizer=fed_avg.server_optimizer(self._training.server_optimizer),
            feature_spec=feature_spec,
            label_spec=label_spec,
            cohort_size=num_clients,
        )

    def _cached(self, what: Hashable, build: Callable[[], Any]) -> Any:
        return compiled.cached((what, self._key), build)

    def mean_rounds(self, work: Any, num_clients: int) -> tff.templates.IterativeProcess:
        """Rounds that aggregate updates by the mean. Their initial weights are zeros."""
        return self._cached(("rounds", work, num_clients), lambda: self.definition(work, num_clients).build())

    def _evaluation(self, measure: Callable[[tf.Tensor, tf.Tensor], Any]) -> Callable[..., Any]:
        """Builds a function (weights, features, labels) -> `measure`(outputs, labels).

        `measure` must be a function of a module, so that runs can share the result.
        """
        model = self._model

        def evaluate(weights, features, labels):
            return measure(model.forward(weights, models.dense(features)), labels)

        signature = [model.specs, *self._specs]
        build = functools.partial(tf.function, evaluate, input_signature=signature, autograph=False)
        return self._cached(("evaluation", measure), build)

    def _load(self, ids: np.ndarray) -> list[clients.Examples]:
        return [self._clients.load(int(client)) for client in ids]

    def _inputs(
        self, ids: np.ndarray, cohort: Sequence[clients.Examples], round_num: int
    ) -> list[supervised.ClientInput]:
        """Inputs to a round for the clients `ids`, who have these examples."""
        normalized = [one._replace(features=self._task.normalize(one.features)) for one in cohort]
        key_and_rate = self._training.seed, round_num, self.learning_rate(round_num)
        return supervised.inputs(normalized, ids, *key_and_rate, weighs_examples=self.weighs_examples)

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """Number of examples of each client that may train, int [clients]."""
        return clients.sizes(self._clients, range(self._first, len(self._clients)))

    @functools.cached_property
    def selected(self) -> SelectedCohorts:
        """The selector of this run. It numbers clients from 0 for the first client that may train.

        Raises:
          UsageError: If the sizes of cohort, candidates and population are incompatible.
        """
        training = self._training
        return SelectedCohorts(training.selection.build(self.sizes, training.cohort_size), training.seed)

    def _choose(self, selection: Any, weights: models.Weights, round_num: int) -> Choice:
        """Chooses the cohort of a round. The selector may poll the clients' losses under these weights."""

        def poll(ids: np.ndarray) -> np.ndarray:
            size, ids = len(ids), ids + self._first
            losses = self._cached(("poll", size), lambda: self.definition(self.work, size).build_loss_poll(size))
            return losses(weights, self._inputs(ids, self._load(ids), round_num))

        choice = self.selected.choose(selection, round_num, poll)
        return choice._replace(cohort=choice.cohort + self._first, polled=choice.polled + self._first)
