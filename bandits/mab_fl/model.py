"""The network of MAB-FL: linear layers with batch normalization and ReLU between (Lundahl 2021, section 8.5).

Batch normalization's statistics are part of a model: a participant measures them once, on its training rows with its
trained weights, and they are sent, averaged and adopted like every other weight. No moving average, which a few steps
on a hundred rows would leave far behind, is needed.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from data import keys
from optimization import models

HIDDEN = (64, 32, 16)  # Four linear layers, three batch normalizations.
_NUM_CLASSES = 2
_EPSILON = 1e-3
_Layer = Sequence[tf.Tensor]


@dataclasses.dataclass(frozen=True)
class BinaryClassifier:
    """Two logits from linear layers; with no hidden layer, logistic regression.

    Attributes:
      num_features: Width of the input.
      hidden: Widths of the hidden layers.
    """

    num_features: int
    hidden: tuple[int, ...] = HIDDEN

    @property
    def trained(self) -> models.Model:
        """The part that SGD changes; its `forward` normalizes by the mini-batch."""
        sizes = [self.num_features, *self.hidden, _NUM_CLASSES]
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, (width_in, width_out) in enumerate(itertools.pairwise(sizes)):
            shapes[f"dense_{layer}/kernel"] = (width_in, width_out)
            shapes[f"dense_{layer}/bias"] = (width_out,)
            if layer < len(self.hidden):
                shapes[f"batch_norm_{layer}/scale"] = (width_out,)
                shapes[f"batch_norm_{layer}/offset"] = (width_out,)
        flops = sum(2 * a * b for a, b in itertools.pairwise(sizes))
        return models.Model(shapes, lambda weights, features: self._run(weights, features)[0], flops)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all weights: the trained ones, then the statistics."""
        statistics = {}
        for layer, width in enumerate(self.hidden):
            statistics[f"batch_norm_{layer}/mean"] = (width,)
            statistics[f"batch_norm_{layer}/variance"] = (width,)
        return self.trained.shapes | statistics

    def initial_weights(self, seed: int) -> models.Weights:
        """Draws normal kernels of variance 2 / inputs; the normalizations start as the identity."""
        draw = keys.generator(seed, keys.Purpose.WEIGHTS)
        weights = []
        for name, shape in self.shapes.items():
            if name.endswith("kernel"):
                weights.append(draw.normal(0, np.sqrt(2 / shape[0]), shape).astype(np.float32))
            else:
                weights.append(np.full(shape, name.endswith(("scale", "variance")), np.float32))
        return tuple(weights)

    def statistics(self, trained: Sequence[tf.Tensor], features: tf.Tensor) -> list[tf.Tensor]:
        """Mean and variance before each normalization, over these float32 [rows, features]."""
        return self._run(trained, features)[1]

    def scores(self, weights: Sequence[tf.Tensor], features: tf.Tensor) -> tf.Tensor:
        """Log odds of class 1, float32 [rows], which rank rows as softmax's probability does.

        Args:
          weights: All weights, in the order of `shapes`.
          features: float32 [rows, features].
        """
        split = len(weights) - 2 * len(self.hidden)
        logits, _ = self._run(weights[:split], features, weights[split:])
        return logits[:, 1] - logits[:, 0]

    def _run(
        self, trained: _Layer, features: tf.Tensor, statistics: _Layer | None = None
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Logits and the statistics used: the argument, or else those of these rows."""
        values, used, weights = features, [], iter(trained)
        for layer in range(len(self.hidden)):
            values = tf.nn.bias_add(values @ next(weights), next(weights))
            if statistics is None:
                used += tf.nn.moments(values, axes=[0])
            else:
                used += statistics[2 * layer : 2 * layer + 2]
            mean, variance = used[-2:]
            scale, offset = next(weights), next(weights)
            values = tf.nn.relu(tf.nn.batch_normalization(values, mean, variance, offset, scale, _EPSILON))
        return tf.nn.bias_add(values @ next(weights), next(weights)), used
