import numpy as np
import pytest

from bandits import flags, losses, policies, run_federated
from bandits.evaluation import run_policies
from bandits.options import phases
from data.errors import UsageError
from data.tasks import registry
from optimization import models
from optimization.study import frame

_MODEL = models.mlp(2, (), 3)
_WEIGHTS = (np.array([[1, 0, 0], [0, 1, 0]], np.float32), np.array([0, 0, 0.5], np.float32))
_CONTEXTS = np.array([[0, 1], [2, 0], [0, 0]], np.float32)


def _probabilities(policy, contexts=_CONTEXTS, loss=None):
    loss = loss or losses.BanditLoss()
    return run_policies.probabilities(_MODEL, _WEIGHTS, loss, policy, contexts, len(contexts))


def test_a_policy_explores_on_the_models_predictions(monkeypatch):
    monkeypatch.setattr(run_policies, "_BATCH", 2)
    predicted = np.array([[0, 1, 0.5], [2, 0, 0.5], [0, 0, 0.5]])
    exponentials = np.exp(predicted / 0.5)
    found = _probabilities(policies.Softmax(0.5))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, exponentials / exponentials.sum(axis=1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-15)
    np.testing.assert_array_equal(_probabilities(policies.Greedy()), np.eye(3)[[1, 0, 2]])


def test_the_loss_says_how_outputs_predict_rewards():
    of_logits = losses.BanditLoss(cross_entropy=True, sigmoid=True)
    exponentials = np.exp(1 / (1 + np.exp(-np.array([[0, 1, 0.5]]))))
    found = _probabilities(policies.Softmax(1.0), _CONTEXTS[:1], of_logits)
    np.testing.assert_allclose(found, exponentials / exponentials.sum(), rtol=1e-6)


def test_contexts_of_another_shape_are_refused():
    with pytest.raises(UsageError, match=r"the run's model does not take the log's contexts, \(5,\)"):
        _probabilities(policies.Greedy(), np.zeros((3, 5), np.float32))


def test_a_periods_policy_has_what_the_schedule_says_of_it():
    argv = ["test", "--bandits_type=squarecb", "--total_rounds=95", "--bandits_deploy_freq=10"]
    (settings,) = frame.plan(run_federated.STUDY, frame.flag_set(run_federated.STUDY).parse(argv))
    chosen = flags.options(settings)
    (phase,) = phases(chosen, registry.load(chosen.task))
    # Gamma of deployment t is 10 sqrt(t); the eleventh would be the final model's.
    found = [run_policies.of_period(phase, 10, period) for period in (0, 3, phase.periods)]
    np.testing.assert_allclose([policy.gamma for policy in found], [10, 20, 10 * np.sqrt(11)], rtol=1e-6)
