"""A round of MAB-FL as a TFF process (Lundahl 2021, Algorithm 7, steps 2 to 6).

The computation's type does not depend on which participants take part: they are passed as the round's clients, each
with its weights in the averages. Therefore, all combinations use one compiled computation. In a round of Extreme
Explore (section 8.3.2) each participant trains once, and the server averages every combination from the same local
models.

Between rounds, the server chooses the combination (step 1), computes the reward (step 7) and applies the decision rule
(step 8), in `bandits.mab_fl.experiment`.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data import keys
from optimization import client_work, models, supervised

HIDDEN = (64, 32, 16)  # Four linear layers, three batch normalizations.
_NUM_CLASSES = 2
_EPSILON = 1e-3
_Layer = Sequence[tf.Tensor]


@dataclasses.dataclass(frozen=True)
class BinaryClassifier:
    """Two logits from linear layers, with batch normalization and ReLU in between (section 8.5).

    Batch normalization's statistics are part of a model: a participant measures them once, on its training rows with
    its trained weights, and they are sent, averaged and adopted like every other weight. Moving averages are not
    needed, and would lag far behind after a few steps on a hundred rows.

    Attributes:
      num_features: Width of the input.
      hidden: Widths of the hidden layers.
    """

    num_features: int
    hidden: tuple[int, ...] = HIDDEN

    @property
    def trained(self) -> models.Model:
        """The part that SGD trains; its `forward` normalizes with the statistics of the mini-batch."""
        sizes = [self.num_features, *self.hidden, _NUM_CLASSES]
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, (width_in, width_out) in enumerate(itertools.pairwise(sizes)):
            shapes[f"dense_{layer}/kernel"] = (width_in, width_out)
            shapes[f"dense_{layer}/bias"] = (width_out,)
            if layer < len(self.hidden):
                shapes[f"batch_norm_{layer}/scale"] = (width_out,)
                shapes[f"batch_norm_{layer}/offset"] = (width_out,)
        return models.Model(shapes, lambda weights, features: self._run(weights, features)[0])

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all weights: the trained ones, then the statistics."""
        statistics = {}
        for layer, width in enumerate(self.hidden):
            statistics[f"batch_norm_{layer}/mean"] = (width,)
            statistics[f"batch_norm_{layer}/variance"] = (width,)
        return self.trained.shapes | statistics

    def initial_weights(self, seed: int) -> models.Weights:
        """Samples normal kernels of variance 2 / inputs; the normalizations start as the identity."""
        draw = keys.generator(seed, keys.Purpose.WEIGHTS)
        weights = []
        for name, shape in self.shapes.items():
            if name.endswith("kernel"):
                weights.append(draw.normal(0, np.sqrt(2 / shape[0]), shape).astype(np.float32))
            else:
                weights.append(np.full(shape, name.endswith(("scale", "variance")), np.float32))
        return tuple(weights)

    def statistics(self, trained: Sequence[tf.Tensor], features: tf.Tensor) -> list[tf.Tensor]:
        """Mean and variance over rows of each normalization's input, float32 [width], for features [rows, features]."""
        return self._run(trained, features)[1]

    def scores(self, weights: Sequence[tf.Tensor], features: tf.Tensor) -> tf.Tensor:
        """Log odds of class 1, float32 [rows], which rank rows in the same order as the softmax probability.

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
        """Logits, float32 [rows, 2], and the used statistics: `statistics`, or by default those of these rows."""
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


class GlobalModel(NamedTuple):
    """The server's state.

    Attributes:
      candidates: The last round's averages, each weight with the combinations as its first axis.
      chosen: int32, index of the candidate that is the global model.
    """

    candidates: tuple
    chosen: np.int32


class ParticipantInput(NamedTuple):
    """Input of one participant to a round.

    Attributes:
      features: float32 [rows, features], for training.
      labels: int32 [rows].
      validation_features: float32 [rows, features]; empty for all participants but the target.
      validation_labels: int32 [rows].
      shares: float32 [combinations], the participant's weight in each average; 0 where it is not a member.
      key: int32 [2], random key of the mini-batches.
    """

    features: np.ndarray
    labels: np.ndarray
    validation_features: np.ndarray
    validation_labels: np.ndarray
    shares: np.ndarray
    key: np.ndarray


class RoundMetrics(NamedTuple):
    """Measurements of one round.

    Attributes:
      local_auc: float32, AUC of the target's locally trained model on the target's validation rows (step 4).
      candidate_auc: float32 [combinations], AUC of the averages on the same rows (step 6).
      nonfinite_participants: int32, participants whose training diverged. They contribute the weights that they
        received, with statistics measured anew.
    """

    local_auc: float
    candidate_auc: np.ndarray
    nonfinite_participants: int


def auc(scores: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Area under the ROC curve: the probability that class 1 scores above class 0; ties count half.

    Args:
      scores: float32 [rows].
      labels: int32 [rows], 0 or 1.

    Returns:
      float32 scalar; 0 if one of the classes has no rows.
    """
    negative = tf.sort(tf.boolean_mask(scores, tf.equal(labels, 0)))
    positive = tf.boolean_mask(scores, tf.equal(labels, 1))
    below = tf.searchsorted(negative, positive, side="left") + tf.searchsorted(negative, positive, side="right")
    pairs = tf.size(negative, tf.int64) * tf.size(positive, tf.int64)
    area = tf.math.divide_no_nan(tf.reduce_sum(tf.cast(below, tf.float64)), 2.0 * tf.cast(pairs, tf.float64))
    return tf.cast(area, tf.float32)


@dataclasses.dataclass(frozen=True)
class MabFlProcess:
    """Definition of the rounds.

    Attributes:
      classifier: The network.
      work: Local training.
      num_combinations: Number of combinations that a round averages: 1, or all of them for Extreme Explore.
    """

    classifier: BinaryClassifier
    work: client_work.ClientWork
    num_combinations: int

    def initial_state(self, weights: models.Weights) -> GlobalModel:
        """State whose global model has these weights."""
        copies = tuple(np.repeat(weight[np.newaxis], self.num_combinations, axis=0) for weight in weights)
        return GlobalModel(copies, np.int32(0))

    def build(self) -> tff.templates.IterativeProcess:
        """Iterative process: `next(GlobalModel, participants) -> (GlobalModel, RoundMetrics)`.

        The first average is the new global model until the caller replaces `chosen`. `initialize` returns zeros.
        """
        shapes = self.classifier.shapes.values()
        weights_type = tff.to_type(tuple((np.float32, shape) for shape in shapes))
        candidates_type = tff.to_type(tuple((np.float32, (self.num_combinations, *shape)) for shape in shapes))
        examples = [(np.float32, (None, self.classifier.num_features)), (np.int32, (None,))]
        shares, key = (np.float32, (self.num_combinations,)), (np.int32, (2,))
        participant_type = tff.to_type(ParticipantInput._make([*examples, *examples, shares, key]))
        state_type = tff.to_type(GlobalModel._make([candidates_type, np.int32]))

        @tff.tensorflow.computation
        def initial_server():
            zeros = [tf.zeros((self.num_combinations, *shape)) for shape in shapes]
            return GlobalModel(tuple(zeros), tf.constant(0))

        @tff.tensorflow.computation(state_type)
        def global_weights(state):
            return tuple(candidates[state.chosen] for candidates in state.candidates)

        @tff.tensorflow.computation(weights_type, participant_type)
        def train(weights, participant):
            trained, is_finite = self._train(weights, participant)
            contribution = tuple(tf.tensordot(participant.shares, weight, axes=0) for weight in trained)
            return contribution, self._auc(trained, participant), tf.cast(tf.logical_not(is_finite), tf.int32)

        @tff.tensorflow.computation(candidates_type, participant_type)
        def measure(candidates, participant):
            return tf.map_fn(lambda model: self._auc(model, participant), candidates, fn_output_signature=tf.float32)

        @tff.federated_computation
        def initialize():
            return tff.federated_eval(initial_server, tff.SERVER)

        @tff.federated_computation(
            tff.FederatedType(state_type, tff.SERVER), tff.FederatedType(participant_type, tff.CLIENTS)
        )
        def next_round(state, participants):
            weights = tff.federated_broadcast(tff.federated_map(global_weights, state))
            local = tff.federated_map(train, (weights, participants))
            # The shares of a combination's members sum to one, so this sum is a weighted mean.
            candidates = tff.federated_sum(local[0])
            measured = tff.federated_map(measure, (tff.federated_broadcast(candidates), participants))
            metrics = RoundMetrics(*(tff.federated_sum(part) for part in (local[1], measured, local[2])))
            state = GlobalModel(candidates, tff.federated_value(np.int32(0), tff.SERVER))
            return tff.federated_zip(state), tff.federated_zip(metrics)

        return tff.templates.IterativeProcess(initialize, next_round)

    def _train(self, weights, participant: ParticipantInput) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Weights after local training, with statistics measured anew; and whether the update was finite."""
        network = self.classifier.trained
        before = weights[: len(network.shapes)]
        batches = {"features": participant.features, "labels": participant.labels}
        update = self.work.build(network, supervised.cross_entropy)(before, batches, participant.key)
        trained = [weight + delta for weight, delta in zip(before, update.delta, strict=True)]
        return trained + self.classifier.statistics(trained, participant.features), update.is_finite

    def _auc(self, weights, participant: ParticipantInput) -> tf.Tensor:
        return auc(self.classifier.scores(weights, participant.validation_features), participant.validation_labels)
