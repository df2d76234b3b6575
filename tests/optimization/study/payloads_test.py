import math

import numpy as np
import psutil
import pytest
import tensorflow as tf

from data import memory as machine
from data import text
from data.errors import UsageError
from optimization import models
from optimization.options import Aggregation
from optimization.study import metrics, payloads


@pytest.mark.parametrize("model", [models.mlp(784, (200,), 62), models.cnn(62), models.bag_of_words(10_000, 50)])
def test_a_model_s_bytes_are_those_of_its_serialized_weights(model):
    serialized = sum(len(tf.io.serialize_tensor(weight).numpy()) for weight in model.initial_weights(0))
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


PEAKS = [  # Measured bytes of the program and its worker: model, cohort, FedKP, peak.
    (36_900_000, 2, False, 3.98e9),
    (4_826_360, 20, True, 1.56e9),
    (4_826_360, 100, True, 2.49e9),
    (40, 2, False, 0.88e9),
]


@pytest.mark.parametrize(("model", "cohort", "keeps_models", "peak"), PEAKS)
def test_no_run_that_was_measured_would_be_refused_with_a_quarter_less_memory(model, cohort, keeps_models, peak):
    assert payloads.needed_bytes(model, cohort, keeps_models=keeps_models) < 0.75 * peak
    assert payloads.usual_bytes(model, cohort, keeps_models=keeps_models) == pytest.approx(peak, rel=0.2)


def test_a_run_is_refused_with_the_figure_and_the_remedy(monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: 4_000_000_000)
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [psutil.Process()])
    payloads.check_memory(4_000_000, 10, keeps_models=False)
    with pytest.raises(UsageError, match=r"400 MB needs at least 10\.5 GB .* usually 34\.9 GB, .* a larger machine"):
        payloads.check_memory(400_000_000, 10, keeps_models=False)
    payloads.check_memory(40_000_000, 8, keeps_models=True)
    # 200 clients with 1.9 copies of 40 MB, and 85 copies beside them, of which 25 are the least.
    with pytest.raises(UsageError, match=r"cohort of 200, .* 10\.7 GB .* usually 19\.5 GB.* fewer --clients"):
        payloads.check_memory(40_000_000, 200, keeps_models=True)


def test_with_remote_workers_the_program_alone_needs_memory(monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: 6_000_000_000)
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [])
    payloads.check_memory(400_000_000, 10, keeps_models=False)
