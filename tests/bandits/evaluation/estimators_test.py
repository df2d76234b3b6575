"""Estimators against numbers by hand, against loops over rows, and on Open Bandit's small sample."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from bandits.evaluation import estimators
from bandits.evaluation.estimators import Estimator, interval
from data import log_checks
from tests.bandits.evaluation.tables_of_logs import terms_of_rows, weighted

# Two actions. Weights 0.5 / 0.25 = 2, 0.2 / 0.8 = 0.25, 1 / 0.5 = 2 and 0 / 0.5 = 0.
_TARGET = np.array([[0.5, 0.5], [0.8, 0.2], [0.0, 1.0], [1.0, 0.0]])
_PREDICTIONS = np.array([[1.0, 3.0], [0.0, 5.0], [7.0, 2.0], [4.0, 9.0]])
_COLUMNS = ([0, 0, 1, 2], [0, 1, 1, 1], [3.0, 4.0, 1.0, 6.0], [0.25, 0.8, 0.5, 0.5])
_TOY = terms_of_rows(*map(np.array, _COLUMNS), _TARGET, _PREDICTIONS)


def _value(estimator, rows=_TOY):
    return float(estimators.ratio(estimator.totals(rows).sum(axis=0)))


def test_terms_by_hand():
    np.testing.assert_allclose(_TOY.weights, [2, 0.25, 2, 0])
    np.testing.assert_allclose(_TOY.direct, [2, 1, 2, 4])
    np.testing.assert_allclose(_TOY.predicted, [1, 5, 2, 9])
    # Without a model, the logged action's probability is enough.
    rows = terms_of_rows(np.zeros(2), np.array([1, 0]), np.ones(2), np.array([0.5, 0.1]), np.array([0.25, 0.2]))
    np.testing.assert_allclose(rows.weights, [0.5, 2])
    np.testing.assert_array_equal(rows.direct, [0, 0])
    with pytest.raises(ValueError, match="probability of every action"):
        terms_of_rows(*rows[:1], np.array([1, 0]), np.ones(2), np.ones(2), np.ones(2), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (Estimator("logged"), (3 + 4 + 1 + 6) / 4),
        (Estimator("ips"), (2 * 3 + 0.25 * 4 + 2 * 1) / 4),
        (Estimator("snips"), (2 * 3 + 0.25 * 4 + 2 * 1) / 4.25),
        (Estimator("clipped_ips", 1.5), (1.5 * 3 + 0.25 * 4 + 1.5 * 1) / 4),
        (Estimator("dm"), (2 + 1 + 2 + 4) / 4),
        (Estimator("dr"), (9 + 2 * (3 - 1) + 0.25 * (4 - 5) + 2 * (1 - 2)) / 4),
        (Estimator("switch_dr", 0.25), (9 + 0.25 * (4 - 5)) / 4),  # A weight of exactly tau corrects.
        (Estimator("dros", 4.0), (9 + 1 * (3 - 1) + (1 / 4.0625) * (4 - 5) + 1 * (1 - 2)) / 4),
    ],
)
def test_values_by_hand(estimator, expected):
    assert _value(estimator) == pytest.approx(expected, rel=1e-12)
    unbiased = {"clipped_ips": "ips", "switch_dr": "dr", "dros": "dr"}.get(estimator.name, estimator.name)
    assert _value(Estimator(estimator.name)) == _value(Estimator(unbiased))


_USER = [f"user_feature_{number}" for number in range(4)]


@pytest.fixture(scope="module")
def open_bandit(shared_data):
    """The logs of BTS and of a random policy, a client a combination of users' features; 80 items, three positions."""
    logs = {}
    for name in ("bts", "random"):
        frame = pd.read_csv(shared_data / "open_bandit" / f"{name}_all.csv.gz")
        frame["client"] = frame.groupby(_USER).ngroup()
        logs[name] = frame.sort_values("client", kind="stable")
    return logs


@pytest.mark.parametrize(
    ("log", "clicks", "clients", "expected"),
    [
        ("bts", 42, 253, (0.00235964, 0.00233371, 340.38, 1.01111, 277.778)),
        ("random", 38, 240, (0.00503537, 0.00525307, 2638.87, 0.958557, 9.62315)),
    ],
)
def test_open_bandits_small_sample(open_bandit, log, clicks, clients, expected):
    frame = open_bandit[log]
    assert (len(frame), frame.click.sum(), frame.client.nunique()) == (10_000, clicks, clients)
    target = np.full(len(frame), 1 / 80)
    if log == "random":  # The BTS log's frequencies of an item given its position.
        shares = pd.crosstab(open_bandit["bts"].position, open_bandit["bts"].item_id, normalize="index")
        shares = shares.reindex(columns=range(80), fill_value=0.0)
        target = shares.to_numpy()[frame.position.to_numpy() - 1, frame.item_id]
    columns = (frame[name].to_numpy() for name in ("client", "item_id", "click", "propensity_score"))
    rows = terms_of_rows(*columns, target)
    values = _value(Estimator("ips"), rows), _value(Estimator("snips"), rows)
    overlap = log_checks.effective_sample_size(rows.weights), rows.weights.mean(), rows.weights.max()
    assert values + overlap == pytest.approx(expected, rel=5e-6)


@pytest.fixture(scope="module")
def log():
    generator = np.random.default_rng(1)
    clients = np.sort(generator.integers(40, size=300))
    rewards = generator.normal(size=40)[clients] + generator.normal(size=300)
    return weighted(clients, generator.gamma(1.0, size=300), rewards)


def _clustered(values, weights, groups):
    """Statsmodels' weighted mean, errors clustered by client; its correction is C / (C - 1) of one regressor."""
    model = sm.WLS(values, np.ones(len(values)), weights=weights)
    return model.fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)


@pytest.mark.parametrize("estimator", [Estimator("logged"), Estimator("ips"), Estimator("snips")])
def test_intervals_are_those_of_regressions_with_clustered_errors(log, estimator):
    found = interval(estimator.totals(log))
    values = log.weights * log.rewards if estimator == Estimator("ips") else log.rewards
    weights = log.weights if estimator == Estimator("snips") else np.ones(300)
    fit = _clustered(values, weights, log.clients)
    assert found.mean == pytest.approx(fit.params[0], rel=1e-12)
    assert (found.low, found.high) == pytest.approx(tuple(fit.conf_int()[0]), rel=1e-9)
    assert found.size == 40


def test_differences_are_paired_by_client(log):
    difference = interval(Estimator("ips").totals(log), Estimator("logged").totals(log))
    fit = _clustered(log.weights * log.rewards - log.rewards, np.ones(300), log.clients)
    assert difference[:3] == pytest.approx((fit.params[0], *fit.conf_int()[0]), rel=1e-9)


def _values(clients, weights, rewards):
    """[mean, low, high] of each estimator, by name."""
    rows = weighted(clients, weights, rewards)
    return {name: interval(Estimator(name).totals(rows))[:3] for name in ("logged", "ips", "snips")}


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
    rows = weighted(np.repeat(np.arange(40), 20), weights, np.full(800, 0.7))
    logged, ips, snips = (Estimator(name).totals(rows) for name in ("logged", "ips", "snips"))
    difference = interval(snips, logged)
    assert difference.mean == 0
    assert math.isnan(difference.low)
    assert interval(ips, logged).low < 0  # Weights alone vary.


@pytest.mark.parametrize("estimator", [Estimator("logged"), Estimator("snips")])
def test_a_large_mean_changes_no_interval(log, estimator):
    near = interval(estimator.totals(log))
    far = interval(estimator.totals(log._replace(rewards=log.rewards + 1e10)))
    assert far.high - far.low == pytest.approx(near.high - near.low, rel=1e-4)
    assert far.mean - 1e10 == pytest.approx(near.mean, abs=1e-4)


def test_a_bootstrap_weight_is_a_function_of_client_draw_and_seed():
    whole = estimators.client_weights("a", 3, 40)
    np.testing.assert_array_equal(estimators.client_weights("a", 3, 10), whole[:10])
    assert (whole != estimators.client_weights("b", 3, 40)).any()
    assert (whole != estimators.client_weights("a", 4, 40)).any()


@pytest.mark.parametrize("estimator", [Estimator("ips"), Estimator("snips")])
def test_bootstrap_intervals_are_near_the_delta_methods(estimator):
    generator = np.random.default_rng(2)
    clients = np.sort(generator.integers(800, size=6000)).astype(np.int32)
    rewards = 1 + generator.normal(0, 0.5, 800)[clients] + generator.normal(size=6000)
    rows = weighted(clients, generator.gamma(2.0, 0.5, 6000), rewards)
    totals = np.stack([estimator.totals(rows), Estimator("logged").totals(rows)], axis=1)
    names = [str(client) for client in np.unique(clients)]
    value, logged = estimators.ratio(estimators.resampled(totals, names, 0, 4000)).T
    for drawn, minus in ((value, None), (value - logged, totals[:, 1])):
        delta = interval(totals[:, 0], minus)
        ends = pytest.approx((delta.low, delta.high), abs=0.06 * (delta.high - delta.low))
        assert estimators.percentiles(drawn) == ends
