"""Clients that adapt the model on half of their examples before they act on the other half, and their rewards.

A client acts on half A with the deployed model. Then it adapts that model on the resulting log, and acts on half B with
the adapted model. Each half has the propensities of the policy that acted on it.

With fine-tuning, the shared model is trained as in other rounds, on the logs of both halves (Wu et al., "Motley:
Benchmarking Heterogeneity and Personalization in Federated Learning", 2022). With a local head, the last layer never
leaves the client (Singhal et al., "Federated Reconstruction: Partially Local Federated Learning", 2021, Algorithm 1).
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits import process
from data import clients, keys
from optimization import client_work, fed_avg, models
from optimization.runtime import rounds
from optimization.study.metrics import mean

_ADAPTATION = -5  # Folded into the random key of a client's actions, to sample mini-batches for adaptation.


@dataclasses.dataclass(frozen=True, kw_only=True)
class PersonalizedProcess(process.BanditProcess):
    """Rounds whose clients act on half B with a model that they adapted on half A.

    Attributes:
      adaptation: Training on half A; with 0 epochs, the deployed model acts on both halves.
      only_head: Whether the adaptation trains only the last layer.
    """

    adaptation: client_work.LocalSgd
    only_head: bool = False

    def acts_by(self, policy, weights, features, rewards, client: process.ClientInput) -> tuple[tf.Tensor, tf.Tensor]:
        if not self.adaptation.epochs:
            return super().acts_by(policy, weights, features, rewards, client)
        key, is_a = client.keys.cache, tf.logical_not(client.half)
        of_a, of_b = process.masked(features, is_a), process.masked(features, client.half)
        before, usable_before = super().acts_by(policy, weights, of_a, rewards, client)
        in_a = tf.scatter_nd(tf.where(is_a), before, tf.shape(rewards, tf.int64))
        # The actions are sampled for all examples, so that those of half A are equal to the ones that the round logs.
        cache = self.weighted(process.bandit_inference(in_a, rewards, key), key)
        log = {"features": of_a, **process.masked(self.trained_on(cache, rewards, features), is_a)}
        adapted = self._adapted(weights, log, tf.random.experimental.stateless_fold_in(key, _ADAPTATION))
        after, usable_after = super().acts_by(policy, adapted, of_b, rewards, client)
        order = tf.concat([tf.where(is_a), tf.where(client.half)], axis=0)
        usable = tf.scatter_nd(order, tf.concat([usable_before, usable_after], axis=0), tf.shape(is_a, tf.int64))
        return tf.tensor_scatter_nd_update(in_a, tf.where(client.half), after), usable

    def _adapted(self, weights, log: client_work.Batch, key: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """The weights after training on a log."""
        weights, kept = tuple(weights), ()
        model = self.model
        if self.only_head:
            log = {**log, "features": model.body(weights, log["features"])}
            model, kept, weights = models.last_layer(model), weights[:-2], weights[-2:]
        delta = self.adaptation.build(model, self.loss)(weights, log, key).delta
        return *kept, *(weight + change for weight, change in zip(weights, delta, strict=True))


@dataclasses.dataclass(frozen=True)
class ReconstructedHead:
    """A `client_work.ClientWork` that trains all layers except the last one on half B.

    Before that, the last layer is trained on half A from its initial weights, with the other layers frozen.

    Attributes:
      head: Training of the last layer, on half A.
      body: Training of the other layers, on half B.
    """

    head: client_work.LocalSgd
    body: client_work.ClientWork

    def examples_trained(self, num_examples: tf.Tensor) -> tf.Tensor:
        return self.body.examples_trained(num_examples)

    def build(self, model: models.Model, loss: client_work.Loss) -> Callable[..., client_work.ClientUpdate]:
        *shapes, kernel, bias = model.shapes
        head = [tf.Variable(tf.zeros(model.shapes[name]), trainable=False) for name in (kernel, bias)]
        training = model.training
        body = dataclasses.replace(
            model,
            shapes={name: model.shapes[name] for name in shapes},
            forward=lambda weights, features: model.forward((*weights, *head), features),
            training=training and (lambda weights, features, key: training((*weights, *head), features, key)),
            terms=None,
        )
        train_head, train_body = self.head.build(models.last_layer(model), loss), self.body.build(body, loss)

        @tf.function(autograph=False)
        def train(weights, examples, key, learning_rate=None) -> client_work.ClientUpdate:
            examples = dict(examples)
            half = examples.pop("half")
            log_a, log_b = (process.masked(examples, mask) for mask in (tf.logical_not(half), half))
            log_a["features"] = model.body(weights, log_a["features"])
            first, key_a = weights[-2:], tf.random.experimental.stateless_fold_in(key, _ADAPTATION)
            for variable, before, change in zip(head, first, train_head(first, log_a, key_a).delta, strict=True):
                variable.assign(before + change)
            update = train_body(weights[:-2], log_b, key, learning_rate)
            return update._replace(delta=(*update.delta, *map(tf.zeros_like, first)))

        return train


class LocalHeadProcess(PersonalizedProcess):
    """Rounds in which the last layer never leaves the clients; the server's last layer keeps its initial weights."""

    def log(self, deployed: tuple, client: process.ClientInput) -> fed_avg.Log:
        log = super().log(deployed, client)
        count = tf.reduce_sum(tf.cast(client.half, tf.int32))
        sums = {**log.sums, "examples": log.count, "empty_clients": tf.cast(tf.equal(log.count, 0), tf.int32)}
        examples = {**log.examples, "half": client.half}
        return log._replace(examples=examples, count=count, weight=tf.cast(count, tf.float32), sums=sums)

    def server_round(self, state: fed_avg.State, delta):
        if delta is not None:  # Noise would change the last layer.
            delta = (*tuple(delta)[:-2], *map(tf.zeros_like, tuple(delta)[-2:]))
        return super().server_round(state, delta)


@dataclasses.dataclass(frozen=True)
class AdaptedRewards:
    """Expected rewards of clients on half B, with the model that they adapt on half A.

    Attributes:
      definition: Definition of the rounds.
      seed: Seed of the run.
    """

    definition: PersonalizedProcess
    seed: int

    @functools.cached_property
    def _expected(self) -> tff.Computation:
        """Computation (deployed, weights, clients) -> expected rewards after and before the adaptation."""
        adaptation = dataclasses.replace(self.definition.adaptation, epochs=0)
        both = self.definition, dataclasses.replace(self.definition, adaptation=adaptation)

        def expected(deployed, weights, client):
            return [one.act(deployed, client)[0]["expected"] for one in both]

        return fed_avg.at_clients(self.definition.at_client(expected))

    def evaluate(
        self,
        weights: Sequence[np.ndarray],
        names: Sequence[str],
        examples: Sequence[clients.Examples],
        scheduled: float,
        environment: float,
    ) -> tuple[float, dict[str, Any]]:
        """Evaluates a model.

        Args:
          weights: The model.
          names: Names of the clients.
          examples: Examples of each client, with features in the format that the model expects.
          scheduled: Value of the policy's scheduled parameter; not used without a schedule.
          environment: Position among the environments; see `process.mixture`.

        Returns:
          The mean expected reward over the half B examples of all clients. For each client with examples in half B,
          also their number, and the client's mean expected rewards before and after the adaptation.
        """
        inputs = []
        for place, (features, labels) in enumerate(examples):
            key = keys.tensorflow_key(self.seed, keys.Purpose.EVALUATION, 1, place)
            one = process.ClientInput(features, labels, process.ClientKeys(key, key))
            half = clients.second_half(self.seed, place, np.arange(len(labels)))
            one = one._replace(scheduled=np.float32(scheduled), environment_position=np.float32(environment), half=half)
            inputs.append(one)
        sums = np.zeros((len(inputs), 2))

        def take(place: int, expected: Sequence) -> None:
            sums[place] = [np.sum(np.asarray(one)[inputs[place].half], dtype=float) for one in expected]

        weights = tuple(weights)
        models = [(weights,) * (1 + self.definition.max_delay), weights]
        rounds.current_context().each_client(self._expected, models, inputs, take)
        counts = np.array([each.half.sum() for each in inputs])
        known = np.flatnonzero(counts)
        adapted, before = (sums[known] / counts[known, np.newaxis]).T.tolist()
        kept = {"clients": [names[place] for place in known], "examples": counts[known].tolist()}
        return mean(sums[:, 0].sum(), counts.sum()), {**kept, "before": before, "after": adapted}
