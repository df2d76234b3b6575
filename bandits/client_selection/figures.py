"""Figures and the table of client-selection runs, from their `metrics.csv` and `private_clients.csv`."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bandits.client_selection import metrics
from data import files
from optimization.study import curves, panels

_FINAL = [metric for metric in metrics.COLUMNS if metric.evaluated]
_PER_ROUND = [metrics.MODEL_TRANSFERS, metrics.LOSS_POLLS]
_CURVES = (metrics.GLOBAL_LOSS, metrics.ACCURACY)
_BINS = 20


def read(runs: Mapping[pathlib.Path, Mapping[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All rounds and all clients of finished runs, with columns `selector`, `cohort` and `seed`.

    Args:
      runs: By folder, these three.
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
      rounds: Of `read`.
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


def draw_convergence(rounds: pd.DataFrame, output: pathlib.Path, title: str) -> None:
    """Draws global loss and accuracy over rounds, a column of panels for each cohort size (Figures 1 and 3).

    Several seeds become their mean and its 95% interval.

    Args:
      rounds: Of `read`.
      output: PNG to write.
      title: Title.
    """
    evaluated = rounds.dropna(subset=[metrics.GLOBAL_LOSS])
    cohorts = list(evaluated.groupby("cohort", sort=False))
    figure, grid = panels.grid(2, len(cohorts), (1.5 + 4 * len(cohorts), 6.5), title, sharex=True, sharey="row")
    for place, (row, name) in enumerate(zip(grid, _CURVES, strict=True)):
        for axes, (cohort, chosen) in zip(row, cohorts, strict=True):
            for selector, look, one in _selectors(chosen):
                curves.draw(axes, [seed for _, seed in one.groupby("seed")], name, selector, look)
            if place:
                panels.label(axes, xlabel="round")
            else:
                panels.label(axes, title=_cohort_title(cohort))
        panels.label(row[0], ylabel=name.about)
    grid[0, 0].set_ylim(0, _top(evaluated))
    panels.add_legend(figure)
    files.save_picture(figure, output, dpi=120)


def draw_communication(rounds: pd.DataFrame, output: pathlib.Path, title: str) -> None:
    """Draws global loss against the models sent so far, a panel for each cohort size; both are means over seeds.

    Polls cost a model to each candidate, which a picture by round does not show.

    Args:
      rounds: Of `read`.
      output: PNG to write.
      title: Title.
    """
    sent = rounds.groupby(["cohort", "selector", "seed"], sort=False)[metrics.MODEL_TRANSFERS].cumsum()
    evaluated = rounds.assign(sent=sent).dropna(subset=[metrics.GLOBAL_LOSS])
    cohorts = list(evaluated.groupby("cohort", sort=False))
    figure, (row,) = panels.grid(1, len(cohorts), (1.5 + 4 * len(cohorts), 3.6), title, sharey=True)
    for axes, (cohort, chosen) in zip(row, cohorts, strict=True):
        for selector, look, one in _selectors(chosen):
            means = one.groupby("round_num")[["sent", metrics.GLOBAL_LOSS]].mean()
            axes.plot(means["sent"], means[metrics.GLOBAL_LOSS], label=selector, color=look.colour, linestyle=look.dash)
        panels.label(axes, title=_cohort_title(cohort), xlabel="models sent, to clients and back")
    panels.label(row[0], ylabel=metrics.GLOBAL_LOSS.about, ylim=(0, _top(evaluated)))
    panels.add_legend(figure)
    files.save_picture(figure, output, dpi=120)


def _selectors(chosen: pd.DataFrame) -> Iterator[tuple[str, curves.Style, pd.DataFrame]]:
    """Yields each selector with its style and its rows."""
    groups = list(chosen.groupby("selector", sort=False))
    looks = curves.styles([str(selector) for selector, _ in groups])
    for look, (selector, one) in zip(looks, groups, strict=True):
        yield str(selector), look, one


def _cohort_title(cohort: int) -> str:
    return f"{cohort} clients a round" if cohort > 1 else "1 client a round"


def _top(evaluated: pd.DataFrame) -> float:
    """Upper limit of an axis of losses; the first rounds' losses would hide the rest."""
    losses = evaluated[metrics.GLOBAL_LOSS]
    return np.nanquantile(losses[np.isfinite(losses)], 0.98) * 1.1


def draw_client_losses(clients: pd.DataFrame, output: pathlib.Path, title: str) -> None:
    """Draws how the clients' final losses are distributed with each selector, for the smallest cohort (Figure 2).

    Args:
      clients: Of `read`; clients of all seeds count together.
      output: PNG to write.
      title: Title.
    """
    cohort = clients["cohort"].min()
    chosen = clients[clients["cohort"] == cohort].dropna(subset=["loss"])
    chosen = chosen[np.isfinite(chosen["loss"])]
    groups = list(_selectors(chosen))
    bins = np.linspace(0, chosen["loss"].quantile(0.99), _BINS + 1)
    size = (3.2 * len(groups) + 0.8, 3.2)
    figure, (row,) = panels.grid(1, len(groups), size, f"{title}, {cohort} a round", sharey=True)
    for axes, (selector, look, one) in zip(row, groups, strict=True):
        share = np.full(len(one), 1 / len(one))
        axes.hist(np.minimum(one["loss"], bins[-1]), bins, weights=share, color=look.colour, alpha=0.7)
        axes.axvline(one["loss"].mean(), color="black", linewidth=1, label="mean")
        panels.label(axes, title=selector, xlabel="client's final training loss")
    panels.label(row[0], ylabel="share of clients", legend=True)
    files.save_picture(figure, output, dpi=120)
