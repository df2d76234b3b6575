"""SCAFFOLD: clients whose steps are corrected by control variates (Karimireddy et al. 2020, Algorithm 1, option II).

The server has a control variate c, and each client has its own c_i. All of them are zero before round 1. A client's
step along the gradient g is y <- y - rate (g - c_i + c). After K steps from x, its variate becomes
c_i - c + (x - y) / (K rate). The server adds the sum of the cohort's changes, divided by the population, to c, and
takes its optimizer's step on the unweighted mean of the clients' deltas.

A client without examples, or whose update is not finite, sends zeros and keeps its variate. This program is the server:
in each round, it holds the deltas and variates of the cohort. The variates of all clients are stored on disk.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from optimization import fed_avg
from optimization.client_states import ClientStates
from optimization.runtime import rounds


class Variates(NamedTuple):
    """State of the control variates, which is the `aggregator` of a `fed_avg.State` between rounds.

    Attributes:
      server: c, float32 arrays in the model's order.
      last_rounds: int64 [clients], the last round in which each client took part; 0 for none.
      aggregator: State of the aggregator of the wrapped process.
    """

    server: tuple
    last_rounds: np.ndarray
    aggregator: Any


class Rounds:
    """Rounds of SCAFFOLD."""

    def __init__(self, process: Any, definition: fed_avg.Process, states: ClientStates, population: range):
        """Builds the computations.

        Args:
          process: The process that `definition` builds, with an unclipped mean. It runs the rounds without clients.
          definition: Definition of the rounds. Its `local_work` is a `client_work.LocalSgd` without momentum, whose
            learning rate all clients use.
          states: Store of the clients' variates.
          population: Indices of the clients that may take part.
        """
        self._process, self._states, self._population = process, states, population
        sgd: Any = definition.local_work
        state_type, weights_type = process.next.type_signature.parameter[0].member, definition.weights_type
        self._server_round = tff.tensorflow.computation(definition.server_round, state_type, weights_type)
        client_type = tff.to_type((definition.client_type, weights_type))

        @tff.tensorflow.computation(state_type.deployed, weights_type, weights_type, client_type)
        def client_round(deployed, weights, variate, client):
            inputs, own_variate = client
            shifts = [c - own for c, own in zip(variate, own_variate, strict=True)]
            work = dataclasses.replace(sgd, corrections=(lambda step: list(map(tf.add, step.gradients, shifts)),))
            output = dataclasses.replace(definition, local_work=work).client_round()(deployed, weights, inputs)
            # An empty or diverged client has trained on no example.
            num_steps = sgd.num_steps(output.sums["trained_examples"])
            sums = {"sums": output.sums, "statistics": output.statistics}
            return output.delta, sums, sgd.learning_rate * tf.cast(num_steps, tf.float32)

        self._each = fed_avg.at_clients(client_round)

    def initialize(self) -> fed_avg.State:
        """Returns the state before round 1."""
        first = self._process.initialize()
        zeros = tuple(map(np.zeros_like, first.weights))
        return first._replace(aggregator=Variates(zeros, np.zeros(self._population.stop, np.int64), first.aggregator))

    def next(
        self, server: fed_avg.State, inputs: Sequence[tuple[Any, int]], round_num: int
    ) -> tuple[fed_avg.State, fed_avg.RoundMetrics]:
        """Runs a round, and stores its clients' variates. Returns the next state and the metrics of the round.

        Args:
          server: State before the round, whose `aggregator` is a `Variates`.
          inputs: For each client, its input of type `fed_avg.Process.client_type`, and its index. Indices are distinct.
          round_num: The round, from 1.
        """
        variates: Variates = server.aggregator
        server = server._replace(aggregator=variates.aggregator)
        if not inputs:
            after, metrics = self._process.next(server, [])
            return after._replace(aggregator=variates), metrics
        zeros = tuple(map(np.zeros_like, variates.server))
        load, last_rounds = self._states.load, variates.last_rounds.copy()
        cohort = [(one, load(client, int(last_rounds[client]), zeros)) for one, client in inputs]
        results: list[tuple] = [()] * len(inputs)
        shared = server.deployed, server.weights, variates.server
        rounds.current_context().each_client(self._each, shared, cohort, results.__setitem__)
        deltas, sums, lengths = zip(*results, strict=True)
        mean = tuple(sum(parts) / np.float32(len(inputs)) for parts in zip(*deltas, strict=True))
        *stepped, norm, deployed = self._server_round(server, mean)
        totals = zeros
        for (_, client), (_, own), delta, length in zip(inputs, cohort, deltas, lengths, strict=True):
            if length:
                changes = [-c - part / length for c, part in zip(variates.server, delta, strict=True)]
                own, totals = tuple(map(np.add, own, changes)), tuple(map(np.add, totals, changes))
            self._states.save(client, round_num, own)
            last_rounds[client] = round_num
        population = np.float32(len(self._population))
        c = tuple(c + total / population for c, total in zip(variates.server, totals, strict=True))
        total = tf.nest.map_structure(lambda *parts: sum(parts), *sums)
        others = {"statistics": total["statistics"], "update_norm": norm, "deployed": deployed}
        metrics = fed_avg.RoundMetrics(**total["sums"], **others)
        return fed_avg.State._make((*stepped, variates._replace(server=c, last_rounds=last_rounds))), metrics
