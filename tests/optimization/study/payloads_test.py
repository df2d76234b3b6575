"""Tests of optimization.study.payloads: bytes by hand, and against serialized values."""

import math

import numpy as np
import pytest
import tensorflow as tf

from data import text
from optimization import models
from optimization.options import Aggregation
from optimization.study import metrics, payloads


@pytest.mark.parametrize(
    "model",
    [models.mlp(784, (200,), 62), models.cnn(62), models.bag_of_words(10_000, 50)],
    ids=["mlp", "cnn", "bag_of_words"],
)
def test_a_model_s_bytes_are_those_of_its_serialized_weights(model):
    weights = model.initial_weights(0)
    serialized = sum(len(tf.io.serialize_tensor(weight).numpy()) for weight in weights)
    shapes = list(model.shapes.values())
    assert sum(map(math.prod, shapes)) >= 100_000
    assert payloads.of_model(shapes) == pytest.approx(serialized, rel=0.01)
    assert payloads.of_update(shapes, Aggregation()) == payloads.of_model(shapes)


@pytest.mark.parametrize(("shapes", "expected"), [([(9,), (8,)], 80), ([(16,)], 40), ([(1,)], 3)])
def test_distributed_noise_sends_padded_coordinates_of_20_bits(shapes, expected):
    assert payloads.of_update(shapes, Aggregation("ddp")) == expected


def test_a_log_has_contexts_and_three_numbers_a_row():
    assert payloads.of_log(np.zeros((5, 3), np.float32)) == 5 * 3 * 4 + 5 * 12
    words = text.Bags(np.zeros(7, np.int32), np.zeros(7, np.float32), np.array([0, 3, 7]))
    assert payloads.of_log(words) == 7 * 8 + 3 * 8 + 2 * 12


def test_drop_outs_receive_and_polled_clients_report():
    assert payloads.row(100, 60, 5, 3) == {metrics.BYTES_DOWN: 500, metrics.BYTES_UP: 180}
    # Of the clients 1, 2 and 4, the first two were polled, as was 3; 2 stands twice in the cohort.
    found = payloads.of_selected(100, 60, np.array([2, 1, 2, 4]), np.array([1, 2, 3]))
    assert found == {metrics.BYTES_DOWN: 400, metrics.BYTES_UP: 3 * 60 + 3 * 4}
