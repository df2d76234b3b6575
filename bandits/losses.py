"""Losses of a mini-batch (Agarwal et al. 2023, eq. 5 and 6, Algorithm 3 lines 11-12).

The paper's losses are half sums. The losses in this module are means over the mini-batch by default (for supervised
losses, also over actions), as in the published code, because the paper's learning rates were tuned for means.

A bandit loss uses the chosen action's reward and no other information from the labels. Examples of a mini-batch may
have a `weight`, float32 [batch].
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import scipy.stats
import tensorflow as tf

from optimization import models

FULL_FEEDBACK = "rewards"  # Cache entry, float32 [batch, actions]; only supervised losses read it.
OFFERED = "offered"  # Cache entry, bool [batch, actions], if actions change from row to row.
BOOTSTRAP = "bootstrap"  # Cache entry, float32 [batch, heads]; only losses with several heads read it.
_LOWEST = -1e30  # Logit of an action that is not offered. Unlike -infinity, its product with 0 is 0.
_BOOTSTRAP_KEY = -4  # Folded into the random key of a client's actions, to sample bootstrap weights.
# Distribution function of Poisson(1) at 0 to 19; for larger values it is 1 in float32.
_POISSON = scipy.stats.poisson(1).cdf(np.arange(20)).astype(np.float32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RewardLoss:
    """Common part of `BanditLoss` and `SupervisedLoss`, which describe the attributes."""

    cross_entropy: bool = False
    sigmoid: bool = False
    half_sum: bool = False

    def predicted_rewards(self, outputs: tf.Tensor) -> tf.Tensor:
        """Predicted rewards for the policy, float32 [batch, actions]."""
        if not self.cross_entropy:
            return outputs
        return tf.sigmoid(outputs) if self.sigmoid else tf.nn.softmax(outputs)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BanditLoss(_RewardLoss):
    """Squared error, or cross entropy, of the chosen action's predicted reward.

    Attributes:
      importance_weighted: Whether each example has weight weight_scale / propensity (eq. 6), instead of 1 (eq. 5).
      cross_entropy: Whether outputs are logits of two or more actions. The predicted reward f is then their softmax,
        and the loss is -r log f - (1 - r) log(1 - f) instead of (f - r)^2. Rewards must lie in [0, 1].
      sigmoid: With `cross_entropy`: whether f is the sigmoid of the action's own logit, as in the published code.
      half_sum: Whether the loss is half the sum over the mini-batch, as in the paper, instead of the mean.
      weight_scale: Numerator of the importance weight; 1 makes the loss unbiased.
      weight_cap: Largest importance weight.
      full_feedback: Whether training sees every action's reward; False.
    """

    importance_weighted: bool = False
    weight_scale: float = 1.0
    weight_cap: float = math.inf
    full_feedback = False

    @property
    def needs_only_chosen_output(self) -> bool:
        """Whether the loss depends only on the chosen action's output."""
        return self.sigmoid or not self.cross_entropy

    def __call__(self, outputs: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Scalar loss.

        Args:
          outputs: float32 [batch, actions]. If `needs_only_chosen_output`, the chosen actions' outputs alone, [batch],
            are also accepted.
          batch: `action` int32, `reward` and `propensity` float32, each [batch]; and `OFFERED` for sets of actions, if
            not `needs_only_chosen_output`.
        """
        reward = batch["reward"]
        if not self.needs_only_chosen_output:
            total = tf.reduce_logsumexp(outputs, axis=1)
            chosen = _of_action(outputs, batch["action"]) - total
            # Computed from the outputs, because the logarithm of a rounded 1 - f has no gradient where f is 1.
            is_chosen = tf.one_hot(batch["action"], tf.shape(outputs)[1], on_value=True, off_value=False)
            others = tf.reduce_logsumexp(tf.where(is_chosen, -np.inf, outputs), axis=1) - total
            if OFFERED in batch:  # In a set of one action, f is 1 whatever the outputs are.
                others = tf.where(tf.reduce_sum(tf.cast(batch[OFFERED], tf.int32), axis=1) > 1, others, 0.0)
            losses = -reward * chosen - (1 - reward) * others
        else:
            chosen = _of_action(outputs, batch["action"]) if outputs.shape.rank == 2 else outputs
            if self.cross_entropy:
                losses = tf.nn.sigmoid_cross_entropy_with_logits(reward, chosen)
            else:
                losses = tf.square(chosen - reward)
        if self.importance_weighted:
            losses *= tf.minimum(self.weight_scale / batch["propensity"], self.weight_cap)
        return _total(losses, batch, self.half_sum)


def _total(losses: tf.Tensor, batch: Mapping[str, tf.Tensor], half_sum: bool) -> tf.Tensor:
    if "weight" in batch:
        losses *= tf.reshape(batch["weight"], [-1] + [1] * (losses.shape.rank - 1))
    return tf.reduce_sum(losses) / 2 if half_sum else tf.reduce_mean(losses)


def _of_action(outputs: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    if outputs.shape[1] == 1:
        return tf.squeeze(outputs, 1)
    # The gradient of a gather with batch dimensions would add sixty operations to each step of a client.
    return tf.gather_nd(outputs, tf.stack([tf.range(tf.size(action)), action], axis=1))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SupervisedLoss(_RewardLoss):
    """Squared error or cross entropy over all actions, when every action's reward is known.

    Attributes:
      cross_entropy: Whether outputs are logits, trained towards rewards that are scaled to sum to 1.
      sigmoid: With `cross_entropy`: whether each action's own logit is trained towards its reward instead.
      half_sum: Whether the loss is half the sum over examples and actions, instead of the mean; without effect on
        softmax cross entropy.
      full_feedback: Whether training sees every action's reward; True.
      needs_only_chosen_output: Whether the loss depends only on the chosen action's output; False.
    """

    full_feedback = True
    needs_only_chosen_output = False

    def __call__(self, outputs: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Scalar loss of outputs and `rewards`, both float32 [batch, actions]; means cover only `offered` actions."""
        rewards, is_softmax = batch[FULL_FEEDBACK], self.cross_entropy and not self.sigmoid
        if OFFERED in batch:
            outputs = tf.where(batch[OFFERED], outputs, _LOWEST if is_softmax else 0.0)
            rewards = tf.where(batch[OFFERED], rewards, 0.0)
        if is_softmax:
            targets = tf.math.divide_no_nan(rewards, tf.reduce_sum(rewards, axis=1, keepdims=True))
            return _total(tf.nn.softmax_cross_entropy_with_logits(targets, outputs), batch, half_sum=False)
        sigmoid_loss = tf.nn.sigmoid_cross_entropy_with_logits
        losses = sigmoid_loss(rewards, outputs) if self.sigmoid else tf.square(outputs - rewards)
        if OFFERED in batch:
            weights = tf.cast(batch[OFFERED], tf.float32)
            losses *= weights if self.half_sum else weights / tf.reduce_mean(weights)
        return _total(losses, batch, self.half_sum)


@dataclasses.dataclass(frozen=True)
class Bootstrapped:
    """Mean of a loss over a model's heads, where each head has a separate weight for every example.

    With Poisson(1) weights, the heads are an online bootstrap ensemble (Oza and Russell 2001). The gradient of a head's
    last layer is that of the head's own loss, as if the head were alone. The gradient of the body is the mean over the
    heads (`models.of_task`).

    Attributes:
      loss: The loss of one head.
    """

    loss: BanditLoss | SupervisedLoss

    @property
    def full_feedback(self) -> bool:
        """Whether training sees every action's reward."""
        return self.loss.full_feedback

    @property
    def needs_only_chosen_output(self) -> bool:
        """Whether the loss depends only on the chosen action's outputs, one for each head."""
        return self.loss.needs_only_chosen_output

    def predicted_rewards(self, outputs: tf.Tensor) -> tf.Tensor:
        """Predictions of the heads, float32 [batch, heads, actions]."""
        return self.loss.predicted_rewards(outputs)

    def __call__(self, outputs: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Scalar loss.

        Args:
          outputs: float32 [batch, heads, actions]. If `needs_only_chosen_output`, the chosen actions' outputs alone,
            [batch, heads], are also accepted.
          batch: The inputs of the loss of one head, and `bootstrap`, float32 [batch, heads].
        """
        heads = batch[BOOTSTRAP].shape[1]
        outputs = models.scaled_gradient(outputs, heads)
        flat = tf.reshape(outputs, [-1, *outputs.shape[2:]])
        names = [name for name in ("action", "reward", "propensity", FULL_FEEDBACK, OFFERED) if name in batch]
        of_heads = {name: tf.repeat(batch[name], heads, axis=0) for name in names}
        value = self.loss(flat, of_heads | {"weight": tf.reshape(batch[BOOTSTRAP], [-1])})
        return value / heads if self.loss.half_sum else value


Loss: TypeAlias = BanditLoss | SupervisedLoss | Bootstrapped


def bootstrap(key: tf.Tensor, num_examples: tf.Tensor, heads: int) -> tf.Tensor:
    """Poisson(1) weights of a client's examples, float32 [examples, heads], from the random key of its actions."""
    own_key = tf.random.experimental.stateless_fold_in(key, _BOOTSTRAP_KEY)
    uniform = tf.random.stateless_uniform([num_examples * heads], own_key)
    counts = tf.searchsorted(_POISSON, uniform, side="right")
    return tf.reshape(tf.cast(counts, tf.float32), [-1, heads])
