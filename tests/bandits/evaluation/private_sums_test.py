"""A client's vector by hand, and how far one client can move the sum of clipped ones, by trial of extreme clients."""

import itertools

import numpy as np
import pytest

from bandits.evaluation import bounds, private_sums
from bandits.evaluation.estimators import KINDS, Estimator, Terms

_BOUNDS = bounds.Bounds(4.0, 2)
_ALL = tuple(Estimator(name, 2.0 if kind.parameter else np.inf) for name, kind in KINDS.items())
_THREE = tuple(map(Estimator, ("ips", "snips", "dr")))


def _rows(clients, *others):
    return Terms(np.asarray(clients, np.int32), *(np.asarray(other, float) for other in others))


def _uniform(rows):
    return np.full(len(rows.rewards), 0.5)


def test_a_vector_by_hand():
    query = private_sums.Query(_THREE, _BOUNDS)
    rows = _rows([3, 3, 5], [1, 4, 0.5], [1, 0.5, 1], [0.25, 0.5, 0], [0.5, 1, 0])
    # Rows 2, weights 5, w r 3, and 0.25 + 0.5 and 0.5 - 2 of the doubly robust terms: -0.75; m W = 8, m (W + 1) = 10.
    rest, weights, uniform, top, robust = 2 / 2, 5 / 8, 1 / 8, 3 / 8, -0.75 / 10
    expected = [
        rest, weights, uniform, top, robust,
        weights * weights, weights * rest, rest * rest,
        uniform * uniform, uniform * rest,
        top * top, top * weights, top * rest,
        robust * robust, robust * rest,
    ]  # fmt: skip
    found = query.vectors(rows, _uniform(rows))
    assert found.shape == (2, query.size)
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)
    np.testing.assert_allclose(query.scales[:5], [2, 8, 8, 8, 10])
    np.testing.assert_allclose(query.scales[[5, 6]], [8 * 8, 8 * 2])


@pytest.mark.parametrize("norm", [None, 0.3])
def test_no_client_moves_the_sum_by_more_than_the_norm_and_replaced_by_more_than_twice_it(norm):
    query = private_sums.Query(_ALL, _BOUNDS, norm)
    generator = np.random.default_rng(1)
    corners = [0.0, 1.0]
    extremes = itertools.product([0.0, 1e-9, 1.0, 4.0, 1e9], corners, corners, corners)
    parts = []
    for row in [*extremes, *generator.uniform([0, -1, -1, -1], [9, 2, 2, 2], (200, 4))]:
        count = int(generator.integers(1, 6))
        raw = _rows([0] * count, *np.tile(row, (count, 1)).T)
        bounded, _ = bounds.apply(raw, bounds.Bounds(4.0, 2, clips_rewards=True), ("client",), 0)
        vectors = query.vectors(bounded, np.minimum(4.0, generator.gamma(1.0, 3.0, len(bounded.weights))))
        assert np.abs(vectors).max() <= 1 + 1e-12
        parts.append(private_sums.clipped(vectors, query.norm)[0])
    others = private_sums.clipped(generator.uniform(-1, 1, (50, query.size)), query.norm).sum(axis=0)
    moved = np.linalg.norm((np.array(parts) + others) - others, axis=1)
    assert moved.max() <= query.norm * (1 + 1e-9)
    assert moved.max() >= 0.99 * query.norm  # The bound is met.
    between = np.linalg.norm(np.array(parts)[:, None] - np.array(parts)[None], axis=2)
    assert between.max() <= 2 * query.norm * (1 + 1e-9)


def test_an_estimator_that_breaks_its_bound_is_held_to_it():
    rows = _rows([0], [4], [1], [1], [-50])  # A prediction that nobody moved into [0, 1].
    query = private_sums.Query(_THREE[2:], _BOUNDS)
    assert query.vectors(rows, _uniform(rows))[0, 4] == 0.5  # One row of two at most.


def test_the_typical_norm_is_that_of_a_client_of_weights_one():
    query = private_sums.Query(_THREE[:1], _BOUNDS)
    rows = _rows([0, 0], [1, 1], [1, 1], [0, 0], [0, 0])
    assert query.norm == pytest.approx(np.linalg.norm(query.vectors(rows, np.ones(2))), rel=1e-12)
    assert query.norm == pytest.approx(np.sqrt(2 + 3 * (2 / 16 + 1 / 256) + 1 / 256), rel=1e-12)


@pytest.mark.parametrize(
    ("asked", "norm", "words"),
    [
        ((), None, "at least one"),
        (_THREE * 2, None, "each there once"),
        (_THREE, 0.0, "above 0"),
        (_THREE, np.inf, "finite"),
    ],
)
def test_bad_queries_are_refused(asked, norm, words):
    with pytest.raises(ValueError, match=words):
        private_sums.Query(asked, _BOUNDS, norm)
