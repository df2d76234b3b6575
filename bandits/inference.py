"""One client's bandit inference (Agarwal et al. 2023, Algorithm 2): contexts -> cache of (x, a, r, propensity)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bandits import losses, policies
from optimization import models

_POLICY = -3  # Folded into a client's key of its actions, for what a policy draws.


def mixture(matrices: np.ndarray, world: tf.Tensor) -> np.ndarray | tf.Tensor:
    """Returns the reward matrix at a point among worlds (`worlds.drift`).

    Args:
      matrices: float32 [worlds, labels, actions]; or [labels, actions], of one world, which is returned as it is.
      world: float32, the point: 1.25 lies a quarter of the way from the second world to the third.
    """
    if matrices.ndim == 2:
        return matrices
    low = tf.floor(world)
    share, place = world - low, tf.cast(low, tf.int32)
    of_worlds = tf.constant(matrices)
    after = tf.minimum(place + 1, len(matrices) - 1)
    return (1 - share) * of_worlds[place] + share * of_worlds[after]


def reward_vectors(labels: tf.Tensor, reward_matrix: np.ndarray | tf.Tensor) -> tf.Tensor:
    """Returns the reward of every action.

    Args:
      labels: int32 [batch] label indices, or float32 [batch, labels] with several labels an example.
      reward_matrix: float32 [labels, actions], the reward of an action given one label.

    Returns:
      float32 [batch, actions]; for several labels, the sum over them.
    """
    labels = tf.convert_to_tensor(labels)
    if labels.dtype.is_integer:
        return tf.gather(tf.convert_to_tensor(reward_matrix), labels)
    return labels @ tf.convert_to_tensor(reward_matrix)


def predicted_rewards(model: models.Model, loss: losses.Loss, outputs: tf.Tensor) -> tf.Tensor:
    """Returns float32 [batch, actions], what a model's outputs predict; with several heads their mean."""
    predicted = loss.predicted_rewards(outputs)
    return tf.reduce_mean(predicted, axis=1) if model.heads > 1 else predicted


def probabilities(
    policy: policies.Policy,
    model: models.Model,
    weights: Sequence[tf.Tensor],
    loss: losses.Loss,
    contexts: tf.Tensor | Mapping[str, tf.Tensor],
    key: tf.Tensor,
) -> tf.Tensor:
    """Returns a policy's probabilities, float32 [batch, actions].

    Args:
      policy: Exploration policy.
      model: The model that it explores on.
      weights: Its weights.
      loss: The loss that it is trained with, which says how outputs predict rewards.
      contexts: As the model takes them.
      key: int32 [2], key of the actions.
    """
    outputs = model.forward(weights, contexts)
    made = {
        "head_rewards": lambda: tf.reshape(
            loss.predicted_rewards(outputs), [tf.shape(outputs)[0], model.heads, outputs.shape[-1]]
        ),
        "representation": lambda: model.body(weights, contexts),
        "contexts": lambda: contexts,
        "key": lambda: tf.random.experimental.stateless_fold_in(key, _POLICY),
    }
    return policy(predicted_rewards(model, loss, outputs), **{name: made[name]() for name in policy.asks})


def bandit_inference(probabilities: tf.Tensor, rewards: tf.Tensor, key: tf.Tensor) -> dict[str, tf.Tensor]:
    """Acts once on each context.

    Args:
      probabilities: float32 [batch, actions], the policy's.
      rewards: float32 [batch, actions], of which only the chosen action's is observed.
      key: int32 [2], key of the draw.

    Returns:
      `action` int32, `reward` and `propensity` float32, each [batch].
    """
    action = _draw(probabilities, key)
    return {
        "action": action,
        "reward": tf.gather(rewards, action, axis=1, batch_dims=1),
        "propensity": tf.gather(probabilities, action, axis=1, batch_dims=1),
    }


def _draw(probabilities: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """Returns one action a row, int32 [batch], of probabilities float32 [batch, actions].

    The draws of `tf.random.stateless_categorical` in one thread, up to rounding. Where that has several it shares the
    rows out among them, and which numbers a row gets depends on how many they are.
    """
    upper = tf.cumsum(tf.cast(probabilities, tf.float64), axis=1)
    drawn = tf.random.stateless_uniform([tf.shape(upper)[0], 1], key, dtype=tf.float64) * upper[:, -1:]
    return tf.argmax(upper > drawn, axis=1, output_type=tf.int32)


def logged(labels: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the log that labels end in, in `bandit_inference`'s form; labels float32 [batch, ... + 3]."""
    return {"action": tf.cast(labels[:, -3], tf.int32), "reward": labels[:, -2], "propensity": labels[:, -1]}


def replay(
    played: Mapping[str, tf.Tensor], labels: tf.Tensor, features: tf.Tensor | Mapping[str, tf.Tensor]
) -> tuple[dict[str, tf.Tensor], tf.Tensor | Mapping[str, tf.Tensor]]:
    """Keeps the rows in which the policy plays what was logged (Li, Chu, Langford and Wang 2011, Algorithm 2).

    Args:
      played: What `bandit_inference` gives for all rows.
      labels: float32 [batch, ... + 3], which end in the log.
      features: Of the rows, as models take them.

    Returns:
      The log of these rows: their action, the reward that was logged and the policy's own propensity; their features.
    """
    was = logged(labels)
    return kept(({**played, "reward": was["reward"]}, features), tf.equal(played["action"], was["action"]))


def kept(rows: Any, mask: tf.Tensor) -> Any:
    """Returns some rows of a structure of tensors, [batch, ...] each; the mask is bool [batch]."""
    return tf.nest.map_structure(lambda part: tf.boolean_mask(part, mask), rows)
