"""Rounds in which each client trains its own model and sends nothing to a server.

Each client runs federated rounds with a cohort of one, and keeps the state that a server would have: model, optimizer
and clip norm. A population of one therefore gives the same results as a federated run, bit for bit. States are stored
on disk and loaded in batches of at most 64.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bandits import process, round_parts
from bandits.round_parts import Participation
from optimization import fed_avg
from optimization.client_states import ClientStates
from optimization.runtime import rounds

_MOST_MODELS = 64  # Maximum number of clients whose states are loaded at a time.


def run_each(process: Any, pairs: Sequence[tuple[fed_avg.State, Any]]) -> list[tuple[fed_avg.State, Any]]:
    """Maps each client's (state, input) to (state, metrics) after one round, in a single call to the worker."""
    results: dict[int, tuple[fed_avg.State, Any]] = {}
    rounds.current_context().each_client(rounds.each_alone(process.next), (), pairs, results.__setitem__)
    return [results[place] for place in range(len(pairs))]


class AloneState(NamedTuple):
    """The state of a server that only counts rounds, together with a record of each client's participation.

    Attributes:
      round_num: int32, number of finished rounds.
      weights, deployed, optimizer, aggregator: Fields of the initial `fed_avg.State`, which never change.
      taken_part: int64 [clients, 2], the first and the last round in which each client took part; 0 for none.
    """

    round_num: Any
    weights: tuple
    deployed: tuple
    optimizer: Any
    aggregator: Any
    taken_part: np.ndarray


class AloneRounds(round_parts.FederatedRounds):
    """Rounds of clients that train alone. At each deployment, every client deploys its own model.

    Attributes:
      states: The clients' states.
    """

    def __init__(
        self, process_of: Callable[[int], Any], definition: process.BanditProcess, states: ClientStates, population: int
    ):
        """Stores the definition of the rounds.

        Args:
          process_of: Returns the process of a federated round, given the round number. All rounds use that of round 1.
          definition: Definition of the process.
          states: The clients' states.
          population: Number of clients. Their indices are below this number.
        """
        super().__init__(process_of, definition)
        self.states, self._deploy_every, self._population = states, definition.deploy_every, population
        self._process = process_of(1)
        self._first: fed_avg.State = self._process.initialize()

    def initialize(self) -> Any:
        return AloneState(*self._first, np.zeros((self._population, 2), np.int64))

    def prepared(self, participations: Sequence[Participation], round_num: int) -> Sequence[Participation]:
        return participations

    def next(self, server: Any, inputs: Sequence[Participation], round_num: int) -> tuple[Any, fed_avg.RoundMetrics]:
        """Runs a round. Metrics are summed over its clients, except for norms, which are averaged."""
        server = server._replace(round_num=np.int32(round_num))
        if not inputs:
            return server, self._process.next(self._state(0, 0, round_num), [])[1]
        taken_part, each = server.taken_part.copy(), []
        for start in range(0, len(inputs), _MOST_MODELS):
            part = inputs[start : start + _MOST_MODELS]
            pairs = [
                (self._state(client, int(taken_part[client, 1]), round_num), client_inputs)
                for client_inputs, client, _ in part
            ]
            for (_, client, _), (state, metrics) in zip(part, run_each(self._process, pairs), strict=True):
                self.states.save(client, round_num, state)
                taken_part[client] = taken_part[client, 0] or round_num, round_num
                each.append(metrics)
        total = tf.nest.map_structure(lambda *parts: np.sum(parts, axis=0), *each)
        aggregator, norm = total.aggregator, total.update_norm / len(each)
        if "clipping_norm" in aggregator:
            aggregator = {**aggregator, "clipping_norm": aggregator["clipping_norm"] / len(each)}
        total = total._replace(update_norm=norm, deployed=each[0].deployed, aggregator=aggregator)
        return server._replace(taken_part=taken_part), total

    def _state(self, client: int, last: int, round_num: int) -> fed_avg.State:
        """A client's state at the start of a round, with all deployments since its `last` round (0 if it had none)."""
        state = self.states.load(client, last, self._first)
        missed = (round_num - 1) // self._deploy_every - last // self._deploy_every
        models = [tuple(state.weights)] * missed + list(state.deployed)
        deployed = type(state.deployed)(models[: len(state.deployed)])
        return state._replace(round_num=np.int32(round_num - 1), deployed=deployed)
