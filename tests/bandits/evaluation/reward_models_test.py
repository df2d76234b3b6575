"""Federated regression of rewards, cross-fitted over two folds of clients."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp

from bandits.evaluation import reward_models
from data import text
from optimization import options

_CLIENTS, _ROWS, _ACTIONS = 40, 10, 3
_NAMES = [f"client {number}" for number in range(_CLIENTS)]


@pytest.fixture(scope="module")
def log():
    generator = np.random.default_rng(0)
    owners = np.repeat(np.arange(_CLIENTS), _ROWS)
    contexts = generator.integers(2, size=(len(owners), 2)).astype(np.float32)
    truth = 0.2 + contexts @ np.array([[0.5, 0.1, 0.0], [0.0, 0.3, 0.2]])
    actions = generator.integers(_ACTIONS, size=len(owners))
    rewards = truth[np.arange(len(owners)), actions] + generator.normal(0, 0.02, len(owners))
    return owners, contexts, actions, rewards, truth


def _fitted(log, rewards=None, contexts=None, rounds=40):
    owners, own, actions, logged, _ = log
    regression = reward_models.Regression(
        seed=1, rounds=rounds, clients_per_round=20, server_optimizer=_FAST, learning_rate=0.3
    )
    contexts = own if contexts is None else contexts
    logged = logged if rewards is None else rewards
    return reward_models.cross_fitted(_NAMES, owners, contexts, actions, logged, _ACTIONS, regression)


_FAST = options.ServerOptimizer("adam", 0.05)


@pytest.fixture(scope="module")
def after_5_rounds(log, tff_worker):
    return _fitted(log, rounds=5)


def test_a_clients_fold_is_its_names_alone():
    found = reward_models.folds([str(number) for number in range(1000)], 3)
    assert 430 < found.sum() < 570
    np.testing.assert_array_equal(reward_models.folds(["7", "3"], 3), found[[7, 3]])
    assert (reward_models.folds([str(number) for number in range(1000)], 4) != found).any()


@pytest.mark.usefixtures("tff_worker")
def test_it_learns_rewards_of_contexts_and_actions(log):
    errors = _fitted(log) - log[-1]
    assert np.sqrt((errors**2).mean()) < 0.05 < log[-1].std()


def test_bags_of_words_give_what_the_same_numbers_give(log, after_5_rounds):
    bags = text.Bags(
        np.tile(np.arange(2, dtype=np.int32), len(log[0])),
        log[1].reshape(-1),
        np.arange(0, 2 * len(log[0]) + 1, 2, dtype=np.int64),
    )
    np.testing.assert_allclose(_fitted(log, contexts=bags, rounds=5), after_5_rounds, atol=1e-5)


def test_a_client_is_predicted_by_a_model_that_has_not_seen_its_fold(log, after_5_rounds):
    owners, rewards = log[0], log[3]
    first = reward_models.folds(_NAMES, 1)[owners] == 0
    changed = rewards.copy()
    changed[first] = 3 - 10 * changed[first][::-1]  # Nor does their range scale or bound what it is predicted.
    before, after = after_5_rounds, _fitted(log, changed, rounds=5)
    np.testing.assert_array_equal(before[first], after[first])
    assert (before[~first] != after[~first]).any()


@pytest.mark.parametrize(("factor", "offset"), [(1000.0, 50.0), (-2.0, 1.0)])
def test_neither_the_unit_nor_the_direction_of_rewards_changes_predictions(log, after_5_rounds, factor, offset):
    found = _fitted(log, offset + factor * log[3], rounds=5)
    np.testing.assert_allclose((found - offset) / factor, after_5_rounds, atol=1e-4)


_PRIVATE = reward_models.Regression(
    seed=1, rounds=40, clients_per_round=10, server_optimizer=_FAST, learning_rate=0.3,
    noise_multiplier=0.2, clip_norm=2.0,
)  # fmt: skip


def test_a_private_training_costs_what_the_smaller_fold_does():
    found, rounds = reward_models.mechanism(_NAMES, _PRIVATE)
    smaller = np.bincount(reward_models.folds(_NAMES, 1)).min()
    event = dp_accounting.PoissonSampledDpEvent(10 / smaller, dp_accounting.GaussianDpEvent(0.2))
    expected = rdp.RdpAccountant().compose(event, rounds).get_epsilon(found.delta)
    assert found.epsilon(rounds) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match="without privacy"):
        reward_models.mechanism(_NAMES, reward_models.Regression())


@pytest.mark.usefixtures("tff_worker")
def test_a_private_training_learns_with_noise_of_its_own_and_follows_no_range(log):
    owners, contexts, actions, _, truth = log
    rewards = np.clip(truth[np.arange(len(owners)), actions], 0, 1)
    first, second = (
        reward_models.cross_fitted(_NAMES, owners, contexts, actions, rewards, _ACTIONS, _PRIVATE) for _ in range(2)
    )
    assert (first != second).any()
    assert np.sqrt(((first - truth) ** 2).mean()) < truth.std()
    assert 0 <= first.min() < first.max() <= 1
    with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
        reward_models.cross_fitted(_NAMES, owners, contexts, actions, rewards + 1, _ACTIONS, _PRIVATE)
