"""Logs as tables and as terms, for tests of evaluations."""

import json
import pathlib
import types

import numpy as np
import pandas as pd

from bandits.evaluation.estimators import Terms, terms_of_log
from scripts import evaluate_policy as command

COLUMNS = ("--client_column=who", "--action_column=shown", "--reward_column=paid", "--propensity_column=p")


def write_log(path: pathlib.Path, clients: int = 30, rows: int = 12, seed: int = 0) -> pd.DataFrame:
    """Writes a log of two actions, of which blue pays more in warm contexts, and returns it."""
    generator = np.random.default_rng(seed)
    count = clients * rows
    shown = generator.random(count) < 0.25
    warm = generator.integers(2, size=count)
    frame = pd.DataFrame(
        {
            "who": np.repeat([f"user {number}" for number in range(clients)], rows),
            "when": np.tile(np.arange(1, rows + 1), clients),
            "shown": np.where(shown, "blue", "red"),
            "paid": (generator.random(count) < np.where(shown, 0.3 + 0.5 * warm, 0.4)).astype(int),
            "p": np.where(shown, 0.25, 0.75),
            "warm": warm,
            "played": np.where(shown, 0.9, 0.1),
        }
    )
    frame.to_csv(path, index=False)
    return frame


def evaluated(folder: pathlib.Path, *flags: str) -> dict:
    """Evaluates by `evaluate_policy` and returns the content of `evaluation.json`."""
    command.program(command.define().parse(["evaluate_policy", f"--output_dir={folder}", *flags]))
    return json.loads((folder / "evaluation.json").read_text())


def evaluated_rows(folder: pathlib.Path, rows: pd.DataFrame, *flags: str) -> dict:
    """Writes these rows as a log, evaluates it, and returns the content of `evaluation.json`."""
    folder.mkdir(exist_ok=True)
    rows.to_csv(folder / "log.csv", index=False)
    return evaluated(folder / "out", f"--log={folder}/log.csv", *flags)


def by_estimator(evaluation: dict, name: str = "value") -> dict[str, float | None]:
    """Values, or another number, of each estimator of an `evaluation.json`."""
    return {row["estimator"]: row[name] for row in evaluation["estimates"]}


def estimate(evaluation: dict, name: str) -> dict:
    """The row of an estimator in an `evaluation.json`."""
    (row,) = [row for row in evaluation["estimates"] if row["estimator"] == name]
    return row


def terms_of_rows(clients, actions, rewards, propensities, target, predictions=None) -> Terms:
    """Terms of logged rows, one array for each column."""
    columns = {"clients": clients, "actions": actions, "rewards": rewards, "propensities": propensities}
    return terms_of_log(types.SimpleNamespace(**columns), target, predictions)


def weighted(clients, weights, rewards) -> Terms:
    """Terms of rows with these weights, without a model."""
    zeros = np.zeros(len(clients))
    return Terms(np.asarray(clients, np.int32), np.asarray(weights, float), np.asarray(rewards, float), zeros, zeros)
