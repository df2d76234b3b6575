"""Toeplitz factorizations against matrices, all participation patterns and jax-privacy (jax_privacy.json)."""

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.special

from optimization.privacy import factorizations
from tests.optimization.privacy import reference


def _matrix(column, rounds):
    padded = np.zeros(rounds)
    padded[: len(column)] = column[:rounds]
    return scipy.linalg.toeplitz(padded, np.zeros(rounds))


@pytest.mark.parametrize("expected", reference.JAX_PRIVACY["factorizations"], ids=lambda one: f"{one['bands']}_bands")
def test_banded_matrices_equal_jax_privacys_up_to_the_norm(expected):
    bands, rounds, norm = expected["bands"], expected["rounds"], expected["column_norm"]
    column = factorizations.banded_column(bands)
    powers = np.arange(min(bands, 12))  # Of the series of 1 / sqrt(1 - x), whose coefficients jax-privacy gives.
    np.testing.assert_allclose(norm * column[:12], scipy.special.binom(2 * powers, powers) / 4.0**powers, rtol=1e-6)
    assert factorizations.prefix_noise(column, rounds) == pytest.approx(norm * expected["prefix_noise"], rel=1e-6)
    sensitivity = factorizations.squared_sensitivity(column, rounds, expected["min_separation"])
    assert sensitivity == pytest.approx(expected["squared_sensitivity"] / norm**2, rel=1e-6)


@pytest.mark.parametrize("expected", reference.JAX_PRIVACY["optimized"], ids=lambda one: f"{one['bands']}_bands")
def test_optimized_bands_have_the_noise_of_jax_privacys(expected):
    column = factorizations.optimal_banded_column(expected["bands"], expected["rounds"])
    assert np.linalg.norm(column) == pytest.approx(1.0)
    assert np.all(np.diff(column) < 0)
    assert column[-1] > 0
    assert factorizations.prefix_noise(column, expected["rounds"]) == pytest.approx(expected["noise"], rel=1e-6)


@pytest.mark.parametrize("min_separation", [1, 2, 3, 10])
@pytest.mark.parametrize(
    "column",
    [*map(factorizations.banded_column, (1, 3, 6, 12)), factorizations.optimal_banded_column(4, 12)],
    ids=["1", "3", "6", "12", "4, optimized"],
)
def test_sensitivity_is_the_largest_of_all_patterns(column, min_separation):
    matrix = _matrix(column, 12)
    for rounds in (1, 5, 12):
        largest = max(
            np.sum((matrix[:rounds, :rounds] @ row) ** 2) for row in reference.patterns(rounds, min_separation)
        )
        assert factorizations.squared_sensitivity(column, rounds, min_separation) == pytest.approx(largest)


@pytest.mark.parametrize(("bands", "min_separation"), [(1, 1), (8, 1), (8, 3), (3, 8), (5, 4), (40, 7)])
def test_sensitivity_of_many_rounds_is_that_of_each(bands, min_separation):
    for rounds in (1, 4, 9, 30, 31, 47):
        participates = np.zeros(rounds)
        participates[::min_separation] = 1
        moved = np.convolve(participates, factorizations.banded_column(bands))[:rounds]
        found = factorizations.squared_sensitivity(factorizations.banded_column(bands), rounds, min_separation)
        assert found == pytest.approx(moved @ moved)


def test_a_thousand_million_rounds_need_no_memory():
    assert factorizations.squared_sensitivity(factorizations.banded_column(8), 10**9, 50) == pytest.approx(10**9 / 50)


def test_noise_on_prefix_sums_is_that_of_the_matrices():
    column = factorizations.banded_column(4)
    prefix = np.tril(np.ones((30, 30))) @ np.linalg.inv(_matrix(column, 30))
    assert factorizations.prefix_noise(column, 30) == pytest.approx(math.sqrt((prefix**2).sum(axis=1).mean()))


def test_a_trees_noise_counts_the_nodes_of_a_prefix():
    # Rounds 1 to 7: 1, 1, 2, 1, 2, 2 and 3 nodes. With restarts after 3: 1, 1, 2, then 2 more than these.
    assert factorizations.tree_prefix_noise(7, 0) == pytest.approx(math.sqrt(12 / 7))
    assert factorizations.tree_prefix_noise(6, 3) == pytest.approx(math.sqrt((4 + 10) / 6))


@pytest.mark.parametrize(("first", "last"), [(0, 30), (0, 0), (7, 8), (7, 30)])
def test_noise_on_the_sum_of_some_rounds_is_that_of_the_matrices(first, last):
    column = factorizations.banded_column(4)
    rows = np.vstack([np.zeros(30), np.tril(np.ones((30, 30))) @ np.linalg.inv(_matrix(column, 30))])
    expected = np.linalg.norm(rows[last] - rows[first])
    assert factorizations.interval_noise(column[:30], first, last) == pytest.approx(expected)


def test_a_trees_sum_of_some_rounds_has_the_nodes_in_which_two_prefixes_differ():
    # Prefixes of 4 to 7 rounds share the node of rounds 1 to 4.
    assert [factorizations.tree_nodes(4, last, 8) for last in (4, 5, 6, 7)] == [0, 1, 1, 2]
    assert factorizations.tree_nodes(7, 8, 8) == 4
    for size in (3, 8, 40):
        mean = np.mean([factorizations.tree_nodes(0, last, size) for last in range(1, 41)])
        assert math.sqrt(mean) == pytest.approx(factorizations.tree_prefix_noise(40, size))
