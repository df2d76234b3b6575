"""How often intervals hold the value on logs that are drawn as the shipped shop log is."""

import numpy as np
from scipy import stats

from bandits.evaluation import estimators
from bandits.evaluation.estimators import Estimator
from data import files
from tests.bandits.evaluation import shop_logs
from tests.bandits.evaluation.tables_of_logs import terms_of_rows

_LOGS = 300
_DEVICES, _MOST_ORDERS = len(shop_logs.DEVICE_SHARES), 30


def test_the_shipped_log_is_one_of_them():
    assert (files.EXAMPLES / "shop_log.csv").read_bytes() == shop_logs.log()


def _table(function):
    """A function of device and past orders, float64 [devices, orders, offers]."""
    return np.array(
        [[function(device, orders) for orders in range(_MOST_ORDERS)] for device in range(_DEVICES)], np.float64
    )


def _truth(policy):
    """Expected reward per interaction, by Gauss-Hermite quadrature over customers' preferences."""
    leanings, weights = np.polynomial.hermite_e.hermegauss(101)
    pays = np.clip(_table(shop_logs.values)[..., None] + shop_logs.LEANING * leanings, *shop_logs.PAYS)
    mean = pays @ (weights / weights.sum())
    shares = np.outer(shop_logs.DEVICE_SHARES, stats.poisson.pmf(range(_MOST_ORDERS), shop_logs.PAST_ORDERS))
    return float((shares[..., None] * _table(policy) * mean).sum())


_CLIENTS, _SPREAD = 40, 1.8


def test_with_few_effective_clients_the_bootstrap_comes_nearer():
    """40 customers, whose numbers of visits are lognormal, have eight effective ones on average."""
    generator, held = np.random.default_rng(0), []
    pays, logging = _table(shop_logs.values), _table(shop_logs.logging_policy)
    truth = _truth(lambda device, past_orders: np.full(len(shop_logs.OFFERS), 1 / len(shop_logs.OFFERS)))
    for _ in range(_LOGS):
        sizes = np.maximum(1, 20 * generator.lognormal(-(_SPREAD**2) / 2, _SPREAD, _CLIENTS)).astype(int)
        clients = np.repeat(np.arange(_CLIENTS), sizes)
        leaning = generator.normal(0, shop_logs.LEANING, _CLIENTS)[clients]
        orders = generator.poisson(shop_logs.PAST_ORDERS, _CLIENTS)[clients]
        device = generator.choice(_DEVICES, len(clients), p=shop_logs.DEVICE_SHARES)
        offer = (generator.random(len(clients))[:, None] > logging[device, orders].cumsum(axis=1)).sum(axis=1)
        offer = np.minimum(offer, len(shop_logs.OFFERS) - 1)
        bought = generator.random(len(clients)) < np.clip(pays[device, orders, offer] + leaning, *shop_logs.PAYS)
        rows = terms_of_rows(
            clients, offer, bought, logging[device, orders, offer], np.full(len(clients), 1 / len(shop_logs.OFFERS))
        )
        totals = np.stack([Estimator(name).totals(rows) for name in ("ips", "snips")], axis=1)
        drawn = estimators.ratio(np.tensordot(generator.poisson(1, (300, len(totals))), totals, axes=1))
        ends = [
            ends
            for which in (0, 1)
            for ends in (estimators.interval(totals[:, which])[1:3], estimators.percentiles(drawn[:, which]))
        ]
        held.append([low <= truth <= high for low, high in ends])
    by_delta, by_bootstrap = np.mean(held, axis=0).reshape(2, 2).T
    assert (by_delta < 0.88).all()
    assert ((by_bootstrap > 0.88) & (by_bootstrap < 0.95)).all()
