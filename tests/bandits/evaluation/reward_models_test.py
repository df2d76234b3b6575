"""Federated regression of rewards, cross-fitted over two folds of clients."""

import dataclasses

import numpy as np
import pytest

from bandits.evaluation import reward_models
from data import interaction_log, text
from scripts import evaluate_policy

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
    names = [str(action) for action in range(_ACTIONS)]
    numbers = {"actions": actions, "rewards": rewards, "propensities": np.full(len(owners), 1 / _ACTIONS)}
    return interaction_log.ordered(_NAMES, owners, contexts, names, numbers), truth


def _fitted(log, rounds=40, **changes):
    flags = ["--seed=1", "--model_client_learning_rate=0.3", "--model_server_learning_rate=0.05"]
    flags += ["--model_clients_per_round=20", f"--model_rounds={rounds}"]
    return reward_models.predictions(
        evaluate_policy.define().parse(["", *flags]), dataclasses.replace(log[0], **changes)
    )


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
    count = len(log[0])
    words = np.tile(np.arange(2, dtype=np.int32), count)
    bags = text.Bags(words, log[0].contexts.reshape(-1), np.arange(0, 2 * count + 1, 2, dtype=np.int64))
    np.testing.assert_allclose(_fitted(log, contexts=bags, rounds=5), after_5_rounds, atol=1e-5)


def test_a_client_is_predicted_by_a_model_that_has_not_seen_its_fold(log, after_5_rounds):
    first = reward_models.folds(_NAMES, 1)[log[0].clients] == 0
    changed = log[0].rewards.copy()
    changed[first] = 3 - 10 * changed[first][::-1]  # Nor does their range scale or bound what it is predicted.
    before, after = after_5_rounds, _fitted(log, rewards=changed, rounds=5)
    np.testing.assert_array_equal(before[first], after[first])
    assert (before[~first] != after[~first]).any()


@pytest.mark.parametrize(("factor", "offset"), [(1000.0, 50.0), (-2.0, 1.0)])
def test_neither_the_unit_nor_the_direction_of_rewards_changes_predictions(log, after_5_rounds, factor, offset):
    found = _fitted(log, rewards=offset + factor * log[0].rewards, rounds=5)
    np.testing.assert_allclose((found - offset) / factor, after_5_rounds, atol=1e-4)
