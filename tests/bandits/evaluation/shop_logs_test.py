"""How often intervals hold the value on logs that are drawn as the shipped shop log is (`data.examples.make`)."""

import numpy as np
import pytest
from scipy import stats

from bandits.evaluation import bootstrap, estimates, estimators, terms, totals
from data import keys, log_regression
from data.examples import make

_LOGS = 300
# Of 300 intervals of 95%, 275 to 295 hold the value with probability 0.99.
_LEAST, _MOST = 275 / 300, 295 / 300
_UNBIASED = (estimators.Ips(), estimators.Snips(), estimators.DoublyRobust())
_BIASED = (
    estimators.DirectMethod(),
    *estimates.PATHS["clipped_ips"],
    *estimates.PATHS["switch_dr"],
    *estimates.PATHS["dros"],
)
_LAYOUT = totals.Layout((*_UNBIASED, *_BIASED))
_POLICIES = {"uniform": lambda device, past_orders: np.full(len(make.OFFERS), 1 / len(make.OFFERS)), "rule": make.rule}
_DEVICES, _MOST_ORDERS = len(make.DEVICE_SHARES), 30


def _table(function):
    """Returns a function of device and past orders, float64 [devices, orders, offers]."""
    return np.array(
        [[function(device, orders) for orders in range(_MOST_ORDERS)] for device in range(_DEVICES)], np.float64
    )


def _truth(policy):
    """Returns the expected reward of an interaction, by Gauss-Hermite quadrature over customers' leanings."""
    leanings, weights = np.polynomial.hermite_e.hermegauss(101)
    pays = np.clip(_table(make.values)[..., None] + make.LEANING * leanings, *make.PAYS)
    mean = pays @ (weights / weights.sum())
    shares = np.outer(make.DEVICE_SHARES, stats.poisson.pmf(range(_MOST_ORDERS), make.PAST_ORDERS))
    return float((shares[..., None] * _table(policy) * mean).sum())


def _cross_fitted(features, log, fold):
    """Returns ridge regressions' predictions of each offer on the other fold's customers, float64 [rows, offers]."""
    found = np.empty((len(fold), len(make.OFFERS)))
    for half in (0, 1):
        others = fold != half
        fitted = log_regression.fit(
            features[others], features.shape[1], log["offer"][others], log["bought"][others], len(make.OFFERS)
        )
        found[~others] = fitted.predict(features[~others])
    return found


@pytest.fixture(scope="module")
def shares():
    """The share of logs whose 95% interval holds the value, by policy and estimator; SLOPE's picks by name."""
    held = {}
    targets = {name: _table(policy) for name, policy in _POLICIES.items()}
    truths = {name: _truth(policy) for name, policy in _POLICIES.items()}
    for number in range(1, _LOGS + 1):  # The shipped log is number 0.
        visits = list(make.visits(keys.generator(0, keys.Purpose.LOGGED_REWARDS, number)))
        log = {
            name: np.array(values) for name, values in zip(make.Visit._fields, zip(*visits, strict=True), strict=True)
        }
        features = np.column_stack([np.eye(_DEVICES)[log["device"]], log["past_orders"] / 3, log["basket"] / 40])
        fold = np.random.default_rng(number).integers(2, size=log["customer"].max() + 1)[log["customer"]]
        predicted = _cross_fitted(features, log, fold)
        for policy, target in targets.items():
            rows = terms.of_rows(
                log["customer"],
                log["offer"],
                log["bought"],
                log["propensity"],
                target[log["device"], log["past_orders"]],
                predicted,
            )
            sums = totals.sums(rows, _LAYOUT)
            chosen = {one.name: one for one in (*_UNBIASED, estimators.DirectMethod())}
            chosen |= {name: estimates.choose_by_slope(sums, _LAYOUT, path) for name, path in estimates.PATHS.items()}
            for name, estimator in chosen.items():
                interval = totals.interval(sums, _LAYOUT.ratio(estimator))
                held.setdefault((policy, name), []).append(interval.low <= truths[policy] <= interval.high)
    return {key: np.mean(values) for key, values in held.items()}


@pytest.mark.parametrize("policy", _POLICIES)
@pytest.mark.parametrize("estimator", _UNBIASED)
def test_unbiased_estimators_hold_the_value_in_95_percent(shares, policy, estimator):
    assert _LEAST <= shares[policy, estimator.name] <= _MOST


@pytest.mark.parametrize("policy", _POLICIES)
@pytest.mark.parametrize("name", ["dm", "switch_dr", "dros"])
def test_the_direct_method_and_what_slope_chooses_towards_it_do_not(shares, policy, name):
    assert shares[policy, name] < 0.5


def test_nor_does_a_clip_that_binds(shares):
    assert shares["uniform", "clipped_ips"] < 0.2


_CLIENTS, _SPREAD = 40, 1.8
_FEW = totals.Layout((estimators.Ips(), estimators.Snips()))


def test_with_few_effective_clients_the_bootstrap_comes_nearer():
    """40 customers, whose numbers of visits are lognormal, have eight effective ones on average."""
    generator, held = np.random.default_rng(0), []
    pays, logging = _table(make.values), _table(make.logging_policy)
    truth = _truth(_POLICIES["uniform"])
    for _ in range(_LOGS):
        sizes = np.maximum(1, 20 * generator.lognormal(-(_SPREAD**2) / 2, _SPREAD, _CLIENTS)).astype(int)
        clients = np.repeat(np.arange(_CLIENTS), sizes)
        leaning = generator.normal(0, make.LEANING, _CLIENTS)[clients]
        orders = generator.poisson(make.PAST_ORDERS, _CLIENTS)[clients]
        device = generator.choice(_DEVICES, len(clients), p=make.DEVICE_SHARES)
        offer = (generator.random(len(clients))[:, None] > logging[device, orders].cumsum(axis=1)).sum(axis=1)
        offer = np.minimum(offer, len(make.OFFERS) - 1)
        bought = generator.random(len(clients)) < np.clip(pays[device, orders, offer] + leaning, *make.PAYS)
        rows = terms.of_rows(
            clients, offer, bought, logging[device, orders, offer], np.full(len(clients), 1 / len(make.OFFERS))
        )
        own = totals.of_clients(rows.clients, _FEW.columns(rows))
        sums, drawn = totals.summed(own, _FEW.ratios), generator.poisson(1, (300, len(own))) @ own
        held.append(
            [
                interval.low <= truth <= interval.high
                for ratio in _FEW.ratios
                for interval in (totals.interval(sums, ratio), bootstrap.interval(sums, drawn, ratio))
            ]
        )
    by_delta, by_bootstrap = np.mean(held, axis=0).reshape(2, 2).T
    assert (by_delta < 0.88).all()
    assert ((by_bootstrap > 0.88) & (by_bootstrap < 0.95)).all()
