"""Algorithms of posterior aggregation: the clients' work, and the server's aggregation of their updates.

These are Algorithms 1 to 10 of Johansson and Gullbrandson 2022. TFF aggregates the updates, except for FedAG and FedBE,
whose server is this program: `CollectedRounds` collects each client's update. All algorithms pass their aggregate to
the server optimizer; SGLD adds its noise after the step. FedAvg, FedOpt, FedPA and SGLD weight clients by their numbers
of examples, except with SCAFFOLD or the selector `rand`. The other algorithms weight clients equally, as Johansson and
Gullbrandson do. A client that diverged counts as a zero update, and a client without examples is ignored.
"""

import dataclasses
import math
import mmap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data import keys
from optimization import client_work, fed_avg, models, supervised
from optimization.client_work import ClientWork
from optimization.posterior import ensembles, flags, mean_shift_aggregation, samplers
from optimization.runtime import rounds

NO_DEVIATION = np.zeros(0, np.float32)


class CohortUpdates(NamedTuple):
    """Results of a cohort's clients, in the order of their positions.

    Attributes:
      deltas: float32 [clients with examples, parameters]; zero for an update that was not finite.
      sums: All clients' contributions to the round's metrics by name, [clients, ...] each; see `fed_avg.ClientOutput`.
    """

    deltas: np.ndarray
    sums: dict[str, np.ndarray]


class ServerUpdate(NamedTuple):
    """The server's aggregate of a cohort's updates.

    Attributes:
      delta: float32 [parameters], the change to pass to the server optimizer.
      deviation: float32 [parameters], standard deviation of FedAG's Gaussian posterior; empty for other algorithms.
    """

    delta: np.ndarray
    deviation: np.ndarray = NO_DEVIATION


# (weights before the round as one vector, deltas of clients with examples, generator) -> ServerUpdate. The function may
# overwrite the deltas.
Aggregate = Callable[[np.ndarray, np.ndarray, np.random.Generator], ServerUpdate]


@dataclasses.dataclass(frozen=True)
class ServerChain:
    """SGLD at the server: a Langevin chain with one state per round, and the average of its states after the burn-in.

    See Johansson and Gullbrandson 2022, section 2.4.4, and Welling and Teh 2011. The server steps by the clients' mean
    and then adds noise to the model, as in equation 2.16. That equation leaves open whether 2 eta is the variance or
    the standard deviation of the noise. Clients train from the newest state. Evaluation, deployment and saving use the
    average, or the newest state during the burn-in.

    Attributes:
      burn_in_rounds: Number of rounds at the start whose states are not averaged.
      deviation: Standard deviation of the noise on each weight. Rounds without clients also add noise.
    """

    burn_in_rounds: int
    deviation: float

    def state(self, stepped: Sequence[np.ndarray], seed: int, round_num: int) -> tuple[np.ndarray, ...]:
        """State of the chain after a round, given the model after the server optimizer's step."""
        generator = keys.generator(seed, keys.Purpose.LANGEVIN, round_num)
        scale = np.float32(self.deviation)
        arrays = [np.asarray(weight) for weight in stepped]
        return tuple(weight + scale * generator.standard_normal(weight.shape, np.float32) for weight in arrays)

    def served(
        self, average: Sequence[np.ndarray], state: tuple[np.ndarray, ...], round_num: int
    ) -> tuple[np.ndarray, ...]:
        """Average of the states since the burn-in; during the burn-in, the current state.

        Args:
          average: Average after the previous round.
          state: State of the chain after this round.
          round_num: Number of this round, from 1.
        """
        count = round_num - self.burn_in_rounds
        if count <= 1:
            return state
        pairs = zip(map(np.asarray, average), state, strict=True)
        return tuple(mean + (weight - mean) / np.float32(count) for mean, weight in pairs)


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An algorithm with its hyperparameters.

    Attributes:
      burn_in_work: The clients' training in the burn-in rounds.
      client_work: The clients' training after the burn-in.
      burn_in_rounds: Number of rounds with `burn_in_work`.
      aggregate: Aggregation of all updates in this program; None if TFF aggregates.
      factory: TFF's aggregation. If both this and `aggregate` are None, TFF computes a mean.
      chain: Langevin chain that follows the server optimizer's step, or None.
    """

    burn_in_work: ClientWork
    client_work: ClientWork
    burn_in_rounds: int = 0
    aggregate: Aggregate | None = None
    factory: mean_shift_aggregation.MeanShiftFactory | None = None
    chain: ServerChain | None = None

    def work_of(self, round_num: int) -> ClientWork:
        """The clients' training in a round, numbered from 1."""
        return self.burn_in_work if round_num <= self.burn_in_rounds else self.client_work


def build(
    posterior: flags.Posterior, sgd: client_work.LocalSgd, model: models.Model, cohort_size: int, server_features=None
) -> Algorithm:
    """Builds an algorithm.

    Args:
      posterior: Name and hyperparameters of the algorithm.
      sgd: The clients' training by SGD. Chains of posterior samples take the same steps.
      model: Model of the task.
      cohort_size: Maximum number of clients in a round.
      server_features: The server's unlabelled examples for FedBE, in the form that the model takes; otherwise None.
    """
    name, parts = posterior.name, dict[str, Any](client_work=sgd)
    if name in flags.CHAINS:
        parts["client_work"] = samplers.ChainSgd(sgd, posterior.steps_per_sample, posterior.shrinkage)
        parts["burn_in_rounds"] = posterior.burn_in_rounds
    if name == "fedag":
        parts["aggregate"] = _fedag
    elif name == "fedbe":
        parts["aggregate"] = _fedbe(posterior, model, server_features)
    elif name in flags.MODES:
        shift, shifts_clients = posterior.mean_shift, name != "fedkp"
        parts["factory"] = mean_shift_aggregation.MeanShiftFactory(shift, cohort_size, shifts_clients)
    elif name == "sgld":
        deviation = flags.deviation(posterior.langevin_deviation, sgd.learning_rate)  # type: ignore[arg-type]
        parts["chain"] = ServerChain(posterior.burn_in_rounds, deviation)
    return Algorithm(burn_in_work=sgd, **parts)


def _fedag(weights: np.ndarray, deltas: np.ndarray, generator: np.random.Generator) -> ServerUpdate:
    posterior = ensembles.gaussian_posterior(deltas)
    return ServerUpdate(posterior.mean, posterior.deviation)


def _fedbe(posterior: flags.Posterior, model: models.Model, server_features) -> Aggregate:
    distillation = ensembles.Distillation(epochs=posterior.distillation_epochs)

    def aggregate(weights, deltas, generator) -> ServerUpdate:
        deltas += weights
        samples = posterior.posterior_samples
        distilled = ensembles.fedbe(model, deltas, server_features, samples, distillation, generator)
        return ServerUpdate(distilled - weights)

    return aggregate


def flat(weights: models.Weights) -> np.ndarray:
    """Weights as one float32 vector."""
    return models.flatten(weights).numpy()


def build_collection(definition: supervised.SupervisedProcess) -> Callable[..., CohortUpdates]:
    """Builds a round's client work: a function (weights, list of `supervised.ClientInput`) -> `CohortUpdates`.

    Each client's update is written to its row when it arrives. The program therefore holds the cohort's updates only
    once, and the worker holds only a few of them.
    """

    def client_round(*arguments):
        output = definition.client_round()(*arguments)
        return models.flatten(output.delta), output.sums

    each = fed_avg.at_clients(definition.at_client(client_round))
    size = sum(math.prod(shape) for shape in definition.model.shapes.values())

    def collect(weights: models.Weights, cohort: Sequence[supervised.ClientInput]) -> CohortUpdates:
        rows = np.argsort(np.argsort([client.position for client in cohort]))
        # Mapped memory is freed together with the array. On the heap, fragmentation would keep it allocated.
        memory = mmap.mmap(-1, max(1, 4 * len(cohort) * size))
        deltas: np.ndarray = np.ndarray((len(cohort), size), np.float32, memory)
        clients: list[dict[str, Any]] = [{}] * len(cohort)

        def take(index: int, result: tuple[np.ndarray, dict[str, Any]]) -> None:
            deltas[rows[index]], clients[rows[index]] = result

        rounds.current_context().each_client(each, [weights], cohort, take)
        sums = {name: np.stack([client[name] for client in clients]) for name in clients[0]}
        with_examples = np.flatnonzero(sums["examples"])
        for row, client in enumerate(with_examples):
            if row != client:
                deltas[row] = deltas[client]
        return CohortUpdates(deltas[: len(with_examples)], sums)

    return collect


class CollectedRounds:
    """Rounds whose server is this program, with the interface of `fed_avg.Process.build`.

    Attributes:
      initialize: Function that returns the state before round 1.
    """

    def __init__(self, definition: supervised.SupervisedProcess):
        """Builds the computations. The aggregator of `definition` is not used."""
        built = definition.build()
        self.initialize = built.initialize
        self._shapes, self._collect = definition.model.shapes, build_collection(definition)
        taken = built.state_type.member, definition.weights_type
        self._server_round = tff.tensorflow.computation(definition.server_round, *taken)

    def next(
        self,
        state: fed_avg.State,
        cohort: Sequence[supervised.ClientInput],
        aggregate: Callable[[np.ndarray, np.ndarray], ServerUpdate],
    ) -> tuple[fed_avg.State, fed_avg.RoundMetrics]:
        """Runs a round. If no client has examples, the update is zero.

        Args:
          state: State before the round, with the model that clients receive.
          cohort: Inputs of at least one client.
          aggregate: (weights before the round, deltas of clients with examples) -> `ServerUpdate`.

        Returns:
          State after the round, and its metrics. Their `aggregator` is a dictionary of the fields of the `ServerUpdate`
          except `delta`, and empty if no client has examples.
        """
        updates, before = self._collect(state.weights, cohort), flat(state.weights)
        delta, others = np.zeros_like(before), {}
        if len(updates.deltas):
            others = aggregate(before, updates.deltas)._asdict()
            delta = others.pop("delta")
        step = self._server_round(state, models.unflatten(tf.constant(delta), self._shapes))
        # Added sequentially, as in TFF's aggregations.
        sums = {name: np.cumsum(values, axis=0, dtype=values.dtype)[-1] for name, values in updates.sums.items()}
        metrics = fed_avg.RoundMetrics(**sums, update_norm=step[4], deployed=step[5], aggregator=others)
        return fed_avg.State._make((*step[:4], state.aggregator)), metrics
