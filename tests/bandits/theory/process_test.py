"""TFF's rounds against the laboratory: same worlds, same logs, same models, and so the same regret."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from bandits import losses, policies, process
from bandits.theory import federated, oracles, worlds
from data import keys
from optimization import client_work, models

CLIENTS, SAMPLES, ROUNDS, PERIODS, ACTIONS, STEPS, RATE, EPSILON = 4, 200, 10, 4, 3, 4, 0.3, 0.4
WORLD = worlds.LinearWorld(worlds.fan(ACTIONS).coefficients, CLIENTS, 1.0)


def _clients(period: int) -> list[process.ClientInput]:
    """A period's clients: their supports are disjoint, and a label is the reward of each action, 0 or 1."""
    generator = np.random.default_rng(period)
    of_client = np.repeat(np.arange(CLIENTS)[:, None], SAMPLES, axis=1)
    features = WORLD.features(of_client, generator)
    labels = generator.random((CLIENTS, SAMPLES, ACTIONS)) < features @ WORLD.coefficients
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


def _laboratory(clients: list[process.ClientInput], coefficients: np.ndarray, policy) -> np.ndarray:
    """Acts with these coefficients and averages in NumPy, from them on."""
    features, actions, rewards = [], [], []
    for client in clients:
        with_one = np.concatenate([np.ones((SAMPLES, 1)), client.features], axis=1)
        predicted = tf.constant(with_one @ coefficients, tf.float32)
        log = process.bandit_inference(policy(predicted), tf.constant(client.labels), client.keys.cache)
        features.append(with_one)
        actions.append(log["action"].numpy())
        rewards.append(log["reward"].numpy())
    moments = oracles.Moments.of(np.array([features]), np.array([actions]), np.array([rewards], float), ACTIONS)
    return federated.Averaging(ROUNDS, STEPS, RATE)(moments, coefficients[None])[0]


def _regret(coefficients: np.ndarray) -> float:
    features = WORLD.features(np.arange(20_000) % CLIENTS, np.random.default_rng(99))
    true, chosen = features @ WORLD.coefficients, (features @ coefficients).argmax(axis=1)
    return float((true.max(axis=1) - true[np.arange(len(true)), chosen]).mean())


def test_rounds_of_tff_follow_the_laboratorys_curve(tff_worker):
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
        expected = _laboratory(clients, expected, policy)
        for _ in range(ROUNDS):
            state, _ = rounds.next(state, clients)
        found = _coefficients(state.deployed[0])
        np.testing.assert_allclose(found, expected, atol=2e-5)
        regrets.append(_regret(found))
        assert regrets[-1] == pytest.approx(_regret(expected), abs=1e-5)
        expected = found  # What acts next: predictions that differ in the last bit could draw another action.
    assert max(regrets) < 0.1 * _regret(np.zeros((3, ACTIONS)))  # Of the first model, which always takes the first.
