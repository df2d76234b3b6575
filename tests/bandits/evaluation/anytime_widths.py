"""Measures how much wider anytime-valid intervals are than those for one query, for docs/logs.md.

`python -m tests.bandits.evaluation.anytime_widths` writes docs/evidence/anytime/widths.csv, in about a minute.
"""

import math
import pathlib

import numpy as np
import pandas as pd

from bandits.evaluation import betting, bounds, estimators
from bandits.evaluation.estimators import Estimator, Terms

RECORD = pathlib.Path(__file__).parents[3] / "docs/evidence/anytime/widths.csv"
SEEDS, POPULATION = 20, 2000
# Clients per round, rounds, rows per client and round, mean reward, largest weight.
SETTINGS = (
    (1, 1000, 1, 0.5, math.inf),
    (10, 100, 1, 0.5, math.inf),
    (100, 100, 1, 0.5, math.inf),
    (10, 1000, 1, 0.5, math.inf),
    (10, 100, 10, 0.5, math.inf),
    (10, 100, 1, 0.05, math.inf),
    (100, 100, 10, 0.05, math.inf),
    (10, 100, 1, 0.5, 1.5),
    (10, 100, 1, 0.5, 1.2),
)


def name(clients: int, rounds: int, rows: int, reward: float, largest: float) -> str:
    """Name of a setting in the record."""
    return f"{clients} clients, {rounds} rounds, {rows} rows, reward {reward:g}, weight {largest:g}"


def widths(setting: tuple[int, int, int, float, float], seed: int) -> tuple[float, float]:
    """Widths of the last anytime-valid interval and of IPS's interval over clients, on one log.

    A uniform policy logs three actions, and the target takes them with 0.6, 0.3 and 0.1. Actions and clients differ in
    their rewards.
    """
    cohort, rounds, rows, reward, largest = setting
    draw = np.random.default_rng(seed)
    leaning = draw.uniform(0.5, 1.5, POPULATION)
    clients = np.concatenate([draw.choice(POPULATION, cohort, replace=False) for _ in range(rounds)]).repeat(rows)
    looks = np.arange(rounds).repeat(cohort * rows)
    actions = draw.integers(3, size=len(clients))
    rewards = (draw.random(len(clients)) < reward * leaning[clients] * np.array([0.9, 1.1, 1.3])[actions]).astype(float)
    order = np.argsort(clients, kind="stable")
    zeros = np.zeros(len(clients))
    log = Terms(clients[order], 3 * np.array([0.6, 0.3, 0.1])[actions][order], rewards[order], zeros, zeros)
    names = [str(client) for client in range(POPULATION)]
    found = betting.sequence(*betting.observations(log, looks[order], bounds.Bounds(largest, rows), names, 0))
    once = estimators.interval(Estimator("ips").totals(log))
    return found.highs[-1] - found.lows[-1], once.high - once.low


def main() -> None:
    """Writes the record."""
    measured = [(name(*setting), seed, *widths(setting, seed)) for setting in SETTINGS for seed in range(SEEDS)]
    table = pd.DataFrame(measured, columns=["arm", "seed", "width", "one_query"])
    table["times_as_wide"] = table.width / table.one_query
    table.to_csv(RECORD, index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
