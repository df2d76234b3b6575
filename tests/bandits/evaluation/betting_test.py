"""Intervals by betting against their definition, and how often they contain the value."""

import functools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

from bandits.evaluation import betting, bounds, estimates
from bandits.evaluation.estimators import Estimator
from data.errors import UsageError
from data.reward_bounds import UNIT
from tests.bandits.evaluation import anytime_widths
from tests.bandits.evaluation.tables_of_logs import weighted

_LEVEL = math.log(2 / 0.05)
_FRACTIONS = [2.0**-power for power in range(1, 17)]


def _observed(generator, looks=60):
    rows = generator.uniform(0.2, 1.0, looks)
    weights = rows * generator.gamma(2.0, 0.5, looks).clip(0, 3)
    earned = weights * generator.uniform(0.2, 0.8, looks)
    return betting.Observations(earned, weights - earned, rows)


def _capital(payoffs, rows, value):
    """The largest mean over fractions of the products so far."""
    factors = 1 + np.outer(_FRACTIONS, payoffs / value - rows)
    return np.maximum.accumulate(factors.cumprod(axis=1).mean(axis=0))


def test_capitals_are_means_of_products():
    observed = _observed(np.random.default_rng(0))
    for payoffs, value in ((observed.earned, 0.3), (observed.missed, 0.7)):
        (found,) = np.exp(betting.log_capital(payoffs, observed.rows, np.array([value])))
        np.testing.assert_allclose(np.maximum.accumulate(found), _capital(payoffs, observed.rows, value), rtol=1e-9)
    # Twice the reward that 0.25 a row would give: 1 + f (0.5 / 0.25 - 1) = 1 + f, on average over the fractions.
    ((by_hand,),) = betting.log_capital(np.array([0.5]), np.array([1.0]), np.array([0.25]))
    assert math.exp(by_hand) == pytest.approx(1 + (1 - 2**-16) / 16, rel=1e-12)


def test_limits_end_where_the_largest_capital_so_far_meets_its_level():
    observed = _observed(np.random.default_rng(1), 400)
    found = betting.sequence(np.arange(400), observed)
    assert 0 < found.lows[-1] < found.estimates[-1] < found.highs[-1] < 1
    sides = ((observed.earned, found.lows), (observed.missed, 1 - found.highs))
    for payoffs, limits in sides:
        assert (np.diff(limits) >= 0).all()
        for look in (150, 250, 399):
            width = limits[-1] / 128 if look < 399 else 1e-8  # Earlier looks' limits lie on a grid.
            assert _capital(payoffs, observed.rows, limits[look])[look] >= math.exp(_LEVEL) * (1 - 1e-9)
            assert _capital(payoffs, observed.rows, limits[look] + width)[look] < math.exp(_LEVEL)
    ratio = np.cumsum(observed.earned) / np.cumsum(observed.rows)
    np.testing.assert_allclose(found.estimates, ratio, rtol=1e-12)


_LIMITS = bounds.Bounds(5.0, 2)
_ROWS = weighted([0, 0, 0, 1, 1], [2, 9, 1, 4, 0], [0.5, 1, 0, 1, 1])


def test_observations_by_hand():
    looks, observed = betting.observations(_ROWS, np.array([3, 3, 8, 3, 8]), _LIMITS, ("a", "b"), 0)
    # Round 3: client a has weights 2 and 5, of the 9, b has 4; over two clients of at most two rows each.
    assert looks.tolist() == [3, 8]
    np.testing.assert_allclose(observed.earned, [(1 + 5 + 4) / 4, 0])
    np.testing.assert_allclose(observed.missed, [1 / 4, 1 / 4])
    np.testing.assert_allclose(observed.rows, [3 / 4, 2 / 4])
    with pytest.raises(UsageError, match="--round_column"):
        betting.observations(_ROWS, None, _LIMITS, ("a", "b"), 0)


def test_an_observation_is_a_round_or_a_period_if_cohorts_are_fresh_samples_of_one_value():
    fresh = {"client_selection": "uniform", "cohort_sampling": "poisson", "cache": "per_round"}
    kinds = ({}, fresh, {"cohort_sampling": "fixed", "cache": "persistent"})
    assert [betting.unit(flags) for flags in kinds] == ["rounds", "rounds", "periods"]
    refused = {"client_selection": "pow_d", "cohort_sampling": "cyclic", "availability": "diurnal"}
    refused |= {"drop_out": 0.1, "reward_delay": "uniform", "reward_drift": "linear"}
    for name, value in refused.items():
        with pytest.raises(UsageError, match=f"--{name}={value}"):
            betting.unit({name: value})


_LOGS, _LOOKS, _CLIENTS, _COHORT, _MOST_ROWS, _LARGEST = 1000, 2000, 60, 2, 3, 2.5


def _logs():
    """The value of a policy, and the observations of 1,000 logs whose policies depend on past rewards."""
    generator = np.random.default_rng(4)
    sizes = generator.integers(1, _MOST_ROWS + 1, _CLIENTS)
    means = generator.uniform(0.1, 0.9, (_CLIENTS, 2))
    target = generator.uniform(0.05, 0.95, _CLIENTS)  # Probability of action 1.
    value = (sizes * (means[:, 0] * (1 - target) + means[:, 1] * target)).sum() / sizes.sum()
    earned, missed, rows = np.zeros((3, _LOGS, _LOOKS))
    wins = np.ones((2, _LOGS))  # One row per action.
    for look in range(_LOOKS):
        logging = (0.2 + 0.6 * wins[1] / wins.sum(axis=0))[:, None, None]
        first = generator.integers(_CLIENTS, size=_LOGS)
        second = (first + generator.integers(1, _CLIENTS, _LOGS)) % _CLIENTS
        cohort = np.stack([first, second], axis=1)
        there = np.arange(_MOST_ROWS) < sizes[cohort][..., None]
        action = (generator.random(there.shape) < logging).astype(int)
        chances = target[cohort][..., None]
        weights = np.where(action, chances / logging, (1 - chances) / (1 - logging)).clip(0, _LARGEST) * there
        rewards = generator.random(there.shape) < means[cohort[..., None], action]
        for array, each in ((earned, weights * rewards), (missed, weights * ~rewards), (rows, there)):
            array[:, look] = each.sum(axis=(1, 2)) / (_COHORT * _MOST_ROWS)
        wins += [(there & rewards & (action == each)).sum(axis=(1, 2)) for each in (0, 1)]
    return value, betting.Observations(earned, missed, rows)


@pytest.mark.slow
def test_all_intervals_of_2000_looks_hold_the_value_in_at_least_95_percent_of_logs():
    value, observed = _logs()
    higher = betting.log_capital(observed.earned, observed.rows, np.array(value))
    lower = betting.log_capital(observed.missed, observed.rows, np.array(1 - value))
    misses = (np.maximum(higher, lower) >= _LEVEL).any(axis=1)
    assert misses.mean() <= 0.05
    # The same by the intervals themselves, and they have come to say something.
    for log in range(10):
        found = betting.sequence(np.arange(_LOOKS), type(observed)(*(each[log] for each in observed)))
        assert misses[log] == ((found.lows > value) | (found.highs < value)).any()
        assert found.highs[-1] - found.lows[-1] < 0.1


@pytest.mark.slow
def test_the_record_of_widths_is_repeated_and_clipping_only_widens():
    record, setting = pd.read_csv(anytime_widths.RECORD), anytime_widths.SETTINGS[1]
    anytime, once = anytime_widths.widths(setting, 0)
    row = record[(record.arm == anytime_widths.name(*setting)) & (record.seed == 0)].iloc[0]
    assert (row.width, row.times_as_wide) == pytest.approx((anytime, anytime / once), rel=1e-4)
    widths = [anytime_widths.widths((10, 100, 1, 0.5, largest), 1)[0] for largest in (1.0, 1.2, 1.5, 1.8, math.inf)]
    assert widths == sorted(widths, reverse=True)


def test_an_empty_interval_is_reported():
    looks, estimate, low, high = np.array([[5], [0.5], [0.6], [0.3]])
    impossible = betting.ConfidenceSequence(looks, estimate, low, high)
    assert "no value is possible" in " ".join(betting.sentences(impossible, _LIMITS, UNIT, "rounds"))


def _estimated(rows, bounds=UNIT):
    """The log's estimate and that of SNIPS."""
    few, _ = betting.few_outcomes(rows, bounds) or (None, None)
    return estimates.estimates(rows, [Estimator("snips")], list(map(str, np.unique(rows.clients))), few=few)


def test_limits_are_those_values_at_which_the_mean_capital_reaches_its_level():
    rewards, sizes = np.zeros(60), np.repeat([1, 2, 3], 20)
    rewards[[0, 30, 50]] = 1  # Clients with 1, 2 and 3 rows.
    clients = np.repeat(np.arange(60), sizes)
    rows = weighted(clients, np.ones(120), rewards[clients])
    found = betting.few_outcomes(rows, UNIT)[0].log
    assert found.others == pytest.approx(6**2 / (1 + 4 + 9))
    stakes = {1: 1 / 8, 0.75: 1 / 8, 0.5: 1 / 8, 0.25: 1 / 8} | {4.0**-power: 1 / 14 for power in range(2, 9)}

    def excess(value, payoffs):
        products = {f: np.prod(1 + f * (payoffs / value - sizes) / 3) for f in stakes}
        return sum(stakes[f] * product for f, product in products.items()) - 2 / 0.1

    earned = rewards * sizes
    low, high = found.limits(0.9)
    assert low == pytest.approx(optimize.brentq(excess, 1e-6, 0.04, args=(earned,)), rel=1e-6)
    assert 1 - high == pytest.approx(optimize.brentq(excess, 0.5, 0.96, args=(sizes - earned,)), rel=1e-6)


def test_few_are_below_10_and_below_a_quarter_of_the_effective_clients():
    for clients, few, many in ((100, 9, 10), (30, 7, 8)):
        for others, are_few in ((few, True), (many, False), (clients - few, True)):
            rows = weighted(np.arange(clients), np.ones(clients), np.arange(clients) < others)
            assert bool(betting.few_outcomes(rows, UNIT)) == are_few
    # A policy has few outcomes by its own weights: here two of the first 100 clients, whereas the log has 102.
    found, _ = betting.few_outcomes(weighted(np.arange(200), 2.0 * (np.arange(200) < 100), np.arange(200) >= 98), UNIT)
    assert (found.log.are_few, found.policy.are_few) == (False, True)
    assert (found.policy.mode, found.policy.others) == (0, 2)


def test_many_outcomes_and_the_logs_own_policy_keep_their_intervals():
    generator = np.random.default_rng(0)
    assert betting.few_outcomes(weighted(np.arange(12), np.ones(12), generator.normal(size=12)), None) is None
    logged, snips = _estimated(weighted(np.arange(50), np.ones(50), np.arange(50) < 3))
    assert logged.value_by == snips.value_by == "betting"
    assert snips.difference.mean == 0
    assert np.isnan(snips.difference.low)


def test_without_bounds_there_is_a_value_but_neither_interval_nor_difference():
    rows = weighted(np.arange(100), np.tile([2.0, 0], 50), np.where(np.arange(100) < 2, 30.0, 5.0))
    logged, snips = _estimated(rows, None)
    assert (logged.value.mean, snips.value.mean) == (5.5, 5.5)
    assert np.isnan([logged.value.low, snips.value.high, snips.difference.mean, snips.difference.low]).all()
    _, finding = betting.few_outcomes(rows, None)
    assert finding.is_warning
    assert "1 for the policy (other than 5)" in finding.text


_SHOWN_CLIENTS, _ACTIONS = 1000, 10


@functools.cache
def _interval_of_counts(shown, others, elsewhere, is_mirrored):
    """Intervals of the policy of one action: value and difference, from how many of its rows have another reward."""
    rewards = np.zeros(_SHOWN_CLIENTS)
    rewards[:others] = 1
    rewards[shown : shown + elsewhere] = 1
    weights = np.where(np.arange(_SHOWN_CLIENTS) < shown, float(_ACTIONS), 0)
    snips = _estimated(weighted(np.arange(_SHOWN_CLIENTS), weights, 1 - rewards if is_mirrored else rewards))[1]
    return snips.value, snips.difference


@pytest.mark.slow
@pytest.mark.parametrize(("events", "is_mirrored"), [(0, False), (1, False), (1, True), (5, False), (15, True)])
def test_intervals_hold_the_value_with_any_number_of_events(events, is_mirrored):
    """Of 1,000 clients, 100 on average are shown the action; events is the expected number with another reward."""
    generator = np.random.default_rng(events)
    rate = events / (_SHOWN_CLIENTS / _ACTIONS)
    shown = generator.binomial(_SHOWN_CLIENTS, 1 / _ACTIONS, 300)
    counts = zip(shown, generator.binomial(shown, rate), generator.binomial(_SHOWN_CLIENTS - shown, rate), strict=True)
    found = [_interval_of_counts(*map(int, each), is_mirrored) for each in counts]
    value = 1 - rate if is_mirrored else rate
    assert np.mean([one.low <= value <= one.high for one, _ in found]) >= 0.94
    assert np.mean([one.low <= 0 <= one.high for _, one in found]) >= 0.94
    assert np.mean([one.low > 0 for _, one in found]) <= 0.03
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
        _, snips = _estimated(weighted(clients, is_first / chances[:, 0], rewards))
        held.append([snips.value.low <= 0.01 <= snips.value.high, snips.difference.low <= 0 <= snips.difference.high])
    assert (np.mean(held, axis=0) >= 0.94).all()
