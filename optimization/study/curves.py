"""Curves of metrics over rounds, with the mean and a band over seeds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optimization.study import intervals

if TYPE_CHECKING:
    import pandas as pd

# Okabe and Ito's colours, which colour-blind readers can distinguish; without yellow, which is invisible on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LINE_STYLES = ("-", "--", "-.", ":")


# Legend entry of each band over seeds.
BANDS = {
    "minmax": "lowest to highest of the seeds",
    "ci": "95% t interval of the seeds' mean",
    "sd": "mean ± one standard deviation of the seeds",
}


def smoothed(table: "pd.DataFrame", column: str, window: int, marks: str | None = None) -> "pd.Series":
    """Values of a metric, or its mean over the last rounds; values that are not finite are missing.

    Args:
      table: A run's `metrics.csv`.
      column: The metric.
      window: Rounds of the mean.
      marks: Column that is 1 in rounds that end with a jump: no mean reaches across one, unless windows are longer than
        the rounds between jumps.

    Returns:
      Its values; index: rounds.
    """
    import numpy as np
    import pandas as pd

    values = table[column].to_numpy(float)
    curve = pd.Series(np.where(np.isfinite(values), values, np.nan), index=pd.Index(table["round_num"]), name=column)
    if window == 1:
        return curve
    table = table.set_index("round_num")
    periods = 0 * table.index
    if marks in table and table[marks].mean() * window <= 1:
        periods = (table[marks].cumsum() - table[marks]).to_numpy()
    return curve.groupby(periods).rolling(window, min_periods=1).mean().droplevel(0).where(curve.notna())


def residual_deviations(curves: "Sequence[pd.Series]") -> list[float]:
    """Standard deviation of each seed's residuals to the mean curve over seeds; NaN of a single seed.

    The mean curve includes each seed, which n / (n - 1) corrects: the mean square over seeds is the variance
    over seeds with n - 1, mean over rounds.

    Args:
      curves: Values of each seed; index: rounds.
    """
    import numpy as np
    import pandas as pd

    count = len(curves)
    if count < 2:
        return [np.nan] * count
    together = pd.concat(curves, axis=1)
    residuals = together.sub(together.mean(axis=1), axis=0)
    return [float(value) for value in np.sqrt((residuals**2).mean() * count / (count - 1))]


def band(
    tables: "Sequence[pd.DataFrame]", column: str, window: int = 1, kind: str = "minmax", marks: str | None = None
) -> "pd.DataFrame":
    """Mean over the seeds of one run and a band around it, by round.

    Args:
      tables: Metrics of each seed.
      column: The metric.
      window: Rounds of the running mean of each seed; see `smoothed`.
      kind: One of `BANDS`.
      marks: See `smoothed`.

    Returns:
      Columns `mean`, `low` and `high`; index: rounds at which a seed has a finite value. Of a single seed, `ci` and
      `sd` are NaN.
    """
    import numpy as np
    import pandas as pd

    curves = [smoothed(table, column, window, marks) for table in tables]
    together = pd.concat(curves, axis=1).sort_index().dropna(how="all")
    values = together.to_numpy(float)
    mean, low, high = np.nanmean(values, axis=1), np.nanmin(values, axis=1), np.nanmax(values, axis=1)
    if kind != "minmax":
        half = together.std(axis=1).to_numpy()
        if kind == "ci":
            half = intervals.half_width(half, together.count(axis=1).to_numpy())
        low, high = mean - half, mean + half
    return pd.DataFrame({"mean": mean, "low": low, "high": high}, index=together.index)


def draw(
    axes,
    tables: "Sequence[pd.DataFrame]",
    column: str,
    label: str,
    place: int,
    window: int = 1,
    kind: str = "minmax",
    marks: str | None = None,
) -> None:
    """Draws a metric of one run over its rounds; several seeds become their mean and a band.

    Args:
      axes: Matplotlib's axes.
      tables: Metrics of each seed.
      column: The metric; one of deployed models is drawn in steps.
      label: Its name in the legend.
      place: Index of the curve in the picture, which sets its style.
      window: Rounds of the running mean.
      kind: The band, one of `BANDS`.
      marks: Column of the deployments.
    """
    steps = "pre" if getattr(column, "deployed", False) else None
    curve, colour = band(tables, column, window, kind, marks if steps else None), COLOURS[place % len(COLOURS)]
    line, marker = _LINE_STYLES[place % len(_LINE_STYLES)], "o" if len(curve) == 1 else None
    style = f"steps-{steps}" if steps else "default"
    axes.plot(curve["mean"], label=label, linestyle=line, marker=marker, color=colour, drawstyle=style)
    if len(tables) > 1:
        axes.fill_between(curve.index, curve["low"], curve["high"], alpha=0.2, linewidth=0, color=colour, step=steps)
