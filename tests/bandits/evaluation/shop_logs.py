"""Logs of a synthetic shop; `data/examples/shop_log.csv` is one of them.

120 customers see one of four offers at each visit, by a softmax policy whose probability is logged, and buy or not;
`rule` is the offer's probability under another policy.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from data import keys

VISIT = ["customer", "device", "past_orders", "basket", "offer", "bought", "propensity", "rule"]
OFFERS = ("none", "coupon", "free_shipping", "gift")
_DEVICES = ("phone", "laptop", "tablet")
DEVICE_SHARES = (0.5, 0.35, 0.15)
LEANING = 0.05  # Standard deviation of a customer's effect on every offer's value.
PAYS = (0.01, 0.99)  # Probabilities of buying are clipped to this range.
PAST_ORDERS = 3  # Their mean, of a Poisson distribution.
_NUM_CUSTOMERS = 120
_OFTEN = 4  # Past orders of frequent customers.
_TEMPERATURE = 0.2
_HABIT = np.array([0.2, 0, 0, 0])  # The logging policy's overestimate of "none".


def log() -> bytes:
    """Content of the log: UTF-8, a header line, then one row per visit in the order of the customers."""
    rows = pd.DataFrame(visits(keys.generator(0, keys.Purpose.LOGGED_REWARDS, 0)), columns=VISIT)
    written = {
        "customer": (rows["customer"] + 1).map("customer_{:03d}".format),
        "device": rows["device"].map(dict(enumerate(_DEVICES))),
        "offer": rows["offer"].map(dict(enumerate(OFFERS))),
    }
    formats = {"basket": "{:.2f}", "propensity": "{:.6f}", "rule": "{:g}"}
    table = rows.assign(**written, **{name: rows[name].map(form.format) for name, form in formats.items()})
    return table.to_csv(index=False, lineterminator="\n").encode()


def visits(draw: np.random.Generator) -> Iterator[tuple[float, ...]]:
    """Yields the visits of one log, customer by customer: `VISIT`, with the customer, device and offer as numbers.

    Customers on phones prefer free shipping, customers who order often prefer a gift; the logging policy knows part of
    that. Visits of one customer are dependent: some customers buy more than others, whatever the offer.
    """
    devices = np.cumsum(DEVICE_SHARES)
    for customer in range(_NUM_CUSTOMERS):
        leaning = draw.normal(0, LEANING)
        past_orders = int(draw.poisson(PAST_ORDERS))
        probabilities = [logging_policy(device, past_orders) for device in range(len(_DEVICES))]
        cumulated = [row.cumsum() for row in probabilities]
        pays = [np.clip(values(device, past_orders) + leaning, *PAYS) for device in range(len(_DEVICES))]
        rules = [rule(device, past_orders) for device in range(len(_DEVICES))]
        for _ in range(int(draw.integers(10, 31))):
            device = int(devices.searchsorted(draw.random() * devices[-1], side="right"))
            basket = round(float(draw.gamma(2, 20)), 2)
            offer = int(cumulated[device].searchsorted(draw.random() * cumulated[device][-1], side="right"))
            bought = int(draw.random() < pays[device][offer])
            propensity = float(probabilities[device][offer])
            yield customer, device, past_orders, basket, offer, bought, propensity, float(rules[device][offer])


def logging_policy(device: int, past_orders: int) -> np.ndarray:
    """Logging policy's probability of each offer, float64 [offers]."""
    preference = np.exp((values(device, past_orders) + _HABIT) / _TEMPERATURE)
    return preference / preference.sum()


def values(device: int, past_orders: int) -> np.ndarray:
    """Reward of each offer for a customer without preferences, float64 [offers]."""
    free_shipping = 0.34 if device == 0 else 0.14
    gift = 0.32 if past_orders >= _OFTEN else 0.12
    return np.array([0.16, 0.22, free_shipping, gift])


def rule(device: int, past_orders: int) -> np.ndarray:
    """Probabilities of the shop's candidate policy, float64 [offers]: mostly one offer, each other sometimes."""
    best = "free_shipping" if device == 0 else "gift" if past_orders >= _OFTEN else "coupon"
    probabilities = np.full(len(OFFERS), 0.05)
    probabilities[OFFERS.index(best)] = 0.85
    return probabilities
