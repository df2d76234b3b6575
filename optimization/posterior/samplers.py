"""A client's training as a chain of posterior samples (iterate averaging, IASG), and FedPA's update from the chain.

See Johansson and Gullbrandson 2022, Algorithms 5 and 6, and Mandt et al. 2017; for FedPA's shrinkage covariance, see
Al-Shedivat et al. 2021, section 4.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from optimization import client_work, models


def inverse_times_mean(samples: tf.Tensor, shrinkage: float) -> tf.Tensor:
    """Applies the inverse of the samples' covariance to their mean, in O(samples^2 parameters).

    The covariance of l samples is rho_l I + (1 - rho_l) S, where S is the sample covariance and
    rho_l = 1 / (1 + (l - 1) shrinkage). With the centred samples C, it equals rho_l (I + shrinkage C'C). By the matrix
    inversion lemma, only I + shrinkage CC', [samples, samples], needs to be inverted. The result and the cost are those
    of Al-Shedivat et al.'s recursion over samples, but with matrix products. The eigenvalues of that matrix are at
    least 1, even if S is singular, so the result is finite if and only if the samples are.

    Args:
      samples: float32 [samples, parameters], models minus the round's model.
      shrinkage: Shrinkage, at least 0. With 0, the covariance is the identity, so the result is the mean.

    Returns:
      float32 [parameters], the client's delta.
    """
    count, mean = tf.shape(samples)[0], tf.reduce_mean(samples, axis=0)
    centred = samples - mean
    gram = tf.cast(tf.matmul(centred, centred, transpose_b=True), tf.float64)
    projections = tf.cast(tf.linalg.matvec(centred, mean), tf.float64)
    # The decomposition raises an error for a matrix that is not finite.
    gram = tf.where(tf.math.is_finite(tf.reduce_sum(gram)), gram, 0.0)
    eigenvalues, eigenvectors = tf.linalg.eigh(gram)
    shares = shrinkage / (1 + shrinkage * tf.maximum(eigenvalues, 0.0))
    along = shares * tf.linalg.matvec(eigenvectors, projections, transpose_a=True)
    coefficients = tf.cast(tf.linalg.matvec(eigenvectors, along), tf.float32)
    solution = mean - tf.linalg.matvec(centred, coefficients, transpose_a=True)
    return (1 + shrinkage * tf.cast(count - 1, tf.float32)) * solution


@dataclasses.dataclass(frozen=True)
class ChainSgd:
    """A client's training as a chain of samples, each of which averages the models of several SGD steps.

    Attributes:
      sgd: Options of the steps, with `epochs` and not `steps`.
      steps_per_sample: Number of steps over which a sample is averaged, K in Algorithm 6; 0 for one epoch. The last
        sample also averages the remaining steps.
      shrinkage: Shrinkage of the samples' covariance; FedPA applies its inverse to their mean (Algorithm 5).
        With 0, the update is their mean.
    """

    sgd: client_work.LocalSgd
    steps_per_sample: int = 0
    shrinkage: float = 0.0

    def examples_trained(self, num_examples: tf.Tensor) -> tf.Tensor:
        return self.sgd.examples_trained(num_examples)

    def build(self, model: models.Model, loss: client_work.Loss) -> Callable[..., client_work.ClientUpdate]:
        """Builds the training function, which always uses the learning rate of `sgd`; see `ClientWork.build`."""
        run = self.build_chain(model, loss)

        def train(weights, examples, key, learning_rate=None) -> client_work.ClientUpdate:
            samples, loss_sum, deviation = run(weights, examples, key)
            delta = inverse_times_mean(samples, self.shrinkage)
            is_finite = client_work.has_finite_norm([delta])
            parts = models.unflatten(tf.where(is_finite, delta, 0.0), model.shapes)
            return client_work.ClientUpdate(parts, loss_sum, is_finite, deviation)

        return train

    def build_chain(self, model: models.Model, loss: client_work.Loss) -> Callable[..., tuple]:
        """Builds the function that samples a client's chain; see `client_work.ClientWork.build`.

        Returns:
          (weights, examples, key) -> (samples, `loss_sum` and `loss_deviation` of `ClientUpdate`). Each row of samples,
          float32 [samples, parameters], is an average of consecutive models, minus the model before training.
        """
        sgd, walk = self.sgd, self.sgd.build_walk(model, loss)
        size = sum(math.prod(shape) for shape in model.shapes.values())
        samples = tf.Variable(tf.zeros([0, size]), shape=[None, size], trainable=False)

        @tf.function(autograph=False)
        def run(weights: Sequence[tf.Tensor], examples: client_work.Batch, key: tf.Tensor):
            num_examples = tf.shape(tf.nest.flatten(examples)[0])[0]
            epoch_steps = -(-num_examples // sgd.batch_size)
            num_steps = sgd.epochs * epoch_steps
            sample_steps = tf.maximum(self.steps_per_sample or epoch_steps, 1)
            num_samples = tf.maximum(num_steps // sample_steps, 1)
            samples.assign(tf.zeros([num_samples, size]))
            start = models.flatten(weights)

            def add_to_sample(variables: list[tf.Variable], position: tf.Tensor) -> None:
                sample = tf.minimum(position // sample_steps, num_samples - 1)
                last = num_steps - (num_samples - 1) * sample_steps  # Number of steps in the last sample.
                count = tf.cast(tf.where(sample == num_samples - 1, last, sample_steps), tf.float32)
                update = (models.flatten(variables) - start) / count
                tf.raw_ops.ResourceScatterAdd(resource=samples.handle, indices=sample, updates=update)

            # A client without examples takes no step, and its single sample is the round's model.
            _, loss_sum, deviation = walk(weights, examples, key, on_step=add_to_sample)
            # A plain read would copy the variable, because it was changed row by row.
            return samples.read_value_no_copy(), loss_sum, deviation

        return run
