"""Tests of successive halving in bandits.plans.sweep; `grid_test` runs sweeps."""

import pytest

from bandits.plans import sweep


@pytest.mark.parametrize(
    ("total_rounds", "points", "factor", "rungs"),
    [
        (48, 8, 2, [6, 12, 24, 48]),
        (100, 9, 3, [12, 34, 100]),
        (100, 8, 3, [34, 100]),
        (3, 64, 2, [2, 3]),
        (50, 1, 2, [50]),
    ],
)
def test_rungs_end_with_all_rounds_and_are_as_many_as_the_points_can_climb(total_rounds, points, factor, rungs):
    assert sweep.rungs(total_rounds, points, factor) == rungs


def test_the_best_half_goes_on_and_the_best_of_that_to_the_end():
    search, scores, order = sweep.Halving(points=4, rungs=3, factor=2), {}, []
    while (item := search.next(scores)) is not None:
        order.append(item)
        scores[item] = [0.1, 0.4, 0.2, 0.3][item[0]]
    # Worked by hand after Algorithm 2, one worker: point 1 is the better of the first two, and later of the four.
    assert order == [(0, 0), (1, 0), (1, 1), (2, 0), (3, 0), (3, 1), (1, 2)]


def test_a_point_is_handed_out_once_while_results_are_awaited():
    search = sweep.Halving(points=2, rungs=2, factor=2)
    assert [search.next({}), search.next({}), search.next({})] == [(0, 0), (1, 0), None]
    scores = {(0, 0): 1.0, (1, 0): 1.0}
    assert [search.next(scores), search.next(scores)] == [(0, 1), None]
