"""The network against NumPy."""

import numpy as np

from bandits.mab_fl import model

RNG = np.random.default_rng(3)
NETWORK = model.BinaryClassifier(5, (4, 3))
FEATURES = RNG.normal(size=(9, 5)).astype(np.float32)


def _random_weights():
    weights = [RNG.normal(size=shape).astype(np.float32) for shape in NETWORK.shapes.values()]
    named = zip(NETWORK.shapes, weights, strict=True)
    return {name: np.abs(value) if "variance" in name else value for name, value in named}


def _by_hand(weights, statistics=None):
    """Log odds and the statistics used: the weights' or the rows'."""
    values, used = FEATURES.astype(np.float64), []
    for layer in range(2):
        values = values @ weights[f"dense_{layer}/kernel"] + weights[f"dense_{layer}/bias"]
        if statistics is None:
            mean, variance = values.mean(axis=0), values.var(axis=0)
        else:
            mean, variance = statistics[2 * layer], statistics[2 * layer + 1]
        used += [mean, variance]
        values = (values - mean) / np.sqrt(variance + 1e-3)
        values = values * weights[f"batch_norm_{layer}/scale"] + weights[f"batch_norm_{layer}/offset"]
        values = np.maximum(values, 0)
    logits = values @ weights["dense_2/kernel"] + weights["dense_2/bias"]
    return logits[:, 1] - logits[:, 0], used


def test_scores_normalize_by_the_statistics_that_the_weights_carry():
    weights = _random_weights()
    carried = [value for name, value in weights.items() if "mean" in name or "variance" in name]
    expected, _ = _by_hand(weights, carried)
    np.testing.assert_allclose(NETWORK.scores(list(weights.values()), FEATURES), expected, rtol=1e-4, atol=1e-5)


def test_training_normalizes_by_the_mini_batch_and_statistics_are_what_it_used():
    weights = _random_weights()
    trained = [value for name, value in weights.items() if name in NETWORK.trained.shapes]
    expected, used = _by_hand(weights)
    logits = NETWORK.trained.forward(trained, FEATURES).numpy()
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], expected, rtol=1e-4, atol=1e-4)
    for found, value in zip(NETWORK.statistics(trained, FEATURES), used, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)


def test_the_default_network_starts_with_normal_kernels_and_normalizations_that_are_the_identity():
    weights = dict(zip(model.BinaryClassifier(153).shapes, model.BinaryClassifier(153).initial_weights(0), strict=True))
    assert sum(name.endswith("kernel") for name in weights) == 4
    assert sum(name.endswith("variance") for name in weights) == 3
    np.testing.assert_allclose(weights["dense_0/kernel"].std(), np.sqrt(2 / 153), rtol=0.03)
    for name, value in (("scale", 1), ("variance", 1), ("offset", 0), ("mean", 0)):
        assert (weights[f"batch_norm_0/{name}"] == value).all()
