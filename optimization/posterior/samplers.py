"""A client's training as a chain of posterior samples: IASG and SGLD.

Johansson and Gullbrandson 2022, Algorithm 6 and eq. 2.16; Mandt et al. 2017; Welling and Teh 2011.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from optimization import client_work, models
from optimization.posterior import covariance, vectors

_NOISE = -1  # Folded into a client's key; the shuffles fold in epochs from 0 on.


class Chain(NamedTuple):
    """What a client's training passed through.

    Attributes:
      samples: float32 [samples, parameters], averages of consecutive models, minus the model before training.
      last: float32 [parameters], the model after training minus that before.
      loss_sum: As in `client_work.ClientUpdate`.
      loss_deviation: Likewise.
    """

    samples: tf.Tensor
    last: tf.Tensor
    loss_sum: tf.Tensor
    loss_deviation: tf.Tensor


@dataclasses.dataclass(frozen=True)
class ChainSgd:
    """SGD with the mini-batches of `client_work.LocalSgd`, sampled: each sample is the average of some steps' models.

    Attributes:
      learning_rate: Step size for the mean loss of a mini-batch.
      batch_size: Examples of a mini-batch.
      epochs: Passes over the cache.
      momentum: Momentum of the gradients (eq. 2.3).
      steps_per_sample: Steps that a sample averages, K of Algorithm 6; 0 for those of an epoch. The last sample takes
        also the steps left over.
      langevin: Whether each step adds Gaussian noise (SGLD). The negative log posterior of n examples is n times their
        mean loss, so these are the steps of eq. 2.16 for eta = learning_rate / n, and the noise's variance is
        2 learning_rate / n; with momentum, 1 - momentum times that (Chen et al. 2014, eq. 15).
    """

    learning_rate: float
    batch_size: int
    epochs: int
    momentum: float = 0.0
    steps_per_sample: int = 0
    langevin: bool = False

    def build(self, model: models.Model, loss: client_work.Loss) -> Callable[..., Chain]:
        """Returns the function (weights, cache, key) -> `Chain`; see `client_work.LocalSgd.build`."""
        shapes = model.shapes.values()
        size = sum(math.prod(shape) for shape in shapes)
        variables = [tf.Variable(tf.zeros(shape), trainable=True) for shape in shapes]
        velocities = [tf.Variable(tf.zeros(shape), trainable=False) for shape in shapes]
        totals = [tf.Variable(tf.zeros(shape), trainable=False) for shape in shapes]

        def step(batch: client_work.Batch, num_examples: tf.Tensor, noise_key: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                value = loss(model.forward(variables, batch["features"]), batch)
            gradients = tape.gradient(value, variables)
            if self.langevin:
                # Divided by the step size, which multiplies it again.
                scale = tf.sqrt(2 * (1 - self.momentum) / (self.learning_rate * tf.cast(num_examples, tf.float32)))
                noise = vectors.unflatten(scale * tf.random.stateless_normal([size], noise_key), model.shapes)
                gradients = [gradient + one for gradient, one in zip(gradients, noise, strict=True)]
            for variable, velocity, gradient in zip(variables, velocities, gradients, strict=True):
                tf.raw_ops.ResourceApplyMomentum(
                    var=variable.handle,
                    accum=velocity.handle,
                    lr=self.learning_rate,
                    grad=tf.convert_to_tensor(gradient),
                    momentum=self.momentum,
                )
            return value

        @tf.function
        def run(weights: Sequence[tf.Tensor], cache: client_work.Batch, key: tf.Tensor) -> Chain:
            for variable, velocity, weight in zip(variables, velocities, weights, strict=True):
                variable.assign(weight)
                velocity.assign(tf.zeros_like(weight))
            num_examples = tf.shape(tf.nest.flatten(cache)[0])[0]
            epoch_steps = -(-num_examples // self.batch_size)
            num_steps = self.epochs * epoch_steps
            sample_steps = tf.maximum(self.steps_per_sample or epoch_steps, 1)
            num_samples = tf.maximum(num_steps // sample_steps, 1)
            samples = tf.TensorArray(tf.float32, num_samples, element_shape=[size])
            noise_key = tf.random.experimental.stateless_fold_in(key, _NOISE)
            losses, loss_sum = tf.TensorArray(tf.float32, num_steps, element_shape=[]), tf.constant(0.0)
            for sample in tf.range(num_samples):
                for total in totals:
                    total.assign(tf.zeros_like(total))
                first = sample * sample_steps
                end = tf.where(sample == num_samples - 1, num_steps, first + sample_steps)
                for position in tf.range(first, end):
                    # Drawn anew in every step, which costs little and keeps the loop's state small.
                    epoch_key = tf.random.experimental.stateless_fold_in(key, position // epoch_steps)
                    order = tf.random.experimental.stateless_shuffle(tf.range(num_examples), epoch_key)
                    start = position % epoch_steps * self.batch_size
                    rows = order[start : start + self.batch_size]
                    batch = tf.nest.map_structure(lambda values, rows=rows: tf.gather(values, rows), dict(cache))
                    step_key = tf.random.experimental.stateless_fold_in(noise_key, position)
                    value = step(batch, num_examples, step_key)
                    losses = losses.write(position, value)
                    loss_sum += value * tf.cast(tf.size(rows), tf.float32)
                    for total, variable, weight in zip(totals, variables, weights, strict=True):
                        total.assign_add(variable - weight)
                # A client without examples makes no step, and its one sample is the model it was given.
                average = vectors.flatten(totals) / tf.cast(tf.maximum(end - first, 1), tf.float32)
                samples = samples.write(sample, average)
            last = vectors.flatten([variable - weight for variable, weight in zip(variables, weights, strict=True)])
            deviation = tf.cond(num_steps > 0, lambda: tf.math.reduce_std(losses.stack()), lambda: tf.constant(0.0))
            return Chain(samples.stack(), last, loss_sum, deviation)

        return run


def sgd_update(chain: Chain, shapes) -> client_work.ClientUpdate:
    """Returns plain SGD's update: the last model. FedPA and SGLD send it in their burn-in rounds."""
    return _update(chain.last, chain, shapes)


def sgld_update(chain: Chain, shapes) -> client_work.ClientUpdate:
    """Returns the average of the chain's samples."""
    return _update(tf.reduce_mean(chain.samples, axis=0), chain, shapes)


def fedpa_update(chain: Chain, shapes, shrinkage: float) -> client_work.ClientUpdate:
    """Returns the step towards the samples' mean, multiplied by their inverse covariance (Algorithm 5)."""
    return _update(covariance.inverse_times_mean(chain.samples, shrinkage), chain, shapes)


def _update(delta: tf.Tensor, chain: Chain, shapes) -> client_work.ClientUpdate:
    is_finite = tf.math.is_finite(tf.reduce_sum(delta))
    delta = tf.where(is_finite, delta, 0.0)
    return client_work.ClientUpdate(
        delta=vectors.unflatten(delta, shapes),
        loss_sum=chain.loss_sum,
        is_finite=is_finite,
        loss_deviation=chain.loss_deviation,
    )
