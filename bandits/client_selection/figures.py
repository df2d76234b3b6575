"""The table and the picture of client-selection runs, from their `metrics.csv` and `private_clients.csv`."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bandits.client_selection import metrics
from data import files
from optimization.study import curves, panels

_FINAL = [metric for metric in metrics.COLUMNS if metric.evaluated]
_PER_ROUND = [metrics.MODEL_TRANSFERS, metrics.LOSS_POLLS]
_BINS = 20


def read(runs: Mapping[pathlib.Path, Mapping[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All rounds and all clients of finished runs, with columns `selector`, `cohort` and `seed`.

    Args:
      runs: Values of the three columns for each folder.
    """
    rounds, clients = [], []
    for folder, names in runs.items():
        rounds.append(pd.read_csv(folder / "metrics.csv").assign(**names))
        clients.append(pd.read_csv(folder / "private_clients.csv").assign(**names))
    return pd.concat(rounds, ignore_index=True), pd.concat(clients, ignore_index=True)


def table(rounds: pd.DataFrame) -> pd.DataFrame:
    """Final metrics and communication per round for each cohort size and selector: mean and deviation over seeds.

    Deviations are standard deviations with n - 1, as in all tables of this project; none of one seed.

    Args:
      rounds: The rounds that `read` returns.
    """
    by_run = rounds.groupby(["cohort", "selector", "seed"], sort=False)
    runs = by_run[_FINAL].last().join(by_run[_PER_ROUND].mean())
    runs = runs.rename(columns=lambda column: column.partition("/")[2])
    by_setting = runs.groupby(["cohort", "selector"], sort=False)
    summary = by_setting.mean()
    for position, name in enumerate(runs.columns[: len(_FINAL)]):
        summary.insert(2 * position + 1, f"{name}_deviation", by_setting[name].std())
    summary.insert(0, "seeds", by_setting.size())
    return summary.reset_index()


def draw_client_losses(clients: pd.DataFrame, output: pathlib.Path, title: str) -> None:
    """Draws the distribution of the clients' final losses for each selector and the smallest cohort (Figure 2).

    Args:
      clients: The clients that `read` returns; those of all seeds are pooled.
      output: PNG to write.
      title: Title.
    """
    cohort = clients["cohort"].min()
    chosen = clients[clients["cohort"] == cohort].dropna(subset=["loss"])
    chosen = chosen[np.isfinite(chosen["loss"])]
    groups = [(str(selector), rows["loss"]) for selector, rows in chosen.groupby("selector", sort=False)]
    styles = curves.styles([selector for selector, _ in groups])
    bins = np.linspace(0, chosen["loss"].quantile(0.99), _BINS + 1)
    size = (3.2 * len(groups) + 0.8, 3.2)
    figure, (row,) = panels.grid(1, len(groups), size, f"{title}, {cohort} a round", sharey=True)
    for axes, (selector, losses), style in zip(row, groups, styles, strict=True):
        share = np.full(len(losses), 1 / len(losses))
        axes.hist(np.minimum(losses, bins[-1]), bins, weights=share, color=style.colour, alpha=0.7)
        axes.axvline(losses.mean(), color="black", linewidth=1, label="mean")
        panels.label(axes, title=selector, xlabel="client's final training loss")
    panels.label(row[0], ylabel="share of clients", legend=True)
    files.save_picture(figure, output, dpi=120)
