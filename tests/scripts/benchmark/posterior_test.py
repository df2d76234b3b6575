"""The whole-round measurement of scripts.benchmark.posterior, on a small model."""

import math

import pytest

from optimization import client_work, models
from scripts.benchmark import measuring, posterior


@pytest.mark.parametrize("name", measuring.ROUND_MODELS)
def test_the_models_sizes_are_those_estimated_before_tensorflow_is_imported(name):
    model = models.cnn(10) if name == "cnn" else models.resnet18((32, 32, 3), 100)
    assert sum(math.prod(shape) for shape in model.shapes.values()) == measuring.ROUND_MODELS[name]


def test_a_round_is_measured(tff_worker):
    seen = []
    work = client_work.LocalSgd(0.01, 20, epochs=1)
    found = posterior.measure_round(models.mlp(50_000, (), 3), work, 7, (50_000,), 3, seen.append)
    (deltas,) = seen
    assert deltas.shape == (7, 150_003)
    assert deltas.any(axis=1).all()
    assert (found["clients"], found["models_mb"]) == (7, 4)
    assert 0 < found["collecting_seconds"] <= found["seconds"]
    # TensorFlow alone is some hundred megabytes in each of the two processes; tests before add theirs.
    assert found["peak_mb_beyond_models"] > 200
