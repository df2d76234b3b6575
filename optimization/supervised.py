"""Federated training on labels: what a client brings, and its loss; `fed_avg` has the round."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data import clients, keys
from optimization import client_work, fed_avg, models


class ClientInput(NamedTuple):
    """What one client brings to a round.

    Attributes:
      features: [examples, ...], or bags of words.
      labels: As the process' `label_spec`.
      key: int32 [2], key of its mini-batches.
      position: int32, its place in the cohort, from 0.
      weight: float32, its weight in a weighted aggregation.
      learning_rate: float32, of its training.
    """

    features: clients.Features
    labels: np.ndarray
    key: np.ndarray
    position: np.int32
    weight: np.float32
    learning_rate: np.float32


def inputs(
    cohort: Sequence[clients.Examples],
    ids: np.ndarray,
    seed: int,
    round_num: int,
    learning_rate: float,
    *,
    weighs_examples: bool = True,
) -> list[ClientInput]:
    """Returns what the clients of a cohort bring to a round.

    Args:
      cohort: Their examples, features as the model takes them.
      ids: int [clients], positions in the population, which key the mini-batches.
      seed: Seed of the run.
      round_num: The round, from 1.
      learning_rate: Of their training.
      weighs_examples: Whether a client weighs its number of examples; else 1, or 0 without any.
    """
    return [
        ClientInput(
            features=examples.features,
            labels=examples.labels,
            key=keys.tensorflow_key(seed, keys.Purpose.TRAINING, round_num, int(client)),
            position=np.int32(position),
            weight=np.float32(len(examples.labels) if weighs_examples else bool(len(examples.labels))),
            learning_rate=np.float32(learning_rate),
        )
        for position, (client, examples) in enumerate(zip(ids, cohort, strict=True))
    ]


def example_losses(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns each example's cross entropy.

    Args:
      logits: float32 [examples, outputs].
      labels: int32 [examples] classes, or float32 [examples, outputs] of several labels an example, which share the
        probability in proportion; an example without any label has the loss 0.

    Returns:
      float32 [examples].
    """
    if labels.dtype.is_integer:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    targets = tf.math.divide_no_nan(labels, tf.reduce_sum(labels, axis=1, keepdims=True))
    return tf.nn.softmax_cross_entropy_with_logits(targets, logits)


def cross_entropy(logits: tf.Tensor, batch: client_work.Batch) -> tf.Tensor:
    """Returns the scalar mean of `example_losses`, given the mini-batch's `labels`."""
    return tf.reduce_mean(example_losses(logits, batch["labels"]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SupervisedProcess(fed_avg.Process):
    """Rounds in which each client trains on its labels, and brings its weight and learning rate."""

    loss: client_work.Loss = cross_entropy

    @property
    def client_type(self) -> tff.Type:
        """TFF type of a `ClientInput`."""
        return tff.StructWithPythonType(
            [
                ("features", tff.types.tensorflow_to_type(self.feature_spec)),
                ("labels", tff.types.tensorflow_to_type(self.label_spec)),
                ("key", tff.TensorType(np.int32, (2,))),
                ("position", tff.TensorType(np.int32)),
                ("weight", tff.TensorType(np.float32)),
                ("learning_rate", tff.TensorType(np.float32)),
            ],
            ClientInput,
        )

    def log(self, deployed: tuple, client: ClientInput) -> fed_avg.Log:
        examples = {"features": models.dense(client.features), "labels": client.labels}
        return fed_avg.Log(examples, tf.shape(client.labels)[0], client.weight, client.key, client.learning_rate)
