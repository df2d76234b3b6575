"""Figures of ad runs: `python -m bandits.ads.figures --runs=DIR,DIR --output=ads.png`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bandits.ads import metrics
from data import files
from data.errors import UsageError
from optimization.study import cli, intervals
from optimization.study.settings import setting

if TYPE_CHECKING:
    import os

    import pandas as pd

_USAGE = """
Draws ad runs in one picture: clicks, the best ad's share and all clicks so far of each run's federation, and of the
first run's centralised bandit.

  figures --runs=runs/ads_epsilon_greedy,runs/ads_federated_ucb --output=ads.png
"""
_LABELS = {
    metrics.AVERAGE_CLICKS: "clicks an impression",
    metrics.OPTIMAL_SHARE: "share of the best ad",
    metrics.TOTAL_REWARD: "clicks so far",
}
_SHARES = (metrics.AVERAGE_CLICKS, metrics.OPTIMAL_SHARE)


def summary(tables: "Sequence[pd.DataFrame]") -> "pd.DataFrame":
    """Returns what several seeds gave: a row for each learner and metric, of the last round and of the mean of all.

    Rounds in which nobody took part have no clicks and no shares, and are left out.

    Args:
      tables: Metrics of each seed.

    Returns:
      Columns `learner`, `metric`, `rounds`, `mean`, `standard_error`, `low` and `high`, the 95% interval by Student's
      t, and `seeds`.
    """
    import numpy as np
    import pandas as pd

    rows = []
    for learner in metrics.LEARNERS:
        for metric in (*metrics.METRICS, *metrics.LEARNED):
            column = metrics.column(learner, metric)
            if any(column not in table or table[column].isna().all() for table in tables):
                continue
            ways = {"last": [table[column].dropna().iloc[-1] for table in tables]}
            if metric in _SHARES:
                ways["mean"] = [table[column].mean() for table in tables]
            for rounds, values in ways.items():
                found = intervals.of_mean(values)
                ends = np.clip([found.low, found.high], *((0, 1) if metric in _SHARES else (-np.inf, np.inf)))
                rows.append((learner, metric, rounds, found.mean, pd.Series(values).sem(), *ends, found.size))
    return pd.DataFrame(rows, columns=["learner", "metric", "rounds", "mean", "standard_error", "low", "high", "seeds"])


def draw(tables: "Mapping[str, Sequence[pd.DataFrame]]", output: "str | os.PathLike", best_rate: float) -> None:
    """Draws the panels of _LABELS by round; several seeds of one run become their mean.

    Args:
      tables: Metrics of each label's seeds. The centralised bandit drawn is the first label's.
      output: Picture to write.
      best_rate: Click rate of the best ad.
    """
    import pandas as pd

    from bandits import figures

    picture, grid = figures.panels(1, len(_LABELS), (14, 4.8))
    panels, (first, seeds) = grid[0], next(iter(tables.items()))
    lines: list = [(name, "federated", seeds, {}) for name, seeds in tables.items()]
    lines.append((f"{first}, centralised", "centralised", seeds, {"linestyle": "--", "color": "black"}))
    for axes, (metric, label) in zip(panels, _LABELS.items(), strict=True):
        for name, learner, seeds, style in lines:
            column = metrics.column(learner, metric)
            axes.plot(pd.concat(seeds).groupby("round_num")[column].mean(), label=name, **style)
        axes.set(xlabel="round", ylabel=label)
    panels[0].axhline(best_rate, color="grey", linestyle=":", label="best ad's rate")
    picture.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    files.save_picture(picture, output, dpi=120)


class _Flags:
    """Flags.

    Attributes:
      runs: Folders of runs, separated by commas; a folder of seeds (NAME/seed_N) is one line.
      labels: Their names in the picture, separated by commas (default: the folders').
      output: Picture to write: .png, .svg or .pdf.
    """

    runs: str = setting()
    labels: str = setting()
    output: str = setting("ads.png")


def define() -> cli.FlagSet:
    """Returns the flags."""
    flags = cli.FlagSet(_USAGE)
    flags.group(_Flags)
    return flags


def program(settings: cli.Settings) -> None:
    """Reads the runs' metrics and draws them."""
    import pandas as pd

    if not settings.runs:
        raise UsageError("--runs names no run: give their folders, separated by commas.")
    output = pathlib.Path(cli.user_path(settings.output))
    files.check_output("output", output)
    folders = [pathlib.Path(cli.user_path(run)) for run in settings.runs.split(",")]
    labels = settings.labels.split(",") if settings.labels else [folder.name for folder in folders]
    if len(labels) != len(folders):
        raise UsageError(f"--labels has {len(labels)} names for {len(folders)} --runs.")
    tables, rates = {}, []
    for label, folder in zip(labels, folders, strict=True):
        seeds = sorted(folder.glob("seed_*/metrics.csv")) or [folder / "metrics.csv"]
        if not seeds[0].is_file():
            raise UsageError(f"--runs: {folder} holds no metrics.csv; is it a run's folder?")
        tables[label] = [pd.read_csv(path) for path in seeds]
        rates += json.loads((seeds[0].parent / "config.json").read_text())["data_report"]["rates"]
    draw(tables, output, max(rates))
    print(output)


if __name__ == "__main__":
    cli.main(define(), program)
