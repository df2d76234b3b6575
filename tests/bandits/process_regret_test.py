"""Rounds of TFF against federated averaging in NumPy, on the same logs: same models, and so the same regret."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from bandits import losses, policies, process
from data import keys
from optimization import client_work, models

CLIENTS, SAMPLES, ROUNDS, PERIODS, ACTIONS, STEPS, RATE, EPSILON = 4, 200, 10, 4, 3, 4, 0.3, 0.4
# True rewards are linear in (1, context), and the best directions of the actions are evenly spaced.
_ANGLES = 2 * np.pi * np.arange(ACTIONS) / ACTIONS
TRUE = np.stack([np.full(ACTIONS, 0.5), 0.35 * np.cos(_ANGLES), 0.35 * np.sin(_ANGLES)])


def _features(clients: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """A 1 and a context for each client, float64 [..., 3]: each client has a slice of the square of its own."""
    contexts = generator.uniform(-1, 1, (*clients.shape, 2))
    contexts[..., 0] = -1 + (2 * clients + contexts[..., 0] + 1) / CLIENTS
    return np.concatenate([np.ones((*clients.shape, 1)), contexts], axis=-1)


def _clients(period: int) -> list[process.ClientInput]:
    """Clients of a period; a label is the reward of each action, 0 or 1."""
    generator = np.random.default_rng(period)
    features = _features(np.repeat(np.arange(CLIENTS)[:, None], SAMPLES, axis=1), generator)
    labels = generator.random((CLIENTS, SAMPLES, ACTIONS)) < features @ TRUE
    return [
        process.ClientInput(
            features[client, :, 1:].astype(np.float32),
            labels[client].astype(np.float32),
            process.ClientKeys(
                keys.tensorflow_key(0, keys.Purpose.CACHE, period, client),
                keys.tensorflow_key(0, keys.Purpose.TRAINING, period, client),
            ),
        )
        for client in range(CLIENTS)
    ]


def _coefficients(weights) -> np.ndarray:
    kernel, bias = (np.asarray(weight, float) for weight in weights)
    return np.concatenate([bias[None], kernel])


def _averaged(clients: list[process.ClientInput], coefficients: np.ndarray, policy) -> np.ndarray:
    """Acts with these coefficients, then averages full-batch steps of least squares, from them on."""
    logs = []
    for client in clients:
        features = np.concatenate([np.ones((SAMPLES, 1)), client.features], axis=1)
        predicted = tf.constant(features @ coefficients, tf.float32)
        log = process.bandit_inference(policy(predicted), tf.constant(client.labels), client.keys.cache)
        logs.append((features, np.eye(ACTIONS)[log["action"].numpy()], log["reward"].numpy().astype(float)))
    for _ in range(ROUNDS):
        locals_ = []
        for features, chosen, rewards in logs:
            local = coefficients
            for _ in range(STEPS):
                errors = chosen * (features @ local - rewards[:, None])
                local = local - RATE * 2 / SAMPLES * features.T @ errors
            locals_.append(local)
        coefficients = np.mean(locals_, axis=0)
    return coefficients


def _regret(coefficients: np.ndarray) -> float:
    features = _features(np.arange(20_000) % CLIENTS, np.random.default_rng(99))
    true, chosen = features @ TRUE, (features @ coefficients).argmax(axis=1)
    return float((true.max(axis=1) - true[np.arange(len(true)), chosen]).mean())


@pytest.mark.slow
def test_rounds_of_tff_equal_federated_averaging_in_numpy(tff_worker):
    model, policy = models.mlp(2, (), ACTIONS), policies.EpsilonGreedy(EPSILON)
    rounds = process.BanditProcess(
        model=model,
        policy=policy,
        loss=losses.BanditLoss(),
        reward_matrix=np.eye(ACTIONS, dtype=np.float32),
        local_work=client_work.LocalSgd(RATE, SAMPLES, epochs=STEPS),
        aggregator=tff.aggregators.MeanFactory(),
        server_optimizer=tff.learning.optimizers.build_sgdm(1.0),
        deploy_every=ROUNDS,
        feature_spec=tf.TensorSpec((None, 2)),
        label_spec=tf.TensorSpec((None, ACTIONS)),
    ).build()
    state, expected = rounds.initialize(), np.zeros((3, ACTIONS))
    regrets = []
    for period in range(PERIODS):
        clients = _clients(period)
        expected = _averaged(clients, expected, policy)
        for _ in range(ROUNDS):
            state, _ = rounds.next(state, clients)
        trained = _coefficients(state.deployed[0])
        np.testing.assert_allclose(trained, expected, atol=2e-5)
        regrets.append(_regret(trained))
        assert regrets[-1] == pytest.approx(_regret(expected), abs=1e-5)
        expected = trained  # Predictions that differ in the last bit could draw another action.
    assert max(regrets) < 0.1 * _regret(np.zeros((3, ACTIONS)))  # The first model always takes the first action.
