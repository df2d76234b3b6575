"""Results of the laboratory's experiments: tables and numbers for the page, and curves for its picture."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from data import keys
from optimization.study import intervals

SEEDS = 20
# Panels of the picture, by the quantity they show: what it shows, and the horizontal axis.
GREEDY, WHOLE, LEFT, ALL = (
    "greedy part's regret, reward a sample",
    "whole regret, reward a sample",
    "regret that stays, reward a sample",
    "regret of all 64,000 samples, reward",
)
PANELS = {
    GREEDY: ("Greedy regret falls at least as fast as the bound", "samples of a deployment period"),
    WHOLE: ("A constant epsilon ends at a floor, schedules do not", "all samples"),
    LEFT: ("Inexact training leaves the root of its error", "epsilon_fed-opt, the training's excess loss"),
    ALL: ("Deploying half as often costs up to twice the regret", "samples of a deployment period"),
}
_NOTHING = 1e-12  # No more than rounding leaves.
_SMALL = 1e-4  # Smaller numbers are written with powers of ten.


@dataclasses.dataclass(frozen=True)
class Scale:
    """How many runs there are.

    Attributes:
      quick: Whether there are a tenth of most runs: intervals are three times as wide.
      seed: Of all draws.
    """

    quick: bool = False
    seed: int = 0

    def runs(self, a_seed: int) -> int:
        """Runs over all seeds, at `a_seed` runs per seed without `quick`."""
        return SEEDS * max(1, a_seed // 10 if self.quick else a_seed)

    def draws_of(self, experiment: int) -> np.random.Generator:
        """Random generator of an experiment, by its number."""
        return keys.generator(self.seed, keys.Purpose.LABORATORY, experiment)


@dataclasses.dataclass(frozen=True)
class Curve:
    """A line of the picture.

    Attributes:
      panel: Its panel, a key of `PANELS`.
      label: What it is.
      places: x.
      values: y: [places] of what is calculated, as bounds are, or [places, SEEDS] of what is measured.
    """

    panel: str
    label: str
    places: Sequence[float] | np.ndarray
    values: Sequence[float] | np.ndarray


@dataclasses.dataclass(frozen=True)
class Findings:
    """Results of an experiment.

    Attributes:
      words: By their names on the page: tables and numbers, as text.
      curves: For the picture.
    """

    words: Mapping[str, str]
    curves: Sequence[Curve] = ()


def mean(values: np.ndarray, digits: int = 3) -> str:
    """Mean of float [runs] with its 95% interval over seeds, as text."""
    return text(intervals.of_mean(by_seed(values).tolist()), digits)


def text(interval: intervals.Interval, digits: int = 3) -> str:
    """Mean with its 95% interval as text, rounded to significant digits of the mean."""
    largest = abs(interval.mean)
    if largest < _NOTHING:
        return "0"
    shown = f".{digits - 1}e" if largest < _SMALL else f",.{max(0, digits - 1 - int(np.floor(np.log10(largest))))}f"
    if interval.low == interval.high and largest >= _SMALL:
        return f"{interval.mean:{shown}}"
    return f"{interval.mean:{shown}} ({interval.low:{shown}} to {interval.high:{shown}})"


def slope(interval: intervals.Interval) -> str:
    """Slope with its interval, to two decimals."""
    return f"{interval.mean:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def loglog(places: np.ndarray, values: np.ndarray) -> intervals.Interval:
    """Slope of log value against log place: of value ~ place^slope.

    A straight line is fitted to each seed's curve; the interval is Student's t over the seeds.

    Args:
      places: float [places], above 0, such as numbers of samples.
      values: float [seeds, places], above 0.

    Raises:
      ValueError: If a value is not above 0: more runs a seed are needed.
    """
    return semilog(np.log(places), values)


def semilog(places: np.ndarray, values: np.ndarray) -> intervals.Interval:
    """Slope of log value against place, of value ~ exp(slope place); see `loglog`."""
    if not (values > 0).all():
        raise ValueError("values must be above 0 at all places: give each seed more runs")
    centred = places - places.mean()
    return intervals.of_mean((np.log(values) @ centred / (centred @ centred)).tolist())


def by_seed(values: np.ndarray) -> np.ndarray:
    """Means of each seed's runs, float64 [..., SEEDS], of [..., SEEDS x runs a seed]."""
    return values.reshape(*values.shape[:-1], SEEDS, -1).mean(axis=-1)
