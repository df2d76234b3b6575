"""Sums by TFF equal those by NumPy."""

import numpy as np
import pytest

from bandits.evaluation import federated, totals
from bandits.evaluation.estimators import Estimator, Terms

_LAYOUT = totals.Layout(
    (
        Estimator("logged"),
        Estimator("snips"),
        Estimator("clipped_ips", 5.0),
        Estimator("dr"),
        Estimator("switch_dr", 5.0),
        Estimator("dros", 10.0),
    )
)
_DRAWS = 30


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(5)
    clients = np.sort(generator.choice([0, 1, 2, 4, 5, 6], size=90)).astype(np.int32)  # The fourth has none.
    return Terms(clients, generator.gamma(0.3, 3.0, 90), generator.normal(size=90), *generator.normal(size=(2, 90)))


_NAMES = [f"client {number}" for number in range(7)]


@pytest.mark.usefixtures("tff_worker")
def test_sums_are_numpys(rows):
    own = totals.of_clients(rows.clients, _LAYOUT.columns(rows))
    expected = totals.summed(own, _LAYOUT.ratios)
    clients = federated.client_inputs(rows, _NAMES, seed=4, draws=_DRAWS)
    found, drawn = federated.sums(clients, _LAYOUT)
    assert found.clients == 6
    assert found.totals.dtype == found.products.dtype == drawn.dtype == np.float64
    tolerance = 1e-12
    np.testing.assert_allclose(found.totals, expected.totals, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.products, expected.products, rtol=tolerance, atol=tolerance)
    by_numpy = totals.drawn_totals(own, totals.present(rows.clients, _NAMES), 4, _DRAWS)
    np.testing.assert_allclose(drawn, by_numpy, rtol=tolerance, atol=tolerance)
    for estimator in _LAYOUT.estimators:
        ratio = _LAYOUT.ratio(estimator)
        np.testing.assert_allclose(
            totals.interval(found, ratio), totals.interval(expected, ratio), rtol=1e-9, err_msg=estimator.name
        )
