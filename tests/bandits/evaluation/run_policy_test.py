"""Tests of bandits.evaluation.run_policy: which output of a run's model belongs to which action of a log."""

import types

import numpy as np
import pytest

from bandits.evaluation import run_policy
from data import interaction_log
from data.errors import UsageError


def _log(action_names):
    numbers = {"actions": np.array([0, 1]), "rewards": np.zeros(2), "propensities": np.full(2, 0.5)}
    return interaction_log.ordered(["a", "b"], np.arange(2), np.ones((2, 1), np.float32), action_names, numbers)


def _probabilities(monkeypatch, of_run, of_log):
    task = types.SimpleNamespace(num_actions=3, action_names=of_run)
    monkeypatch.setattr(run_policy.tasks_registry, "load", lambda options: task)
    monkeypatch.setattr(run_policy, "of_contexts", lambda *arguments: np.array([[0.1, 0.2, 0.7]] * 2))
    chosen = types.SimpleNamespace(task=None)
    return run_policy.probabilities(_log(of_log), "runs/one", chosen, None)[0].tolist()


@pytest.mark.parametrize(
    ("of_run", "of_log", "expected"),
    [
        (("low", "medium", "high"), ("high", "low", "medium"), [0.7, 0.1, 0.2]),
        (("r_low", "r_medium", "r_high"), ("high", "low", "medium"), [0.7, 0.1, 0.2]),
        (("low", "medium", "high"), ("0", "1", "2"), [0.1, 0.2, 0.7]),
        ((), ("a", "b", "c"), [0.1, 0.2, 0.7]),
    ],
)
def test_a_runs_actions_are_matched_by_name(monkeypatch, of_run, of_log, expected):
    assert _probabilities(monkeypatch, of_run, of_log) == expected


def test_other_action_names_are_refused(monkeypatch):
    with pytest.raises(UsageError, match=r"--policy=run:runs/one names its actions x, y, z, and the log names them a"):
        _probabilities(monkeypatch, ("x", "y", "z"), ("a", "b", "c"))
