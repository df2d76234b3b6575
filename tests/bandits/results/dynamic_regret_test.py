"""Tests of bandits.results.dynamic_regret: sums by hand."""

import math
import pathlib

import numpy as np
import pandas as pd
import pytest

from bandits.results import dynamic_regret
from bandits.results.dynamic_regret import Segment, World
from bandits.worlds.drift import Drift
from optimization.study.results import Run

REWARD = "reward"
ABRUPT = World(Drift("abrupt", start=3, worlds=2), lambda rounds: rounds)


def _runs(*rewards):
    """Returns a run a seed, of these rewards a round."""
    return [
        Run(pathlib.Path(), pd.DataFrame({"round_num": range(1, len(some) + 1), REWARD: some}), {"seed": seed}, "", {})
        for seed, some in enumerate(rewards)
    ]


def _regret(rewards, ceilings, world=ABRUPT, **how):
    return dynamic_regret.of_arm(_runs(*rewards), REWARD, world, ceilings, **how)


def test_each_round_is_compared_with_the_ceiling_of_its_own_world():
    # 0.875 twice, then 0.625 three times, less 0.5, 0.75, 0.125, 0.25 and 0.625.
    found = _regret([[0.5, 0.75, 0.125, 0.25, 0.625]], {0: {0: 0.875}, 1: {0: 0.625}})
    assert found.total.mean == pytest.approx(0.375 + 0.125 + 0.5 + 0.375 + 0.0, abs=1e-12)
    assert (found.rounds, found.a_round.mean, found.a_round.size) == (5, pytest.approx(0.275), 1)
    assert math.isnan(found.total.low)  # One seed has no interval.
    told = [(segment, mean.mean, end.mean) for segment, mean, end in found.segments]
    assert told == [(Segment(1, 2, (0,)), 0.25, 0.125), (Segment(3, 5, (1,)), pytest.approx(0.875 / 3), 0.0)]


def test_the_interval_is_students_of_paired_differences():
    # Regrets of a round, by seed: 0.25 and 0.5, whose mean is 0.375 and deviation 0.125 * 2 ** 0.5.
    found = _regret([[0.5, 0.5, 0.25], [0.25, 0.25, 0.25]], {0: {0: 0.75, 1: 0.75}, 1: {0: 0.5, 1: 0.75}})
    assert found.a_round == pytest.approx((0.375, 0.375 - 12.7062 * 0.125, 0.375 + 12.7062 * 0.125, 2), abs=1e-4)
    assert found.total == pytest.approx((1.125, *(3 * end for end in found.a_round[1:3]), 2))


def test_without_pairs_it_is_welchs():
    from scipy import stats

    rewards, best = [[0.5, 0.25, 0.5], [0.25, 0.5, 0.0], [0.75, 0.5, 0.25]], {4: 0.75, 5: 1.0}
    found = _regret(rewards, {0: best, 1: best}, is_unpaired=True)
    own = np.mean(rewards, axis=1)
    first, second = np.var([0.75, 1.0], ddof=1) / 2, np.var(own, ddof=1) / 3
    freedom = (first + second) ** 2 / (first**2 / 1 + second**2 / 2)
    expected = stats.t.interval(0.95, freedom, 0.875 - own.mean(), (first + second) ** 0.5)
    assert found.a_round == pytest.approx((0.875 - own.mean(), *expected, 2))


def test_between_worlds_the_mixture_of_their_ceilings_counts():
    linear = World(Drift("linear", start=2, rounds=4, worlds=2), lambda rounds: rounds)
    found = _regret([[0.5] * 6], {0: {0: 1.0}, 1: {0: 0.5}}, linear)
    # Ceilings 1, 0.875, 0.75, 0.625, 0.5, 0.5.
    assert found.total.mean == pytest.approx(0.5 + 0.375 + 0.25 + 0.125)
    assert [segment for segment, *_ in found.segments] == [
        Segment(1, 1, (0,)),
        Segment(2, 4, (0, 1)),
        Segment(5, 6, (1,)),
    ]
    assert found.segments[1][1].mean == pytest.approx(0.25)


def test_a_world_that_comes_back_is_a_segment_anew():
    seasons = World(Drift("seasonal", period=4, worlds=2), lambda rounds: rounds)
    assert list(seasons.segments(7)) == [
        Segment(1, 2, (0,)),
        Segment(3, 4, (1,)),
        Segment(5, 6, (0,)),
        Segment(7, 7, (1,)),
    ]
    assert (seasons.needed(2), seasons.needed(7)) == ([0], [0, 1])


def test_rewards_of_a_kept_cache_are_of_the_world_in_which_clients_acted():
    kept = World(Drift("abrupt", start=3, worlds=2), lambda rounds: rounds - (rounds - 1) % 4)
    found = _regret([[0.0] * 6], {0: {0: 1.0}, 1: {0: 0.5}}, kept)
    assert [segment for segment, *_ in found.segments] == [Segment(1, 4, (0,)), Segment(5, 6, (1,))]
    assert found.total.mean == 5.0


def test_a_round_without_a_reward_counts_as_the_mean_of_the_others():
    found = _regret([[0.5, math.nan, 0.5, 0.25]], {0: {0: 1.0}, 1: {0: 0.5}})
    assert found.a_round.mean == pytest.approx((0.5 + 0.0 + 0.25) / 3)
    assert found.total.mean == pytest.approx(0.75 / 3 * 4)


def test_only_rounds_that_all_seeds_have_played_count():
    best = {0: 1.0, 1: 1.0}
    found = _regret([[0.5, 0.5, 0.0], [0.5, 0.5]], {0: best, 1: best})
    assert (found.rounds, found.total.mean) == (2, 1.0)


def test_it_can_be_negative_and_less_can_be_better():
    assert _regret([[0.75, 0.75]], {0: {0: 0.5}}).total.mean == -0.5
    assert _regret([[0.75, 0.75]], {0: {0: 0.5}}, better="down").total.mean == 0.5


def test_nothing_is_told_where_no_seed_is_common_or_all_diverged():
    assert _regret([[0.5, 0.5]], {0: {3: 1.0}}) is None
    assert _regret([[math.nan, math.nan]], {0: {0: 1.0}}) is None
    assert _regret([[0.5, 0.5]], {0: {0: math.nan}}) is None


if __name__ == "__main__":
    pytest.main([__file__])
