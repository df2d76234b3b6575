"""Federated training on labels: the clients' inputs and loss. The rounds themselves are in `fed_avg`."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data import clients, keys
from optimization import client_work, fed_avg, models


class ClientInput(NamedTuple):
    """Input of one client to a round.

    Attributes:
      features: [examples, ...], or bags of words.
      labels: Labels, as described by the `label_spec` of the process.
      key: int32 [2], random key of the client's mini-batches.
      position: int32, the client's place in the cohort, starting from 0.
      weight: float32, the client's weight in a weighted aggregation.
      learning_rate: float32, learning rate of the client's training.
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
    """Inputs to a round for the clients of a cohort.

    Args:
      cohort: Examples of each client, with normalized features.
      ids: int [clients], the clients' indices in the population. The random keys of mini-batches depend on them.
      seed: Seed of the run.
      round_num: Number of the round, starting from 1.
      learning_rate: Client learning rate.
      weighs_examples: Whether a client's weight is its number of examples; otherwise it is 1, or 0 without examples.
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
    """Cross entropy of each example.

    Args:
      logits: float32 [examples, outputs].
      labels: int32 [examples] classes, or float32 [examples, outputs] if examples have several labels. The target
        probabilities are then proportional to the labels. An example without labels has a loss of 0.

    Returns:
      float32 [examples].
    """
    if labels.dtype.is_integer:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    targets = tf.math.divide_no_nan(labels, tf.reduce_sum(labels, axis=1, keepdims=True))
    return tf.nn.softmax_cross_entropy_with_logits(targets, logits)


def cross_entropy(logits: tf.Tensor, batch: client_work.Batch) -> tf.Tensor:
    """Mean of `example_losses` on the mini-batch's `labels`, a scalar."""
    return tf.reduce_mean(example_losses(logits, batch["labels"]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SupervisedProcess(fed_avg.Process):
    """Rounds in which each client trains on its labels, with its weight and learning rate."""

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
