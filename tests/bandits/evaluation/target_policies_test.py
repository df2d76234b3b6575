"""Tests of bandits.evaluation.target_policies: policies by name, and those of runs' models."""

import dataclasses
import types

import numpy as np
import pytest
from scipy import special

from bandits import flags, run_federated
from bandits.evaluation import target_policies
from bandits.options import phases
from data import interaction_log
from data.errors import UsageError
from data.tasks import registry
from optimization import models
from optimization.study import frame

_NUMBERS = {"actions": np.array([0, 1, 1]), "rewards": np.array([0.0, 1.0, 0.0]), "propensities": np.full(3, 0.5)}
_NUMBERS["probabilities"] = np.array([0.2, 0.3, 0.4])
_LOG = interaction_log.ordered(["a", "b"], np.array([0, 0, 1]), None, ("left", "right"), _NUMBERS)
_MODEL = models.mlp(2, (), 3)
_WEIGHTS = (np.array([[1, 0, 0], [0, 1, 0]], np.float32), np.array([0, 0, 0.5], np.float32))
_CONTEXTS = np.array([[0, 1], [2, 0], [0, 0]], np.float32)


@pytest.mark.parametrize(
    ("policy", "is_known", "expected"),
    [
        ("uniform", True, [[0.5, 0.5]] * 3),
        ("constant:right", True, [[0, 1]] * 3),
        ("column:p", False, [0.2, 0.3, 0.4]),
        ("logged", False, [0.5, 0.5, 0.5]),
    ],
)
def test_a_policys_probabilities(policy, is_known, expected):
    target = target_policies.parse(policy)
    assert target.has_each_probability == is_known
    np.testing.assert_array_equal(target_policies.probabilities(target, _LOG), expected)
    assert target_policies.parse("column:p,q").has_each_probability


@pytest.mark.parametrize("policy", ["best", "uniform:3", "constant", "column:", "run:no/such/folder"])
def test_other_words_are_refused(policy):
    with pytest.raises(UsageError, match=f"--policy={policy}"):
        target_policies.parse(policy)


def test_a_policy_may_name_a_folder_and_must_name_one_of_the_actions(tmp_path):
    assert target_policies.parse(f"run:{tmp_path}") == ("run", str(tmp_path), "")
    with pytest.raises(UsageError, match="'up'"):
        target_policies.probabilities(target_policies.parse("constant:up"), _LOG)


def _run_model(*words):
    argv = ["test", "--total_rounds=95", "--bandits_deploy_freq=10", *words]
    (settings,) = frame.plan(run_federated.STUDY, frame.flag_set(run_federated.STUDY).parse(argv))
    chosen = flags.options(settings)
    (phase,) = phases(chosen, registry.load(chosen.task))
    return target_policies.RunModel(phase, 3, _MODEL, _WEIGHTS)


def test_a_policy_explores_on_the_models_predictions(monkeypatch):
    monkeypatch.setattr(target_policies, "_BATCH", 2)
    predicted = np.array([[0, 1, 0.5], [2, 0, 0.5], [0, 0, 0.5]])
    found = _run_model("--bandits_type=softmax", "--bandits_temperature=0.5").probabilities(_CONTEXTS, 3)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, special.softmax(predicted / 0.5, axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-15)
    greedy = _run_model("--bandits_type=greedy")
    np.testing.assert_array_equal(greedy.probabilities(_CONTEXTS, 3), np.eye(3)[[1, 0, 2]])
    with pytest.raises(UsageError, match=r"the run's model rejects the log's contexts, \(5,\)"):
        greedy.probabilities(np.zeros((3, 5), np.float32), 3)


def test_the_loss_determines_the_predicted_rewards():
    of_logits = _run_model("--bandits_type=softmax_ce", "--bandits_temperature=1")
    logits = np.array([[0, 1, 0.5]])
    assert of_logits.loss.cross_entropy
    predicted = special.expit(logits) if of_logits.loss.sigmoid else special.softmax(logits, axis=1)
    expected = special.softmax(predicted, axis=1)
    np.testing.assert_allclose(of_logits.probabilities(_CONTEXTS[:1], 1), expected, rtol=1e-6)


def test_a_periods_policy_has_the_scheduled_parameter():
    run_model = dataclasses.replace(_run_model("--bandits_type=squarecb"), num_actions=10)
    # Gamma of deployment t is 10 sqrt(t); the eleventh would be the final model's.
    found = [run_model.policy(period) for period in (0, 3, None)]
    np.testing.assert_allclose([policy.gamma for policy in found], [10, 20, 10 * np.sqrt(11)], rtol=1e-6)


def _of_actions(of_run, of_log):
    phase, form = _run_model().phase, ((1,), "float32")
    task = types.SimpleNamespace(num_actions=3, action_names=of_run, has_action_features=False, feature_spec=form)
    numbers = {"actions": np.array([0]), "rewards": np.zeros(1), "propensities": np.full(1, 0.5)}
    log = interaction_log.ordered(["a"], np.arange(1), np.ones((1, 1), np.float32), of_log, numbers)
    chosen, settings = types.SimpleNamespace(task=None, heads=1), types.SimpleNamespace(bandits_type=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target_policies.object_flags, "with_recorded_model", lambda *_: task)
        patch.setattr(target_policies.tasks_registry, "load", lambda options: task)
        patch.setattr(models, "of_task", lambda *_: _MODEL)
        patch.setattr(target_policies.run_folder, "load_model", lambda *_: _WEIGHTS)
        patch.setattr(target_policies, "phases", lambda *_: [phase])
        patch.setattr(target_policies.RunModel, "probabilities", lambda *_: np.array([[0.1, 0.2, 0.7]]))
        return target_policies.of_final_model(log, "runs/one", chosen, settings)[0].tolist()


def test_a_runs_actions_are_matched_by_name():
    names = ("r_low", "r_medium", "r_high")
    assert _of_actions(names, ("high", "low", "medium")) == [0.7, 0.1, 0.2]
    for of_run, of_log in ((names, ("0", "1", "2")), ((), ("a", "b", "c"))):
        assert _of_actions(of_run, of_log) == [0.1, 0.2, 0.7]
    with pytest.raises(UsageError, match=r"--policy=run:runs/one names its actions x, y, z, but the log names them a"):
        _of_actions(("x", "y", "z"), ("a", "b", "c"))
