"""Figures of bandit runs, from their `metrics.csv`."""

import os
import pathlib
from collections.abc import Mapping, Sequence

import matplotlib
import matplotlib.figure
import pandas as pd

from bandits import metrics

matplotlib.use("Agg")


def draw_run(metrics_path: pathlib.Path, output: str | os.PathLike, title: str) -> None:
    """Draws round and running average reward, and the exploration probability, with deployments marked.

    Args:
      metrics_path: A run's `metrics.csv`.
      output: PNG to write.
      title: Title.
    """
    table = pd.read_csv(metrics_path)
    figure = matplotlib.figure.Figure(figsize=(8, 6), layout="constrained")
    rewards, probability = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    rewards.plot(
        table["round_num"],
        table[metrics.ROUND_REWARD],
        color="C0",
        alpha=0.35,
        label="round reward",
    )
    rewards.plot(table["round_num"], table[metrics.AVERAGE_REWARD], color="C0", label="running average")
    evaluated = table.dropna(subset=[metrics.HELD_OUT_REWARD])
    rewards.plot(
        evaluated["round_num"],
        evaluated[metrics.HELD_OUT_REWARD],
        "o-",
        color="C1",
        markersize=3,
        label="greedy policy, held-out data",
    )
    probability.plot(table["round_num"], table[metrics.ROUND_PROBABILITY], color="C2")
    for axes in (rewards, probability):
        _mark_deployments(axes, table)
        axes.grid(alpha=0.3)
    rewards.set(title=title, ylabel="reward")
    rewards.legend()
    probability.set(xlabel="round", ylabel="probability of the\nchosen action", ylim=(0, 1.02))
    figure.savefig(output, dpi=120)


def draw_comparison(
    tables: Mapping[str, Sequence[pd.DataFrame]],
    output: str | os.PathLike,
    title: str,
    *,
    running_average: bool = False,
) -> None:
    """Draws several runs' rewards in one plot; several seeds of one become their mean and range.

    Args:
      tables: Metrics of each label's seeds.
      output: Picture to write.
      title: Title.
      running_average: Whether to draw the average over the rounds so far instead of a moving one over five.
    """
    figure = matplotlib.figure.Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for index, (label, seeds) in enumerate(tables.items()):
        if running_average:
            curves = [table.set_index("round_num")[metrics.AVERAGE_REWARD] for table in seeds]
        else:
            curves = [table.set_index("round_num")[metrics.ROUND_REWARD] for table in seeds]
            curves = [curve.rolling(5, min_periods=1).mean() for curve in curves]
        together = pd.concat(curves, axis=1)
        axes.plot(together.mean(axis=1), label=label, color=f"C{index}")
        if len(seeds) > 1:
            axes.fill_between(
                together.index, together.min(axis=1), together.max(axis=1), color=f"C{index}", alpha=0.2, linewidth=0
            )
    _mark_deployments(axes, next(iter(tables.values()))[0])
    axes.set(
        title=title,
        xlabel="round",
        ylabel="running average reward" if running_average else "round reward (mean of 5 rounds)",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(output, dpi=120)


def _mark_deployments(axes, table: pd.DataFrame) -> None:
    rounds = table.loc[table[metrics.DEPLOYED] == 1, "round_num"]
    if len(rounds) <= 40:  # More would hide the curves.
        for index, round_num in enumerate(rounds):
            axes.axvline(
                round_num,
                color="grey",
                linewidth=0.8,
                linestyle=":",
                label=None if index else "deployment",
            )
