"""The algorithms of `--algorithm`: what clients do, and how the server makes one update of theirs.

Johansson and Gullbrandson 2022, Algorithms 1 to 10. Whatever the algorithm, its update goes to the same server
optimizer; SGLD's noise comes after its step. FedAvg, FedOpt, FedPA and SGLD average by the clients' numbers of
examples; the others treat clients alike, as the thesis' algorithms do. To all of them a diverged client is one with a
zero update, and one without examples none.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from optimization import client_work, models
from optimization.client_work import ClientWork
from optimization.posterior import algorithm_flags, ensembles, mean_shift, process, samplers, server_chain

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
class ChainWork:
    """A client's training as a chain of samples; stands where `client_work.LocalSgd` does.

    Attributes:
      chain: The chain.
      shrinkage: Of the samples' covariance, where the client sends FedPA's update; None for the samples' average.
    """

    chain: samplers.ChainSgd
    shrinkage: float | None = None

    def examples_trained(self, num_examples):
        """Returns how many examples all mini-batches of a client of this size have together."""
        return num_examples * self.chain.epochs

    def build(self, model: models.Model, loss: client_work.Loss) -> Callable[..., client_work.ClientUpdate]:
        """Returns the training function of `client_work.LocalSgd.build`; the chain's learning rate is its own."""
        run = self.chain.build(model, loss)

        def train(weights, examples, key, learning_rate=None) -> client_work.ClientUpdate:
            del learning_rate
            chain = run(weights, examples, key)
            if self.shrinkage is None:
                return samplers.sgld_update(chain, model.shapes)
            return samplers.fedpa_update(chain, model.shapes, self.shrinkage)

        return train


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An algorithm with its hyperparameters.

    Attributes:
      burn_in_work: The clients' training in the burn-in rounds.
      client_work: Their training after them.
      burn_in_rounds: How many those are.
      aggregate: How the server makes one update; None for the mean weighted by examples.
      chain: What becomes of the model after the server optimizer's step; None for nothing.
    """

    burn_in_work: ClientWork
    client_work: ClientWork
    burn_in_rounds: int = 0
    aggregate: Aggregate | None = None
    chain: server_chain.ServerChain | None = None

    def work_of(self, round_num: int) -> ClientWork:
        """Returns the clients' training in a round, from 1."""
        return self.burn_in_work if round_num <= self.burn_in_rounds else self.client_work


def build(
    posterior: algorithm_flags.Posterior, sgd: client_work.LocalSgd, model: models.Model, server_features=None
) -> Algorithm:
    """Returns an algorithm.

    Args:
      posterior: Which, and its hyperparameters.
      sgd: The clients' plain training, whose steps are also those of their chains.
      model: The model.
      server_features: FedBE's unlabelled examples, as the model takes them.
    """
    name, burn_in_rounds = posterior.name, 0
    work: ClientWork = sgd
    if name in ("fedpa", "fedkppa", "client_sgld"):
        chain = samplers.ChainSgd(
            learning_rate=sgd.learning_rate,
            batch_size=sgd.batch_size,
            epochs=sgd.epochs,  # type: ignore[arg-type]
            momentum=sgd.momentum,
            steps_per_sample=posterior.steps_per_sample,
            langevin=name == "client_sgld",
        )
        work = ChainWork(chain, None if name == "client_sgld" else posterior.shrinkage)
        burn_in_rounds = posterior.burn_in_rounds
    aggregate: Aggregate | None = None
    if name == "fedag":
        aggregate = _fedag
    elif name == "fedbe":
        aggregate = _fedbe(posterior, model, server_features)
    elif name in ("fedkp", "fedkp_cluster_mean", "fedkppa"):
        aggregate = _fedkp(posterior)
    states = None
    if name == "sgld":
        deviation = server_chain.deviation(posterior.langevin_deviation, sgd.learning_rate)  # type: ignore[arg-type]
        states = server_chain.ServerChain(posterior.burn_in_rounds, deviation)
    return Algorithm(sgd, work, burn_in_rounds, aggregate, states)


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
        distilled, _ = ensembles.fedbe(
            model, clients, server_features, posterior.posterior_samples, distillation, generator
        )
        return ServerUpdate(distilled - weights)

    return aggregate


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
