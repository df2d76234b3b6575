"""Empirical Bernstein intervals against their definition over a grid, and how often they hold the value."""

import math

import numpy as np
import pytest

from bandits.evaluation import bounds, empirical_bernstein, terms

_BOUNDS = bounds.Bounds(2.0, 10)
_MEANS = np.array([[0.8, 0.2], [0.3, 0.6], [0.5, 0.1]])  # [leaning, action]
_TARGET = np.array([0.3, 0.7, 0.6])  # Probability of action 1, by leaning.
_LOGGING = 0.4


def _log(generator, clients):
    sizes = generator.integers(1, 11, clients)
    leanings = np.repeat(generator.integers(3, size=clients), sizes)
    names = np.repeat(np.arange(clients, dtype=np.int32), sizes)
    action = (generator.random(len(names)) < _LOGGING).astype(int)
    weights = np.where(action, _TARGET[leanings] / _LOGGING, (1 - _TARGET[leanings]) / (1 - _LOGGING))
    rewards = (generator.random(len(names)) < _MEANS[leanings, action]).astype(float)
    zeros = np.zeros(len(names))
    return terms.Terms(names, np.minimum(weights, 2.0), rewards, zeros, zeros)


def _accepted(rows, values, rewards):
    """Which values the theorem leaves, of one side."""
    count = rows.clients.max() + 1
    sizes = np.bincount(rows.clients) / 10
    payoffs = np.bincount(rows.clients, rows.weights * rewards) / 10
    found = []
    for value in values:
        each = payoffs - value * sizes
        level = math.log(2 / 0.025)
        bound = math.sqrt(2 * each.var(ddof=1) * level / count) + 2.0 * 7 * level / (3 * (count - 1))
        found.append(each.mean() <= bound)
    return np.array(found)


def test_limits_are_the_first_values_that_the_theorem_leaves():
    rows = _log(np.random.default_rng(0), 400)
    interval = empirical_bernstein.interval(rows, _BOUNDS)
    grid = np.linspace(0, 1, 2001)
    assert interval.low == pytest.approx(grid[_accepted(rows, grid, rows.rewards).argmax()], abs=5e-4)
    assert interval.high == pytest.approx(1 - grid[_accepted(rows, grid, 1 - rows.rewards).argmax()], abs=5e-4)
    assert 0 < interval.low < interval.mean < interval.high < 1
    assert interval.mean == pytest.approx((rows.weights * rows.rewards).mean())
    assert interval.size == 400


@pytest.mark.parametrize("clients", [1, 5])
def test_few_clients_say_nothing(clients):
    assert empirical_bernstein.interval(_log(np.random.default_rng(0), clients), _BOUNDS)[1:] == (0, 1, clients)


def test_they_hold_the_value_of_at_least_95_percent_of_logs():
    generator = np.random.default_rng(1)
    value = (_MEANS[:, 0] * (1 - _TARGET) + _MEANS[:, 1] * _TARGET).mean()
    found = [empirical_bernstein.interval(_log(generator, 200), _BOUNDS) for _ in range(1000)]
    assert np.mean([each.low <= value <= each.high for each in found]) >= 0.95
    assert np.mean([each.high - each.low for each in found]) < 0.8
