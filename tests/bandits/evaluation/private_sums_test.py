"""A client's vector by hand, and how far one client can move the sum of clipped ones, by trial of extreme clients."""

import itertools

import numpy as np
import pytest

from bandits.evaluation import bounds, private_sums
from tests.bandits.evaluation.tables_of_logs import weighted

_BOUNDS = bounds.Bounds(4.0, 2)


def _uniform(rows):
    return np.full(len(rows.rewards), 0.5)


def test_a_vector_by_hand():
    query = private_sums.Query(_BOUNDS)
    rows = weighted([3, 3, 5], [1, 4, 0.5], [1, 0.5, 1])
    # Rows 2, weights 5, uniform weights 1 and w r 3, of at most m = 2 and m W = 8.
    rest, weights, uniform, top = 2 / 2, 5 / 8, 1 / 8, 3 / 8
    expected = [
        rest, weights, uniform, top,
        weights * weights, weights * rest, rest * rest,
        uniform * uniform, uniform * rest,
        top * top, top * weights, top * rest,
    ]  # fmt: skip
    found = query.vectors(rows, _uniform(rows))
    assert found.shape == (2, private_sums.SIZE)
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)
    np.testing.assert_allclose(query.scales[:6], [2, 8, 8, 8, 8 * 8, 8 * 2])
    unbounded = weighted([0], [9], [1])  # One row of two at most, with a weight of at most 4.
    assert query.vectors(unbounded, _uniform(unbounded))[0, 1] == 0.5


@pytest.mark.parametrize("norm", [None, 0.3])
def test_no_client_moves_the_sum_by_more_than_the_norm_and_replaced_by_more_than_twice_it(norm):
    query = private_sums.Query(_BOUNDS, norm)
    generator = np.random.default_rng(1)
    extremes = itertools.product([0.0, 1e-9, 1.0, 4.0, 1e9], [0.0, 1.0])
    parts = []
    for row in [*extremes, *generator.uniform([0, -1], [9, 2], (200, 2))]:
        count = int(generator.integers(1, 6))
        raw = weighted([0] * count, *np.tile(row, (count, 1)).T)
        bounded, _ = bounds.apply(raw, bounds.Bounds(4.0, 2, clips_rewards=True), ("client",), 0)
        vectors = query.vectors(bounded, np.minimum(4.0, generator.gamma(1.0, 3.0, len(bounded.weights))))
        assert np.abs(vectors).max() <= 1 + 1e-12
        parts.append(private_sums.clipped(vectors, query.norm)[0])
    others = private_sums.clipped(generator.uniform(-1, 1, (50, private_sums.SIZE)), query.norm).sum(axis=0)
    moved = np.linalg.norm((np.array(parts) + others) - others, axis=1)
    assert moved.max() <= query.norm * (1 + 1e-9)
    assert moved.max() >= 0.99 * query.norm  # The bound is met.
    between = np.linalg.norm(np.array(parts)[:, None] - np.array(parts)[None], axis=2)
    assert between.max() <= 2 * query.norm * (1 + 1e-9)


def test_the_default_norm_is_that_of_a_client_with_weights_of_one():
    query = private_sums.Query(_BOUNDS)
    rows = weighted([0, 0], [1, 1], [1, 1])
    assert query.norm == pytest.approx(np.linalg.norm(query.vectors(rows, np.ones(2))), rel=1e-12)
    assert query.norm == pytest.approx(np.sqrt(2 + 3 * (2 / 16 + 1 / 256) + 1 / 256), rel=1e-12)
