import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from optimization import collecting
from optimization.posterior import kernels, mean_shift_aggregation
from optimization.posterior.flags import BANDWIDTHS, MeanShift
from tests.optimization import linear_rounds
from tests.optimization.posterior import reference

KERNELS = sorted(kernels.KERNELS)


def _updates(num_clients: int = 21) -> np.ndarray:
    """16 parameters, half of them clustered, and two in which all or most clients agree."""
    draw = np.random.default_rng(num_clients)
    updates = draw.normal(size=(num_clients, 16))
    updates[:, :8] = 0.3 * updates[:, :8] + 2 * draw.integers(0, 3, (num_clients, 8))
    updates[:, 3], updates[: 2 * num_clients // 3, 4] = 0.1, 0.2
    return updates.astype(np.float32)


def _aggregate(shift: MeanShift, *updates: np.ndarray, shifts_clients: bool) -> tuple[np.ndarray, float]:
    """Aggregate of parts of a cohort, and the share of parameters that moved."""

    def aggregate(*parts):
        size = updates[0].shape[1]
        return mean_shift_aggregation.aggregate(shift, parts, size, np.nan, shifts_clients=shifts_clients)

    result = tf.function(aggregate, autograph=False)(*map(tf.constant, updates)).numpy()
    return result[:, 0], result[:, 1].mean()


@pytest.mark.slow
@pytest.mark.parametrize("shifts_clients", [False, True])
@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_aggregate_is_that_of_the_reference(kernel, bandwidth, shifts_clients):
    for scale, steps in ((1.0, 20), (0.05, 4), (1e-3, 1)):  # In the last, Gaussian weights would underflow.
        shift = MeanShift(kernel, bandwidth, scale, steps)
        updates = _updates()
        if bandwidth == "improved_sheather_jones":
            updates = updates[:, 8:]  # KDEpy's bandwidth of clumps depends on its grid.
        expected = reference.fedkp(shift, updates, shifts_clients=shifts_clients)
        aggregate, share_moved = _aggregate(shift, updates, shifts_clients=shifts_clients)
        np.testing.assert_allclose(aggregate, expected, atol=1e-5)
        assert share_moved == pytest.approx(np.mean(np.abs(expected - updates.mean(axis=0, dtype=float)) > 1e-7))


@pytest.mark.parametrize(("bandwidth", "shifts_clients"), [*((each, True) for each in BANDWIDTHS), ("scott", False)])
def test_identical_clients_and_single_clients_keep_their_update(bandwidth, shifts_clients):
    update = np.array([0.1, -3e-5, 0.0, 7e4], np.float32)
    for updates in (np.tile(update, (6, 1)), update[np.newaxis]):
        for kernel in KERNELS:
            aggregate, _ = _aggregate(MeanShift(kernel, bandwidth), updates, shifts_clients=shifts_clients)
            np.testing.assert_allclose(aggregate, update, rtol=1e-7)


@pytest.mark.parametrize("shifts_clients", [False, True])
def test_parts_of_the_cohort_and_blocks_of_parameters_change_nothing(shifts_clients, monkeypatch):
    updates = _updates()
    whole = _aggregate(MeanShift(), updates, shifts_clients=shifts_clients)
    monkeypatch.setattr(mean_shift_aggregation, "_CELLS", 130)
    monkeypatch.setattr(collecting, "_COLLECTED_CELLS", 150)
    parts = _aggregate(MeanShift(), updates[:3], updates[:0], updates[3:], shifts_clients=shifts_clients)
    np.testing.assert_array_equal(parts[0], whole[0])
    assert parts[1] == whole[1]


def _round(factory, updates: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Aggregate and share moved of a round in TFF's worker, whose values are structures."""
    value_type = tff.to_type(collections.OrderedDict(b=(np.float32, (2, 5)), a=(np.float32, (6,))))
    values = [collections.OrderedDict(b=row[6:].reshape(2, 5), a=row[:6]) for row in updates]
    process = factory.create(value_type, tff.TensorType(np.float32))
    output = process.next(process.initialize(), values, list(weights))
    return np.concatenate([output.result["a"], output.result["b"].ravel()]), output.measurements["share_moved"]


@pytest.mark.parametrize("cohort_size", [7, 9], ids=["a full round", "two clients are missing"])
def test_it_aggregates_structures_of_clients_that_count(tff_worker, cohort_size, monkeypatch):
    monkeypatch.setattr(collecting, "_PLACES", 4)
    updates, weights = _updates(7), np.array([3, 0, 5, 2, 1, 4, 6], np.float32)
    updates[4, 2] = np.nan
    shift = MeanShift(bandwidth_scale=0.7)
    factory = mean_shift_aggregation.MeanShiftFactory(shift, cohort_size, shifts_clients=True)
    aggregate, share_moved = _round(factory, updates, weights)
    expected = reference.fedkp(shift, updates[[0, 2, 3, 5, 6]], shifts_clients=True)
    np.testing.assert_allclose(aggregate, expected, atol=1e-5)
    assert 0 < share_moved < 1


@pytest.mark.parametrize(("weights", "nothing"), [([2.0, 3.0], 0.0), ([0.0, 3.0], 0.0), ([], np.nan)])
def test_where_no_client_counts_the_result_is_zero_or_not_a_number(tff_worker, weights, nothing):
    factory = mean_shift_aggregation.MeanShiftFactory(MeanShift(), 2)
    updates = np.full((len(weights), 16), np.inf, np.float32)
    aggregate, share_moved = _round(factory, updates, np.array(weights, np.float32))
    np.testing.assert_array_equal(aggregate, np.full(16, nothing))
    assert np.isnan(share_moved)


def test_a_round_of_more_clients_than_declared_is_refused(tff_worker):
    with pytest.raises(Exception, match="more clients than cohort_size=3"):
        _round(mean_shift_aggregation.MeanShiftFactory(MeanShift(), 3), _updates(5), np.ones(5, np.float32))


def test_five_rounds_are_those_of_the_reference(tff_worker):
    shift = MeanShift()

    def aggregate(changes):
        return reference.fedkp(shift, changes.reshape(5, -1), shifts_clients=True).reshape(changes.shape[1:])

    factory = mean_shift_aggregation.MeanShiftFactory(shift, 5, shifts_clients=True)
    linear_rounds.assert_same_rounds(factory, [linear_rounds.client(n, 5 + n) for n in range(5)], aggregate)
