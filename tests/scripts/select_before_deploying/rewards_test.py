"""True rewards of policies on the contexts of a log, by hand."""

import pathlib
import types

import numpy as np
import pytest

from bandits.worlds import drift
from data import clients, interaction_log, tasks
from data.errors import UsageError
from scripts.select_before_deploying import rewards


def _log():
    """Client b met its context 1 twice and 0 once, client a its context 2 once."""
    return interaction_log.ordered(
        ["a", "b"],
        np.array([1, 1, 0, 1]),
        np.array([[11.0], [10.0], [2.0], [11.0]], np.float32),
        ["x", "y"],
        {
            "actions": np.array([0, 1, 1, 1]),
            "rewards": np.array([1.0, 0.5, 0.0, 0.25]),
            "propensities": np.array([0.5, 0.5, 0.8, 0.25]),
            "rows": np.array([1, 0, 2, 1]),
        },
    )


def _task(labels, matrix):
    population = clients.ArrayClients(
        clients.Examples(np.zeros((6, 1), np.float32), labels), np.array([1, 1, 1, 0, 0, 0]), ["b", "a"]
    )
    return tasks.Task(
        clients=population,
        held_out=population,
        num_actions=2,
        feature_spec=((1,), "float32"),
        model="mlp",
        model_arguments={},
        rewards={"exact": np.array(matrix, np.float32)},
    )


def test_each_context_is_there_once_and_every_row_knows_its_own():
    log = _log()
    distinct, context = rewards.each_once(log)
    assert distinct.contexts[:, 0].tolist() == [2, 11, 10]
    assert distinct.contexts[context].tolist() == log.contexts.tolist()
    assert context.tolist() == [0, 1, 2, 1]


def test_expected_rewards_are_those_of_the_rows_own_labels():
    # Of a, whose examples come first, the third; of b the second and the first.
    task = _task(np.array([0, 0, 1, 0, 1, 1]), [[1, 0], [0.25, 0.5]])
    distinct, _ = rewards.each_once(_log())
    assert rewards.expected_rewards(task, "exact", distinct).tolist() == [[0.25, 0.5], [0.25, 0.5], [1, 0]]
    several = np.array([[0, 0], [0, 0], [1, 1], [0, 0], [0, 1], [0, 1]], np.float32)
    found = rewards.expected_rewards(_task(several, np.eye(2)), "exact", distinct)
    assert found.tolist() == [[1, 1], [0, 1], [0, 0]]


def test_the_log_of_a_run_whose_rewards_drift_is_refused(monkeypatch):
    run = types.SimpleNamespace(options=types.SimpleNamespace(drift=drift.Drift("abrupt", worlds=2)))
    monkeypatch.setattr(rewards.interactions, "read_run", lambda _: run)
    with pytest.raises(UsageError, match="--reward_drift changed what was paid"):
        rewards.read(pathlib.Path("mine"))


def test_the_true_reward_is_the_policys_expectation_over_the_logs_rows():
    distinct, context = rewards.each_once(_log())
    expected = np.array([[1, 0], [0.25, 0.5], [0.25, 0.5]])
    deployment = rewards.Deployment(_log(), distinct, context, expected)
    played = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])
    # Rows of contexts 0, 1, 2, 1: 0.5, 0.25, 0.5, 0.25.
    assert deployment.true_reward(played) == pytest.approx(1.5 / 4)
    found = deployment.terms(played, None)
    assert found.weights.tolist() == pytest.approx([0.5 / 0.8, 1 / 0.5, 1 / 0.5, 0])
    assert found.rewards.tolist() == [0, 1, 0.5, 0.25]
