"""The figure of a run, from its `metrics.csv`."""

import os
import pathlib

import matplotlib.figure
import pandas as pd

from data import files
from optimization.posterior import metrics


def draw_run(metrics_path: pathlib.Path, output: str | os.PathLike, title: str) -> None:
    """Draws accuracy and loss over rounds, each round's and running means (Figures 5.1, 5.3, 5.5 to 5.8), as a PNG."""
    table = pd.read_csv(metrics_path)
    figure = matplotlib.figure.Figure(figsize=(9, 3.6), layout="constrained")
    for axes, measure in zip(figure.subplots(1, 2), ("accuracy", "loss"), strict=True):
        for index, (part, data) in enumerate(metrics.SETS.items()):
            color = f"C{index}"
            axes.plot(table["round_num"], table[f"{part}/{measure}"], color=color, alpha=0.3)
            axes.plot(table["round_num"], table[f"running/{part}/{measure}"], color=color, label=data)
        axes.set(xlabel="round", ylabel=measure)
        axes.grid(alpha=0.3)
    axes.legend()
    figure.suptitle(title)
    files.save_picture(figure, output, dpi=120)
