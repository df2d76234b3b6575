"""Ensembles at the server: FedAG and FedBE (Johansson and Gullbrandson 2022, Algorithms 3 and 4).

A cohort's models are the rows of a matrix, which is processed in chunks of parameters.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from optimization import models as models_lib

_CHUNK = 1 << 12  # Number of parameters that are processed at once.


def chunks(num_parameters: int) -> Iterator[slice]:
    """Yields consecutive slices of the parameters."""
    return (slice(start, start + _CHUNK) for start in range(0, num_parameters, _CHUNK))


class GaussianPosterior(NamedTuple):
    """Independent normal distributions of all parameters (Algorithm 3, lines 3-5).

    Attributes:
      mean: float32 [parameters], the means; FedAG's next model.
      deviation: float32 [parameters], the standard deviations.
    """

    mean: np.ndarray
    deviation: np.ndarray

    def samples(self, num_models: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
        """Samples models and yields them, each float32 [parameters]."""
        for _ in range(num_models):
            yield self.mean + self.deviation * generator.standard_normal(self.mean.size, dtype=np.float32)


def gaussian_posterior(models: np.ndarray) -> GaussianPosterior:
    """Fits a posterior to the models of n clients, float32 [n, parameters]. The variance has the denominator n."""
    mean, deviation = np.empty((2, models.shape[1]), np.float32)
    for chunk in chunks(models.shape[1]):
        models[:, chunk].mean(axis=0, out=mean[chunk])
        models[:, chunk].std(axis=0, out=deviation[chunk])
    return GaussianPosterior(mean, deviation)


def predict(model: models_lib.Model, ensemble: Iterable[np.ndarray], features, batch_size: int = 512) -> np.ndarray:
    """Averages the class probabilities of an ensemble, for FedAG's probabilistic prediction and FedBE's targets.

    Args:
      model: A classifier whose outputs are logits.
      ensemble: Models, each float32 [parameters]; only one at a time is in memory.
      features: Features in the form that `model.forward` takes, with the examples on the first axis.
      batch_size: Number of examples that are processed at once.

    Returns:
      float32 [examples, classes]; rows sum to 1.
    """

    @tf.function(autograph=False)
    def probabilities(vector, batch):
        return tf.nn.softmax(model.forward(models_lib.unflatten(vector, model.shapes), batch))

    batches = list(tf.data.Dataset.from_tensor_slices(features).batch(batch_size))
    total: np.ndarray = np.zeros((), np.float32)
    size = 0
    for vector in ensemble:
        total = total + np.concatenate([probabilities(vector, batch) for batch in batches])
        size += 1
    return total / np.float32(size)


@dataclasses.dataclass(frozen=True)
class Distillation:
    """Distils an ensemble into one model by stochastic weight averaging (SWA; Chen and Chao 2021).

    Johansson and Gullbrandson do not specify the constants of SWA; the defaults here follow Chen and Chao.

    Attributes:
      epochs: Number of passes over the server's data.
      batch_size: Number of examples in a mini-batch.
      high_learning_rate: Step size at the start of each cycle, from which it falls linearly to `low_learning_rate`.
      low_learning_rate: Step size at the end of each cycle, after which the model enters the average.
      cycle: Number of steps in a cycle.
    """

    epochs: int = 20
    batch_size: int = 128
    high_learning_rate: float = 1e-3
    low_learning_rate: float = 4e-4
    cycle: int = 25

    def num_cycles(self, num_examples: int) -> int:
        """Number of complete cycles when training on this number of server examples."""
        return self.epochs * -(-num_examples // self.batch_size) // self.cycle

    def distil(self, model: models_lib.Model, start: np.ndarray, features, targets: np.ndarray, seed) -> np.ndarray:
        """Trains a model on soft labels.

        Args:
          model: A classifier whose outputs are logits.
          start: float32 [parameters], the model before training.
          features: Features in the form that `model.forward` takes, with the examples on the first axis.
          targets: float32 [examples, classes], probabilities.
          seed: int32 [2], random key for shuffling.

        Returns:
          float32 [parameters], average of the models at the end of each cycle; the last model if no cycle is complete.
        """
        features, targets = tf.nest.map_structure(tf.constant, (features, targets))
        variables = [tf.Variable(weight) for weight in models_lib.unflatten(tf.constant(start), model.shapes)]

        @tf.function(autograph=False)
        def step(rows, learning_rate):
            batch = tf.nest.map_structure(lambda values: tf.gather(values, rows), features)
            with tf.GradientTape() as tape:
                logits = model.forward(variables, batch)
                loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(tf.gather(targets, rows), logits))
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(learning_rate * gradient)

        num_examples = targets.shape[0]
        average, num_averaged, position = np.zeros_like(start), 0, 0
        for epoch in range(self.epochs):
            key = tf.random.experimental.stateless_fold_in(seed, epoch)
            order = tf.random.experimental.stateless_shuffle(tf.range(num_examples), key)
            for first in range(0, num_examples, self.batch_size):
                share = (position % self.cycle) / max(1, self.cycle - 1)
                rate = (1 - share) * self.high_learning_rate + share * self.low_learning_rate
                step(order[first : first + self.batch_size], tf.constant(rate, tf.float32))
                position += 1
                if position % self.cycle == 0:
                    num_averaged += 1
                    average += (models_lib.flatten(variables).numpy() - average) / num_averaged
        return average if num_averaged else models_lib.flatten(variables).numpy()


def fedbe(
    model: models_lib.Model,
    models: np.ndarray,
    features,
    num_samples: int,
    distillation: Distillation,
    generator: np.random.Generator,
) -> np.ndarray:
    """Distils the clients' models, their mean and samples of their posterior into one model (Algorithm 4).

    Args:
      model: A classifier whose outputs are logits.
      models: Models of the clients, float32 [clients, parameters].
      features: The server's unlabelled examples, in the form that `model.forward` takes.
      num_samples: Number of models sampled from the posterior.
      distillation: Hyperparameters of the distillation.
      generator: Random generator for the samples and for the random key of the shuffles.

    Returns:
      float32 [parameters], the distilled model.
    """
    posterior = gaussian_posterior(models)
    ensemble = itertools.chain([posterior.mean], posterior.samples(num_samples, generator), models)
    targets = predict(model, ensemble, features)
    key = generator.integers(np.iinfo(np.int32).max, size=2, dtype=np.int32)
    return distillation.distil(model, posterior.mean, features, targets, key)
