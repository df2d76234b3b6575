"""SLOPE against hand-made intervals, and on logs of which the right choice is known."""

import math

import numpy as np
import pytest

from bandits.evaluation import estimates
from bandits.evaluation.estimators import Terms
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
