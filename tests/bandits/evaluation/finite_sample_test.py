"""Intervals where few clients have another than the most frequent reward: limits, thresholds and coverage."""

import functools

import numpy as np
import pytest
from scipy import optimize

from bandits.evaluation import estimates, finite_sample, totals
from bandits.evaluation.estimators import Estimator, Terms
from data.reward_bounds import UNIT

_PATHS = {"snips": (Estimator("snips"),)}
_LAYOUT = estimates.layout(_PATHS)


def _rows(clients, weights, rewards):
    zeros = np.zeros(len(clients))
    return Terms(np.asarray(clients, np.int32), np.asarray(weights, float), np.asarray(rewards, float), zeros, zeros)


def _estimated(rows, bounds=UNIT):
    """The log's estimate and that of SNIPS."""
    few = finite_sample.find(rows, bounds)
    return estimates.estimates(totals.sums(rows, _LAYOUT), _LAYOUT, _PATHS, None, few=few)


def test_limits_are_those_values_at_which_the_mean_capital_reaches_its_level():
    rewards, sizes = np.zeros(60), np.repeat([1, 2, 3], 20)
    rewards[[0, 30, 50]] = 1  # Clients with 1, 2 and 3 rows.
    clients = np.repeat(np.arange(60), sizes)
    rows = _rows(clients, np.ones(120), rewards[clients])
    found = finite_sample.find(rows, UNIT).log
    assert found.others == pytest.approx(6**2 / (1 + 4 + 9))
    stakes = {1: 1 / 8, 0.75: 1 / 8, 0.5: 1 / 8, 0.25: 1 / 8} | {4.0**-power: 1 / 14 for power in range(2, 9)}

    def excess(value, payoffs):
        products = {f: np.prod(1 + f * (payoffs / value - sizes) / 3) for f in stakes}
        return sum(stakes[f] * product for f, product in products.items()) - 2 / 0.1

    earned = rewards * sizes
    low, high = found.limits(0.9)
    assert low == pytest.approx(optimize.brentq(excess, 1e-6, 0.04, args=(earned,)), rel=1e-6)
    assert 1 - high == pytest.approx(optimize.brentq(excess, 0.5, 0.96, args=(sizes - earned,)), rel=1e-6)


@pytest.mark.parametrize(
    ("clients", "others", "are_few"), [(100, 9, True), (100, 10, False), (100, 95, True), (30, 7, True), (30, 8, False)]
)
def test_few_are_below_10_and_below_a_quarter_of_the_effective_clients(clients, others, are_few):
    rows = _rows(np.arange(clients), np.ones(clients), np.arange(clients) < others)
    assert bool(finite_sample.find(rows, UNIT)) == are_few


def test_a_policy_has_few_outcomes_by_its_own_weights():
    weights = np.where(np.arange(200) < 100, 2.0, 0)
    rewards = np.arange(200) >= 98  # Two of the first 100 clients, and all others.
    found = finite_sample.find(_rows(np.arange(200), weights, rewards), UNIT)
    assert (found.log.are_few, found.policy.are_few) == (False, True)
    assert (found.policy.mode, found.policy.others) == (0, 2)


def test_many_outcomes_and_the_logs_own_policy_keep_their_intervals():
    generator = np.random.default_rng(0)
    assert finite_sample.find(_rows(np.arange(12), np.ones(12), generator.normal(size=12)), None) is None
    logged, snips = _estimated(_rows(np.arange(50), np.ones(50), np.arange(50) < 3))
    assert logged.value_by == snips.value_by == "betting"
    assert snips.difference.mean == 0
    assert np.isnan(snips.difference.low)


def test_without_bounds_there_is_a_value_but_neither_interval_nor_difference():
    rows = _rows(np.arange(100), np.tile([2.0, 0], 50), np.where(np.arange(100) < 2, 30.0, 5.0))
    logged, snips = _estimated(rows, None)
    assert (logged.value.mean, snips.value.mean) == (5.5, 5.5)
    assert np.isnan([logged.value.low, snips.value.high, snips.difference.mean, snips.difference.low]).all()
    finding = finite_sample.finding(finite_sample.find(rows, None), None)
    assert finding.is_warning
    assert "1 for the policy (other than 5)" in finding.text
    assert "--reward_bounds=LOW,HIGH" in finding.text


_LOGS, _CLIENTS, _ACTIONS = 300, 1000, 10


@functools.cache
def _interval_of_counts(shown, others, elsewhere, is_mirrored):
    """Intervals of the policy of one action: value and difference, from how many of its rows have another reward."""
    rewards = np.zeros(_CLIENTS)
    rewards[:others] = 1
    rewards[shown : shown + elsewhere] = 1
    weights = np.where(np.arange(_CLIENTS) < shown, float(_ACTIONS), 0)
    snips = _estimated(_rows(np.arange(_CLIENTS), weights, 1 - rewards if is_mirrored else rewards))[1]
    return snips.value, snips.difference


@pytest.mark.slow
@pytest.mark.parametrize("is_mirrored", [False, True])
@pytest.mark.parametrize("events", [0, 1, 5, 15])
def test_intervals_hold_the_value_with_any_number_of_events(events, is_mirrored):
    """Of 1,000 clients, 100 on average are shown the action; events is the expected number with another reward."""
    generator = np.random.default_rng(events)
    rate = events / (_CLIENTS / _ACTIONS)
    shown = generator.binomial(_CLIENTS, 1 / _ACTIONS, _LOGS)
    counts = zip(shown, generator.binomial(shown, rate), generator.binomial(_CLIENTS - shown, rate), strict=True)
    found = [_interval_of_counts(*map(int, each), is_mirrored) for each in counts]
    value = 1 - rate if is_mirrored else rate
    assert np.mean([one.low <= value <= one.high for one, _ in found]) >= 0.94
    assert np.mean([one.low <= 0 <= one.high for _, one in found]) >= 0.94
    assert np.mean([one.low > 0 for _, one in found]) <= 0.03  # Today's was 36% at one event, mirrored.
    assert np.mean([one.high < 0 for _, one in found]) <= 0.03
    assert np.mean([one.high - one.low for one, _ in found]) < 0.2


@pytest.mark.slow
def test_intervals_hold_the_value_with_unequal_clients_and_weights():
    """Clients have up to 40 rows and rates of their own; propensities follow a softmax policy."""
    generator, held = np.random.default_rng(0), []
    for _ in range(300):
        clients = np.repeat(np.arange(200), generator.geometric(0.2, 200).clip(max=40))
        chances = np.exp(generator.normal(size=(len(clients), 4)))
        chances /= chances.sum(axis=1, keepdims=True)
        is_first = generator.random(len(clients)) < chances[:, 0]
        rewards = generator.random(len(clients)) < 0.01 * generator.exponential(size=200)[clients]
        _, snips = _estimated(_rows(clients, is_first / chances[:, 0], rewards))
        held.append([snips.value.low <= 0.01 <= snips.value.high, snips.difference.low <= 0 <= snips.difference.high])
    assert (np.mean(held, axis=0) >= 0.94).all()
