"""Logs whose rows offer sets of 2 to 9 actions with features, for tests."""

import pathlib
from typing import NamedTuple

import numpy as np
import pandas as pd

COLUMNS = ("--client_column=who", "--action_column=item", "--reward_column=paid", "--propensity_column=p")
COLUMNS += ("--offered_column=items",)
NUM_ACTIONS = 12
_CLIENTS, _ROWS = 40, 15


class Log(NamedTuple):
    """A log as arrays; actions are positions in the table of actions."""

    frame: pd.DataFrame  # One row per interaction.
    actions: pd.DataFrame
    offered: np.ndarray  # bool [rows, actions].
    chosen: np.ndarray  # int [rows].
    expected: np.ndarray  # Expected rewards, float64 [rows, actions].


def write(folder: pathlib.Path, seed: int = 0, clients: int = _CLIENTS) -> Log:
    """Writes `log.csv` and `actions.csv`."""
    generator, count = np.random.default_rng(seed), clients * _ROWS
    actions = pd.DataFrame(
        {
            "id": [f"item {number}" for number in range(NUM_ACTIONS)],
            "price": generator.uniform(0, 2, NUM_ACTIONS).round(3),
            "kind": np.where(np.arange(NUM_ACTIONS) % 3 == 0, "new", "old"),
        }
    )
    warm = generator.normal(size=count).round(3)
    ranks = generator.random((count, NUM_ACTIONS)).argsort(axis=1).argsort(axis=1)
    offered = ranks < generator.integers(2, 10, size=(count, 1))
    scores = np.where(offered, np.exp(generator.normal(0, 0.7, (count, NUM_ACTIONS))), 0)
    propensities = scores / scores.sum(axis=1, keepdims=True)
    chosen = (propensities.cumsum(axis=1) > generator.random((count, 1))).argmax(axis=1)
    price, is_new = actions.price.to_numpy(), actions.kind.eq("new").to_numpy()
    expected = 1 + 0.5 * is_new - 0.3 * price + 0.4 * warm[:, np.newaxis] * price
    rows = np.arange(count)
    frame = pd.DataFrame(
        {
            "who": np.repeat([f"user {number}" for number in range(clients)], _ROWS),
            "warm": warm,
            "items": ["|".join(actions.id[generator.permutation(np.flatnonzero(row))]) for row in offered],
            "item": actions.id[chosen].to_numpy(),
            "paid": expected[rows, chosen] + generator.normal(0, 0.1, count),
            "p": propensities[rows, chosen],
        }
    )
    frame.to_csv(folder / "log.csv", index=False)
    actions.to_csv(folder / "actions.csv", index=False)
    return Log(frame, actions, offered, chosen, expected)


def flags(folder: pathlib.Path, *, with_features: bool = True) -> list[str]:
    """Flags of `evaluate_policy` and of a log's task, except for the file."""
    return [*COLUMNS, *[f"--action_table={folder}/actions.csv"] * with_features]
