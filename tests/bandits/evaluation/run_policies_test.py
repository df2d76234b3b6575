import numpy as np
import pytest

from bandits import losses, policies
from bandits.evaluation import run_policies
from data.errors import UsageError
from optimization import models

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
