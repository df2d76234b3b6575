"""Figures of runs, from their `metrics.csv`, and what all studies' figures are made of."""

import os
import pathlib
from typing import Any

import matplotlib.figure
import numpy as np
import pandas as pd

from bandits import metrics
from data import files

_MOST_MARKED = 40  # Deployments; more would hide the curves.


def panels(
    rows: int, columns: int, size: tuple[float, float], title: str = "", **arguments: Any
) -> tuple[matplotlib.figure.Figure, np.ndarray]:
    """A figure and its panels, [rows, columns].

    Args:
      rows: Of panels.
      columns: Of panels.
      size: Width and height in inches.
      title: Above all panels; empty for none.
      **arguments: Of `Figure.subplots`.
    """
    figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **arguments)
    for axes in grid.flat:
        axes.grid(alpha=0.3)
    if title:
        figure.suptitle(title)
    return figure, grid


def draw_mean(
    axes: Any, rounds: pd.DataFrame, column: str, colour: str, label: str | None, *, of_mean: bool = False
) -> None:
    """Draws the mean over seeds by round, and a band of one standard deviation.

    Args:
      axes: Matplotlib's, to draw in.
      rounds: All seeds' rounds.
      column: What is drawn.
      colour: Of line and band.
      label: In the legend; None for none.
      of_mean: Whether the band is the mean's 95% interval instead, by a normal distribution.
    """
    by_round = rounds.groupby("round_num")[column]
    mean, half = by_round.mean(), by_round.std()
    if of_mean:
        half = 1.96 * half / np.sqrt(by_round.count())
    axes.plot(mean.index, mean, color=colour, label=label)
    axes.fill_between(mean.index, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)


def draw_run(metrics_path: pathlib.Path, output: str | os.PathLike, title: str) -> None:
    """Draws round and running average reward, and the exploration probability, with deployments marked.

    Args:
      metrics_path: A run's `metrics.csv`.
      output: PNG to write.
      title: Title.
    """
    table = pd.read_csv(metrics_path).set_index("round_num")
    figure, grid = panels(2, 1, (8, 6), sharex=True, height_ratios=(2, 1))
    rewards, probability = grid[:, 0]
    rewards.plot(table[metrics.ROUND_REWARD], color="C0", alpha=0.35, label="round reward")
    rewards.plot(table[metrics.AVERAGE_REWARD], color="C0", label="running average")
    held_out = table[metrics.HELD_OUT_REWARD].dropna()
    rewards.plot(held_out, "o-", color="C1", markersize=3, label="greedy policy, held-out data")
    probability.plot(table[metrics.ROUND_PROBABILITY], color="C2")
    deployed = table.index[table[metrics.DEPLOYED] == 1]
    for axes in (rewards, probability) if len(deployed) <= _MOST_MARKED else ():
        for index, round_num in enumerate(deployed):
            label = None if index else "deployment"
            axes.axvline(round_num, color="grey", linewidth=0.8, linestyle=":", label=label)
    rewards.set(title=title, ylabel="reward")
    rewards.legend()
    probability.locator_params(axis="x", integer=True)
    probability.set(xlabel="round", ylabel="probability of the\nchosen action", ylim=(0, 1.02))
    files.save_picture(figure, output, dpi=120)
