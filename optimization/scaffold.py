"""SCAFFOLD: clients whose steps are corrected by control variates (Karimireddy et al. 2020, Algorithm 1, option II).

The server has a control variate c, and each client has its own c_i. All of them are zero before round 1. A client's
step along the gradient g is y <- y - rate (g - c_i + c). After K steps from x, its variate becomes
c_i - c + (x - y) / (K rate). The server adds the sum of the cohort's changes, divided by the population, to c, and
takes its optimizer's step on the unweighted mean of the clients' deltas.

A client without examples, or whose update is not finite, sends zeros and keeps its variate. This program is the server:
it holds two arrays of the model's size for each client of the cohort. The clients' variates are stored on disk.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from optimization import client_work, fed_avg, models
from optimization.client_states import ClientStates
from optimization.corrections import Step
from optimization.runtime import rounds


class State(NamedTuple):
    """The server's state between rounds.

    Attributes:
      round_num, weights, deployed, optimizer, aggregator: The fields of `fed_avg.State`.
      variate: c, float32 arrays in the model's order.
      last_rounds: int64 [clients], the last round of each client; 0 for none.
    """

    round_num: Any
    weights: tuple
    deployed: tuple
    optimizer: Any
    aggregator: Any
    variate: tuple
    last_rounds: np.ndarray


class ClientInput(NamedTuple):
    """A client's input to a round: that of the process, and c_i, float32 arrays in the model's order."""

    inputs: Any
    variate: tuple


@dataclasses.dataclass(frozen=True, eq=False)
class CorrectedSgd:
    """A `client_work.ClientWork` whose deltas are those of the model, followed by those of the client's variate.

    Attributes:
      sgd: Plain SGD.
      server: c, tensors of the graph in which this is built.
      own: c_i, in the same form.
    """

    sgd: client_work.LocalSgd
    server: tuple[tf.Tensor, ...]
    own: tuple[tf.Tensor, ...]

    def examples_trained(self, num_examples: tf.Tensor) -> tf.Tensor:
        return self.sgd.examples_trained(num_examples)

    def build(self, model: models.Model, loss: client_work.Loss) -> Callable[..., client_work.ClientUpdate]:
        train = dataclasses.replace(self.sgd, corrections=(self._corrected,)).build(model, loss)

        def run(weights, examples, key, learning_rate=None) -> client_work.ClientUpdate:
            update = train(weights, examples, key, learning_rate)
            rate = self.sgd.learning_rate if learning_rate is None else learning_rate
            length = tf.cast(self.sgd.num_steps(client_work.count(examples)), tf.float32) * rate
            pairs = zip(self.server, update.delta, strict=True)
            changes = [tf.where(length > 0, -c - tf.math.divide_no_nan(delta, length), 0.0) for c, delta in pairs]
            is_finite = update.is_finite & client_work.has_finite_norm(changes)
            deltas = [tf.where(is_finite, part, 0.0) for part in (*update.delta, *changes)]
            return update._replace(delta=tuple(deltas), is_finite=is_finite)

        return run

    def _corrected(self, step: Step) -> list[tf.Tensor]:
        parts = zip(step.gradients, self.server, self.own, strict=True)
        return [gradient + c - own for gradient, c, own in parts]


class Rounds:
    """Rounds of SCAFFOLD."""

    def __init__(
        self, process: Any, definition: fed_avg.Process, states: ClientStates, num_clients: int, population: int
    ):
        """Builds the computations.

        Args:
          process: The process of `definition`, with an unclipped mean. It runs the rounds without clients.
          definition: Definition of the rounds, whose `local_work` is a `client_work.LocalSgd` without momentum.
          states: The clients' variates.
          num_clients: Number of clients that are numbered.
          population: Number of clients that may take part.
        """
        self._process, self._states = process, states
        self._num_clients, self._population = num_clients, population
        state_type, weights_type = process.next.type_signature.parameter[0].member, definition.weights_type
        self._server_round = tff.tensorflow.computation(definition.server_round, state_type, weights_type)
        client_type = tff.StructWithPythonType(
            [("inputs", definition.client_type), ("variate", weights_type)], ClientInput
        )

        @tff.tensorflow.computation(state_type.deployed, weights_type, weights_type, client_type)
        def client_round(deployed, weights, variate, client):
            work = CorrectedSgd(definition.local_work, tuple(variate), tuple(client.variate))  # type: ignore[arg-type]
            run = dataclasses.replace(definition, local_work=work).client_round()
            output = run(deployed, weights, client.inputs)
            return output.delta, output.sums

        self._each = fed_avg.at_clients(client_round)

    def initialize(self) -> State:
        """Returns the state before round 1."""
        first = self._process.initialize()
        variate = tuple(np.zeros_like(weight) for weight in first.weights)
        return State(*first, variate, np.zeros(self._num_clients, np.int64))

    def next(
        self, state: State, inputs: Sequence[Any], clients: Sequence[int], round_num: int
    ) -> tuple[State, fed_avg.RoundMetrics]:
        """Runs a round, and stores its clients' variates.

        Args:
          state: State before the round.
          inputs: Each client's input, as in `fed_avg.Process.client_type`.
          clients: Numbers of the clients, without duplicates.
          round_num: The round, from 1.
        """
        before = fed_avg.State(*state[:5])
        if not inputs:
            after, metrics = self._process.next(before, [])
            return State(*after, state.variate, state.last_rounds), metrics
        zeros = tuple(map(np.zeros_like, state.variate))
        last = [int(state.last_rounds[client]) for client in clients]
        own = [self._states.load(*place, zeros) if place[1] else zeros for place in zip(clients, last, strict=True)]
        results: list[tuple] = [()] * len(inputs)
        shared, cohort = (state.deployed, state.weights, state.variate), list(map(ClientInput, inputs, own))
        rounds.current_context().each_client(self._each, shared, cohort, results.__setitem__)
        deltas, sums = zip(*results, strict=True)
        totals = [sum(parts) for parts in zip(*deltas, strict=True)]
        mean = tuple(total / np.float32(len(inputs)) for total in totals[: len(zeros)])
        *server, norm, deployed = self._server_round(before, mean)
        changes = [total / np.float32(self._population) for total in totals[len(zeros) :]]
        for client, variate, delta in zip(clients, own, deltas, strict=True):
            self._states.save(client, round_num, tuple(map(np.add, variate, delta[len(zeros) :])))
        last_rounds = state.last_rounds.copy()
        last_rounds[list(clients)] = round_num
        total_sums = {name: sum(one[name] for one in sums) for name in sums[0]}
        metrics = fed_avg.RoundMetrics(**total_sums, update_norm=norm, deployed=deployed)
        return State(*server, before.aggregator, tuple(map(np.add, state.variate, changes)), last_rounds), metrics
