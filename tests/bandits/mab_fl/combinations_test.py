"""Tests of bandits.mab_fl.combinations."""

import itertools

import numpy as np
import pytest
import scipy.stats

from bandits.mab_fl import combinations


@pytest.mark.parametrize(("combination", "expected"), [("0110", [0, 0.25, 0.75, 0]), ("0100", [0, 1, 0, 0])])
def test_shares_are_proportional_to_training_rows(combination, expected):
    shares = combinations.shares(combination, [10, 30, 90, 50])
    np.testing.assert_allclose(shares, expected, rtol=1e-6)


def test_communications_are_those_of_section_8_3_2():
    assert combinations.communications(2, is_evaluated=True) == 6
    for count in (3, 4, 6):
        # k + 3 on average over all combinations.
        sizes = [len(combinations.members(one)) for one in combinations.all_with(0, count)]
        assert np.mean([combinations.communications(size, is_evaluated=True) for size in sizes]) == count + 3
        # Extreme Explore whose averages travel with the next round's models.
        assert combinations.communications(count, is_evaluated=False) == 2 * count


@pytest.mark.parametrize("count", [2, 4, 6])
def test_expected_overlap_is_that_of_all_pairs_of_different_combinations(count):
    others = list(itertools.product([0, 1], repeat=count - 1))
    overlaps = [np.dot(one, two) for one, two in itertools.combinations(others, 2)]
    assert combinations.expected_overlap(count) == pytest.approx(np.mean(overlaps))


def worse(rewards: np.ndarray, level: float) -> np.ndarray:
    return combinations.clearly_worse(rewards.sum(axis=0), rewards.T @ rewards, len(rewards), level)


@pytest.mark.parametrize("rounds", [3, 5, 20])
def test_the_test_is_scipy_s_paired_one_sided_t_test_against_the_best(rounds):
    draw = np.random.default_rng(rounds)
    rewards = 0.01 * draw.normal(size=(rounds, 1)) + draw.normal([0.02, 0.01, -0.01], 0.01, (rounds, 3))
    best = int(np.argmax(rewards.mean(axis=0)))
    p = [scipy.stats.ttest_rel(rewards[:, best], other, alternative="greater").pvalue for other in rewards.T]
    for level in (0.001, 0.05, 0.5):
        np.testing.assert_array_equal(worse(rewards, level), np.nan_to_num(p, nan=1.0) < level)


def test_nothing_is_dropped_before_the_third_round_or_where_differences_never_vary():
    assert not worse(np.array([[0.9, 0.1], [0.8, 0.1]]), 0.5).any()
    assert not worse(np.array([[0.9, 0.4], [0.7, 0.2], [0.6, 0.1]]), 0.5).any()


@pytest.mark.slow
def test_the_best_combination_is_dropped_no_more_often_than_the_level_of_a_run_says():
    """The first of three equal combinations, 15 rounds of normal rewards that share a part; 10% by Bonferroni."""
    draw, dropped = np.random.default_rng(0), 0
    for _ in range(1000):
        rewards = draw.normal(size=(15, 1)) + draw.normal(size=(15, 3))
        dropped += any(worse(rewards[:rounds], 0.1 / (2 * 15))[0] for rounds in range(3, 16))
    assert dropped <= 100
