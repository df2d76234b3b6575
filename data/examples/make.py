"""Generates the tables in this folder: `python -m data.examples.make`.

`sklearn_wine.csv` is scikit-learn's wine data (UCI: 178 Italian wines of three cultivars, chemically analyzed). Two
columns are synthetic: the cellar of each wine, by a partition with Dirichlet label skew, and the colour, a class that
replaces the measured intensity.

`shop_log.csv` is a synthetic log of a bandit: 120 customers of a shop see one of four offers at each visit, by a
softmax policy whose probability is logged, and buy or not; `rule` is the offer's probability under another policy.
"""

import argparse
import pathlib
from collections.abc import Iterator

import numpy as np
import pandas as pd

from data import files, keys, partition

PATH = pathlib.Path(__file__).with_name("sklearn_wine.csv")
CLIENT, LABEL = "cellar", "cultivar"
_NUM_CLIENTS = 25
_CONCENTRATION = 1.0
_SEED = 0
_MEASURED_COLOUR = "color_intensity"
_COLOURS = ("pale", "medium", "deep")
_COLOUR_BOUNDS = (3.0, 6.0)

LOG_PATH = PATH.with_name("shop_log.csv")
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


def table() -> bytes:
    """Content of the file: UTF-8, a header line, then 178 rows in the order of their cellars."""
    from sklearn import datasets

    wine = datasets.load_wine()
    draw = keys.generator(_SEED, keys.Purpose.PARTITION)
    cellar_of_row = partition.dirichlet_label_skew(wine.target, _NUM_CLIENTS, _CONCENTRATION, draw)
    table = pd.DataFrame(wine.data, columns=[name.replace("/", "_") for name in wine.feature_names])
    colours = np.array(_COLOURS)[np.searchsorted(_COLOUR_BOUNDS, table[_MEASURED_COLOUR])]
    table = table.map("{:g}".format).assign(**{_MEASURED_COLOUR: colours}).rename(columns={_MEASURED_COLOUR: "colour"})
    table.insert(0, CLIENT, [f"cellar_{cellar + 1:02d}" for cellar in cellar_of_row])
    table[LABEL] = wine.target_names[wine.target]
    return _csv(table.iloc[np.argsort(cellar_of_row, kind="stable")])


def log() -> bytes:
    """Content of the log: UTF-8, a header line, then one row per visit in the order of the customers."""
    rows = pd.DataFrame(visits(keys.generator(_SEED, keys.Purpose.LOGGED_REWARDS, 0)), columns=VISIT)
    written = {
        "customer": (rows["customer"] + 1).map("customer_{:03d}".format),
        "device": rows["device"].map(dict(enumerate(_DEVICES))),
        "offer": rows["offer"].map(dict(enumerate(OFFERS))),
    }
    formats = {"basket": "{:.2f}", "propensity": "{:.6f}", "rule": "{:g}"}
    return _csv(rows.assign(**written, **{name: rows[name].map(form.format) for name, form in formats.items()}))


def _csv(table: pd.DataFrame) -> bytes:
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


def main() -> None:
    """Writes the tables, replacing existing ones."""
    parser = argparse.ArgumentParser(prog="data.examples.make", description="Writes the tables of data/examples again.")
    parser.add_argument("--helpfull", action="help", help="the same as --help")
    parser.parse_args()
    for path, content in ((PATH, table()), (LOG_PATH, log())):
        files.replace(path, content)
        print(path)


if __name__ == "__main__":
    main()
