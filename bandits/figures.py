"""Figures of bandit runs, from their `metrics.csv`."""

import os
import pathlib

import matplotlib.figure
import pandas as pd

from bandits import metrics
from data import files


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
    probability.locator_params(axis="x", integer=True)
    probability.set(xlabel="round", ylabel="probability of the\nchosen action", ylim=(0, 1.02))
    files.save_picture(figure, output, dpi=120)


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
