"""Generalized FedAvg as a TFF process, on labels or on the logged actions of a deployed model.

This is Algorithm 4 of Agarwal, McMahan and Xu 2023; without deployments, FedOpt (Reddi et al. 2021, Algorithm 1). One
call of `next` is one round, with a cohort that the caller chooses. Comments name the lines of Algorithm 4.

To report the loss of each client, each client sends a vector with its loss at its position in the cohort and zeros
elsewhere, and the vectors are summed. This keeps the round in TFF's MapReduce form.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from optimization import client_work, models, optimizers, options
from optimization.privacy import dp_queries
from optimization.runtime import rounds


class State(NamedTuple):
    """The server's state between rounds.

    Attributes:
      round_num: int32, number of finished rounds; empty without deployments.
      weights: The model in training, theta^(t).
      deployed: The newest deployed model, theta_{i-1}, and the `max_delay` models before it, newest first. Empty
        without deployments.
      optimizer: The server optimizer's state.
      aggregator: The aggregator's state; empty without one.
    """

    round_num: Any
    weights: tuple
    deployed: tuple
    optimizer: Any
    aggregator: Any


class RoundMetrics(NamedTuple):
    """Measurements of one round. Most are sums over the clients of the cohort.

    Attributes:
      examples: int32, number of examples in the clients' logs.
      loss_sum: float32, sum of the losses over the examples in all mini-batches of clients with finite updates.
      trained_examples: int32, number of examples that those clients have.
      batch_examples: int32, number of examples in those clients' mini-batches; an example counts in each mini-batch.
      empty_clients: int32, number of clients without examples; their update is zero.
      nonfinite_clients: int32, number of clients whose update was not finite, and was replaced by zero.
      client_losses: float32 [cohort_size], mean loss of each client over its mini-batches. NaN for a client who did not
        train or whose update was not finite; 0 at positions without a client.
      client_deviations: float32 [cohort_size], standard deviation of each client's mini-batch losses; NaN and 0 as in
        `client_losses`.
      update_norm: float32, L2 norm of the aggregated update; 0 if it was not finite.
      reward_sum, propensity_sum: float32, sums over the actions in the training examples; empty if no client acts.
      unusable_rows: int32, number of actions that were uniformly random because predicted rewards were not finite.
      half_rewards: float32 [2, positions], sums of the expected rewards in halves A and B of the clients' examples; may
        be empty.
      half_examples: int32 [2, positions], number of examples in each half; may be empty.
      deployed: bool, whether the round ended with a deployment; empty without deployments.
      aggregator: The aggregator's measurements; empty without one.
      own: float32 [metrics, 2], numerators and denominators of the user's metrics; empty without them.
      statistics: float32 sums by name over the clients' logs, or means if they are aggregated with the updates; empty
        without them.
      statistics_clipped: Measurements of TFF's secure sum of `statistics`, with the number of clipped clients; empty
        for a plain sum.
    """

    examples: Any
    loss_sum: Any
    trained_examples: Any
    batch_examples: Any
    empty_clients: Any
    nonfinite_clients: Any
    client_losses: Any
    client_deviations: Any
    update_norm: Any
    reward_sum: Any = ()
    propensity_sum: Any = ()
    unusable_rows: Any = ()
    half_rewards: Any = ()
    half_examples: Any = ()
    deployed: Any = ()
    aggregator: Any = ()
    own: Any = ()
    statistics: Any = ()
    statistics_clipped: Any = ()


class Log(NamedTuple):
    """Training data of a client.

    Attributes:
      examples: `features` in the form that models take, and everything that the loss reads.
      count: int32, number of examples.
      weight: float32, the client's weight in a weighted aggregation.
      key: int32 [2], random key of its mini-batches.
      learning_rate: float32, the client's learning rate; None to use that of the client work.
      sums: Sums that the round reports, under the names of fields of `RoundMetrics`.
      statistics: float32 sums by name, which `Process.statistics` aggregates; empty without them.
    """

    examples: client_work.Batch
    count: tf.Tensor
    weight: tf.Tensor
    key: tf.Tensor
    learning_rate: tf.Tensor | None = None
    sums: Mapping[str, tf.Tensor] = {}
    statistics: Any = ()


class ClientOutput(NamedTuple):
    """Result of a client's round.

    Attributes:
      delta: The client's update, followed by its statistics if `Process.joint_clip_norm` is set.
      weight: float32, its weight in a weighted aggregation.
      sums: The client's contributions to the summed fields of `RoundMetrics`.
      statistics: See `Log`.
    """

    delta: tuple
    weight: tf.Tensor
    sums: dict[str, tf.Tensor]
    statistics: Any = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Process(abc.ABC):
    """Definition of the rounds.

    Attributes:
      model: The model that the rounds train.
      loss: Mean loss of a mini-batch.
      local_work: The clients' training. None keeps the initial model, as a baseline: clients send no update, and the
        server takes no step.
      aggregator: Factory of a weighted aggregation of deltas; None if nothing is aggregated.
      server_optimizer: Optimizer that applies the aggregated delta to the model.
      feature_spec: Shapes and dtypes of a client's features; the first axis is None.
      label_spec: Shape and dtype of the client's labels; the first axis is None.
      cohort_size: Maximum number of clients whose losses are reported, for client selection; 0 to report none.
      deploy_every: Rounds between deployments, T. With 0, clients receive only the model in training.
      max_delay: Maximum staleness of a client's model, in deployments.
      statistics: Factory of the sum of `Log.statistics`, without a state; None without statistics.
      joint_clip_norm: L2 clip norm of the update alone, if the aggregator takes the update and `Log.statistics` as one
        contribution; otherwise None.
      noise: Correlated noise, which is generated outside the process for each round; None if there is no noise, or if
        the aggregator adds it.
    """

    model: models.Model
    loss: client_work.Loss
    local_work: client_work.ClientWork | None
    aggregator: tff.aggregators.WeightedAggregationFactory | None
    server_optimizer: tff.learning.optimizers.Optimizer
    feature_spec: models.FeatureSpec
    label_spec: tf.TensorSpec
    cohort_size: int = 0
    deploy_every: int = 0
    max_delay: int = 0
    statistics: tff.aggregators.UnweightedAggregationFactory | None = None
    joint_clip_norm: float | None = None
    noise: dp_queries.CorrelatedNoise | None = None

    @property
    @abc.abstractmethod
    def client_type(self) -> tff.Type:
        """TFF type of a client's input to a round. Its `position` is the client's place in the cohort, int32 from 0."""

    @abc.abstractmethod
    def log(self, deployed: tuple, client: Any) -> Log:
        """Training data of a client, from the deployed models and the client's input (Algorithm 4, line 6)."""

    @property
    def weights_type(self) -> tff.Type:
        """TFF type of the model."""
        return tff.types.tensorflow_to_type(self.model.specs)

    def at_client(self, function: Callable[..., Any]) -> tff.Computation:
        """Builds a client's TFF computation of (deployed, weights, client), or (weights, client) without deployments.

        Args:
          function: (deployed, weights, client) -> result, in TensorFlow.
        """
        types = self.weights_type, self.client_type
        if not self.deploy_every:
            return tff.tensorflow.computation(lambda weights, client: function((), weights, client), *types)
        deployed_type = tff.to_type((self.weights_type,) * (1 + self.max_delay))
        return tff.tensorflow.computation(
            lambda deployed, weights, client: function(deployed, weights, client), deployed_type, *types
        )

    def client_round(self) -> Callable[..., ClientOutput]:
        """Builds the function (deployed, weights, client) -> ClientOutput, in the context where it will run."""
        work = self.local_work
        train = work.build(self.model, self.loss) if work else None

        @tf.autograph.experimental.do_not_convert  # Conversion takes a second and is not needed.
        def run(deployed, weights, client) -> ClientOutput:
            log = self.log(deployed, client)  # Line 6.
            if work and train:  # Line 7.
                update = train(weights, log.examples, log.key, log.learning_rate)
                batch_examples = tf.where(update.is_finite, work.examples_trained(log.count), 0)
            else:
                update, batch_examples = client_work.no_training(weights), tf.constant(0)
            has_loss = batch_examples > 0
            mean = tf.where(has_loss, update.loss_sum / tf.cast(batch_examples, tf.float32), np.nan)
            deviation = tf.where(has_loss, update.loss_deviation, np.nan)
            sums = {
                "examples": log.count,
                "loss_sum": tf.where(update.is_finite, update.loss_sum, 0.0),
                "trained_examples": tf.where(has_loss, log.count, 0),
                "batch_examples": batch_examples,
                "empty_clients": tf.cast(tf.equal(log.count, 0), tf.int32),
                "nonfinite_clients": tf.cast(tf.logical_not(update.is_finite), tf.int32),
                "client_losses": at_position(mean, client.position, self.cohort_size),
                "client_deviations": at_position(deviation, client.position, self.cohort_size),
            }
            output = ClientOutput(update.delta, log.weight, {**sums, **log.sums}, log.statistics)
            if self.joint_clip_norm is None:
                return output
            delta = tf.clip_by_global_norm(update.delta, self.joint_clip_norm)[0] if work else ()
            return output._replace(delta=(*delta, *(log.statistics[name] for name in sorted(log.statistics))))

        return run

    def server_round(self, state: State, delta: tuple[tf.Tensor, ...] | None):
        """Takes the server's step, in TensorFlow. Without a delta there is no step.

        Returns:
          The fields of the next state except `aggregator`; the L2 norm of the delta, 0 without one; and whether the
          round ends with a deployment, empty without deployments.
        """
        optimizer, weights, norm = state.optimizer, tuple(state.weights), tf.constant(0.0)
        if delta is not None:
            optimizer, weights, norm = server_step(self.server_optimizer, state.optimizer, state.weights, delta)
        if not self.deploy_every:
            return (), weights, (), optimizer, norm, ()
        round_num = state.round_num + 1
        # Lines 11 to 13.
        deploys = tf.equal(round_num % self.deploy_every, 0)
        deployed = tf.cond(deploys, lambda: (tuple(weights), *state.deployed[:-1]), lambda: tuple(state.deployed))
        return round_num, weights, deployed, optimizer, norm, deploys

    def build(self, initial_weights: models.Weights | None = None) -> tff.templates.IterativeProcess:
        """Builds the process: `initialize() -> State`, `next(state, clients) -> (state, RoundMetrics)`.

        Args:
          initial_weights: theta_0, float32 arrays in the model's order; None for zeros that the caller replaces.
        """
        each_client = at_clients(self.at_client(lambda *arguments: self.client_round()(*arguments)))
        output_type = each_client.type_signature.result.member
        is_joint, aggregation = self.joint_clip_norm is not None, None
        if self.aggregator and (self.local_work or is_joint):
            aggregation = self.aggregator.create(output_type.delta, tff.TensorType(np.float32))
        names = sorted(tff.structure.name_list(output_type.statistics)) if is_joint else ()

        def server_step_of(state, sent):
            count = len(sent) - len(names)
            return *self.server_round(state, tuple(sent)[:count] or None), dict(zip(names, sent[count:], strict=True))

        @tff.tensorflow.computation
        def initial_server():
            if initial_weights is None:
                weights = tuple(tf.zeros(shape) for shape in self.model.shapes.values())
            else:
                weights = tuple(tf.constant(weight) for weight in initial_weights)
            optimizer = self.server_optimizer.initialize(self.model.specs)
            if not self.deploy_every:
                return (), weights, (), optimizer
            return tf.constant(0), weights, (weights,) * (1 + self.max_delay), optimizer

        @tff.federated_computation
        def initialize():
            parts = tff.federated_eval(initial_server, tff.SERVER)
            aggregator = aggregation.initialize() if aggregation else tff.federated_value((), tff.SERVER)
            return tff.federated_zip(State(parts[0], parts[1], parts[2], parts[3], aggregator))

        state_type = initialize.type_signature.result.member
        sent_type = output_type.delta if aggregation else tff.to_type(())
        server_round = tff.tensorflow.computation(server_step_of, state_type, sent_type)

        @tff.federated_computation(
            tff.FederatedType(state_type, tff.SERVER), tff.FederatedType(self.client_type, tff.CLIENTS)
        )
        def next_round(state, clients):
            # Line 4: the server sends the deployed models, if any, and the model in training.
            sent = (state.deployed, state.weights) if self.deploy_every else (state.weights,)
            work = each_client(*sent, clients)
            # Lines 9 and 10: the server aggregates the deltas and takes a step.
            if aggregation:
                aggregate = aggregation.next(state.aggregator, work.delta, work.weight)
                step = tff.federated_map(server_round, (state, aggregate.result))
                aggregator, measurements = aggregate.state, aggregate.measurements
            else:
                step = tff.federated_map(server_round, (state, tff.federated_value((), tff.SERVER)))
                aggregator, measurements = state.aggregator, tff.federated_value((), tff.SERVER)
            sums = tff.federated_sum(work.sums)
            reported = {name: getattr(sums, name) for name in tff.structure.name_list(sums.type_signature.member)}
            reported |= {"update_norm": step[4], "deployed": step[5], "aggregator": measurements, "statistics": step[6]}
            if self.statistics:
                summed = self.statistics.create(work.statistics.type_signature.member).next(
                    tff.federated_value((), tff.SERVER), work.statistics
                )
                reported |= {"statistics": summed.result, "statistics_clipped": summed.measurements}
            nothing = {name: tff.federated_value((), tff.SERVER) for name in RoundMetrics._field_defaults}
            metrics = RoundMetrics(**(nothing | reported))
            new_state = State(step[0], step[1], step[2], step[3], aggregator)
            return tff.federated_zip(new_state), tff.federated_zip(metrics)

        process = rounds.fused(tff.templates.IterativeProcess(initialize, next_round))
        return dp_queries.NoisyRounds(process, self.noise) if self.noise and aggregation else process

    def build_loss_poll(self, num_clients: int) -> tff.Computation:
        """Builds the computation of the clients' losses on their training examples.

        Args:
          num_clients: Maximum number of clients to poll.

        Returns:
          (deployed, weights, clients), or (weights, clients) without deployments, -> float32 [num_clients], with each
          client's loss at its position.
        """

        def poll(deployed, weights, client):
            examples = self.log(deployed, client).examples
            value = self.loss(self.model.forward(weights, examples["features"]), examples)
            return at_position(value, client.position, num_clients)

        each = at_clients(self.at_client(poll))

        @tff.federated_computation(each.type_signature.parameter)
        def poll_all(arguments):
            return tff.federated_sum(each(arguments))

        return poll_all


def at_clients(client_round: tff.Computation) -> tff.Computation:
    """Lifts a function (*models, client) -> result to (*models at the server, clients) -> results at the clients."""
    *sent, client_type = (part for _, part in tff.structure.iter_elements(client_round.type_signature.parameter))
    types = [*(tff.FederatedType(part, tff.SERVER) for part in sent), tff.FederatedType(client_type, tff.CLIENTS)]

    @tff.federated_computation(tff.StructType(types))
    def each(arguments):
        *models_sent, clients = (arguments[index] for index in range(len(types)))
        return tff.federated_map(client_round, (*map(tff.federated_broadcast, models_sent), clients))

    return each


def at_position(value: tf.Tensor, position: tf.Tensor, size: int) -> tf.Tensor:
    """Vector [size] with the scalar `value` at `position` and zeros elsewhere."""
    return tf.where(tf.equal(tf.range(size), position), value, tf.zeros_like(value))


def server_optimizer(optimizer: options.ServerOptimizer) -> tff.learning.optimizers.Optimizer:
    """Builds TFF's optimizer for the server."""
    return optimizers.build("server", optimizer.name, optimizer.learning_rate, optimizer.hyperparameters)


def server_step(
    optimizer: tff.learning.optimizers.Optimizer,
    optimizer_state,
    weights: tuple[tf.Tensor, ...],
    delta: tuple[tf.Tensor, ...],
):
    """Takes an optimizer step with the negated aggregated delta as the gradient (Algorithm 3, line 7).

    A delta that is not finite changes nothing. A delta of zeros still takes a step, in which an optimizer with momentum
    can move the weights.

    Args:
      optimizer: TFF's optimizer on the server.
      optimizer_state: The optimizer's state before the step.
      weights: Model before the step, in the order of `Model.shapes`.
      delta: Aggregated client deltas, new minus old.

    Returns:
      The optimizer's state and the weights after the step; the delta's L2 norm, float32, 0 if it was not finite.
    """
    norm = tf.linalg.global_norm(delta)
    is_finite = tf.math.is_finite(norm)
    before = (optimizer_state, tuple(weights))

    def step():
        gradient = tf.nest.map_structure(tf.negative, tuple(delta))
        return tf.nest.flatten(optimizer.next(*before, gradient))

    after = tf.cond(is_finite, step, lambda: [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(before)])
    return *tf.nest.pack_sequence_as(before, after), tf.where(is_finite, norm, 0.0)
