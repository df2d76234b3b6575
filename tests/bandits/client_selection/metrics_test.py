"""Tests of what is measured of all clients' losses."""

import numpy as np
import pytest

from bandits.client_selection import metrics


def test_jain_index_of_equal_losses_is_one():
    assert metrics.jain_index(np.full(7, 0.3)) == pytest.approx(1)


def test_jain_index_of_one_client_with_all_the_loss_is_one_over_the_clients():
    assert metrics.jain_index(np.array([0, 0, 2.5, 0])) == pytest.approx(1 / 4)


def test_jain_index_by_equation_3():
    losses = np.array([1.0, 2.0, 5.0])
    assert metrics.jain_index(losses) == pytest.approx(1 / 3 / np.square(losses / 8).sum())


def test_jain_index_of_no_loss_at_all_is_that_of_equal_ones():
    assert metrics.jain_index(np.zeros(4)) == 1


@pytest.mark.parametrize(("clients", "expected"), [(30, 29.0), (25, 24.0), (5, 5.0), (1, 1.0)])
def test_the_worst_decile_is_a_tenth_rounded_up(clients, expected):
    losses = np.random.default_rng(0).permutation(np.arange(1.0, clients + 1))
    assert metrics.worst_decile(losses) == expected
