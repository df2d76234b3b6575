import numpy as np
import pytest

from bandits.theory import environments, federated, oracles
from optimization import client_work


def _samples(heterogeneity, runs=2, clients=4):
    environment = environments.LinearEnvironment(environments.fan(3).coefficients, clients, heterogeneity)
    samples = federated.clients_samples(environment, 30, runs, np.random.default_rng(0))
    return samples, oracles.Moments.of(*samples, 3)


def test_averaging_equals_the_training_that_studies_play():
    samples, moments = _samples(1.0)
    averaged = federated.Averaging(6, 3, 0.2)(moments, np.zeros((2, 3, 3)))
    fit = federated.Trained((2, 6), client_work.LocalSgd(0.2, 30, epochs=3)).build(3, 3)
    for run in range(2):
        found = fit(*(part[run] for part in samples), seed=1)
        np.testing.assert_allclose(found[1], averaged[run], atol=1e-6)
        two = federated.Averaging(2, 3, 0.2)(moments, np.zeros((2, 3, 3)))
        np.testing.assert_allclose(found[0], two[run], atol=1e-6)


def test_with_one_local_step_averaging_is_gradient_descent_on_all_samples():
    (features, actions, rewards), moments = _samples(1.0, runs=1)
    found = federated.Averaging(1, 1, 0.1)(moments, np.zeros((1, 3, 3)))[0]
    features, actions, rewards = features.reshape(-1, 3), actions.ravel(), rewards.ravel()
    step = np.zeros((3, 3))
    for feature, action, reward in zip(features, actions, rewards, strict=True):
        step[:, action] += 0.1 * 2 * reward * feature / len(rewards)
    np.testing.assert_allclose(found, step)


def test_one_local_step_ends_at_the_exact_fit_however_clients_differ_and_several_do_not():
    for heterogeneity in (0.0, 1.0):
        _, moments = _samples(heterogeneity)
        start = np.zeros((2, 3, 3))
        assert federated.fed_opt(moments, federated.Averaging(5000, 1, 0.2)(moments, start)) == pytest.approx(
            0, abs=1e-9
        )
        assert (federated.fed_opt(moments, federated.Averaging(5000, 20, 0.2)(moments, start)) > 1e-6).all()
