"""Tests of bandits.results.tuning."""

import itertools
import math

import pytest

from bandits.results import tuning

POINTS = [0.3, 0.9, 0.1, 0.5, 0.5]


@pytest.mark.parametrize("budget", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("better", "best"), [("up", max), ("down", min)])
def test_it_is_the_mean_over_all_draws(budget, better, best):
    drawn = [best(some) for some in itertools.combinations(POINTS, budget)]
    assert tuning.expected_best(POINTS, budget, better=better) == pytest.approx(sum(drawn) / len(drawn), rel=1e-12)


def test_points_that_diverged_count_as_the_worst():
    assert tuning.expected_best([0.2, math.nan], 1) == 0.2
    assert tuning.expected_best([0.2, 0.6, math.nan], 1) == pytest.approx(1.0 / 3)
    assert math.isnan(tuning.expected_best([math.nan, math.inf], 1))


@pytest.mark.parametrize("budget", [0, 6])
def test_budgets_beyond_the_points_are_refused(budget):
    with pytest.raises(ValueError, match=f"A budget of {budget} must be 1 to the 5 points"):
        tuning.expected_best(POINTS, budget)
