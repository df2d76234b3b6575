"""Event-triggered communication of linear bandits: FedLinUCB (He, Wang, Min and Gu 2022, Algorithm 1).

Clients share one parameter vector. Each client acts with the sums of its last download, and keeps the sums of its
interactions since its last upload. It uploads them when they raise the determinant of its precision matrix by more than
a given factor, and only then downloads the server's new totals.

Whether a client uploads reveals something about its data. Therefore, rounds with a privacy mechanism or secure sums
must not use this module.
"""

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from optimization import fed_avg
from optimization.client_states import ClientStates
from optimization.runtime import rounds


class Sums(NamedTuple):
    """Sums over interactions, float64.

    Attributes:
      outer: [features, features], sum of x x', where x holds the features of the chosen action.
      reward: [features], sum of x r, where r is the reward.
    """

    outer: Any
    reward: Any


def empty_sums(num_features: int) -> Sums:
    """Returns the sums over no interaction."""
    return Sums(np.zeros((num_features, num_features)), np.zeros(num_features))


def sums_of(chosen: tf.Tensor, rewards: tf.Tensor) -> Sums:
    """Sums over interactions.

    Args:
      chosen: float64 [interactions, features], features of the chosen actions.
      rewards: float64 [interactions].
    """
    return Sums(tf.matmul(chosen, chosen, transpose_a=True), tf.linalg.matvec(chosen, rewards, transpose_a=True))


def added(first: Any, second: Any) -> Any:
    """Adds two structures of sums."""
    return tf.nest.map_structure(lambda one, other: one + other, first, second)


def precision(outer: tf.Tensor, regularization: float) -> tf.Tensor:
    """Returns V = lambda I + sum of x x', float64 [..., features, features], given `outer`, the sum of x x'."""
    return outer + regularization * tf.eye(outer.shape[-1], dtype=tf.float64)


def triggers(downloaded: tf.Tensor, local: tf.Tensor, regularization: float, threshold: float) -> tf.Tensor:
    """Whether a client uploads, which is the case if det(V + local) > (1 + threshold) det(V); a bool scalar.

    Args:
      downloaded: float64 [..., features, features], the sum of x x' of the last download, which defines V. With leading
        axes, such as one for each action, determinants are multiplied.
      local: Same shape, the sum of x x' over the client's interactions since its last upload.
      regularization: lambda, above 0.
      threshold: alpha, at least 0. With 0, every interaction with features other than 0 triggers an upload.
    """
    before, after = (precision(outer, regularization) for outer in (downloaded, downloaded + local))
    growth = tf.linalg.logdet(after) - tf.linalg.logdet(before)  # Determinants themselves can overflow.
    return tf.reduce_sum(growth) > np.log1p(threshold)


@dataclasses.dataclass(frozen=True)
class FedLinUcb:
    """How a client of FedLinUCB acts and when it uploads.

    Attributes:
      regularization: lambda, above 0.
      width: beta, the factor of the deviation sqrt(x' V^-1 x) that is added to the predicted reward.
      threshold: alpha, at least 0; see `triggers`.
    """

    regularization: float = 1.0
    width: float = 0.5
    threshold: float = 1.0

    def upper_bounds(self, downloaded: Sums, actions: tf.Tensor) -> tf.Tensor:
        """Returns x' theta + beta sqrt(x' V^-1 x), float64 [rows, actions].

        Args:
          downloaded: The client's last download, which defines theta and V.
          actions: float64 [rows, actions, features].
        """
        factor = tf.linalg.cholesky(precision(downloaded.outer, self.regularization))
        theta = tf.linalg.cholesky_solve(factor, downloaded.reward[:, tf.newaxis])
        rows = tf.reshape(actions, [-1, actions.shape[-1]])
        errors = tf.norm(tf.linalg.triangular_solve(factor, tf.transpose(rows)), axis=0)
        return tf.reshape((rows @ theta)[:, 0] + self.width * errors, tf.shape(actions)[:-1])

    def choose(self, downloaded: Sums, actions: tf.Tensor) -> tf.Tensor:
        """Returns the action with the largest upper bound in each row, int32 [rows]; the first one in case of a tie."""
        return tf.argmax(self.upper_bounds(downloaded, actions), axis=1, output_type=tf.int32)

    def uploads(self, downloaded: Sums, local: Sums) -> tf.Tensor:
        """Whether a client uploads, a bool scalar; see `triggers`."""
        return triggers(downloaded.outer, local.outer, self.regularization, self.threshold)

    def act(self, shared: Any, downloaded: Sums, inputs: tuple[tf.Tensor, tf.Tensor]) -> tuple[Sums, tf.Tensor]:
        """Acts on all rows of a client; see `Rounds`.

        Args:
          shared: Not used.
          downloaded: The client's last download.
          inputs: Features of the actions, float64 [rows, actions, features], and rewards, float64 [rows, actions].

        Returns:
          Sums over the rows, and the chosen actions, int32 [rows].
        """
        del shared
        chosen = self.choose(downloaded, inputs[0])
        return sums_of(*(tf.gather(part, chosen, axis=1, batch_dims=1) for part in inputs)), chosen


def of_process(definition: Any) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
    """Returns the function `act` of `Rounds` for a federated bandit whose policy uses the client's last download.

    `shared` is then the pair of the deployed models and the model in training; the sums are those of
    `process.BanditProcess.policy_sums`; and a report is a client's update and the sums of its metrics.

    Args:
      definition: Definition of the rounds, a `process.BanditProcess` whose policy has statistics.
    """

    def act(shared: Any, downloaded: Any, inputs: Any) -> tuple[Any, Any]:
        statistics = {name: tf.cast(part, tf.float32) for name, part in downloaded.items()}
        inputs = inputs._replace(policy_state={**inputs.policy_state, **statistics})
        output = definition.client_round()(*shared, inputs)
        return output.statistics, (output.delta, output.sums)

    return act


class State(NamedTuple):
    """What the server keeps between rounds.

    Attributes:
      totals: The sums of all uploads.
      last_rounds: int64 [clients], the last round in which each client acted; 0 for none.
    """

    totals: Any
    last_rounds: np.ndarray


class ClientState(NamedTuple):
    """What a client keeps between rounds.

    Attributes:
      downloaded: The totals of its last download; zeros before the first.
      local: Sums over its interactions since its last upload.
    """

    downloaded: Any
    local: Any


class Rounds:
    """Rounds of any learner whose clients send sums over their interactions.

    In a round, each client of the cohort acts on all of its rows with its last download, and then decides whether to
    upload. The server adds all uploads of the round, and each client that uploaded downloads the new totals. With one
    client and one row per round, this is Algorithm 1. The clients' states are stored on disk.
    """

    def __init__(
        self,
        act: Callable[[Any, Any, Any], tuple[Any, Any]],
        uploads: Callable[[Any, Any], tf.Tensor],
        zeros: Any,
        types: tuple[Any, Any],
        states: ClientStates,
        num_clients: int,
    ):
        """Builds the computation of a client.

        Args:
          act: How a client acts, in TensorFlow: (shared, downloaded, inputs) -> (new sums, report). All clients of a
            round get the same `shared`. New sums have the structure of `zeros`, in any floating type.
          uploads: Whether a client uploads, in TensorFlow: (downloaded, local) -> bool scalar; see `triggers`.
          zeros: Sums over no interaction, a structure of float64 arrays.
          types: TFF types of `shared` and of a client's inputs.
          states: The clients' states.
          num_clients: Number of clients.
        """
        self._zeros, self._states, self._num_clients = zeros, states, num_clients
        sums_type = tff.types.tensorflow_to_type(tf.nest.map_structure(tf.type_spec_from_value, zeros))
        shared_type, inputs_type = map(tff.to_type, types)
        state_type = tff.StructWithPythonType(list(zip(ClientState._fields, [sums_type] * 2, strict=True)), ClientState)

        @tff.tensorflow.computation(shared_type, tff.to_type((inputs_type, state_type)))
        def client_round(shared, client):
            inputs, state = client
            new, report = act(shared, state.downloaded, inputs)
            local = added(state.local, tf.nest.map_structure(lambda part: tf.cast(part, tf.float64), new))
            return local, uploads(state.downloaded, local), report

        self._each = fed_avg.at_clients(client_round)

    def initialize(self) -> State:
        """Returns the state before round 1."""
        return State(self._zeros, np.zeros(self._num_clients, np.int64))

    def next(
        self, state: State, shared: Any, inputs: Sequence[tuple[Any, int]], round_num: int
    ) -> tuple[State, list[Any], int]:
        """Runs a round, and stores its clients' states.

        Args:
          state: State before the round.
          shared: See `act`.
          inputs: Pairs of a client's inputs and its number; no client occurs twice.
          round_num: The round, from 1.

        Returns:
          The state after the round, the clients' reports, and the number of messages: an upload and a download for each
          client that uploads.
        """
        zeros, last_rounds = ClientState(self._zeros, self._zeros), state.last_rounds.copy()
        cohort = [(one, self._states.load(client, int(last_rounds[client]), zeros)) for one, client in inputs]
        results: list[tuple] = [()] * len(inputs)
        rounds.current_context().each_client(self._each, (shared,), cohort, results.__setitem__)
        totals = state.totals
        for local, _, _ in filter(operator.itemgetter(1), results):
            totals = added(totals, local)
        for (_, client), (_, before), (local, uploads, _) in zip(inputs, cohort, results, strict=True):
            after = ClientState(totals, self._zeros) if uploads else before._replace(local=local)
            self._states.save(client, round_num, after)
            last_rounds[client] = round_num
        messages = 2 * sum(bool(uploads) for _, uploads, _ in results)
        return State(totals, last_rounds), [report for *_, report in results], messages
