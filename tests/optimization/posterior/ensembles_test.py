import numpy as np
import pytest

from optimization import models
from optimization.posterior import ensembles

LINEAR = models.mlp(2, (), 3)  # 6 weights and 3 biases.


def _clients() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(5, 9)).astype(np.float32)


def _probabilities(vector: np.ndarray, features: np.ndarray) -> np.ndarray:
    logits = features @ vector[:6].reshape(2, 3) + vector[6:]
    odds = np.exp(logits)
    return odds / odds.sum(axis=1, keepdims=True)


def test_the_posterior_has_the_clients_mean_and_population_deviation():
    posterior = ensembles.gaussian_posterior(np.array([[1.0, 5.0], [3.0, 5.0]], np.float32))
    np.testing.assert_array_equal(posterior.mean, [2, 5])
    np.testing.assert_array_equal(posterior.deviation, [1, 0])


def test_predictions_average_the_models_probabilities():
    clients, features = _clients(), np.random.default_rng(2).normal(size=(7, 2)).astype(np.float32)
    found = ensembles.predict(LINEAR, clients, features, batch_size=3)
    expected = np.mean([_probabilities(client, features) for client in clients], axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("epochs", [1, 5])
def test_distillation_averages_the_ends_of_the_cycles_or_gives_the_last_model_if_none_ends(epochs):
    features = np.array([[1.0, 0.0]], np.float32)
    targets, vector = np.array([[0.7, 0.2, 0.1]], np.float32), np.zeros(9, np.float32)
    distillation = ensembles.Distillation(epochs, 1, high_learning_rate=0.5, low_learning_rate=0.1, cycle=2)
    found = distillation.distil(LINEAR, vector, features, targets, np.array([0, 1], np.int32))
    ends = []
    for position, rate in enumerate([0.5, 0.1, 0.5, 0.1, 0.5][:epochs]):
        slope = _probabilities(vector, features)[0] - targets[0]
        vector = vector - rate * np.concatenate([slope, np.zeros(3), slope])
        if position % 2:
            ends.append(vector)
    np.testing.assert_allclose(found, np.mean(ends or [vector], axis=0), rtol=1e-5)


@pytest.mark.slow
def test_fedbe_comes_close_to_the_ensembles_predictions():
    clients, features = _clients(), np.random.default_rng(2).normal(size=(200, 2)).astype(np.float32)
    distillation = ensembles.Distillation(60, 20, high_learning_rate=1.0, low_learning_rate=0.2, cycle=10)
    found = ensembles.fedbe(LINEAR, clients, features, 10, distillation, np.random.default_rng(3))
    posterior = ensembles.gaussian_posterior(clients)
    ensemble = [posterior.mean, *posterior.samples(10, np.random.default_rng(3)), *clients]
    targets = ensembles.predict(LINEAR, ensemble, features)

    def excess(vector: np.ndarray) -> float:
        """Mean Kullback-Leibler divergence from the targets."""
        return float((targets * np.log(targets / _probabilities(vector, features))).sum(axis=1).mean())

    assert excess(found) < 0.3 * excess(posterior.mean)
