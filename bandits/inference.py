"""One client's bandit inference (Agarwal et al. 2023, Algorithm 2): contexts -> cache of (x, a, r, propensity)."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bandits import policies


def reward_vectors(labels: tf.Tensor, reward_matrix: np.ndarray) -> tf.Tensor:
    """Returns the reward of every action.

    Args:
      labels: int32 [batch] label indices, or float32 [batch, labels] with several labels an example.
      reward_matrix: float32 [labels, actions], the reward of an action given one label.

    Returns:
      float32 [batch, actions]; for several labels, the sum over them.
    """
    labels = tf.convert_to_tensor(labels)
    if labels.dtype.is_integer:
        return tf.gather(tf.constant(reward_matrix), labels)
    return labels @ tf.constant(reward_matrix)


def bandit_inference(
    predicted_rewards: tf.Tensor, rewards: tf.Tensor, policy: policies.Policy, key: tf.Tensor
) -> Mapping[str, tf.Tensor]:
    """Lets the policy act once on each context.

    Args:
      predicted_rewards: float32 [batch, actions].
      rewards: float32 [batch, actions], of which only the chosen action's is observed.
      policy: Exploration policy.
      key: int32 [2], key of the draw.

    Returns:
      `action` int32, `reward` and `propensity` float32, each [batch].
    """
    probabilities = policy(predicted_rewards)
    action = tf.random.stateless_categorical(tf.math.log(probabilities), num_samples=1, seed=key, dtype=tf.int32)[:, 0]
    return {
        "action": action,
        "reward": tf.gather(rewards, action, axis=1, batch_dims=1),
        "propensity": tf.gather(probabilities, action, axis=1, batch_dims=1),
    }
