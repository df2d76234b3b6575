"""A round of MAB-FL as a TFF process (Lundahl 2021, Algorithm 7, steps 2 to 6).

Who takes part is not in the computation's type: participants are passed as the round's clients, each with its weights
in the averages. So every combination runs through one compiled computation. In a round of Extreme Explore (section
8.3.2) each participant trains once, and the server averages every combination from the same local models.

Choosing the combination (step 1), the reward (step 7) and the decision rule (step 8) are the server's and lie between
two rounds, in `bandits.mab_fl.experiment`.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits.mab_fl import model
from optimization import client_work, models, supervised


class GlobalModel(NamedTuple):
    """The server's state.

    Attributes:
      candidates: The last round's averages, each weight with the combinations as its first axis.
      chosen: int32, which of them is the global model.
    """

    candidates: tuple
    chosen: np.int32


class ParticipantInput(NamedTuple):
    """What one participant brings to a round.

    Attributes:
      features: float32 [rows, features], for training.
      labels: int32 [rows].
      validation_features: float32 [rows, features]; no row at other participants than the target.
      validation_labels: int32 [rows].
      shares: float32 [combinations], its weight in the average of each; 0 where it is not a member.
      key: int32 [2] key of its mini-batches.
    """

    features: np.ndarray
    labels: np.ndarray
    validation_features: np.ndarray
    validation_labels: np.ndarray
    shares: np.ndarray
    key: np.ndarray


class RoundMetrics(NamedTuple):
    """What one round reports.

    Attributes:
      local_auc: float32, of the target's own model after training, on its validation rows (step 4).
      candidate_auc: float32 [combinations], of the averages there (step 6).
      nonfinite_participants: int32, participants whose training diverged; they take part with the model they were sent.
    """

    local_auc: float
    candidate_auc: np.ndarray
    nonfinite_participants: int


def auc(scores: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns the area under the ROC curve: how often a row of class 1 scores above one of class 0, ties half.

    Args:
      scores: float32 [rows].
      labels: int32 [rows], 0 or 1.

    Returns:
      float32 scalar; 0 without rows of both classes.
    """
    negative = tf.sort(tf.boolean_mask(scores, tf.equal(labels, 0)))
    positive = tf.boolean_mask(scores, tf.equal(labels, 1))
    below = tf.searchsorted(negative, positive, side="left") + tf.searchsorted(negative, positive, side="right")
    pairs = tf.size(negative, tf.int64) * tf.size(positive, tf.int64)
    area = tf.math.divide_no_nan(tf.reduce_sum(tf.cast(below, tf.float64)), 2.0 * tf.cast(pairs, tf.float64))
    return tf.cast(area, tf.float32)


@dataclasses.dataclass(frozen=True)
class MabFlProcess:
    """Everything that defines the rounds.

    Attributes:
      classifier: The network.
      work: Local training.
      num_combinations: Combinations averaged in a round: 1, or all of them where the rule may try all.
    """

    classifier: model.BinaryClassifier
    work: client_work.ClientWork
    num_combinations: int

    def initial_state(self, weights: models.Weights) -> GlobalModel:
        """Returns the state whose global model has these weights."""
        copies = tuple(np.repeat(weight[np.newaxis], self.num_combinations, axis=0) for weight in weights)
        return GlobalModel(copies, np.int32(0))

    def build(self) -> tff.templates.IterativeProcess:
        """Returns the process: `next(GlobalModel, participants) -> (GlobalModel, RoundMetrics)`.

        The first combination is the new global model until the caller replaces `chosen`.
        """
        shapes = self.classifier.shapes.values()
        weights_type = tff.to_type(tuple((np.float32, shape) for shape in shapes))
        candidates_type = tff.to_type(tuple((np.float32, (self.num_combinations, *shape)) for shape in shapes))
        rows = tff.TensorType(np.float32, (None, self.classifier.num_features))
        labels = tff.TensorType(np.int32, (None,))
        participant_type = tff.StructWithPythonType(
            [
                ("features", rows),
                ("labels", labels),
                ("validation_features", rows),
                ("validation_labels", labels),
                ("shares", tff.TensorType(np.float32, (self.num_combinations,))),
                ("key", tff.TensorType(np.int32, (2,))),
            ],
            ParticipantInput,
        )
        state_type = tff.StructWithPythonType([("candidates", candidates_type), ("chosen", np.int32)], GlobalModel)

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
            # Shares of a combination sum to one over its members: the sum is their weighted mean.
            candidates = tff.federated_sum(local[0])
            measured = tff.federated_map(measure, (tff.federated_broadcast(candidates), participants))
            metrics = RoundMetrics(*(tff.federated_sum(part) for part in (local[1], measured, local[2])))
            state = GlobalModel(candidates, tff.federated_value(np.int32(0), tff.SERVER))
            return tff.federated_zip(state), tff.federated_zip(metrics)

        return tff.templates.IterativeProcess(initialize, next_round)

    def _train(self, weights, participant: ParticipantInput) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns all weights after local training, the statistics measured anew, and whether it stayed finite."""
        network = self.classifier.trained
        before = weights[: len(network.shapes)]
        batches = {"features": participant.features, "labels": participant.labels}
        update = self.work.build(network, supervised.cross_entropy)(before, batches, participant.key)
        trained = [weight + delta for weight, delta in zip(before, update.delta, strict=True)]
        return trained + self.classifier.statistics(trained, participant.features), update.is_finite

    def _auc(self, weights, participant: ParticipantInput) -> tf.Tensor:
        return auc(self.classifier.scores(weights, participant.validation_features), participant.validation_labels)
