"""Curves of metrics over rounds, with the mean and a band over seeds; the style of each strategy."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from optimization.study import intervals

if TYPE_CHECKING:
    import pandas as pd

# Okabe and Ito's colours, which colour-blind readers can distinguish; without yellow, which is invisible on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK = COLOURS
GREY = "#777777"
_DASHES = {"-": "o", "--": "s", "-.": "D", ":": "^"}  # With the marker that goes with each.


class Style(NamedTuple):
    """Look of a strategy in all pictures.

    Attributes:
      colour: Hexadecimal.
      dash: Matplotlib's name of it.
    """

    colour: str
    dash: str

    @property
    def marker(self) -> str:
        """Matplotlib's name of the marker, one a dash."""
        return _DASHES[self.dash]


PLAIN = Style(BLUE, "-")  # Of what is not compared.
# Strategies, selectors, aggregations and rules, by a part of their names: in every picture each has the same style.
STYLES = {
    "softmax": Style(BLUE, "-"),
    "epsilon_": Style(RED, "--"),
    "epsilon_decay": Style(RED, ":"),
    "gradient_epsilon": Style(RED, ":"),
    "falcon": Style(GREEN, "-."),
    "squarecb": Style(GREEN, ":"),
    "bag": Style(ORANGE, "-."),
    "greedy": Style(PINK, ":"),
    "ucb": Style(SKY, "-"),
    "thompson": Style(ORANGE, "--"),
    "extreme_explore": Style(BLACK, "-"),
    "target_alone": Style(PINK, "-."),
    "best_combination": Style(GREEN, "--"),
    **dict.fromkeys(("uniform", "random"), Style(GREY, ":")),
    **dict.fromkeys(("supervised", "full_feedback", "ceiling"), Style(GREY, "--")),
    "rand": Style(PINK, "-"),
    "pow_d": Style(RED, "--"),
    "rpow_d": Style(ORANGE, ":"),
    "ucb_cs": Style(BLUE, "-."),
    "active_fl": Style(GREEN, ":"),
    **dict.fromkeys(("mean", "fedavg"), Style(BLACK, "--")),
    "fedkp": Style(BLUE, "-"),
    **dict.fromkeys(("fedkp_c", "fedkp_with_c"), Style(SKY, "-.")),  # With clustering.
    "fedkppa": Style(GREEN, "--"),
    "fedpa": Style(ORANGE, ":"),
    "fedbe": Style(RED, "-."),
    "fedag": Style(PINK, "--"),
}

# Legend entry of each band over seeds.
BANDS = {
    "ci": "95% interval of the mean over seeds",
    "minmax": "lowest to highest of the seeds",
    "sd": "mean ± one standard deviation of the seeds",
}


def styles(names: Sequence[str]) -> list[Style]:
    """Styles of the curves of a picture, no two alike while there are enough.

    A name that contains one of `STYLES` (the longest counts) has its style; the next one of the same strategy has the
    same colour and another dash, unless the picture has no other strategy. Others have the colours that are left.
    """
    words = [re.sub("[^a-z0-9]", "_", name.lower().replace("ε", "epsilon")) for name in names]
    known = [max((key for key in STYLES if key in word), key=len, default="") for word in words]
    taken = {STYLES[key].colour for key in known if key}
    colours = [*(one for one in COLOURS if one not in taken), *(one for one in COLOURS if one in taken)]
    every = [
        Style(colour, [*_DASHES][(shift + place) % 4]) for shift in range(4) for place, colour in enumerate(colours)
    ]
    chosen: list[Style] = []
    for key in known:
        preferred = STYLES[key] if key else every[0]
        alike = [Style(preferred.colour, dash) for dash in _DASHES] if key and len(set(known)) > 1 else []
        chosen.append(
            next((one for one in ([preferred] if key else []) + alike + every if one not in chosen), preferred)
        )
    return chosen


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


def band(
    tables: "Sequence[pd.DataFrame]", column: str, window: int = 1, kind: str = "ci", marks: str | None = None
) -> "pd.DataFrame":
    """Mean over the seeds of one run and a band around it, by round.

    Args:
      tables: Metrics of each seed.
      column: The metric.
      window: Rounds of the running mean of each seed; see `smoothed`.
      kind: One of `BANDS`.
      marks: See `smoothed`.

    Returns:
      Columns `mean`, `low` and `high` (inside 0 and 1 for shares); index: rounds at which a seed has a finite
      value. Of a single seed, `ci` and `sd` are NaN.
    """
    import numpy as np
    import pandas as pd

    marks = marks if getattr(column, "deployed", False) else None
    curves = [smoothed(table, column, window, marks) for table in tables]
    together = pd.concat(curves, axis=1).sort_index().dropna(how="all")
    values = together.to_numpy(float)
    mean, low, high = np.nanmean(values, axis=1), np.nanmin(values, axis=1), np.nanmax(values, axis=1)
    if kind != "minmax":
        half = together.std(axis=1).to_numpy()
        if kind == "ci":
            half = intervals.half_width(half, together.count(axis=1).to_numpy())
        low, high = mean - half, mean + half
    if getattr(column, "share", False):
        low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
    return pd.DataFrame({"mean": mean, "low": low, "high": high}, index=together.index)


def limits(bands: "Sequence[pd.DataFrame]") -> tuple[float, float]:
    """Limits of an axis that shows all means; bands, which are wide over few seeds, no further than the means' span.

    Args:
      bands: Of `band`, at least one with a finite mean.
    """
    import pandas as pd

    together = pd.concat(bands)
    low, high = together["mean"].min(), together["mean"].max()
    bottom = max(2 * low - high, together[["mean", "low"]].min(axis=None))
    top = min(2 * high - low, together[["mean", "high"]].max(axis=None))
    margin = (0.05 * (top - bottom)) or abs(high) / 10 or 1.0
    return float(bottom - margin), float(top + margin)


def draw(
    axes: Any, tables: "Sequence[pd.DataFrame]", column: str, label: str, style: Style, **shown: Any
) -> "pd.DataFrame":
    """Draws a metric of one run over its rounds; several seeds become their mean and a band, which is returned.

    Args:
      axes: Matplotlib's axes.
      tables: Metrics of each seed.
      column: The metric; one of deployed models is drawn in steps.
      label: Its name in the legend.
      style: Its look; see `styles`.
      **shown: Arguments of `band`.
    """
    is_stepped = getattr(column, "deployed", False)
    curve = band(tables, column, **shown)
    if is_stepped and len(curve):  # A round lasts from the one before to its number: the first is seen, too.
        curve.loc[curve.index[0] - 1] = curve.iloc[0]
        curve = curve.sort_index()
    marker = style.marker if len(curve) == 1 else None
    look = {"drawstyle": "steps-pre" if is_stepped else "default", "linestyle": style.dash, "color": style.colour}
    axes.plot(curve["mean"], label=label, marker=marker, **look)
    if len(tables) > 1:
        step = "pre" if is_stepped else None
        low, high = curve["low"], curve["high"]
        axes.fill_between(curve.index, low, high, alpha=0.2, linewidth=0, color=style.colour, step=step)
    return curve
