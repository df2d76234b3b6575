"""How often intervals hold the value on logs that are drawn as the shipped shop log is (`data.examples.make`)."""

import numpy as np
from scipy import stats

from bandits.evaluation import totals
from bandits.evaluation.estimators import Estimator, terms_of_rows
from data.examples import make

_LOGS = 300
_DEVICES, _MOST_ORDERS = len(make.DEVICE_SHARES), 30


def _table(function):
    """A function of device and past orders, float64 [devices, orders, offers]."""
    return np.array(
        [[function(device, orders) for orders in range(_MOST_ORDERS)] for device in range(_DEVICES)], np.float64
    )


def _truth(policy):
    """Expected reward per interaction, by Gauss-Hermite quadrature over customers' preferences."""
    leanings, weights = np.polynomial.hermite_e.hermegauss(101)
    pays = np.clip(_table(make.values)[..., None] + make.LEANING * leanings, *make.PAYS)
    mean = pays @ (weights / weights.sum())
    shares = np.outer(make.DEVICE_SHARES, stats.poisson.pmf(range(_MOST_ORDERS), make.PAST_ORDERS))
    return float((shares[..., None] * _table(policy) * mean).sum())


_CLIENTS, _SPREAD = 40, 1.8
_FEW = totals.Layout((Estimator("ips"), Estimator("snips")))


def test_with_few_effective_clients_the_bootstrap_comes_nearer():
    """40 customers, whose numbers of visits are lognormal, have eight effective ones on average."""
    generator, held = np.random.default_rng(0), []
    pays, logging = _table(make.values), _table(make.logging_policy)
    truth = _truth(lambda device, past_orders: np.full(len(make.OFFERS), 1 / len(make.OFFERS)))
    for _ in range(_LOGS):
        sizes = np.maximum(1, 20 * generator.lognormal(-(_SPREAD**2) / 2, _SPREAD, _CLIENTS)).astype(int)
        clients = np.repeat(np.arange(_CLIENTS), sizes)
        leaning = generator.normal(0, make.LEANING, _CLIENTS)[clients]
        orders = generator.poisson(make.PAST_ORDERS, _CLIENTS)[clients]
        device = generator.choice(_DEVICES, len(clients), p=make.DEVICE_SHARES)
        offer = (generator.random(len(clients))[:, None] > logging[device, orders].cumsum(axis=1)).sum(axis=1)
        offer = np.minimum(offer, len(make.OFFERS) - 1)
        bought = generator.random(len(clients)) < np.clip(pays[device, orders, offer] + leaning, *make.PAYS)
        rows = terms_of_rows(
            clients, offer, bought, logging[device, orders, offer], np.full(len(clients), 1 / len(make.OFFERS))
        )
        own = totals.of_clients(rows.clients, _FEW.columns(rows))
        sums, drawn = totals.summed(own, _FEW.ratios), generator.poisson(1, (300, len(own))) @ own
        held.append(
            [
                interval.low <= truth <= interval.high
                for ratio in _FEW.ratios
                for interval in (totals.interval(sums, ratio), totals.bootstrap_interval(sums, drawn, ratio))
            ]
        )
    by_delta, by_bootstrap = np.mean(held, axis=0).reshape(2, 2).T
    assert (by_delta < 0.88).all()
    assert ((by_bootstrap > 0.88) & (by_bootstrap < 0.95)).all()
