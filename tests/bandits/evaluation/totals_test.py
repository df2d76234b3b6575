"""Sums over clients and their intervals, against hand numbers and regressions with clustered errors."""

import math

import numpy as np
import pytest
import statsmodels.api as sm

from bandits.evaluation import totals
from bandits.evaluation.estimators import Estimator, Terms

_LAYOUT = totals.Layout((Estimator("logged"), Estimator("ips"), Estimator("snips")))


def _rows(clients, weights, rewards):
    zeros = np.zeros(len(clients))
    return Terms(np.asarray(clients, np.int32), np.asarray(weights, float), np.asarray(rewards, float), zeros, zeros)


def test_totals_and_products_by_hand():
    sums = totals.sums(_rows([0, 0, 7], [2, 1, 3], [1, 0, 5]), totals.Layout((Estimator("ips"),)))
    # Columns: rows, weights, w r. Client 0: (2, 3, 2); client 7: (1, 3, 15).
    assert sums.clients == 2
    np.testing.assert_array_equal(sums.totals, [3, 6, 17])
    # IPS is 17 / 3: the clients' influences are (2 - 2 * 17 / 3) / 3 = -28 / 9 and (15 - 17 / 3) / 3 = 28 / 9.
    np.testing.assert_allclose(sums.products, [[2 * (28 / 9) ** 2]], rtol=1e-12)


def test_rows_out_of_order_and_an_estimator_twice_are_refused():
    with pytest.raises(ValueError, match="ascending order"):
        totals.of_clients(np.array([1, 0]), [np.ones(2)])
    with pytest.raises(ValueError, match="once"):
        totals.Layout((Estimator("ips"), Estimator("ips")))


@pytest.fixture(scope="module")
def log():
    generator = np.random.default_rng(1)
    clients = np.sort(generator.integers(40, size=300))
    rewards = generator.normal(size=40)[clients] + generator.normal(size=300)
    return _rows(clients, generator.gamma(1.0, size=300), rewards)


def _clustered(values, regressors, weights, groups):
    """Statsmodels' weighted regression, errors clustered by client; its correction is C / (C - 1) of one regressor."""
    model = sm.WLS(values, regressors, weights=weights)
    return model.fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)


@pytest.mark.parametrize("estimator", [Estimator("logged"), Estimator("ips"), Estimator("snips")])
def test_intervals_are_those_of_regressions_with_clustered_errors(log, estimator):
    interval = totals.interval(totals.sums(log, _LAYOUT), _LAYOUT.ratio(estimator))
    values = log.weights * log.rewards if estimator == Estimator("ips") else log.rewards
    weights = log.weights if estimator == Estimator("snips") else np.ones(300)
    fit = _clustered(values, np.ones(300), weights, log.clients)
    assert interval.mean == pytest.approx(fit.params[0], rel=1e-12)
    assert (interval.low, interval.high) == pytest.approx(tuple(fit.conf_int()[0]), rel=1e-9)
    assert interval.size == 40


def test_a_differences_interval_knows_that_both_are_of_the_same_clients(log):
    difference = totals.interval(
        totals.sums(log, _LAYOUT),
        _LAYOUT.ratio(Estimator("ips")),
        _LAYOUT.ratio(Estimator("logged")),
    )
    fit = _clustered(log.weights * log.rewards - log.rewards, np.ones(300), np.ones(300), log.clients)
    assert difference.mean == pytest.approx(fit.params[0], rel=1e-12)
    assert (difference.low, difference.high) == pytest.approx(tuple(fit.conf_int()[0]), rel=1e-9)


def _values(clients, weights, rewards):
    """[mean, low, high] of each estimator of `_LAYOUT`, by name."""
    sums = totals.sums(_rows(clients, weights, rewards), _LAYOUT)
    return {one.name: totals.interval(sums, _LAYOUT.ratio(one))[:3] for one in _LAYOUT.estimators}


def test_what_cannot_be_estimated_has_no_value_or_no_interval():
    nan = pytest.approx(math.nan, nan_ok=True)
    assert _values([0, 0], [1, 1], [0, 1])["ips"] == (0.5, nan, nan)  # One client.
    not_played, without_reward = _values([0, 1], [0, 0], [1, 1]), _values([0, 1, 1], [2, 1, 1], [0, 0, 0])
    for values in (not_played["ips"], not_played["snips"], without_reward["logged"], without_reward["snips"]):
        assert values == (nan, nan, nan)
    equal = _values([0, 1, 1], [2, 1, 1], [0.7, 0.7, 0.7])
    for name in ("logged", "snips"):
        assert equal[name] == (pytest.approx(0.7), nan, nan)


def test_equal_rewards_make_no_difference_of_rounding_errors():
    """0.7 summed over 800 rows and over weights gives values that differ in the last bits."""
    weights = np.random.default_rng(0).choice([0, 5.0], size=800, p=[0.8, 0.2])
    sums = totals.sums(_rows(np.repeat(np.arange(40), 20), weights, np.full(800, 0.7)), _LAYOUT)
    logged, snips = _LAYOUT.ratio(Estimator("logged")), _LAYOUT.ratio(Estimator("snips"))
    difference = totals.interval(sums, snips, logged)
    assert difference.mean == 0
    assert math.isnan(difference.low)
    assert totals.interval(sums, _LAYOUT.ratio(Estimator("ips")), logged).low < 0  # Weights alone vary.


@pytest.mark.parametrize("shift", [1e7, 1e10])
@pytest.mark.parametrize("estimator", [Estimator("logged"), Estimator("snips")])
def test_a_large_mean_changes_no_interval(log, shift, estimator):
    near = totals.interval(totals.sums(log, _LAYOUT), _LAYOUT.ratio(estimator))
    far = totals.interval(totals.sums(log._replace(rewards=log.rewards + shift), _LAYOUT), _LAYOUT.ratio(estimator))
    assert far.high - far.low == pytest.approx(near.high - near.low, rel=1e-4)
    assert far.mean - shift == pytest.approx(near.mean, abs=1e-4)


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
