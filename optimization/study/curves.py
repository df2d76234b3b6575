"""Curves of metrics over rounds: several seeds of one run are their mean and range."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# Okabe and Ito's colours, told apart by colour-blind readers; without yellow, which is lost on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LINE_STYLES = ("-", "--", "-.", ":")


def band(tables: "Sequence[pd.DataFrame]", column: str, window: int = 1) -> "pd.DataFrame":
    """Returns the mean, lowest and highest value over the seeds of one run, by round.

    Args:
      tables: Metrics of each seed.
      column: What to take of them.
      window: Rounds of the moving average that is taken of each seed first.

    Returns:
      Columns `mean`, `low` and `high`; index: rounds at which a seed has a finite value.
    """
    import numpy as np
    import pandas as pd

    curves = [table.set_index("round_num")[column].replace([np.inf, -np.inf], np.nan) for table in tables]
    if window > 1:
        curves = [curve.rolling(window, min_periods=1).mean() for curve in curves]
    together = pd.concat(curves, axis=1).sort_index().dropna(how="all")
    values = together.to_numpy(float)
    edges = {"mean": np.nanmean(values, axis=1), "low": np.nanmin(values, axis=1), "high": np.nanmax(values, axis=1)}
    return pd.DataFrame(edges, index=together.index)


def draw(axes, tables: "Sequence[pd.DataFrame]", column: str, label: str, place: int, window: int = 1) -> None:
    """Draws a metric of one run over its rounds; several seeds become their mean and range.

    Args:
      axes: Matplotlib's, to draw in.
      tables: Metrics of each seed.
      column: What is drawn.
      label: Its name in the legend.
      place: Number of the curve in the picture, which gives its look.
      window: Rounds of the moving average that is drawn instead of single rounds.
    """
    curve, colour = band(tables, column, window), COLOURS[place % len(COLOURS)]
    line, marker = _LINE_STYLES[place % len(_LINE_STYLES)], "o" if len(curve) == 1 else None
    axes.plot(curve["mean"], label=label, linestyle=line, marker=marker, color=colour)
    if len(tables) > 1:
        axes.fill_between(curve.index, curve["low"], curve["high"], alpha=0.2, linewidth=0, color=colour)
