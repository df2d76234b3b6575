"""Tests of data.partition."""

import numpy as np
import pytest
import scipy.stats

from data import partition


def _deal(labels, num_clients: int, concentration: float, seed: int = 0, size: int | None = None) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return partition.dirichlet_label_skew(np.asarray(labels), num_clients, concentration, draw, size)


@pytest.mark.parametrize("concentration", [1e-6, 1e-3])
def test_a_tiny_concentration_gives_a_client_one_label_while_it_lasts(concentration):
    labels = np.arange(2000) % 10
    client_of_row = _deal(labels, 20, concentration)
    # The first client finds every label in stock.
    assert len(set(labels[client_of_row == 0].tolist())) == 1


def _counts(client_of_row, labels, num_clients: int) -> np.ndarray:
    """Number of examples of each label (columns) for each client."""
    counts, is_assigned = np.zeros((num_clients, labels.max() + 1), int), client_of_row >= 0
    np.add.at(counts, (client_of_row[is_assigned], labels[is_assigned]), 1)
    return counts


@pytest.mark.slow
def test_label_histograms_have_the_dirichlet_distributions_moments():
    labels, size = np.repeat(np.arange(4), 20_000), 100
    shares = _counts(_deal(labels, 200, 0.5, 1, size), labels, 200) / size
    # Dirichlet-multinomial: mean 1/4, variance 1/4 3/4 (1 + (size - 1) / (total + 1)) / size with total = 4 alpha = 2.
    # 800 shares: deviations below four standard errors.
    variance = 3 / 16 * (1 + (size - 1) / 3) / size
    np.testing.assert_allclose(shares.mean(axis=0), 0.25, atol=4 * np.sqrt(variance / 200))
    np.testing.assert_allclose(shares.var(), variance, rtol=0.2)


def test_clients_shares_of_a_label_have_the_dirichlet_distributions_moments():
    labels = np.arange(400_000) % 200
    client_of_row = partition.dirichlet_client_shares(labels, 10, 0.5, np.random.default_rng(0))
    assert client_of_row.dtype == np.int32
    counts = _counts(client_of_row, labels, 10)
    np.testing.assert_array_equal(counts.sum(axis=0), [2000] * 200)
    shares = counts / 2000
    # Dirichlet: mean 1/10, variance (1/10) (9/10) / (total + 1) with total = 10 alpha = 5. 200 labels.
    variance = 0.09 / 6
    np.testing.assert_allclose(shares.mean(axis=1), 0.1, atol=4 * np.sqrt(variance / 200))
    np.testing.assert_allclose(shares.var(), variance, rtol=0.2)


def _hierarchy(coarse_concentration: float, fine_concentration: float):
    """Counts of 5 clients of 20 of the 1200 examples: nothing runs out."""
    fine, draw = np.repeat(np.arange(12), 100), np.random.default_rng(2)
    concentrations = (coarse_concentration, fine_concentration)
    return _counts(partition.hierarchical_label_skew(fine // 4, fine, 5, *concentrations, draw, 20), fine, 5)


def test_a_hierarchys_two_concentrations_skew_coarse_and_fine_labels():
    domains = _hierarchy(0.01, 1000.0)
    assert (domains.reshape(5, 3, 4).sum(axis=2).max(axis=1) >= 19).all()
    assert ((domains > 0).sum(axis=1) >= 4).all()
    single = _hierarchy(1000.0, 0.01).reshape(5, 3, 4)
    assert (single.max(axis=2).sum(axis=1) >= 18).all()
    assert (single.sum(axis=2) > 0).all()


@pytest.mark.parametrize(("concentration", "top_share"), [(1e-4, 1.0), (1e6, 0.1)])
def test_cohorts_follow_shares_that_are_the_same_in_all_rounds(concentration, top_share):
    cohorts = [partition.dirichlet_cohort(20, 2, concentration, 0, round_num) for round_num in range(1, 301)]
    assert all(len(set(cohort.tolist())) == 2 for cohort in cohorts)
    counts = np.bincount(np.concatenate(cohorts), minlength=20)
    # Equal shares: each of 300 cohorts holds a client with probability 0.1, at most 0.17 by four deviations.
    assert counts.max() / 300 >= top_share
    assert top_share == 1.0 or counts.max() / 300 < 0.18
    np.testing.assert_array_equal(cohorts[6], partition.dirichlet_cohort(20, 2, concentration, 0, 7))
    assert partition.dirichlet_cohort(20, 3, 0.5, 0, 1).tolist() == [18, 17, 4]  # As in recorded runs.


def test_shares_too_small_for_numpys_draw_have_the_dirichlet_distribution():
    # The logarithms' difference is that of two exponential variables of mean 1 / concentration, which is exponential
    # but for its sign, and of two gamma variables' logarithms, which vanish beside it.
    logs = np.array([partition._log_shares(np.random.default_rng(seed), 1e-4, 2) for seed in range(2000)])
    differences = np.abs(np.diff(logs, axis=1))[:, 0]
    assert scipy.stats.kstest(differences, scipy.stats.expon(scale=1e4).cdf).pvalue > 0.01


def test_whole_clients_are_held_out_or_rows_of_few_clients():
    owners = np.repeat(np.arange(10), 50)
    split = partition.hold_out(owners, 10, 0)
    assert split.how == "2 of 10 clients"
    assert sorted([*split.train, *split.held_out]) == list(range(10))
    assert set(owners[split.is_held_out]) == set(split.held_out)
    few = partition.hold_out(owners[:150], 3, 0)
    assert np.bincount(owners[:150][few.is_held_out]).tolist() == [10, 10, 10]
    assert (few.train, few.held_out) == ([0, 1, 2], [0, 1, 2])
    assert few.how.startswith("20% of each client's rows")


@pytest.mark.parametrize(
    ("labels", "num_clients", "size", "sizes"),
    [
        ([0, 1] * 5 + [0], 3, None, [4, 4, 3]),
        ([0, 0, 1], 5, None, [1, 1, 1, 0, 0]),
        ([-5, 100, 100, -5], 2, None, [2, 2]),
        (np.arange(30) % 10, 1, None, [30]),
        (np.arange(50) % 5, 4, 6, [6, 6, 6, 6]),
    ],
)
def test_clients_have_equal_sizes_or_the_chosen_one(labels, num_clients, size, sizes):
    client_of_row = _deal(labels, num_clients, 0.5, size=size)
    assert client_of_row.dtype == np.int32
    assert (client_of_row >= 0).sum() == sum(sizes)
    assert np.bincount(client_of_row[client_of_row >= 0], minlength=num_clients).tolist() == sizes
