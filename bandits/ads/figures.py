"""Summary and picture of ad runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bandits.ads import metrics
from data import files
from optimization.study import intervals

if TYPE_CHECKING:
    import os

    import pandas as pd

_LABELS = {
    metrics.AVERAGE_CLICKS: "clicks an impression",
    metrics.OPTIMAL_SHARE: "share of the best ad",
    metrics.TOTAL_REWARD: "clicks so far",
}
_SHARES = (metrics.AVERAGE_CLICKS, metrics.OPTIMAL_SHARE)


def summary(tables: "Sequence[pd.DataFrame]") -> "pd.DataFrame":
    """Summary over seeds: a row per learner and metric, for the last round and the mean of all rounds.

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
                interval = intervals.of_mean(values)
                limits = np.clip([interval.low, interval.high], *((0, 1) if metric in _SHARES else (-np.inf, np.inf)))
                rows.append((learner, metric, rounds, interval.mean, pd.Series(values).sem(), *limits, interval.size))
    return pd.DataFrame(rows, columns=["learner", "metric", "rounds", "mean", "standard_error", "low", "high", "seeds"])


def draw(table: "pd.DataFrame", output: "str | os.PathLike", title: str) -> None:
    """Draws the panels of _LABELS by round, of the federated bandit and of the centralised one.

    Args:
      table: Metrics of a run.
      output: Picture to write.
      title: Title.
    """
    from optimization.study import panels

    names = {learner: {metrics.column(learner, metric): metric for metric in _LABELS} for learner in metrics.LEARNERS}
    tables = {learner: [table[["round_num", *own]].rename(columns=own)] for learner, own in names.items()}
    files.save_picture(panels.draw(tables, _LABELS, title=title), output, dpi=120)
