"""Linear bandits on the inputs of a model's last layer: upper confidence bounds and Thompson sampling.

The features x of an action are the inputs of the last layer, and a 1 for its bias. If actions have features that change
from row to row, all actions share one vector of weights (one group); otherwise, each action has its own. Clients send
sums over their interactions, and the server adds them up. The residual of an interaction is the reward, on the scale of
the loss, minus the prediction of the deployed model, whose last layer is therefore the prior mean. With
gram = sum x x', moment = sum x residual and V = ridge I + gram, the estimate is the last layer plus V^-1 moment.

**With differential privacy**, both sums of a client are multiplied by one factor, so that they have a bounded norm. The
factor depends on the features and on public bounds of rewards, but not on the rewards, so the estimate is a weighted
least squares estimate with weights of at most 1. Let each coordinate of the released totals have noise of standard
deviation s. With a probability of at least 1 - delta in a given round, the symmetric part N of the noise on each gram
matrix of d units has a spectral norm of at most u = s (sqrt(2 d) + sqrt(2 log(4 groups / delta))), and the noise on
each moment a norm of at most h = s (sqrt(d) + sqrt(2 log(2 groups / delta))). The ridge grows by 2 u, so that V is
positive definite, and the eigenvalues of N plus the ridge are between ridge + u and ridge + 3 u. The width grows by the
bias of the larger ridge and by h / sqrt(ridge + u) (Shariff and Sheffet, "Differentially Private Contextual Linear
Bandits", 2018, Proposition 4).
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bandits import policies

_ROUNDING = 2.0**-23  # Bound on the relative rounding error of float32.


def cholesky(gram: tf.Tensor, ridge: tf.Tensor | float) -> tf.Tensor:
    """Cholesky factor of V, float64 [groups, units, units].

    Args:
      gram: float [groups, units, units].
      ridge: Scalar. A bound on the error of rounding `gram` to float32 is added to it.
    """
    gram = tf.cast(gram + tf.linalg.matrix_transpose(gram), tf.float64) / 2  # Noise is not symmetric.
    diagonal = tf.cast(ridge, tf.float64) + _ROUNDING * tf.maximum(tf.linalg.trace(gram), 0.0)
    return tf.linalg.cholesky(gram + diagonal[:, tf.newaxis, tf.newaxis] * tf.eye(gram.shape[-1], dtype=tf.float64))


class Projected(NamedTuple):
    """Features and moment, multiplied by the inverse L^-1 of the Cholesky factor of V.

    Attributes:
      vectors: float64 [groups, units, columns], L^-1 x. If all actions share a group, columns are pairs of a row and an
        action; otherwise they are rows.
      center: float64 [groups, units], L^-1 moment.
      features: The features x, in the shape that `project` takes.
    """

    vectors: tf.Tensor
    center: tf.Tensor
    features: tf.Tensor

    def products(self, whitened: tf.Tensor) -> tf.Tensor:
        """Products x' L'^-1 w, float32 [rows, actions], for w [groups, units]; with w = `center`, x' V^-1 moment."""
        return self._by_action(tf.einsum("gu,guc->gc", whitened, self.vectors))

    def deviations(self) -> tf.Tensor:
        """sqrt(x' V^-1 x), float32 [rows, actions]."""
        return self._by_action(tf.norm(self.vectors, axis=1))

    def _by_action(self, values: tf.Tensor) -> tf.Tensor:
        values = tf.cast(values, tf.float32)
        return (
            tf.reshape(values, tf.shape(self.features)[:2]) if self.features.shape.rank == 3 else tf.transpose(values)
        )


def project(features: tf.Tensor, gram: tf.Tensor, moment: tf.Tensor, ridge: tf.Tensor | float) -> Projected:
    """Multiplies features and moment by the inverse of the Cholesky factor of V.

    Args:
      features: float [rows, units], or [rows, slots, units] if all actions share a group.
      gram: float [groups, units, units].
      moment: float [groups, units].
      ridge: Scalar.
    """
    root = cholesky(gram, ridge)
    columns = tf.transpose(tf.reshape(tf.cast(features, tf.float64), [-1, gram.shape[-1]]))
    vectors = tf.linalg.triangular_solve(root, tf.repeat(columns[tf.newaxis], gram.shape[0], axis=0))
    center = tf.linalg.triangular_solve(root, tf.cast(moment, tf.float64)[..., tf.newaxis])
    return Projected(vectors, tf.squeeze(center, 2), features)


def with_bias(representation: tf.Tensor) -> tf.Tensor:
    """Inputs of the last layer, float32 [..., units], and a 1 for its bias: [..., units + 1]."""
    return tf.concat([representation, tf.ones_like(representation[..., :1])], axis=-1)


@dataclasses.dataclass(frozen=True)
class _Linear(policies.Policy):
    """Policy that depends on sums over the features of chosen actions.

    Attributes:
      width: Factor of the deviations.
      ridge: Inverse of the prior variance, above 0.
      bound: See `Policy`.
      theta_norm: With noise, an assumed bound on the distance between each group's weights and the prior mean.
      noise_delta: Probability that the noise exceeds its share of the width in a round.
      restarts: Whether sums restart at each deployment, because the model trains; False if the model never changes.
      clip_norm: Largest L2 norm of a client's two sums together in a round; None without differential privacy.
      low: With a clip norm, the value to which smaller targets and predictions are clipped.
      high: With a clip norm, the value to which larger targets and predictions are clipped.
    """

    width: float
    ridge: float = 1.0
    bound: float = 1e4
    theta_norm: float = 1.0
    noise_delta: float = 0.01
    restarts: bool = False
    clip_norm: float | None = None
    low: float = 0.0
    high: float = 1.0
    is_checked = False

    @property
    def at_deployment(self) -> str:  # type: ignore[override]
        return policies.WITHIN if self.restarts else policies.ACCUMULATE

    def statistics(self, representation, action, predicted_rewards, target):
        features, predicted = with_bias(representation), tf.gather(predicted_rewards, action, axis=1, batch_dims=1)
        if self.clip_norm is not None:
            target, predicted = (tf.clip_by_value(rewards, self.low, self.high) for rewards in (target, predicted))
        residual = target - predicted
        if features.shape.rank == 3:
            features, groups = tf.gather(features, action, axis=1, batch_dims=1), tf.ones_like(residual)[:, tf.newaxis]
        else:
            groups = tf.one_hot(action, predicted_rewards.shape[1])
        sums = {
            "gram": tf.einsum("ng,ni,nj->gij", groups, features, features),
            "moment": tf.einsum("ng,ni,n->gi", groups, features, residual),
        }
        if self.clip_norm is None:
            return sums
        largest_moment = (self.high - self.low) * tf.reduce_sum(tf.norm(features, axis=1))
        norm = tf.norm([tf.norm(sums["gram"]), largest_moment])
        factor = tf.minimum(1.0, tf.math.divide_no_nan(self.clip_norm, norm))
        is_finite = tf.math.is_finite(norm + tf.reduce_sum(sums["moment"]))  # False if the model has diverged.
        return {name: tf.where(is_finite, factor * each, 0.0) for name, each in sums.items()}

    def regularized(self, statistics) -> tuple[tf.Tensor | float, tf.Tensor | float]:
        """Ridge and width, which are larger if the statistics have noise."""
        if policies.NOISE not in statistics:
            return self.ridge, self.width
        groups, units = statistics["moment"].shape
        noise = tf.cast(statistics[policies.NOISE], tf.float64)
        spectral = noise * (math.sqrt(2 * units) + math.sqrt(2 * math.log(4 * groups / self.noise_delta)))
        offset = noise * (math.sqrt(units) + math.sqrt(2 * math.log(2 * groups / self.noise_delta)))
        bias = self.theta_norm * (tf.sqrt(self.ridge + 3 * spectral) - math.sqrt(self.ridge))
        return self.ridge + 2 * spectral, self.width + bias + offset / tf.sqrt(self.ridge + spectral)

    def projected(self, representation, statistics) -> tuple[Projected, tf.Tensor]:
        """Features of all actions, projected with `project`, and the width."""
        (ridge, width), features = self.regularized(statistics), with_bias(representation)
        return project(features, statistics["gram"], statistics["moment"], ridge), tf.cast(width, tf.float64)

    def served(self, weights, deployed, total):
        if self.restarts:  # The next deployment is that of the model in training, with sums of 0.
            return weights, {name: np.zeros_like(each) for name, each in total.items()}
        root = cholesky(total["gram"], self.regularized(total)[0])
        estimate = tf.linalg.cholesky_solve(root, total["moment"][..., np.newaxis]).numpy()[..., 0].astype(np.float32)
        served = *weights[:-2], weights[-2] + estimate[:, :-1].T, weights[-1] + estimate[:, -1]
        return served, {**total, "moment": np.zeros_like(total["moment"])}


@dataclasses.dataclass(frozen=True)
class LinUcb(_Linear):
    """Chooses the action with the largest upper confidence bound (Li et al. 2010); ties are equally probable."""

    def probabilities(self, predicted_rewards, representation, statistics):
        projected, width = self.projected(representation, statistics)
        estimates = predicted_rewards + projected.products(projected.center)
        return policies.Greedy().probabilities(estimates + tf.cast(width, tf.float32) * projected.deviations())


@dataclasses.dataclass(frozen=True)
class LinTs(_Linear):
    """Chooses the best action for weights sampled from N(estimate, width^2 V^-1) (Agrawal and Goyal 2013).

    Probabilities are the actions' shares among several draws of the weights, mixed with the uniform policy; see
    `policies.FromSamples`. In each draw, the same weights apply to all rows of a client.

    Attributes:
      num_draws: Number of draws.
      floor: Smallest probability of an action.
    """

    num_draws: float = 100
    floor: float = 0.001

    def probabilities(self, predicted_rewards, representation, statistics, key):
        projected, width = self.projected(representation, statistics)

        def draw(key, predicted_rewards):
            noise = tf.random.stateless_normal(tf.shape(projected.center), key, dtype=tf.float64)
            scores = predicted_rewards + projected.products(projected.center + width * noise)
            return tf.argmax(scores, axis=1, output_type=tf.int32)

        return policies.from_samples(draw, self.floor, int(self.num_draws)).probabilities(predicted_rewards, key)
