"""Tests of data.tasks.synthetic."""

import numpy as np
import pytest

from data.tasks import synthetic


def whole(num_clients: int, alpha: float, beta: float, seed: int = 0):
    """Features and labels of each client, training and held-out ones together."""
    parts = synthetic.generate(num_clients, alpha, beta, seed)
    return [
        [np.concatenate(arrays) for arrays in zip(*(part.load(client) for part in parts), strict=True)]
        for client in range(num_clients)
    ]


def test_shapes_dtypes_and_the_split():
    train, held_out = synthetic.generate(30, 1.0, 1.0, 0)
    assert len(train) == len(held_out) == 30
    for client in range(30):
        examples, rest = train.load(client), held_out.load(client)
        assert (examples.features.shape[1], examples.features.dtype) == (60, np.float32)
        assert examples.labels.dtype == np.int32
        total = len(examples.labels) + len(rest.labels)
        assert total >= 50
        assert len(rest.labels) == total // 10
        assert set(examples.labels) <= set(range(10))


def test_sizes_follow_a_lognormal_law():
    sizes = np.array([len(labels) for _, labels in whole(400, 1.0, 1.0)])
    # The logarithm of what exceeds 50, plus the half that rounding down takes, has mean 4 and deviation 2.
    logs = np.log(sizes - 50 + 0.5)
    assert logs.mean() == pytest.approx(4, abs=0.35)
    assert logs.std() == pytest.approx(2, abs=0.25)


@pytest.mark.slow
def test_beta_spreads_the_clients_feature_means():
    def spread(beta):
        means = [features.mean(axis=0) for features, _ in whole(200, 1.0, beta)]
        return np.array([mean.mean() for mean in means]).var()

    # A client's mean over 60 features is B_k, of variance beta, and 60 draws of variance 1.
    assert spread(0.0) == pytest.approx(1 / 60, rel=0.35)
    assert spread(4.0) == pytest.approx(4 + 1 / 60, rel=0.35)


def test_labels_are_those_of_a_linear_model_of_each_client():
    from sklearn.linear_model import LogisticRegression

    features, labels = next(client for client in whole(30, 1.0, 1.0) if 200 < len(client[1]) < 600)
    assert LogisticRegression(C=1e4, max_iter=2000).fit(features, labels).score(features, labels) > 0.99
