"""Measures of a figure's runs by seed, with the numbers of its paper."""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bandits.papers.plan import PAPER_DATA, REDUCED, STAND_IN, Figure, Measure, Published
from bandits.results.baselines import BaselineComparison
from data.errors import UsageError
from optimization.study import curves as curves_lib
from optimization.study import intervals
from optimization.study.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd

_NOTES = {
    PAPER_DATA: "The paper's data",
    REDUCED: "The paper's data, reduced",
    STAND_IN: "Stand-in data, not the paper's",
}


@dataclasses.dataclass(frozen=True)
class ConfigurationRuns:
    """Finished runs of a configuration.

    Attributes:
      folders: Folders of the runs.
      tables: Their `metrics.csv`, up to the last planned round.
      searched: Best value of each searched flag.
      seeds: Seeds of the runs.
      diverged: Seeds of diverged runs.
    """

    folders: Sequence[pathlib.Path]
    tables: "Sequence[pd.DataFrame]"
    searched: Mapping[str, float]
    seeds: Sequence[int]
    diverged: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True)
class Value:
    """A measure of one configuration.

    Attributes:
      configuration: Label of the configuration.
      measure: Name of the measure.
      by_seed: The number of each seed; infinite if a value is never reached, NaN if there is none.
      rounds: Number of finished rounds.
      published: The paper's number, if it states one.
      is_picked: Whether a search selected it over all of its runs, so that it belongs to no seed.
      is_edge: Whether the search selected it on an edge of its grid; None if the records do not say.
      diverged: Seeds of diverged runs: they count in the mean, and the configuration is not judged.
      is_unpaired: Whether the seed does not determine its runs, because of secret noise or cohorts.
      baselines: The first measure compared with the uniform policy, the best fixed action and the full-feedback
        baseline, as far as those are known.
    """

    configuration: str
    measure: str
    by_seed: Mapping[int, float]
    rounds: int = 0
    published: Published | None = None
    is_picked: bool = False
    is_edge: bool | None = None
    diverged: frozenset[int] = frozenset()
    is_unpaired: bool = False
    baselines: BaselineComparison | None = None

    @functools.cached_property
    def finite(self) -> dict[int, float]:
        """The number of each seed; a value that is never reached counts as reached one round after the last."""
        if self.is_picked:
            return {}
        return {seed: self.rounds + 1.0 if value == math.inf else value for seed, value in self.by_seed.items()}

    @property
    def sound(self) -> dict[int, float]:
        """The number of each seed; NaN where the run diverged."""
        return {seed: math.nan if seed in self.diverged else value for seed, value in self.by_seed.items()}

    @property
    def mean(self) -> float:
        """Mean over seeds; infinite if a seed never reaches the value."""
        return float(np.mean(list(self.by_seed.values()))) if self.by_seed else math.nan

    @property
    def deviation(self) -> float:
        """Standard deviation over seeds, with n - 1; NaN below two seeds."""
        return float(np.std(list(self.finite.values()), ddof=1)) if len(self.finite) > 1 else math.nan

    @functools.cached_property
    def interval(self) -> Interval:
        """Mean over seeds and its 95% interval by Student's t; NaN below two seeds, or if a number is not finite."""
        if self.is_picked or not math.isfinite(self.mean):
            return Interval(self.mean, math.nan, math.nan, len(self.finite))
        return intervals.of_mean(list(self.by_seed.values()))


def measured(measure: Measure, found: ConfigurationRuns) -> list[float]:
    """A measure by seed.

    Raises:
      UsageError: If a run lacks it; the message names the file.
    """
    if ".npz:" in measure.column:
        name, _, field = measure.column.partition(":")
        paths = [next(iter(sorted(folder.glob(name))), folder / name) for folder in found.folders]
        return [_of_file(path, field) for path in paths]
    curves = []
    for folder, table in zip(found.folders, found.tables, strict=True):
        if measure.column not in table:
            raise UsageError(f"{folder / 'metrics.csv'} has no column {measure.column}.")
        curves.append(table.set_index("round_num")[measure.column].dropna())
    if measure.at == "deviation":
        return curves_lib.residual_deviations(curves)
    if measure.at == "chosen peak":
        return _at_chosen_peak(curves, found.seeds)
    return [_at(curve, measure) for curve in curves]


def _at_chosen_peak(curves: "Sequence[pd.Series]", seeds: Sequence[int]) -> list[float]:
    """Each odd seed's value in the round where the mean over the even seeds is highest; NaN for even seeds."""
    import pandas as pd

    chosen = [curve for curve, seed in zip(curves, seeds, strict=True) if seed % 2 == 0]
    if not chosen:
        return [math.nan] * len(curves)
    peak = pd.concat(chosen, axis=1).mean(axis=1).idxmax()
    pairs = zip(curves, seeds, strict=True)
    return [float(curve.get(peak, math.nan)) if seed % 2 else math.nan for curve, seed in pairs]


def _at(curve: "pd.Series", measure: Measure) -> float:
    at = measure.at
    if measure.rounds_to is not None:
        reached = curve.index[curve >= measure.rounds_to]
        return float(reached[0]) if len(reached) else math.inf
    if measure.share_of is not None:
        curve = curve[curve >= 0]
        return float((curve == measure.share_of).mean())
    if curve.empty:
        return math.nan
    if isinstance(at, int):
        return float(curve.get(at, math.nan))
    if measure.last_rounds is not None:
        return float(curve.tail(measure.last_rounds).mean())
    return float({"last": curve.iloc[-1], "first": curve.iloc[0], "mean": curve.mean(), "max": curve.max()}[at])


def _of_file(path: pathlib.Path, field: str) -> float:
    """Mean of an array; for `|field|`, of its absolute values."""
    name = field.strip("|")
    try:
        with np.load(path) as archive:
            values = archive[name]
            return float(np.nanmean(values if name == field else np.abs(values)))
    except (OSError, KeyError, ValueError) as error:
        raise UsageError(f"{path} holds no {field} ({error}).") from error


def number(value: float) -> str:
    """Number as text."""
    if math.isinf(value):
        return "infinite"
    return "-" if math.isnan(value) else f"{value:.3g}"


def data_note(figure: Figure) -> str:
    """Sentence about data that are not exactly the paper's; empty for the paper's."""
    if not figure.data:
        return ""
    return f"{_NOTES[figure.data_kind]}: {figure.data}."
