"""Logs of a synthetic shop: the shipped one is repeated, and how often intervals hold the value on others like it.

120 customers see one of four offers at each visit, by a softmax policy whose probability is logged, and buy or not;
`rule` is the offer's probability under another policy. Customers on phones prefer free shipping, customers who order
often prefer a gift, and the logging policy uses part of that. Some customers buy more than others, whatever the offer.
"""

import numpy as np
import pandas as pd
from scipy import stats

from bandits.evaluation import estimators
from bandits.evaluation.estimators import Estimator
from data import files, keys
from tests.bandits.evaluation.tables_of_logs import terms_of_rows

_VISIT = ["customer", "device", "past_orders", "basket", "offer", "bought", "propensity", "rule"]
_OFFERS = ("none", "coupon", "free_shipping", "gift")
_DEVICES = ("phone", "laptop", "tablet")
_SHARES = (0.5, 0.35, 0.15)  # Shares of the devices.
_LEANING = 0.05  # Standard deviation of a customer's effect on every offer's value.
_PAYS = (0.01, 0.99)  # Probabilities of buying are clipped to this range.
_PAST_ORDERS = 3  # Their mean, of a Poisson distribution.
_OFTEN = 4  # Past orders of frequent customers.


def _values(device, past_orders):
    """Reward of each offer for a customer without preferences, float64 [offers]."""
    return np.array([0.16, 0.22, 0.34 if device == 0 else 0.14, 0.32 if past_orders >= _OFTEN else 0.12])


def _logging_policy(device, past_orders):
    """The logging policy's probability of each offer, float64 [offers]. It overestimates "none"."""
    preference = np.exp((_values(device, past_orders) + np.array([0.2, 0, 0, 0])) / 0.2)
    return preference / preference.sum()


def _rule(device, past_orders):
    """Probabilities of the shop's candidate policy, float64 [offers]: mostly one offer, each other sometimes."""
    best = "free_shipping" if device == 0 else "gift" if past_orders >= _OFTEN else "coupon"
    return np.where(np.array(_OFFERS) == best, 0.85, 0.05)


def _visits(draw):
    """Yields the visits of one log, customer by customer, with the customer, device and offer as numbers."""

    def sample(probabilities):
        cumulated = np.cumsum(probabilities)
        return int(cumulated.searchsorted(draw.random() * cumulated[-1], side="right"))

    for customer in range(120):
        leaning = draw.normal(0, _LEANING)
        past_orders = int(draw.poisson(_PAST_ORDERS))
        for _ in range(int(draw.integers(10, 31))):
            device = sample(_SHARES)
            basket = round(float(draw.gamma(2, 20)), 2)
            probabilities = _logging_policy(device, past_orders)
            offer = sample(probabilities)
            bought = int(draw.random() < np.clip(_values(device, past_orders)[offer] + leaning, *_PAYS))
            rule = _rule(device, past_orders)[offer]
            yield customer, device, past_orders, basket, offer, bought, probabilities[offer], rule


def test_the_shipped_log_is_repeated_byte_for_byte():
    table = pd.DataFrame(_visits(keys.generator(0, keys.Purpose.LOGGED_REWARDS, 0)), columns=_VISIT)
    table["customer"] += 1
    for name, words in {"device": _DEVICES, "offer": _OFFERS}.items():
        table[name] = table[name].map(dict(enumerate(words)))
    formats = {"customer": "customer_{:03d}", "basket": "{:.2f}", "propensity": "{:.6f}", "rule": "{:g}"}
    for name, form in formats.items():
        table[name] = table[name].map(form.format)
    content = table.to_csv(index=False, lineterminator="\n").encode()
    assert (files.EXAMPLES / "shop_log.csv").read_bytes() == content


def test_with_few_effective_clients_the_bootstrap_comes_nearer():
    """40 customers, whose numbers of visits are lognormal, have eight effective ones on average."""
    generator, held = np.random.default_rng(0), []
    pays, logging = (
        np.array([[function(device, orders) for orders in range(30)] for device in range(len(_DEVICES))])
        for function in (_values, _logging_policy)
    )  # [devices, orders, offers]
    # The value of the uniform policy, by Gauss-Hermite quadrature over customers' preferences.
    leanings, weights = np.polynomial.hermite_e.hermegauss(101)
    means = np.clip(pays[..., None] + _LEANING * leanings, *_PAYS) @ (weights / weights.sum())
    truth = np.outer(_SHARES, stats.poisson.pmf(range(30), _PAST_ORDERS)).ravel() @ means.mean(axis=2).ravel()
    for _ in range(300):
        sizes = np.maximum(1, 20 * generator.lognormal(-(1.8**2) / 2, 1.8, 40)).astype(int)
        clients = np.repeat(np.arange(40), sizes)
        leaning = generator.normal(0, _LEANING, 40)[clients]
        orders = generator.poisson(_PAST_ORDERS, 40)[clients]
        device = generator.choice(len(_DEVICES), len(clients), p=_SHARES)
        offer = (generator.random(len(clients))[:, None] > logging[device, orders].cumsum(axis=1)).sum(axis=1)
        offer = np.minimum(offer, len(_OFFERS) - 1)
        bought = generator.random(len(clients)) < np.clip(pays[device, orders, offer] + leaning, *_PAYS)
        target = np.full(len(clients), 1 / len(_OFFERS))
        rows = terms_of_rows(clients, offer, bought, logging[device, orders, offer], target)
        totals = np.stack([Estimator(name).totals(rows) for name in ("ips", "snips")], axis=1)
        drawn = estimators.ratio(np.tensordot(generator.poisson(1, (300, len(totals))), totals, axes=1))
        by_delta = [estimators.interval(totals[:, which])[1:3] for which in (0, 1)]
        by_bootstrap = [estimators.percentiles(drawn[:, which]) for which in (0, 1)]
        held.append([[low <= truth <= high for low, high in ends] for ends in (by_delta, by_bootstrap)])
    by_delta, by_bootstrap = np.mean(held, axis=0)
    assert (by_delta < 0.88).all()
    assert ((by_bootstrap > 0.88) & (by_bootstrap < 0.95)).all()
