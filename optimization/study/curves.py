"""Plots metrics over rounds as the mean over seeds with a band, and defines the style of each strategy."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from optimization.study import intervals
from optimization.study.intervals import UNBOUNDED

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

# Okabe and Ito's colours, which colour-blind readers can distinguish. Yellow is left out because it is invisible on
# white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK = COLOURS
GREY = "#777777"
_DASHES = {"-": "o", "--": "s", "-.": "D", ":": "^"}  # Marker for each line style.


class Style(NamedTuple):
    """Style of a strategy in all pictures.

    Attributes:
      colour: Hexadecimal colour.
      dash: Matplotlib line style.
    """

    colour: str
    dash: str

    @property
    def marker(self) -> str:
        """Matplotlib marker, which depends on the line style."""
        return _DASHES[self.dash]


PLAIN = Style(BLUE, "-")  # For curves that are not compared.
# Styles of strategies, selectors, aggregations and rules, by a part of their names. They are the same in all pictures.
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
    **dict.fromkeys(("mean", "fedavg", "bound"), Style(BLACK, "--")),
    "fedkp": Style(BLUE, "-"),
    **dict.fromkeys(("fedkp_c", "fedkp_with_c"), Style(SKY, "-.")),  # With clustering.
    "fedkppa": Style(GREEN, "--"),
    "fedpa": Style(ORANGE, ":"),
    "fedbe": Style(RED, "-."),
    "fedag": Style(PINK, "--"),
}

# Name of each band over seeds.
BANDS = {
    "ci": "95% confidence interval of the mean over seeds",
    "minmax": "lowest to highest value of the seeds",
    "sd": "mean ± one standard deviation over the seeds",
}


def styles(names: Sequence[str]) -> list[Style]:
    """Chooses styles for the curves of a picture, all different if possible.

    A name that contains a key of `STYLES` gets the style of the longest such key. Further curves of the same strategy
    keep its colour and get other line styles, unless the picture has no other strategy. All other names get the
    remaining colours.
    """
    words = [re.sub("[^a-z0-9]", "_", name.lower().replace("ε", "epsilon")) for name in names]
    known = [max((key for key in STYLES if key in word), key=len, default="") for word in words]
    taken = {STYLES[key].colour for key in known if key}
    colours = [*(one for one in COLOURS if one not in taken), *(one for one in COLOURS if one in taken)]
    dashes = list(_DASHES)
    every = [Style(colour, dashes[(shift + place) % 4]) for shift in range(4) for place, colour in enumerate(colours)]
    chosen: list[Style] = []
    for key in known:
        preferred = STYLES[key] if key else every[0]
        alike = [Style(preferred.colour, dash) for dash in _DASHES] if key and len(set(known)) > 1 else []
        candidates = ([preferred] if key else []) + alike + every
        chosen.append(next((one for one in candidates if one not in chosen), preferred))
    return chosen


def band(
    tables: "Sequence[pd.DataFrame]", column: str, kind: str = "ci", bounds: tuple[float, float] = UNBOUNDED
) -> "pd.DataFrame":
    """Mean over seeds, and a band around it, for each round.

    Args:
      tables: The `metrics.csv` of each seed.
      column: Name of the metric.
      kind: One of `BANDS`.
      bounds: Smallest and largest possible value, at which the band ends; see `metrics.range_of`.

    Returns:
      Columns `mean`, `low` and `high`, indexed by the rounds in which any seed has a finite value. With a single seed,
      the bands `ci` and `sd` are NaN.
    """
    import numpy as np
    import pandas as pd

    together = pd.concat([table.set_index("round_num")[column] for table in tables], axis=1).sort_index()
    together = together.where(np.isfinite(together)).dropna(how="all")
    values = together.to_numpy(float)
    mean, low, high = np.nanmean(values, axis=1), np.nanmin(values, axis=1), np.nanmax(values, axis=1)
    if kind != "minmax":
        half = together.std(axis=1).to_numpy()
        if kind == "ci":
            half = intervals.half_width(half, together.count(axis=1).to_numpy())
        low, high = mean - half, mean + half
    # A mean that exceeds a bound by a rounding error stays in its band.
    low, high = np.minimum(mean, np.clip(low, *bounds)), np.maximum(mean, np.clip(high, *bounds))
    return pd.DataFrame({"mean": mean, "low": low, "high": high}, index=together.index)


def limits(bands: "Sequence[pd.DataFrame]") -> tuple[float, float]:
    """Limits of an axis that shows all means and, as far as possible, the bands around them.

    At either end, bands extend the axis by at most the span of the means, because bands over few seeds are wide.

    Args:
      bands: Results of `band`, at least one of which has a finite mean.
    """
    import pandas as pd

    together = pd.concat(bands)
    low, high = together["mean"].min(), together["mean"].max()
    bottom = max(2 * low - high, together[["mean", "low"]].min(axis=None))
    top = min(2 * high - low, together[["mean", "high"]].max(axis=None))
    margin = (0.05 * (top - bottom)) or abs(high) / 10 or 1.0
    return float(bottom - margin), float(top + margin)


def draw(
    axes: Any, tables: "Sequence[pd.DataFrame]", column: str, label: str, style: Style, at: "np.ndarray", **shown: Any
) -> "pd.DataFrame":
    """Draws a metric over rounds, as the mean with a band if there are several seeds, and returns the `band`.

    The band is drawn as vertical bars, because shaded bands of several curves would hide each other.

    Args:
      axes: Matplotlib's axes.
      tables: The `metrics.csv` of each seed.
      column: The metric. If it measures deployed models, it is drawn in steps.
      label: Name in the legend.
      style: Style of the curve; see `styles`.
      at: Positions of the bars, from 0 for the first round to 1 for the last one; they should differ between curves.
      **shown: Arguments of `band`.
    """
    import numpy as np

    is_stepped = getattr(column, "deployed", False)
    curve = band(tables, column, **shown)
    if is_stepped and len(curve):  # Every step starts at the previous round, including the first one.
        curve.loc[curve.index[0] - 1] = curve.iloc[0]
        curve = curve.sort_index()
    marker = style.marker if len(curve) == 1 else None
    look = {"drawstyle": "steps-pre" if is_stepped else "default", "linestyle": style.dash, "color": style.colour}
    axes.plot(curve["mean"], label=label, marker=marker, **look)
    if len(tables) > 1 and len(curve):
        at = np.interp(at, (0, 1), (curve.index[0], curve.index[-1]))
        after = np.searchsorted(curve.index, at)  # A step has the value of the round in which it ends.
        low, high = (
            values[after] if is_stepped else np.interp(at, curve.index, values)
            for values in curve[["low", "high"]].to_numpy().T
        )
        axes.vlines(at, low, high, color=style.colour, linewidth=1, alpha=0.7)
    return curve
