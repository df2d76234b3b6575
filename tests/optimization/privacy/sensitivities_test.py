"""Sensitivities against all patterns of taking part, counted one by one."""

import math

import numpy as np
import pytest

from optimization.privacy import sensitivities
from tests.optimization.privacy import reference


def _largest_tree_sum(rounds, restart_frequency, min_separation):
    def squared(row):
        trees = np.split(row, range(restart_frequency, rounds, restart_frequency))
        return sum(
            tree[start : start + width].sum() ** 2
            for tree in trees
            for width in (1, 2, 4, 8)
            for start in range(0, len(tree) - width + 1, width)
        )

    return max(map(squared, reference.patterns(rounds, min_separation)))


@pytest.mark.parametrize(("rounds", "restart_frequency"), [(8, 8), (8, 4), (7, 7), (11, 4), (12, 8)])
@pytest.mark.parametrize("min_separation", [1, 2, 3, 5])
def test_tree_sensitivity_is_that_of_the_worst_pattern(rounds, restart_frequency, min_separation, monkeypatch):
    largest = _largest_tree_sum(rounds, restart_frequency, min_separation)
    sensitivities.tree_sensitivity.cache_clear()
    assert sensitivities.tree_sensitivity(rounds, restart_frequency, min_separation) == largest
    sensitivities.tree_sensitivity.cache_clear()
    monkeypatch.setattr(sensitivities, "_MOST_PATTERNS", 0)
    bound = sensitivities.tree_sensitivity(rounds, restart_frequency, min_separation)
    sensitivities.tree_sensitivity.cache_clear()
    assert largest <= bound <= 1.6 * largest
    once_a_tree = rounds % restart_frequency == 0 and min_separation >= restart_frequency
    if once_a_tree or (min_separation == 1 and rounds == restart_frequency == 8):
        assert bound == largest


def test_a_tree_without_restarts_grows_with_the_rounds():
    assert [sensitivities.tree_sensitivity(rounds, 0, 100) for rounds in (0, 1, 2, 3, 4, 64)] == [0, 1, 2, 2, 3, 7]


def test_distributed_noise_follows_the_grid_of_tff():
    # TFF's factory with these arguments and 17 parameters measures scaled_inflated_l2 and scaled_local_stddev so, and
    # the sampler rounds the latter up.
    found = sensitivities.distributed_noise_multiplier(0.5, clip_norm=1.0, cohort=4, dimension=17, bits=16)
    assert found == pytest.approx(math.sqrt(4) * math.ceil(2431.3286) / 9731.067, rel=1e-6)


def test_distributed_noise_approaches_the_central_one_with_finer_grids():
    found = [sensitivities.distributed_noise_multiplier(1.0, 1.0, 100, 1000, bits) for bits in (10, 14, 18, 22)]
    assert found == sorted(found)
    assert found[-1] == pytest.approx(1.0, rel=1e-3)


def test_too_few_bits_are_refused():
    with pytest.raises(ValueError, match="4 bits are too few for the sum of 100 clients"):
        sensitivities.distributed_noise_multiplier(1.0, 1.0, 100, 1000, bits=4)


def test_noise_is_split_as_published():
    # Andrew et al. 2021, Theorem 1: z^-2 = z_delta^-2 + (2 sigma_b)^-2.
    split = sensitivities.split_noise(1.0, clipped_count_stddev=5.0)
    assert split == pytest.approx((1 - 1 / 100) ** -0.5)
    assert split**-2 + 10.0**-2 == pytest.approx(1.0)
    assert sensitivities.split_noise(0.0, clipped_count_stddev=0.0) == 0.0
    with pytest.raises(ValueError, match=r"noise of more than 1 on the count of unclipped clients, not 0\.5"):
        sensitivities.split_noise(2.0, clipped_count_stddev=0.5)
