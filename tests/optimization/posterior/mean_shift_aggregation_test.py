"""Tests of optimization.posterior.mean_shift_aggregation."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from optimization.posterior import kernels, mean_shift, mean_shift_aggregation

CLUSTERS = [False, True]


def _updates(num_clients: int) -> np.ndarray:
    """24 parameters, half of them clustered, and some in which clients agree."""
    draw = np.random.default_rng(num_clients)
    updates = draw.normal(size=(num_clients, 24))
    updates[:, :12] = 0.3 * updates[:, :12] + 2 * draw.integers(0, 3, (num_clients, 12))
    updates[:, 3], updates[: 2 * num_clients // 3, 4] = 0.1, 0.2
    return updates.astype(np.float32)


def _expected(factory, updates: np.ndarray, sizes: np.ndarray) -> mean_shift.Aggregate:
    shifted = factory.shift.fedkp_cluster_mean if factory.shifts_clients else factory.shift.fedkp
    factors = mean_shift.size_factors(sizes.astype(np.float64)) if factory.sizes_bandwidths else None
    return shifted(updates, sizes if factory.weighs else None, factors)


@pytest.mark.slow
@pytest.mark.parametrize("step_weights", mean_shift.WEIGHTS)
@pytest.mark.parametrize("shifts_clients", CLUSTERS)
@pytest.mark.parametrize("bandwidth", [*kernels.RULES, kernels.NEAREST])
@pytest.mark.parametrize("kernel", kernels.KERNELS)
def test_the_step_is_that_of_numpy(kernel, bandwidth, shifts_clients, step_weights, monkeypatch):
    monkeypatch.setattr(kernels, "FIXED_POINT_STEPS", 12)  # Of rows without a fixed point, for speed.
    for num_clients, scale, weighs in ((1, 1.0, False), (11, 0.03, False), (11, 1.0, True)):
        updates = _updates(num_clients)
        sizes = np.random.default_rng(1).integers(1, 30, num_clients).astype(np.float32)
        shift = mean_shift.MeanShift(kernels.KERNELS[kernel], bandwidth, scale, step_weights=step_weights)
        factory = mean_shift_aggregation.WeightedMeanShiftFactory(
            shift, num_clients, shifts_clients, weighs=weighs, sizes_bandwidths=weighs
        )
        found, share_moved = mean_shift_aggregation._aggregate(factory, tf.constant(updates), tf.constant(sizes))
        with np.errstate(over="ignore"):
            expected = _expected(factory, updates, sizes)
        np.testing.assert_allclose(found, expected.model, atol=1e-5)
        assert float(share_moved) == pytest.approx(expected.share_moved)


@pytest.mark.parametrize("shifts_clients", CLUSTERS)
def test_chunks_of_parameters_change_nothing(shifts_clients, monkeypatch):
    factory = mean_shift_aggregation.MeanShiftFactory(mean_shift.MeanShift(), 13, shifts_clients)
    arguments = factory, tf.constant(_updates(13)), tf.ones(13)
    whole = mean_shift_aggregation._aggregate(*arguments)
    monkeypatch.setattr(mean_shift_aggregation, "_CELLS", 130)
    for found, expected in zip(mean_shift_aggregation._aggregate(*arguments), whole, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("weights", "nothing"), [([2.0, 3.0], np.nan), ([0.0, 3.0], 0.0), ([], np.nan)])
def test_where_no_client_counts_the_result_is_zero_or_not_a_number(weights, nothing):
    factory = mean_shift_aggregation.WeightedMeanShiftFactory(mean_shift.MeanShift(), 2)
    updates = tf.fill([len(weights), 3], np.float32(np.inf))
    found, share_moved = mean_shift_aggregation._aggregate(factory, updates, tf.constant(weights, tf.float32))
    np.testing.assert_array_equal(found, np.full(3, nothing))
    assert np.isnan(share_moved)


def test_a_message_holds_two_gigabytes():
    assert mean_shift_aggregation.fits(100, 4_999_999)
    assert not mean_shift_aggregation.fits(100, 5_000_000)


@pytest.mark.parametrize("weighted", [False, True])
def test_it_aggregates_structures_of_clients_that_count(tff_worker, weighted):
    updates, sizes = _updates(7), np.array([3, 0, 5, 2, 1, 4, 6], np.float32)
    updates[4, 2] = np.nan
    shift = mean_shift.MeanShift(scale=0.7)
    value_type = tff.to_type(collections.OrderedDict(b=(np.float32, (2, 5)), a=(np.float32, (14,))))
    values = [collections.OrderedDict(b=row[14:].reshape(2, 5), a=row[:14]) for row in updates]
    if weighted:
        factory = mean_shift_aggregation.WeightedMeanShiftFactory(shift, 7, True, weighs=True, sizes_bandwidths=True)
        process = factory.create(value_type, tff.TensorType(np.float32))
        output, counted = process.next(process.initialize(), values, list(sizes)), [0, 2, 3, 5, 6]
    else:
        factory = mean_shift_aggregation.MeanShiftFactory(shift, 7, True)
        process = factory.create(value_type)
        output, counted = process.next(process.initialize(), values), [0, 1, 2, 3, 5, 6]
    expected = _expected(factory, updates[counted], sizes[counted])
    np.testing.assert_allclose(
        np.concatenate([output.result["a"], output.result["b"].ravel()]), expected.model, atol=1e-5
    )
    assert output.measurements["share_moved"] == pytest.approx(expected.share_moved)


def test_tffs_fed_avg_trains_with_it(tff_worker):
    def predict(weights, features, training):
        del training
        return tf.matmul(features, weights[0][0]) + weights[0][1]

    def loss(output, label, sample_weight=None):
        del sample_weight
        return tf.reduce_mean(tf.square(output - label))

    spec = collections.OrderedDict(x=tf.TensorSpec((None, 2)), y=tf.TensorSpec((None, 1)))
    model = tff.learning.models.FunctionalModel(
        initial_weights=((np.zeros((2, 1), np.float32), np.zeros(1, np.float32)), ()),
        predict_on_batch_fn=tf.function(predict),
        loss_fn=tf.function(loss),
        input_spec=spec,
    )
    draw = np.random.default_rng(0)
    cohort, starts = [], []
    for client in range(5):
        # The fifth client's labels are far off, and its model is no part of the others' mode.
        features = draw.normal(size=(8, 2)).astype(np.float32)
        labels = features @ [[1.0], [-2.0]] + (0.05 * client if client < 4 else 30.0)
        cohort.append(
            tf.data.Dataset.from_tensor_slices(collections.OrderedDict(x=features, y=labels.astype(np.float32))).batch(
                8
            )
        )
        starts.append((features, labels))
    shift = mean_shift.MeanShift(step_weights="profile")
    process = tff.learning.algorithms.build_unweighted_fed_avg(
        model,
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.1),
        server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
        model_aggregator=mean_shift_aggregation.MeanShiftFactory(shift, 5, shifts_clients=True),
    )
    state, weights = process.initialize(), np.zeros(3)
    for _ in range(3):
        state = process.next(state, cohort).state
        # One step of each client, and the modes' mean.
        errors = [features @ weights[:2, np.newaxis] + weights[2] - labels for features, labels in starts]
        deltas = [
            -0.2 * np.append((features * error).mean(axis=0), error.mean())
            for (features, _), error in zip(starts, errors, strict=True)
        ]
        weights = weights + shift.fedkp_cluster_mean(np.array(deltas, np.float32)).model
    found = process.get_model_weights(state).trainable
    np.testing.assert_allclose(np.concatenate([np.ravel(part) for part in found]), weights, atol=1e-5)
