"""Tests of bandits.evaluation.estimates: whether values change between the last third of a log and the rows before."""

import numpy as np
import pytest
from scipy import stats

from bandits.evaluation import estimates
from bandits.evaluation.estimators import Estimator
from data import log_time
from data.reward_bounds import RewardBounds
from tests.bandits.evaluation.tables_of_logs import terms_of_rows

_LOGS = 400


def _log(draw, clients=60, rows=9, *, paid=(0.5, 0.5), later=None, uneven=0.0, spread=0.1):
    """Terms of a log of two equally likely actions, for the policy that always chooses the first, and times.

    Rewards have probabilities `paid`, `later` in the second half of the time. The logarithms of clients' numbers of
    rows have deviation `uneven`, clients' probabilities `spread`.
    """
    sizes = np.maximum(1, draw.poisson(rows * np.exp(uneven * draw.normal(size=clients) - uneven**2 / 2)))
    owners = np.repeat(np.arange(clients), sizes)
    times, actions = draw.random(len(owners)), draw.integers(2, size=len(owners))
    chance = np.where((times > 0.5)[:, np.newaxis], later or paid, paid)[np.arange(len(owners)), actions]
    chance = np.clip(chance + spread * draw.normal(size=clients)[owners], 0, 1)
    rewards = (draw.random(len(owners)) < chance) * 1.0
    target = np.tile([1.0, 0.0], (len(owners), 1))
    return terms_of_rows(owners, actions, rewards, np.full(len(owners), 0.5), target), times


def _p_values(estimator=None, **log):
    draw = np.random.default_rng(0)
    found = []
    for _ in range(_LOGS):
        rows, times = _log(draw, **log)
        is_last = times >= log_time.Times(times, None).cut(1 / 3)
        found.append(estimates.changes(rows, is_last, estimator or Estimator("snips"))[2])
    return np.array(found)


def test_changes_of_a_small_log_by_hand():
    # Clients 0 and 1 have two early and two late rows; weights of the policy are 2 or 0.
    owners = np.repeat([0, 1, 2], 4)
    rewards = np.array([1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0], float)
    actions = np.array([0, 1, 0, 1] * 3)
    target = np.tile([1.0, 0.0], (12, 1))
    rows = terms_of_rows(owners, actions, rewards, np.full(12, 0.5), target)
    is_last = np.tile([False, False, True, True], 3)
    values, changes, p_values = estimates.changes(rows, is_last, Estimator("ips"))
    np.testing.assert_allclose(values, [[4 / 6 - 4 / 6, 2 / 6 - 2 / 6], [4 / 6, 2 / 6]])
    # Of the log: residuals of a client are its sums, less those expected, in both parts together.
    early, late = np.array([1, 2, 1]), np.array([1, 0, 1])
    residuals = (late - 2 * 2 / 6) / 6 - (early - 2 * 4 / 6) / 6
    error = np.sqrt((residuals**2).sum() * 3 / 2)
    freedom = (residuals**2).sum() ** 2 / (residuals**4).sum() - 1
    p_value = 2 * stats.t.sf(abs(-2 / 6) / error, freedom)
    half = error * stats.t.ppf(0.975, freedom)
    np.testing.assert_allclose(changes[1], [-1 / 3, -1 / 3 - half, -1 / 3 + half])
    assert p_values[1] == pytest.approx(min(1, 2 * p_value))


@pytest.mark.parametrize(
    "log",
    [
        {},
        {"clients": 20, "rows": 12},
        {"uneven": 1.0},
        {"clients": 100, "rows": 5, "paid": (0.02, 0.02), "spread": 0.0},
        {"estimator": Estimator("ips"), "paid": (0.2, 0.6)},
    ],
)
def test_without_a_change_at_most_5_percent_of_logs_get_a_warning(log):
    is_warned = (np.nan_to_num(_p_values(**log), nan=1.0) < 0.05).any(axis=1)
    assert is_warned.mean() < 0.05 + 2 * np.sqrt(0.05 * 0.95 / _LOGS)


def test_a_best_action_that_changes_halfway_is_warned_of():
    p_values = _p_values(paid=(0.6, 0.4), later=(0.4, 0.6), clients=100)
    assert (p_values[:, 0] < 0.05).mean() > 0.9
    assert (np.nan_to_num(p_values[:, 1], nan=1.0) < 0.05).mean() < 0.06


def test_a_quantity_without_spread_is_not_tested():
    rows, times = _log(np.random.default_rng(0))
    logged = rows._replace(weights=np.ones(len(times)))
    (finding,) = estimates.findings_on_changes(logged, log_time.Times(times, None), Estimator("snips"), "logged")
    assert "the log's mean reward" in finding.text


def test_findings_on_mapped_rewards_are_in_the_users_unit():
    rows, times = _log(np.random.default_rng(0), paid=(0.7, 0.3), later=(0.3, 0.7))
    bounds, spread = RewardBounds(-50.0, 150.0), log_time.Times(times, None)
    in_user_unit = rows._replace(rewards=bounds.to_user(rows.rewards))
    mapped = estimates.findings_on_changes(rows, spread, Estimator("snips"), "constant:x", bounds)
    assert mapped == estimates.findings_on_changes(in_user_unit, spread, Estimator("snips"), "constant:x")
