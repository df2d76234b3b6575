"""Tests of data.partition."""

import numpy as np
import pytest

from data import partition


def _deal(labels, num_clients: int, concentration: float, seed: int = 0) -> np.ndarray:
    return partition.dirichlet_label_skew(np.asarray(labels), num_clients, concentration, np.random.default_rng(seed))


def _label_shares(labels: np.ndarray, client_of_row: np.ndarray, num_clients: int) -> np.ndarray:
    """Returns each client's share of its most frequent label."""
    counts = np.zeros((num_clients, labels.max() + 1))
    np.add.at(counts, (client_of_row, labels), 1)
    return counts.max(axis=1) / counts.sum(axis=1)


def test_the_first_clients_receive_the_examples_that_do_not_divide():
    assert np.bincount(_deal([0, 1] * 5 + [0], 3, 1.0)).tolist() == [4, 4, 3]


def test_every_example_goes_to_one_of_the_clients():
    client_of_row = _deal(np.arange(40) % 7, 6, 0.5)
    assert (client_of_row.dtype, client_of_row.shape) == (np.int32, (40,))
    assert set(client_of_row.tolist()) == set(range(6))


def test_more_clients_than_examples_leaves_the_last_ones_empty():
    assert np.bincount(_deal([0, 0, 1], 5, 1.0), minlength=5).tolist() == [1, 1, 1, 0, 0]


def test_labels_need_not_be_consecutive():
    assert np.bincount(_deal([-5, 100, 100, -5], 2, 1.0)).tolist() == [2, 2]


def test_one_client_receives_everything_even_labels_its_mix_all_but_excludes():
    assert _deal(np.arange(30) % 10, 1, 1e-6).tolist() == [0] * 30


@pytest.mark.parametrize("concentration", [1e-6, 1e-3])
def test_a_tiny_concentration_gives_a_client_one_label_while_it_lasts(concentration):
    labels = np.arange(2000) % 10
    client_of_row = _deal(labels, 20, concentration)
    # The first client finds every label in stock.
    assert len(set(labels[client_of_row == 0].tolist())) == 1


def test_a_large_concentration_deals_labels_evenly():
    labels = np.arange(10_000) % 2
    shares = _label_shares(labels, _deal(labels, 5, 1e6), 5)
    # 2,000 fair draws: 0.5 with a standard deviation of 0.011.
    assert (shares < 0.56).all()


def test_skew_grows_as_the_concentration_falls():
    labels = np.arange(4000) % 10
    shares = [_label_shares(labels, _deal(labels, 40, value), 40).mean() for value in (0.1, 1.0, 100.0)]
    assert shares[0] > shares[1] > shares[2]


def test_dealing_is_a_function_of_the_generator():
    labels = np.arange(50) % 5
    np.testing.assert_array_equal(_deal(labels, 4, 1.0, seed=1), _deal(labels, 4, 1.0, seed=1))
    assert _deal(labels, 4, 1.0, seed=1).tolist() != _deal(labels, 4, 1.0, seed=2).tolist()
