"""Tests of data.tasks.linear_synthetic."""

import numpy as np
import pytest

from data import clients
from data.errors import UsageError
from data.tasks import linear_synthetic
from data.tasks.options import TaskOptions


def load(**changes):
    made = {"partition_clients": 4, "partition_examples": 500, "action_features": 3, "largest_set": 6}
    return linear_synthetic.load(TaskOptions("linear_synthetic", **made | changes))


def test_rewards_are_linear_in_the_features_of_actions():
    examples = clients.joined([load().clients.load(index) for index in range(4)])
    rows, slots = np.nonzero(examples.features.entries >= 0)
    features, rewards = examples.features.actions[rows, slots], examples.labels[rows, slots]
    estimate, residuals, *_ = np.linalg.lstsq(features, rewards, rcond=None)
    # 12,000 rewards with deviation 0.3, features of variance 1/9: standard errors of 0.008.
    np.testing.assert_allclose(estimate, np.full(3, 1 / np.sqrt(3)), atol=0.04)
    assert np.sqrt(residuals[0] / len(rows)) == pytest.approx(linear_synthetic.NOISE, rel=0.03)


def test_sets_have_the_asked_sizes_and_clients_are_the_same_whenever_they_are_loaded():
    task = load(smallest_set=2, context_features=2)
    one, again = task.clients.load(1), task.clients.load(1)
    assert set((one.features.entries >= 0).sum(axis=1)) == {2, 3, 4, 5, 6}
    assert (one.labels[one.features.entries < 0] == 0).all()
    for first, second in zip(clients.arrays(one.features), clients.arrays(again.features), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_smallest_set_above_the_largest_is_refused():
    with pytest.raises(UsageError, match="--smallest_set=7 is above --largest_set=6"):
        load(smallest_set=7)
