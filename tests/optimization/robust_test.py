import numpy as np
import pytest
import scipy.stats
import tensorflow_federated as tff

from optimization import collecting, robust
from tests.optimization import linear_rounds

UPDATES = np.random.default_rng(2).normal(size=(10, 6)).astype(np.float32)
TYPES = tff.TensorType(np.float32, (6,)), tff.TensorType(np.float32)


def _aggregate(updates: np.ndarray, trimmed_share: float | None = None, cohort_size: int = 10):
    process = robust.TrimmedMeanFactory(cohort_size, trimmed_share).create(*TYPES)
    output = process.next(process.initialize(), list(updates), [np.float32(1)] * len(updates))
    return output.result, float(output.measurements["zero_share"])


def _median(updates: np.ndarray) -> np.ndarray:
    return np.median(updates, axis=0)


def _trimmed_mean(updates: np.ndarray) -> np.ndarray:
    return np.sort(updates, axis=0)[1:-1].mean(axis=0)


@pytest.mark.parametrize(
    ("num_clients", "share", "aggregate"), [(4, None, _median), (5, None, _median), (7, 0.2, _trimmed_mean)]
)
def test_five_rounds_are_those_in_numpy(tff_worker, num_clients, share, aggregate):
    cohort = [linear_rounds.client(number, 5 + number) for number in range(num_clients)]
    linear_rounds.assert_same_rounds(robust.TrimmedMeanFactory(num_clients, share), cohort, aggregate)


@pytest.mark.parametrize(("num_clients", "share"), [(10, 0.1), (10, 0.25), (9, 0.0), (3, 0.49)])
def test_the_trimmed_mean_is_that_of_scipy(tff_worker, num_clients, share):
    updates = UPDATES[:num_clients]
    np.testing.assert_allclose(
        _aggregate(updates, share)[0], scipy.stats.trim_mean(updates, share, axis=0), rtol=0, atol=1e-6
    )


def test_rounding_of_the_share_loses_no_client(tff_worker):
    updates = np.zeros((100, 6), np.float32)
    updates[-29:] = 1e6  # 0.29 x 100 is 28.999999999999996.
    np.testing.assert_array_equal(_aggregate(updates, 0.29, 100)[0], np.zeros(6))


def test_a_client_whose_update_is_not_finite_counts_as_zeros(tff_worker):
    updates = np.array([[1.0] * 6, [2.0] * 6, [np.nan, 5.0, 5.0, 5.0, 5.0, 5.0]], np.float32)
    np.testing.assert_array_equal(_aggregate(updates)[0], np.ones(6))


def test_the_zero_share_counts_coordinates_that_most_clients_leave_unchanged(tff_worker):
    updates = np.zeros((5, 6), np.float32)
    updates[:3, :2] = 1.0
    updates[:2, 2:5] = 1.0
    result, zero_share = _aggregate(updates)
    np.testing.assert_array_equal(result, [1, 1, 0, 0, 0, 0])
    assert zero_share == pytest.approx(4 / 6)


def test_a_round_without_clients_is_not_a_number(tff_worker):
    result, zero_share = _aggregate(UPDATES[:0])
    assert np.isnan(result).all()
    assert np.isnan(zero_share)


def test_blocks_and_missing_clients_change_nothing(tff_worker, monkeypatch):
    whole, _ = _aggregate(UPDATES, 0.2)
    monkeypatch.setattr(collecting, "_COLLECTED_CELLS", 25)
    monkeypatch.setattr(collecting, "_PLACES", 3)
    np.testing.assert_array_equal(_aggregate(UPDATES, 0.2, 12)[0], whole)
