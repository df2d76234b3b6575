"""Sequences against their definition, and how often they and what is no sequence miss a value at 2,000 looks."""

import math

import numpy as np
import pandas as pd
import pytest

from bandits.evaluation import anytime, bounds
from bandits.evaluation.estimators import Terms
from data.errors import UsageError
from data.reward_bounds import UNIT
from tests.bandits.evaluation import anytime_widths

_LEVEL = math.log(2 / 0.05)
_FRACTIONS = [2.0**-power for power in range(1, 17)]


def _observed(generator, looks=60):
    rows = generator.uniform(0.2, 1.0, looks)
    weights = rows * generator.gamma(2.0, 0.5, looks).clip(0, 3)
    earned = weights * generator.uniform(0.2, 0.8, looks)
    return anytime.Observations(earned, weights - earned, rows)


def _capital(payoffs, rows, value):
    """The mean over fractions of the products, by loops; the largest so far."""
    products, largest, found = [1.0] * len(_FRACTIONS), 0.0, []
    for payoff, count in zip(payoffs, rows, strict=True):
        products = [
            product * (1 + fraction * (payoff / value - count))
            for product, fraction in zip(products, _FRACTIONS, strict=True)
        ]
        largest = max(largest, sum(products) / len(products))
        found.append(largest)
    return found


def test_capitals_are_means_of_products():
    observed = _observed(np.random.default_rng(0))
    for payoffs, value in ((observed.earned, 0.3), (observed.missed, 0.7)):
        (found,) = np.exp(anytime.log_capital(payoffs, observed.rows, np.array([value])))
        np.testing.assert_allclose(np.maximum.accumulate(found), _capital(payoffs, observed.rows, value), rtol=1e-9)
    # Twice the reward that 0.25 a row would give: 1 + f (0.5 / 0.25 - 1) = 1 + f, on average over the fractions.
    ((by_hand,),) = anytime.log_capital(np.array([0.5]), np.array([1.0]), np.array([0.25]))
    assert math.exp(by_hand) == pytest.approx(1 + (1 - 2**-16) / 16, rel=1e-12)


def test_limits_end_where_the_largest_capital_so_far_meets_its_level():
    observed = _observed(np.random.default_rng(1), 400)
    found = anytime.sequence(np.arange(400), observed)
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


def test_a_few_looks_say_nothing_and_say_so():
    observed = _observed(np.random.default_rng(2), 200)
    few, many = (
        anytime.sequence(np.arange(looks), type(observed)(*(each[:looks] for each in observed))) for looks in (1, 200)
    )
    assert (few.is_vacuous, many.is_vacuous) == (True, False)
    assert few.last.size == 1
    none = anytime.sequence(np.arange(0), _observed(np.random.default_rng(2), 0))
    assert none.is_vacuous
    assert none.last[1:] == (0, 1, 0)


_ROWS = Terms(
    np.array([0, 0, 0, 1, 1], np.int32), np.array([2.0, 9.0, 1.0, 4.0, 0.0]), np.array([0.5, 1.0, 0.0, 1.0, 1.0]),
    np.zeros(5), np.zeros(5),
)  # fmt: skip


def test_observations_by_hand():
    looks, observed = anytime.observations(_ROWS, np.array([3, 3, 8, 3, 8]), bounds.Bounds(5.0, 2), ("a", "b"), 0)
    # Round 3: client a has weights 2 and 5, of the 9, b has 4; over two clients of at most two rows each.
    assert looks.tolist() == [3, 8]
    np.testing.assert_allclose(observed.earned, [(1 + 5 + 4) / 4, 0])
    np.testing.assert_allclose(observed.missed, [1 / 4, 1 / 4])
    np.testing.assert_allclose(observed.rows, [3 / 4, 2 / 4])


def test_a_log_without_rounds_is_refused():
    with pytest.raises(UsageError, match="--round_column"):
        anytime.observations(_ROWS, None, bounds.Bounds(5.0, 2), ("a", "b"), 0)


@pytest.mark.parametrize(
    ("flags", "unit"),
    [
        ({}, "rounds"),
        ({"client_selection": "uniform", "cohort_sampling": "poisson", "cache": "per_round"}, "rounds"),
        ({"cohort_sampling": "fixed", "cache": "persistent"}, "periods"),
        ({"client_selection": "pow_d"}, None),
        ({"cohort_sampling": "cyclic"}, None),
        ({"availability": "diurnal"}, None),
        ({"drop_out": 0.1}, None),
        ({"reward_delay": "uniform"}, None),
        ({"reward_drift": "linear"}, None),
    ],
)
def test_what_is_one_observation(flags, unit):
    """None of cohorts that are no fresh samples of one value."""
    if unit:
        assert anytime.unit(flags) == unit
        return
    ((name, value),) = flags.items()
    with pytest.raises(UsageError, match=f"--{name}={value}"):
        anytime.unit(flags)


_LOGS, _LOOKS, _CLIENTS, _COHORT, _MOST_ROWS, _LARGEST = 1000, 2000, 60, 2, 3, 2.5


@pytest.fixture(scope="module")
def logs():
    """The value of clients with one leaning each; what 1,000 logs of policies that follow past rewards tell of it."""
    generator = np.random.default_rng(4)
    sizes = generator.integers(1, _MOST_ROWS + 1, _CLIENTS)
    means = generator.uniform(0.1, 0.9, (_CLIENTS, 2))
    target = generator.uniform(0.05, 0.95, _CLIENTS)  # Probability of action 1.
    value = (sizes * (means[:, 0] * (1 - target) + means[:, 1] * target)).sum() / sizes.sum()
    earned, missed, rows = np.zeros((3, _LOGS, _LOOKS))
    wins = np.ones((_LOGS, 2))
    for look in range(_LOOKS):
        logging = (0.2 + 0.6 * wins[:, 1] / wins.sum(axis=1))[:, None, None]
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
        won = there & rewards
        wins += np.stack([(won & (action == 0)).sum(axis=(1, 2)), (won & (action == 1)).sum(axis=(1, 2))], axis=1)
    return value, anytime.Observations(earned, missed, rows)


@pytest.mark.slow
def test_all_intervals_of_2000_looks_hold_the_value_in_at_least_95_percent_of_logs(logs):
    value, observed = logs
    higher = anytime.log_capital(observed.earned, observed.rows, np.array(value))
    lower = anytime.log_capital(observed.missed, observed.rows, np.array(1 - value))
    misses = (np.maximum(higher, lower) >= _LEVEL).any(axis=1)
    assert misses.mean() <= 0.05
    # The same by the intervals themselves, and they have come to say something.
    for log in range(10):
        found = anytime.sequence(np.arange(_LOOKS), type(observed)(*(each[log] for each in observed)))
        assert misses[log] == ((found.lows > value) | (found.highs < value)).any()
        assert found.highs[-1] - found.lows[-1] < 0.1


@pytest.mark.slow
def test_the_record_of_widths_is_repeated_and_clipping_only_widens():
    record = pd.read_csv(anytime_widths.RECORD)
    for setting in anytime_widths.SETTINGS[1:2]:
        anytime, once = anytime_widths.widths(setting, 0)
        row = record[(record.arm == anytime_widths.name(*setting)) & (record.seed == 0)].iloc[0]
        assert (row.width, row.times_as_wide) == pytest.approx((anytime, anytime / once), rel=1e-4)
    widths = [anytime_widths.widths((10, 100, 1, 0.5, largest), 1)[0] for largest in (1.0, 1.2, 1.5, 1.8, math.inf)]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.3, 0.6, "Anytime: 0.50 (95% confidence sequence 0.30 to 0.60) after 1 rounds"),
        (0.0, 0.99, "the interval covers nearly all of"),
        (0.7, 0.2, "no value is possible"),
    ],
)
def test_the_last_interval_is_put_into_words(low, high, words):
    result = anytime.ConfidenceSequence(np.array([5]), np.array([0.5]), np.array([low]), np.array([high]))
    assert words in " ".join(anytime.sentences(result, bounds.Bounds(4.0, 5), UNIT))
