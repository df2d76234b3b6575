"""The private sum through TFF against NumPy's, and its noise."""

import numpy as np
import pytest
import scipy.stats

from bandits.evaluation import bounds, estimators, private, private_process, private_sums, terms

_QUERY = private_sums.Query(
    ("a", "b"),
    (estimators.Ips(), estimators.Snips(), estimators.DoublyRobust(), estimators.ShrunkDr(2.0)),
    bounds.Bounds(3.0, 5),
    0.8,
)


@pytest.fixture(scope="module")
def candidates():
    generator = np.random.default_rng(0)
    clients = np.repeat(np.arange(25, dtype=np.int32), generator.integers(1, 6, 25))
    rewards = generator.random(len(clients))

    def one():
        return terms.Terms(
            clients, generator.uniform(0, 3, len(clients)), rewards, *generator.random((2, len(clients)))
        )

    return [one(), one()]


def test_tff_and_numpy_give_the_same_sum(tff_worker, candidates):
    own = private.mechanism(25, 0.0)
    vectors = private_sums.of_clients(candidates, _QUERY)
    assert (np.linalg.norm(vectors, axis=1) > 0.8).any()
    assert (np.linalg.norm(vectors, axis=1) < 0.8).any()
    process = private_process.build(_QUERY, own)
    _, found = process.next(process.initialize(), private_process.inputs(candidates))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, private.release(vectors, _QUERY, own), rtol=1e-9)


def test_tffs_noise_has_the_deviation_that_is_accounted(tff_worker, candidates):
    process = private_process.build(_QUERY, private.mechanism(25, 0.7))
    state = process.initialize()
    sums = np.array([process.next(state, private_process.inputs(candidates))[1] for _ in range(60)])
    noises = np.diff(sums, axis=0)[::2] / (0.7 * 0.8 * np.sqrt(2))
    low, high = scipy.stats.chi2(noises.size).ppf([5e-5, 1 - 5e-5])
    assert low < np.square(noises).sum() < high
