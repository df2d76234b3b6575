"""Tests of bandits.results.bootstrap."""

import numpy as np
import pytest
from rliable import library, metrics
from scipy import stats

from bandits.results import bootstrap

SCORES = np.random.default_rng(5).normal(0.6, 0.2, (6, 3))  # [seeds, tasks]


def test_the_interquartile_mean_equals_rliable():
    assert bootstrap.interquartile_mean(SCORES) == pytest.approx(metrics.aggregate_iqm(SCORES), rel=1e-12)
    # By hand: of eight numbers the middle four.
    assert bootstrap.interquartile_mean(np.array([[9.0, 1, 2, 3], [4, 5, 6, -9]])) == 3.5


def test_with_equal_draws_the_interval_equals_rliable():
    np.random.seed(0)  # rliable draws from the global generator.
    drawn = library.StratifiedBootstrap(SCORES)
    indices = np.stack([drawn.update_indices()[0] for _ in range(300)])
    np.random.seed(0)
    _, expected = library.get_interval_estimates(
        {"arm": SCORES}, lambda scores: np.array([metrics.aggregate_iqm(scores)]), reps=300
    )
    found = bootstrap.stratified(SCORES, indices)
    np.testing.assert_allclose([found.low, found.high], expected["arm"].ravel(), rtol=1e-12)


def _tasks(scores):
    return {f"task {task}": {"arm": dict(enumerate(column))} for task, column in enumerate(scores.T)}


def test_configurations_over_tasks():
    found = bootstrap.over_tasks(_tasks(SCORES))["arm"]
    assert found.mean == pytest.approx(metrics.aggregate_iqm(SCORES), rel=1e-12)
    assert found.low < found.mean < found.high
    assert found.size == 18
    assert found == bootstrap.over_tasks(_tasks(SCORES))["arm"]


def test_a_configuration_that_a_task_lacks_is_left_out():
    assert bootstrap.over_tasks({**_tasks(SCORES), "other": {"another": {0: 1.0}}}) == {}


@pytest.mark.parametrize(
    ("column", "message"), [({0: 1.0}, "arm has 6, 1 seeds"), (dict.fromkeys(range(6), np.nan), "are not finite")]
)
def test_scores_that_do_not_belong_together_are_refused(column, message):
    with pytest.raises(ValueError, match=message):
        bootstrap.over_tasks({**_tasks(SCORES[:, :1]), "other": {"arm": column}})


def test_the_interval_over_clients_is_that_of_their_mean():
    rewards = np.random.default_rng(0).normal(0.5, 0.1, 400)
    found = bootstrap.over_clients(rewards)
    assert found.mean == pytest.approx(rewards.mean(), rel=1e-12)
    expected = stats.norm.interval(0.95, rewards.mean(), stats.sem(rewards))
    assert [found.low, found.high] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("clients", "is_reported"), [(19, False), (20, True)])
def test_few_clients_have_no_interval(clients, is_reported):
    found = bootstrap.over_clients(np.arange(clients))
    assert (found.mean, found.size) == ((clients - 1) / 2, clients)
    assert np.isfinite([found.low, found.high]).tolist() == [is_reported, is_reported]


@pytest.mark.slow
def test_percentiles_of_the_fewest_clients_hold_the_mean_nearly_as_often_as_they_say():
    rewards = np.random.default_rng(0).normal(0.5, 0.1, (400, bootstrap.LEAST_CLIENTS))
    found = [bootstrap.over_clients(row, draws=400, seed=seed) for seed, row in enumerate(rewards)]
    assert np.mean([one.low <= 0.5 <= one.high for one in found]) == pytest.approx(0.93, abs=0.03)


def test_no_clients_are_refused():
    with pytest.raises(ValueError, match="There are no clients"):
        bootstrap.over_clients([])
