"""Evaluations of a bandit run, of bandits.held_out."""

import numpy as np
import pytest

from bandits import metrics
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization import models
from optimization.study import results, run_folder
from tests.bandits.run_federated_test import play


@pytest.mark.slow
def test_an_evaluation_compares_clients_by_the_reward_of_the_greedy_policy(tmp_path):
    """The clients are those that take part, since the held-out digits belong to no client."""
    run = results.read(play(tmp_path), [metrics.COLUMNS])
    found, task = (
        results.read_json(run.folder / run_folder.EVALUATED_CLIENTS_FILE),
        registry.load(TaskOptions("digits")),
    )
    weights, model = list(run.weights.values()), models.of_task(task)
    expected = []
    for name in found["clients"]:
        examples = task.clients.load(task.clients.client_ids.index(name))
        outputs = model.forward(weights, task.normalize(examples.features))
        expected.append(float(np.mean(np.argmax(outputs, axis=1) == examples.labels)))
    np.testing.assert_allclose(found["rewards"], expected, atol=1e-12)
    assert not found["held_out"]
    assert sorted(found["clients"]) == sorted(task.clients.client_ids)
    last = run.metrics.iloc[-1]
    assert last[metrics.WORST_TENTH] == pytest.approx(np.sort(expected)[:6].mean())
    assert last[metrics.JAIN_INDEX] == pytest.approx(np.sum(expected) ** 2 / (60 * np.sum(np.square(expected))))
