"""The algorithms of `--algorithm`: what clients do, and how the server makes one update of theirs.

Johansson and Gullbrandson 2022, Algorithms 1 to 10. Whatever the algorithm, its update goes to the same server
optimizer; SGLD's noise comes after its step. FedAvg, FedOpt, FedPA and SGLD average by the clients' numbers of
examples; the others treat clients alike, as the thesis' algorithms do. To all of them a diverged client is one with a
zero update, and one without examples none.
"""

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from data import keys
from optimization import client_work, models
from optimization.client_work import ClientWork
from optimization.posterior import algorithm_flags, ensembles, mean_shift, mean_shift_aggregation, process, samplers

NO_DEVIATION = np.zeros(0, np.float32)


class ServerUpdate(NamedTuple):
    """What the server made of a cohort's updates.

    Attributes:
      delta: float32 [parameters].
      deviation: float32 [parameters], of the Gaussian posterior; empty where the algorithm has none.
      share_moved: See `mean_shift.Aggregate`; NaN where the algorithm has no mean shift.
    """

    delta: np.ndarray
    deviation: np.ndarray = NO_DEVIATION
    share_moved: float = float("nan")


# (the weights before as one vector, updates of clients with examples, generator) -> ServerUpdate; overwrites the deltas
# if it needs the space.
Aggregate = Callable[[np.ndarray, process.CohortUpdates, np.random.Generator], ServerUpdate]


@dataclasses.dataclass(frozen=True)
class ServerChain:
    """SGLD at the server: a Langevin chain with one state a round, and the average of its states after the burn-in.

    Johansson and Gullbrandson 2022, section 2.4.4; Welling and Teh 2011. The clients' mean is the step, and noise is
    added to the model after it, as in equation 2.16, which does not say whether 2 eta is its variance or deviation.
    Clients train from the newest state; what is evaluated, deployed and saved is the average, in burn-in rounds the
    newest state.

    Attributes:
      burn_in_rounds: First rounds, whose states are not averaged.
      deviation: Standard deviation of the noise of each weight in each round, one without clients included.
    """

    burn_in_rounds: int
    deviation: float

    def state(self, stepped: Sequence[np.ndarray], seed: int, round_num: int) -> tuple[np.ndarray, ...]:
        """Returns the chain's state after a round, given the model after the server optimizer's step."""
        generator = keys.generator(seed, keys.Purpose.LANGEVIN, round_num)
        scale = np.float32(self.deviation)
        arrays = [np.asarray(weight) for weight in stepped]
        return tuple(weight + scale * generator.standard_normal(weight.shape, np.float32) for weight in arrays)

    def served(
        self, average: Sequence[np.ndarray], state: tuple[np.ndarray, ...], round_num: int
    ) -> tuple[np.ndarray, ...]:
        """Returns the average of the states after the burn-in; in its rounds, the state.

        Args:
          average: That of the round before.
          state: Of this round.
          round_num: This round, from 1.
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
      client_work: Their training after them.
      burn_in_rounds: How many those are.
      aggregate: How the server makes one update of the cohort's, side by side in the program; None if TFF aggregates.
      factory: TFF's aggregation; None without `aggregate` for the mean weighted by examples.
      chain: What becomes of the model after the server optimizer's step; None for nothing.
    """

    burn_in_work: ClientWork
    client_work: ClientWork
    burn_in_rounds: int = 0
    aggregate: Aggregate | None = None
    factory: mean_shift_aggregation.WeightedMeanShiftFactory | None = None
    chain: ServerChain | None = None

    def work_of(self, round_num: int) -> ClientWork:
        """Returns the clients' training in a round, from 1."""
        return self.burn_in_work if round_num <= self.burn_in_rounds else self.client_work


def build(
    posterior: algorithm_flags.Posterior,
    sgd: client_work.LocalSgd,
    model: models.Model,
    cohort_size: int,
    server_features=None,
) -> Algorithm:
    """Returns an algorithm, and says where the mean shift is computed.

    Args:
      posterior: Which, and its hyperparameters.
      sgd: The clients' plain training, whose steps are also those of their chains.
      model: The model.
      cohort_size: Most clients of a round.
      server_features: FedBE's unlabelled examples, as the model takes them.
    """
    name, burn_in_rounds = posterior.name, 0
    work: ClientWork = sgd
    if name in ("fedpa", "fedkppa", "client_sgld"):
        is_langevin = name == "client_sgld"
        shrinkage = None if is_langevin else posterior.shrinkage
        work = samplers.ChainSgd(sgd, posterior.steps_per_sample, is_langevin, shrinkage)
        burn_in_rounds = posterior.burn_in_rounds
    aggregate: Aggregate | None = None
    factory = None
    if name == "fedag":
        aggregate = _fedag
    elif name == "fedbe":
        aggregate = _fedbe(posterior, model, server_features)
    elif name in algorithm_flags.KERNELS:
        size = sum(math.prod(shape) for shape in model.shapes.values())
        gigabytes = f"{4e-9 * cohort_size * size:,.2g} GB of models a round"
        if mean_shift_aggregation.fits(cohort_size, size):
            factory = _factory(posterior, cohort_size)
            print(f"Mean shift: by TFF's worker ({gigabytes}).", file=sys.stderr)
        else:
            aggregate = _fedkp(posterior)
            print(f"Mean shift: by NumPy in the program ({gigabytes}; a message holds 2 GB).", file=sys.stderr)
    states = None
    if name == "sgld":
        deviation = algorithm_flags.deviation(posterior.langevin_deviation, sgd.learning_rate)  # type: ignore[arg-type]
        states = ServerChain(posterior.burn_in_rounds, deviation)
    return Algorithm(sgd, work, burn_in_rounds, aggregate, factory, states)


def _fedag(weights: np.ndarray, updates: process.CohortUpdates, generator: np.random.Generator) -> ServerUpdate:
    del weights, generator
    posterior = ensembles.gaussian_posterior(updates.deltas)
    return ServerUpdate(posterior.mean, posterior.deviation)


def distillation_of(posterior: algorithm_flags.Posterior) -> ensembles.Distillation:
    """Returns how FedBE distils its ensemble."""
    return ensembles.Distillation(epochs=posterior.distillation_epochs)


def _fedbe(posterior: algorithm_flags.Posterior, model: models.Model, server_features) -> Aggregate:
    distillation = distillation_of(posterior)

    def aggregate(weights, updates, generator) -> ServerUpdate:
        clients = updates.deltas
        clients += weights
        samples = posterior.posterior_samples
        distilled = ensembles.fedbe(model, clients, server_features, samples, distillation, generator)
        return ServerUpdate(distilled - weights)

    return aggregate


def _factory(posterior: algorithm_flags.Posterior, cohort_size: int) -> mean_shift_aggregation.WeightedMeanShiftFactory:
    return mean_shift_aggregation.WeightedMeanShiftFactory(
        posterior.mean_shift,
        cohort_size,
        shifts_clients=posterior.name != "fedkp",
        weighs=posterior.kernel_weights == "num_examples",
        sizes_bandwidths=posterior.kernel_bandwidths == "num_examples",
    )


def _fedkp(posterior: algorithm_flags.Posterior) -> Aggregate:
    shift = posterior.mean_shift
    shifted = shift.fedkp if posterior.name == "fedkp" else shift.fedkp_cluster_mean

    def aggregate(weights, updates, generator) -> ServerUpdate:
        del weights, generator
        sizes = updates.examples.astype(np.float64)
        found = shifted(
            updates.deltas,
            sizes if posterior.kernel_weights == "num_examples" else None,
            mean_shift.size_factors(sizes) if posterior.kernel_bandwidths == "num_examples" else None,
        )
        return ServerUpdate(found.model, share_moved=found.share_moved)

    return aggregate


def flat(weights: models.Weights) -> np.ndarray:
    """Returns the weights as one float32 vector."""
    return models.flatten(weights).numpy()
