"""Tests of bandits.papers.selection_scores: how estimates choose, and true rewards of policies, by hand."""

import dataclasses
import math
import pathlib
import types

import numpy as np
import pytest

from bandits.environments import drift
from bandits.evaluation import terms
from bandits.papers import selection
from bandits.papers import selection_scores as scores
from bandits.plans.plan import Configuration
from data import clients, interaction_log, tasks
from data.errors import UsageError

_NO_FLAGS = Configuration("toy", (), ())
_STUDY = selection.Study(
    name="toy",
    initial=_NO_FLAGS,
    logs=_NO_FLAGS,
    models=_NO_FLAGS,
    temperatures=(),
    reward_model="",
    largest_weight=3.0,
    max_rows_per_client=2,
    epsilons=(1.0, 10.0),
    populations=(1, 10),
)
_CLIENTS = [f"client {number}" for number in range(200)]


def _terms(weights, rewards):
    """Terms of clients of two rows each, of a model that is always right by half."""
    clients = np.repeat(np.arange(len(_CLIENTS), dtype=np.int32), 2)
    weights, rewards = (np.tile(np.array(row, float), len(_CLIENTS)) for row in (weights, rewards))
    return terms.Terms(clients, weights, rewards, np.full(len(clients), 0.5), np.full(len(clients), 0.25))


def test_a_score_by_hand():
    # Ranks 2, 4, 3, 1 and 1, 3, 4, 2: differences 1, 1, -1, -1, so rho is 1 - 6 * 4 / (4 * 15).
    found = scores.score(np.array([0.2, 0.5, 0.4, np.nan]), np.array([0.1, 0.3, 0.6, 0.2]))
    assert found.rho == pytest.approx(0.6)
    assert found.regret == pytest.approx(0.6 - 0.3)
    assert math.isnan(found.error)
    found = scores.score(np.array([0.2, 0.5]), np.array([0.1, 0.9]))
    assert found == pytest.approx((1, 0, math.sqrt((0.1**2 + 0.4**2) / 2)))


def test_of_equal_estimates_any_is_picked_and_none_at_all_rank_nothing():
    true = np.array([0.1, 0.3, 0.8])
    assert scores.score(np.array([0.0, 0.7, 0.7]), true).regret == pytest.approx(0.8 - (0.3 + 0.8) / 2)
    assert scores.score(np.full(3, np.nan), true)[:2] == pytest.approx((0, 0.8 - 0.4))


def test_estimates_without_privacy_by_hand():
    found = scores.open_estimates([_terms([2, 0.5], [1, 0]), _terms([0.5, 1], [1, 1])])
    assert found["ips"] == pytest.approx([1, 0.75])
    assert found["snips"] == pytest.approx([0.8, 1])
    assert found["dm"] == pytest.approx([0.5, 0.5])
    # 0.5 + w (r - 0.25): 2 and 0.375; 0.875 and 1.25.
    assert found["dr"] == pytest.approx([1.1875, 1.0625])
    assert set(found) == {"ips", "snips", "clipped_ips", "dm", "dr", "switch_dr", "dros"}


def _released(seed=0, draws=50):
    candidates = {"a": _terms([1, 0.5], [1, 0]), "b": _terms([0.5, 1], [1, 0])}
    return {
        (release.epsilon, release.times): (release, found)
        for release, found in scores.private_estimates(candidates, _CLIENTS, _STUDY, seed, draws)
    }


def test_without_noise_and_within_the_bounds_private_values_are_the_open_ones():
    release, found = _released()[math.inf, 1]
    assert (release.clients, release.noise_multiplier) == (200, 0)
    assert found["ips"] == pytest.approx(np.array([[0.5, 0.25]]))
    assert found["snips"] == pytest.approx(np.array([[1 / 1.5, 0.5 / 1.5]]))


def test_noise_falls_with_epsilon_and_with_clients_and_follows_the_seed():
    found = _released()
    assert found.keys() == {(math.inf, 1), (1, 1), (10, 1), (1, 10), (10, 10)}
    spread = {key: values["ips"].std(axis=0).mean() for key, (_, values) in found.items()}
    assert spread[1, 1] > 2 * spread[10, 1] > 0
    assert spread[1, 1] > 4 * spread[1, 10] > 0
    assert found[1, 10][0].clients == 2000
    again, other = _released()[1, 1][1]["ips"], _released(seed=1)[1, 1][1]["ips"]
    assert again.tolist() == found[1, 1][1]["ips"].tolist() != other.tolist()


def test_weights_above_the_bound_are_clipped():
    study = dataclasses.replace(_STUDY, largest_weight=1.0)
    candidates = {"a": _terms([1.0, 0.5], [0.2, 0]), "b": _terms([9.0, 0.5], [0.2, 0])}
    _, found = next(scores.private_estimates(candidates, _CLIENTS, study, 0, 1))
    assert found["ips"][0, 0] == found["ips"][0, 1] == pytest.approx(0.1)


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
    distinct, context = scores.each_once(log)
    assert distinct.contexts[:, 0].tolist() == [2, 11, 10]
    assert distinct.contexts[context].tolist() == log.contexts.tolist()
    assert context.tolist() == [0, 1, 2, 1]


def test_expected_rewards_are_those_of_the_rows_own_labels():
    # Of a, whose examples come first, the third; of b the second and the first.
    task = _task(np.array([0, 0, 1, 0, 1, 1]), [[1, 0], [0.25, 0.5]])
    distinct, _ = scores.each_once(_log())
    assert scores.expected_rewards(task, "exact", distinct).tolist() == [[0.25, 0.5], [0.25, 0.5], [1, 0]]
    several = np.array([[0, 0], [0, 0], [1, 1], [0, 0], [0, 1], [0, 1]], np.float32)
    found = scores.expected_rewards(_task(several, np.eye(2)), "exact", distinct)
    assert found.tolist() == [[1, 1], [0, 1], [0, 0]]


def test_the_log_of_a_run_whose_rewards_drift_is_refused(monkeypatch):
    run = types.SimpleNamespace(options=types.SimpleNamespace(drift=drift.Drift("abrupt", environments=2)))
    monkeypatch.setattr(scores.interactions, "read_run", lambda _: run)
    with pytest.raises(UsageError, match="--reward_drift changed what was paid"):
        scores.read_deployment(pathlib.Path("mine"))


def test_the_true_reward_is_the_policys_expectation_over_the_logs_rows():
    distinct, context = scores.each_once(_log())
    expected = np.array([[1, 0], [0.25, 0.5], [0.25, 0.5]])
    deployment = scores.Deployment(_log(), distinct, context, expected)
    played = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])
    # Rows of contexts 0, 1, 2, 1: 0.5, 0.25, 0.5, 0.25.
    assert deployment.true_reward(played) == pytest.approx(1.5 / 4)
    found = deployment.terms(played, None)
    assert found.weights.tolist() == pytest.approx([0.5 / 0.8, 1 / 0.5, 1 / 0.5, 0])
    assert found.rewards.tolist() == [0, 1, 0.5, 0.25]
