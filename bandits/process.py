"""Federated contextual bandits as a TFF process (Agarwal et al. 2023, Algorithms 1 and 4).

One call of `next` is one round of Algorithm 4: every client of the cohort acts with the deployed model, trains the
current model on what it saw, and the server takes a step; every `deploy_every` rounds the result is deployed.

Algorithm 1's cache, which a client keeps for a whole deployment period, differs in when it is drawn, not in how: give
a client the same cache key in all rounds of a period, and it makes the same cache again (see `ClientKeys`).
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits import inference, losses, policies
from data import clients
from optimization import client_work, models, server, supervised
from optimization.runtime import rounds


class BanditState(NamedTuple):
    """The server's state between rounds.

    Attributes:
      round_num: int32, rounds done.
      weights: The model in training, theta^(t).
      deployed: The deployed models, newest first: theta_{i-1}, which acts, and the earlier ones of `max_delay`.
      optimizer: The server optimizer's state.
      aggregator: The aggregator's state.
    """

    round_num: int
    weights: tuple
    deployed: tuple
    optimizer: object
    aggregator: object


class RoundMetrics(NamedTuple):
    """What one round reports. Sums are over the cohort's examples, once each.

    Attributes:
      examples: int32, examples acted on.
      reward_sum: float32, rewards of the cohort's caches, the very ones trained on.
      propensity_sum: float32, probabilities of the chosen actions.
      loss_sum: float32, training losses over all epochs of the clients with finite updates.
      trained_examples: int32, examples of those clients.
      empty_clients: int32, clients without an example; their update is zero.
      nonfinite_clients: int32, clients whose update was not finite and was replaced by zero.
      client_losses: float32 [cohort_size], as `supervised.RoundMetrics` has them.
      client_deviations: float32 [cohort_size], likewise.
      update_norm: float32, L2 norm of the aggregated update.
      deployed: bool, whether the round ended with a deployment.
      aggregator: The aggregator's measurements.
    """

    examples: int
    reward_sum: float
    propensity_sum: float
    loss_sum: float
    trained_examples: int
    empty_clients: int
    nonfinite_clients: int
    client_losses: np.ndarray
    client_deviations: np.ndarray
    update_norm: float
    deployed: bool
    aggregator: object


class ClientKeys(NamedTuple):
    """A client's keys in one round, int32 [2] each: equal keys give equal draws.

    Attributes:
      cache: Key of the actions. Fresh every round in Algorithm 4; the same within a deployment period in Algorithm 1.
      training: Key of the mini-batches.
    """

    cache: np.ndarray
    training: np.ndarray


class ClientInput(NamedTuple):
    """What one client brings to a round.

    Attributes:
      features: [examples, ...] contexts, or bags of words.
      labels: int32 [examples] or float32 [examples, labels], known to the environment, not to the policy.
      keys: Its keys.
      delay: int32, deployments that it lags behind.
      position: int32, its place in the cohort, from 0.
      moved: float32, the policy's parameter that a schedule moves, as of the deployment that acts.
      world: float32, where it stood among the worlds when it acted; see `inference.mixture`.
      arrived: bool [examples], whose rewards are there; empty where none is late.
    """

    features: clients.Features
    labels: np.ndarray
    keys: ClientKeys
    delay: np.int32 = np.int32(0)
    position: np.int32 = np.int32(0)
    moved: np.float32 = np.float32(0)
    world: np.float32 = np.float32(0)
    arrived: np.ndarray = np.zeros(0, bool)


class _ClientOutput(NamedTuple):
    delta: tuple
    weight: float
    examples: int
    reward_sum: float
    propensity_sum: float
    loss_sum: float
    trained_examples: int
    empty_clients: int
    nonfinite_clients: int
    client_losses: tf.Tensor
    client_deviations: tf.Tensor


@dataclasses.dataclass(frozen=True)
class BanditProcess:
    """Everything that defines the rounds.

    Attributes:
      model: Reward model, one output per action.
      policy: Exploration policy of the deployed model.
      loss: `losses.BanditLoss` or `losses.SupervisedLoss`.
      reward_matrix: float32 [labels, actions], see `inference.reward_vectors`; or [worlds, labels, actions].
      local_sgd: Client training, or what stands in its place; None for none, as in the baseline of an initial model
        that stays as it is: nothing is aggregated, no noise added, no step taken.
      aggregator: Factory of a weighted aggregation of deltas; None without training.
      server_optimizer: Takes the aggregated step.
      deploy_every: Rounds between deployments, T.
      max_delay: Most deployments that a client may lag behind (the heterogeneous delays of section 3.2).
      feature_spec: Shapes and dtypes of a client's features, first axis None.
      label_spec: Shape and dtype of its labels, first axis None.
      cohort_size: Clients whose losses are reported one by one, for client selection; 0 reports none.
      feedback: What a client's log is: of the deployed policy's actions (`acting`); the one that its labels end in
        (`logged`); or of the policy's actions where that one has the same (`replay`).
      moving: The policy's parameter that clients bring, as a schedule moves it; empty where all are constant.
      is_late: Whether only what has `arrived` is in a client's log.
    """

    model: models.Model
    policy: policies.Policy
    loss: losses.Loss
    reward_matrix: np.ndarray
    local_sgd: client_work.ClientWork | None
    aggregator: tff.aggregators.WeightedAggregationFactory | None
    server_optimizer: tff.learning.optimizers.Optimizer
    deploy_every: int
    feature_spec: models.FeatureSpec
    label_spec: tf.TensorSpec
    max_delay: int = 0
    cohort_size: int = 0
    feedback: str = "acting"
    moving: str = ""
    is_late: bool = False

    def client_type(self) -> tff.Type:
        """Returns the TFF type of a `ClientInput`."""
        key = tff.TensorType(np.int32, (2,))
        return tff.StructWithPythonType(
            [
                ("features", tff.types.tensorflow_to_type(self.feature_spec)),
                ("labels", tff.types.tensorflow_to_type(self.label_spec)),
                ("keys", tff.StructWithPythonType([("cache", key), ("training", key)], ClientKeys)),
                ("delay", tff.TensorType(np.int32)),
                ("position", tff.TensorType(np.int32)),
                ("moved", tff.TensorType(np.float32)),
                ("world", tff.TensorType(np.float32)),
                ("arrived", tff.TensorType(np.bool_, (None if self.is_late else 0,))),
            ],
            ClientInput,
        )

    def client_round(self):
        """Returns the function (deployed, weights, client) -> _ClientOutput; call it where it will run."""
        train = self.local_sgd and self.local_sgd.build(self.model, self.loss)

        @tf.autograph.experimental.do_not_convert  # Nothing here needs it, and it takes a second.
        def run(deployed, weights, client: ClientInput) -> _ClientOutput:
            cache, batches = self.act(deployed, client)
            # Algorithm 3: train the current model on that log, or, supervised, on every action's reward.
            if train is None:
                update = client_work.no_training(weights)
            else:
                update = train(weights, batches, client.keys.training)
            examples = tf.shape(cache["action"])[0]
            trained = self.local_sgd.examples_trained(examples) if self.local_sgd else 0
            has_loss = tf.logical_and(update.is_finite, trained > 0)
            mean = tf.where(has_loss, update.loss_sum / tf.cast(trained, tf.float32), np.nan)
            deviation = tf.where(has_loss, update.loss_deviation, np.nan)
            return _ClientOutput(
                delta=update.delta,
                weight=tf.cast(examples, tf.float32),
                examples=examples,
                reward_sum=tf.reduce_sum(cache["reward"]),
                propensity_sum=tf.reduce_sum(cache["propensity"]),
                loss_sum=tf.where(update.is_finite, update.loss_sum, 0.0),
                trained_examples=tf.where(update.is_finite, examples, 0) if train else tf.constant(0),
                empty_clients=tf.cast(tf.equal(examples, 0), tf.int32),
                nonfinite_clients=tf.cast(tf.logical_not(update.is_finite), tf.int32),
                client_losses=supervised.at_position(mean, client.position, self.cohort_size),
                client_deviations=supervised.at_position(deviation, client.position, self.cohort_size),
            )

        return run

    def act(self, deployed, client: ClientInput):
        """Acts with the deployed model and keeps the log (Algorithm 2); returns it, and what is trained on."""
        matrix = inference.mixture(self.reward_matrix, client.world)
        rewards = inference.reward_vectors(client.labels, matrix)
        if self.feedback == "logged":
            cache = self._weighted(inference.logged(client.labels), client.keys.cache)
            return cache, {"features": models.dense(client.features), **cache}
        own = deployed[0]
        if self.max_delay:
            own = tf.switch_case(tf.convert_to_tensor(client.delay), [lambda model=model: model for model in deployed])
        features = models.dense(client.features)
        policy = self.policy
        if self.moving:  # Policies with parameters are dataclasses.
            policy = dataclasses.replace(policy, **{self.moving: client.moved})  # type: ignore[type-var]
        key = client.keys.cache
        probabilities = inference.probabilities(policy, self.model, own, self.loss, features, key)
        cache = self._weighted(inference.bandit_inference(probabilities, rewards, key), key)
        if self.feedback == "replay":
            cache, features = inference.replay(cache, client.labels, features)
        if self.is_late:
            cache, features, rewards = inference.kept((cache, features, rewards), client.arrived)
        log = {losses.FULL_FEEDBACK: rewards} if self.loss.full_feedback else cache
        if self.model.heads > 1:
            log = {**log, losses.BOOTSTRAP: cache[losses.BOOTSTRAP]}
        return cache, {"features": features, **log}

    def _weighted(self, cache: dict[str, tf.Tensor], key: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the log with the weights of its examples for each of several heads."""
        if self.model.heads == 1:
            return cache
        return {**cache, losses.BOOTSTRAP: losses.bootstrap(key, tf.size(cache["action"]), self.model.heads)}

    def server_round(self, state: BanditState, delta: tuple[tf.Tensor, ...] | None):
        """Takes the server's step, in TensorFlow; none without a delta.

        Returns:
          The next state's parts but the aggregator's; the norm of the step; whether the round ends with a deployment.
        """
        optimizer, weights, norm = state.optimizer, tuple(state.weights), tf.constant(0.0)
        if delta is not None:
            optimizer, weights, norm = server.server_step(self.server_optimizer, state.optimizer, state.weights, delta)
        round_num = state.round_num + 1
        deploys = tf.equal(round_num % self.deploy_every, 0)
        deployed = tf.cond(deploys, lambda: (tuple(weights), *state.deployed[:-1]), lambda: tuple(state.deployed))
        return round_num, weights, deployed, optimizer, norm, deploys

    def build_loss_poll(self, num_clients: int) -> tff.Computation:
        """Returns the computation (deployed, weights, clients) -> float32 [num_clients].

        Each client's loss of `weights` on the log that it would train on, at its position.

        Args:
          num_clients: Clients to poll.
        """
        weights_type = tff.types.tensorflow_to_type(self.model.specs)
        deployed_type = tff.to_type((weights_type,) * (1 + self.max_delay))

        @tff.tensorflow.computation(deployed_type, weights_type, self.client_type())
        def poll(deployed, weights, client):
            _, batch = self.act(deployed, client)
            value = self.loss(self.model.forward(weights, batch["features"]), batch)
            return supervised.at_position(value, client.position, num_clients)

        @tff.federated_computation(
            tff.FederatedType(deployed_type, tff.SERVER),
            tff.FederatedType(weights_type, tff.SERVER),
            tff.FederatedType(self.client_type(), tff.CLIENTS),
        )
        def poll_all(deployed, weights, polled):
            models_sent = (tff.federated_broadcast(deployed), tff.federated_broadcast(weights))
            return tff.federated_sum(tff.federated_map(poll, (*models_sent, polled)))

        return poll_all

    def build(self, initial_weights: models.Weights | None = None) -> tff.templates.IterativeProcess:
        """Returns the process: `initialize() -> BanditState`, `next(state, clients) -> (state, RoundMetrics)`.

        Args:
          initial_weights: float32 arrays in the model's order, theta_0; None for zeros, which a caller replaces.
        """
        weights_type = tff.types.tensorflow_to_type(self.model.specs)
        weight_type = tff.TensorType(np.float32)
        aggregation = self.aggregator.create(weights_type, weight_type) if self.aggregator and self.local_sgd else None

        @tff.tensorflow.computation
        def initial_server():
            if initial_weights is None:
                weights = tuple(tf.zeros(shape) for shape in self.model.shapes.values())
            else:
                weights = tuple(tf.constant(weight) for weight in initial_weights)
            deployed = (weights,) * (1 + self.max_delay)
            return tf.constant(0), weights, deployed, self.server_optimizer.initialize(self.model.specs)

        @tff.federated_computation
        def initialize():
            parts = tff.federated_eval(initial_server, tff.SERVER)
            aggregator = aggregation.initialize() if aggregation else tff.federated_value((), tff.SERVER)
            return tff.federated_zip(BanditState(parts[0], parts[1], parts[2], parts[3], aggregator))

        deployed_type = tff.to_type((weights_type,) * (1 + self.max_delay))

        @tff.tensorflow.computation(deployed_type, weights_type, self.client_type())
        def client_round(deployed, weights, client):
            return self.client_round()(deployed, weights, client)

        state_type = initialize.type_signature.result.member

        if aggregation:
            server_round = tff.tensorflow.computation(self.server_round, state_type, weights_type)
        else:
            server_round = tff.tensorflow.computation(lambda state: self.server_round(state, None), state_type)

        @tff.federated_computation(
            tff.FederatedType(state_type, tff.SERVER),
            tff.FederatedType(self.client_type(), tff.CLIENTS),
        )
        def next_round(state, clients):
            work = tff.federated_map(
                client_round,
                (
                    tff.federated_broadcast(state.deployed),
                    tff.federated_broadcast(state.weights),
                    clients,
                ),
            )
            if aggregation:
                aggregate = aggregation.next(state.aggregator, work.delta, work.weight)
                step = tff.federated_map(server_round, (state, aggregate.result))
                aggregator, measurements = aggregate.state, aggregate.measurements
            else:
                step = tff.federated_map(server_round, state)
                aggregator, measurements = state.aggregator, tff.federated_value((), tff.SERVER)
            new_state = BanditState(step[0], step[1], step[2], step[3], aggregator)
            metrics = RoundMetrics(
                *(tff.federated_sum(getattr(work, name)) for name in SUMMED),
                update_norm=step[4],
                deployed=step[5],
                aggregator=measurements,
            )
            return tff.federated_zip(new_state), tff.federated_zip(metrics)

        return rounds.fused(tff.templates.IterativeProcess(initialize, next_round))


# What a round reports as sums over its clients.
SUMMED = [name for name in RoundMetrics._fields if name in _ClientOutput._fields]
