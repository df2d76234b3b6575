"""SLOPE against hand-made intervals, and on logs of which the right choice is known."""

import math

import numpy as np
import pytest

from bandits.evaluation import estimates, totals
from bandits.evaluation.estimators import Terms, terms_of_rows
from optimization.study.intervals import Interval


def _interval(mean, half):
    return Interval(mean, mean - half, mean + half, 9)


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([(0, 5), (1, 3), (2, 1)], 2),
        ([(0, 3), (3.5, 1), (0, 0.5)], 1),  # [-3, 3], [2.5, 4.5], [-0.5, 0.5]: the third meets the first alone.
        ([(0, 1), (2.1, 1), (0, 1)], 0),  # Those after one that does not meet are not looked at.
        ([(0, 1), (2.1, 1), (2, 2)], 2),  # Widths count as those of later ones, if these are wider.
        ([(0, math.nan), (1, 1), (9, 1)], 1),  # What has no interval could lie anywhere.
    ],
)
def test_the_last_whose_interval_meets_all_before(candidates, expected):
    assert estimates.last_that_meets([_interval(*candidate) for candidate in candidates]) == expected


@pytest.mark.parametrize("path", estimates.PATHS.values())
def test_paths_go_from_the_unbiased_to_the_least_variance(path):
    weights = np.array([0.0, 0.5, 3.0, 30.0, 5000.0])
    ones, zeros = np.ones(5), np.zeros(5)
    rows = Terms(np.arange(5), weights, ones, zeros, zeros)
    reached = np.array([candidate.numerator(rows) for candidate in path])
    np.testing.assert_array_equal(reached[0], weights)
    assert (np.diff(reached, axis=0) <= 1e-12).all()


def _log(clients, rare_reward):
    """A rare action is logged with 0.004 and played with 0.2: weights of 50, beside some of 0.8."""
    generator = np.random.default_rng(3)
    rare = generator.random(5 * clients) < 0.004
    rewards = np.where(rare, rare_reward, 0.5) + generator.normal(0, 0.1, 5 * clients)
    target, propensities = np.where(rare, 0.2, 0.8), np.where(rare, 0.004, 0.996)
    return terms_of_rows(np.arange(5 * clients) // 5, rare.astype(int), rewards, propensities, target)


@pytest.mark.parametrize(("clients", "is_clipped"), [(40, True), (20_000, False)])
def test_it_clips_what_is_noise_and_keeps_what_is_not(clients, is_clipped):
    path = estimates.PATHS["clipped_ips"]
    layout = totals.Layout(path)
    sums = totals.sums(_log(clients, 0.9), layout)
    chosen = estimates.choose_by_slope(sums, layout, path)
    assert (chosen.parameter < 50) == is_clipped
    if not is_clipped:
        interval = totals.interval(sums, layout.ratio(chosen))
        assert interval.low < 0.8 * 0.5 + 0.2 * 0.9 < interval.high
