"""What the rest of the program asks of the runtime."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from optimization.runtime import rounds


class _Metrics(NamedTuple):
    total: int
    mean: float


@pytest.fixture(scope="module")
def process(tff_worker):
    clients = tff.FederatedType(np.int32, tff.CLIENTS)

    @tff.tensorflow.computation(np.int32, np.int32)
    def add(state, value):
        return state + value

    @tff.tensorflow.computation(np.int32)
    def as_float(value):
        return tf.cast(value, tf.float32)

    @tff.federated_computation
    def initialize():
        return tff.federated_value(3, tff.SERVER)

    @tff.federated_computation(tff.FederatedType(np.int32, tff.SERVER), clients)
    def next_round(state, clients):
        shifted = tff.federated_map(add, (tff.federated_broadcast(state), clients))
        total = tff.federated_sum(shifted)
        metrics = _Metrics(total, tff.federated_mean(tff.federated_map(as_float, shifted)))
        return tff.federated_map(add, (state, total)), tff.federated_zip(metrics)

    return tff.templates.IterativeProcess(initialize, next_round)


def test_a_fused_round_computes_what_the_round_does(process):
    fused = rounds.fused(process)
    state, metrics = fused.next(state=fused.initialize(), clients=[1, 2, 6])
    assert (state, metrics) == (3 + 18, _Metrics(18, 6.0))
    assert fused.next(state, [0])[0] == 42


def test_types_stay_as_they_were(process):
    assert rounds.fused(process).next.type_signature.is_identical_to(process.next.type_signature)
    assert isinstance(rounds.fused(process).next(3, [1])[1], _Metrics)
