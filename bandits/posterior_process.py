"""Bandit rounds whose server combines the cohort's models as samples of a posterior, where no sum can.

The clients' work and the server's step are those of `process.BanditProcess`; between the two, the deltas come side by
side to the program, which makes one of them by an algorithm of `optimization.posterior`. So a round is the clients'
computation and the server's and not, as the mean's, one that compiles to the MapReduce form.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits import process
from optimization import models
from optimization.posterior import algorithm_flags, algorithms
from optimization.posterior import process as posterior_process


class CollectedRounds:
    """Rounds with the interface of the process that `process.BanditProcess.build` returns."""

    def __init__(
        self, definition: process.BanditProcess, initial_weights: models.Weights, aggregate: algorithms.Aggregate
    ):
        """Builds the computations.

        Args:
          definition: The rounds; its `aggregator` is not used.
          initial_weights: theta_0.
          aggregate: Makes one delta of the cohort's, and draws nothing.
        """
        built = definition.build(initial_weights)
        self.initialize = built.initialize
        self._shapes, self._aggregate = definition.model.shapes, aggregate
        state_type, client_type = built.state_type.member, definition.client_type()
        deployed_type, weights_type = state_type.deployed, state_type.weights

        @tff.tensorflow.computation(deployed_type, weights_type, client_type)
        def client_round(deployed, weights, client):
            output = definition.client_round()(deployed, weights, client)
            return posterior_process.client_row(output), [getattr(output, name) for name in process.SUMMED]

        self._at_clients = posterior_process.at_clients(client_round)
        self._server_round = tff.tensorflow.computation(definition.server_round, state_type, weights_type)

    def next(
        self, state: process.BanditState, cohort: Sequence[process.ClientInput]
    ) -> tuple[process.BanditState, process.RoundMetrics]:
        """Plays one round; where nobody has an example the update is zero, and where nobody came there is none."""
        updates, summed = posterior_process.collect(self._at_clients, [state.deployed, state.weights], cohort)
        before = algorithms.flat(state.weights)
        delta = np.full_like(before, 0 if len(updates.examples) else np.nan)
        if updates.examples.any():
            delta = self._aggregate(before, updates.with_examples(), None).delta  # type: ignore[arg-type]
        step = self._server_round(state, models.unflatten(tf.constant(delta), self._shapes))
        metrics = process.RoundMetrics(**self._sums(summed), update_norm=step[4], deployed=step[5], aggregator=())
        return process.BanditState._make((*step[:4], state.aggregator)), metrics

    def _sums(self, summed: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Returns the sums over clients, one after the other as in TFF's aggregations."""
        types = self._at_clients.type_signature.result.member[1]
        totals = [np.zeros(part.shape, part.dtype) for part in types]
        for client in summed:
            totals = [total + part for total, part in zip(totals, client, strict=True)]
        return dict(zip(process.SUMMED, totals, strict=True))


class _ChainState(NamedTuple):
    """What a chain's rounds keep where others keep the server optimizer's state.

    Attributes:
      weights: The chain's newest state.
      optimizer: The server optimizer's state.
    """

    weights: tuple
    optimizer: object


class ChainRounds:
    """Rounds after which the server moves its chain: clients train its newest state, and act with its average."""

    def __init__(self, rounds: Any, chain: algorithms.ServerChain, seed: int):
        """Wraps the rounds of the mean; `seed` is the run's."""
        self._rounds, self._chain, self._seed = rounds, chain, seed

    def initialize(self) -> process.BanditState:
        """Returns the state before round 1."""
        state = self._rounds.initialize()
        return state._replace(optimizer=_ChainState(tuple(state.weights), state.optimizer))

    def next(self, state: process.BanditState, cohort: Any) -> tuple[process.BanditState, process.RoundMetrics]:
        """Plays one round; `weights` of its state are the average, or in burn-in rounds the newest state."""
        chain: Any = state.optimizer
        after, metrics = self._rounds.next(state._replace(weights=chain.weights, optimizer=chain.optimizer), cohort)
        round_num = int(after.round_num)
        newest = self._chain.state(after.weights, self._seed, round_num)
        served = self._chain.served(state.weights, newest, round_num)
        deployed = (served, *after.deployed[1:]) if metrics.deployed else after.deployed
        kept = _ChainState(newest, after.optimizer)
        return after._replace(weights=served, deployed=deployed, optimizer=kept), metrics


def build(
    posterior: algorithm_flags.Posterior, definition: process.BanditProcess, initial_weights: models.Weights, seed: int
) -> Callable[[int], Any]:
    """Returns the function round number, from 1 -> process of that round.

    Args:
      posterior: The algorithm.
      definition: The rounds; its `local_sgd` is the clients' training in burn-in rounds.
      initial_weights: theta_0.
      seed: The run's, of SGLD's noise.
    """
    algorithm = algorithms.build(posterior, definition.local_sgd, definition.model)  # type: ignore[arg-type]

    @functools.cache
    def rounds_of(work):
        own = dataclasses.replace(definition, local_sgd=work)
        if algorithm.chain:
            return ChainRounds(own.build(initial_weights), algorithm.chain, seed)
        if algorithm.aggregate is None:
            return own.build(initial_weights)
        return CollectedRounds(own, initial_weights, algorithm.aggregate)

    return lambda round_num: rounds_of(algorithm.work_of(round_num))
