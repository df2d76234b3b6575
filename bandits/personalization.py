"""Rounds in which a client adapts its model to half of its examples before it acts on the other half.

Half A is acted on with the deployed model. The client adapts that model on this log, and acts on half B with the
adapted one. Both halves have the propensities of the policy that acted.

Fine-tuning: the training of the shared model is that of other rounds. The protocol is that of Wu et al., "Motley:
Benchmarking Heterogeneity and Personalization in Federated Learning", 2022.
"""

import dataclasses

import tensorflow as tf

from bandits import process
from optimization import client_work, models

_ADAPTATION = -5  # Folded into a client's key of its actions, for the mini-batches of its adaptation.


@dataclasses.dataclass(frozen=True, kw_only=True)
class PersonalizedProcess(process.BanditProcess):
    """Rounds whose clients act on half B with a model that they adapted on half A.

    Attributes:
      adaptation: Training on half A; without an epoch, the deployed model acts on both halves.
      only_head: Whether it trains the last layer alone.
    """

    adaptation: client_work.LocalSgd
    only_head: bool = False

    def acts_by(self, policy, weights, features, rewards, client: process.ClientInput) -> tf.Tensor:
        before = super().acts_by(policy, weights, features, rewards, client)
        if not self.adaptation.epochs:
            return before
        key = client.keys.cache
        # The draw of all examples, so that those of half A are the ones that the round logs.
        cache = self.weighted(process.bandit_inference(before, rewards, key), key)
        log = {"features": features, **self.trained_on(cache, rewards)}
        log = process.kept(log, tf.logical_not(client.half))
        fold_in = tf.random.experimental.stateless_fold_in
        adapted = self._adapted(weights, log, fold_in(key, _ADAPTATION))
        after = super().acts_by(policy, adapted, features, rewards, client)
        return tf.where(client.half[:, tf.newaxis], after, before)

    def _adapted(self, weights, log: client_work.Batch, key: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """The weights after training on a log."""
        weights, kept = tuple(weights), ()
        model = self.model
        if self.only_head:
            log = {**log, "features": model.body(weights, log["features"])}
            model, kept, weights = models.last_layer(model), weights[:-2], weights[-2:]
        delta = self.adaptation.build(model, self.loss)(weights, log, key).delta
        return *kept, *(weight + change for weight, change in zip(weights, delta, strict=True))
