"""The bootstrap over clients: its draws, and its intervals against the delta method's."""

import numpy as np
import pytest
from scipy import stats

from bandits.evaluation import totals
from bandits.evaluation.estimators import Estimator, Terms


def test_weights_are_poisson_of_mean_one():
    drawn = np.concatenate([totals.client_weights(f"client {number}", 3, 500) for number in range(100)])
    counts = np.bincount(np.minimum(drawn, 5), minlength=6)
    expected = np.append(stats.poisson.pmf(np.arange(5), 1), stats.poisson.sf(4, 1)) * len(drawn)
    assert stats.chisquare(counts, expected).pvalue > 0.01


def test_a_weight_is_a_function_of_client_draw_and_seed():
    whole = totals.client_weights("a", 3, 40)
    np.testing.assert_array_equal(totals.client_weights("a", 3, 10, first=25), whole[25:35])
    assert (whole != totals.client_weights("b", 3, 40)).any()
    assert (whole != totals.client_weights("a", 4, 40)).any()


def test_totals_of_a_draw_are_the_weighted_clients(monkeypatch):
    generator = np.random.default_rng(0)
    names, own = [f"client {number}" for number in range(11)], generator.normal(size=(11, 3))
    drawn = totals.drawn_totals(own, names, 7, 9)
    by_hand = sum(
        np.outer(totals.client_weights(name, 7, 9), row) for name, row in zip(names, own, strict=True)
    )  # fmt: skip
    np.testing.assert_allclose(drawn, by_hand, rtol=1e-12)
    monkeypatch.setattr(totals, "_CLIENTS", 4)
    monkeypatch.setattr(totals, "_DRAWS", 2)
    np.testing.assert_allclose(totals.drawn_totals(own, names, 7, 9), drawn, rtol=1e-12)


@pytest.mark.parametrize("estimator", [Estimator("ips"), Estimator("snips")])
def test_intervals_are_near_the_delta_methods(estimator):
    generator = np.random.default_rng(2)
    clients = np.sort(generator.integers(800, size=6000)).astype(np.int32)
    rewards = 1 + generator.normal(0, 0.5, 800)[clients] + generator.normal(size=6000)
    rows = Terms(clients, generator.gamma(2.0, 0.5, 6000), rewards, np.zeros(6000), np.zeros(6000))
    layout = totals.Layout((Estimator("logged"), Estimator("ips"), Estimator("snips")))
    own = totals.of_clients(rows.clients, layout.columns(rows))
    sums = totals.summed(own, layout.ratios)
    names = totals.present(rows.clients, [str(number) for number in range(800)])
    drawn = totals.drawn_totals(own, names, 0, 4000)
    for minus in (None, layout.ratio(Estimator("logged"))):
        delta = totals.interval(sums, layout.ratio(estimator), minus)
        found = totals.bootstrap_interval(sums, drawn, layout.ratio(estimator), minus)
        assert found.mean == delta.mean
        assert (found.low, found.high) == pytest.approx((delta.low, delta.high), abs=0.06 * (delta.high - delta.low))
