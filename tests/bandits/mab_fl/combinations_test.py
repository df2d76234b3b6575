"""Tests of bandits.mab_fl.combinations."""

import numpy as np
import pytest
import scipy.stats

from bandits.mab_fl import combinations


@pytest.mark.parametrize(("combination", "expected"), [("0110", [0, 0.25, 0.75, 0]), ("0100", [0, 1, 0, 0])])
def test_shares_are_proportional_to_training_rows(combination, expected):
    shares = combinations.shares(combination, [10, 30, 90, 50])
    np.testing.assert_allclose(shares, expected, rtol=1e-6)


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
