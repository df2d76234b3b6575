"""Figures and tables as data: their runs and measures, and the paper's numbers and claims about them.

`figures` reads them from files. This module neither opens data sets nor imports TensorFlow.
"""

import dataclasses
import math
import pathlib
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from bandits.plans.plan import Configuration, Run
from bandits.results import runs
from data.errors import UsageError
from optimization.study import cli

FIRST_TUNING_SEED = 100  # Searches select points on seeds that are not reported.
PAPER, SMALL = "paper", "small"  # Scales.
PAPER_DATA, REDUCED, STAND_IN = "paper's data", "paper's data, reduced", "stand-in"
DATA_KINDS = (PAPER_DATA, REDUCED, STAND_IN)
# Names of flags that count rounds, which a rehearsal shortens.
_IN_ROUNDS = re.compile(
    r"rounds$|^rounds_|^diagnose_round|_deploy_freq|^drift_(start|every|period)|^reset_w(armup|indow)|_drops$"
)
_DEVIATION, _CHOSEN_PEAK = "deviation", "chosen peak"


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number that is computed from each run.

    Attributes:
      name: The name.
      column: Column of `metrics.csv`. Or `FILE.npz:FIELD` for the mean of an array in the run's folder, where FILE may
        be a pattern, and `FILE.npz:|FIELD|` for the mean of its absolute values.
      at: A round, or `last`, `last N` (mean of the last N rounds), `first`, `mean`, `max`, `deviation` (standard
        deviation of the residuals from the mean over seeds), `chosen peak` (the round where the mean over the even
        seeds is highest; only odd seeds have the value, because the even seeds select the round), `rounds to X`, or
        `share of X` (share of the value X among the rounds that have a value of 0 or more).
      smallest: Whether smaller is better.
    """

    name: str
    column: str
    at: int | str = "last"
    smallest: bool = False

    @property
    def rounds_to(self) -> float | None:
        """The value to reach, if the measure is the number of rounds to a value."""
        return self._number_after("rounds to ")

    @property
    def last_rounds(self) -> int | None:
        """Number of rounds at the end of the run, if the measure is their mean."""
        return None if (rounds := self._number_after("last ")) is None else int(rounds)

    @property
    def is_of_some_seeds(self) -> bool:
        """Whether only some seeds have a value."""
        return self.at == _CHOSEN_PEAK

    def shortened(self, rounds: int, total: int) -> "Measure":
        """The measure of runs with fewer rounds."""
        at: int | str = _shortened(self.at, rounds, total) if isinstance(self.at, int) else self.at
        at = f"last {_shortened(self.last_rounds, rounds, total)}" if self.last_rounds else at
        column = re.sub(r"(?<=round_)\d+", lambda found: str(_shortened(int(found[0]), rounds, total)), self.column)
        return dataclasses.replace(self, at=at, column=column)

    def _number_after(self, words: str) -> float | None:
        _, separator, number = str(self.at).partition(words)
        return float(number) if separator else None

    def values(self, by_seed: Mapping[int, runs.Run]) -> list[float]:
        """The measure of each run.

        Raises:
          UsageError: If a run does not have the measure; the message names the file.
        """
        if ".npz:" in self.column:
            return [self._of_file(run.folder) for run in by_seed.values()]
        curves = {}
        for seed, run in by_seed.items():
            if self.column not in run.metrics:
                raise UsageError(f"{run.folder / 'metrics.csv'} has no column {self.column}.")
            curves[seed] = run.metrics.set_index("round_num")[self.column].dropna()
        if self.at == _DEVIATION:
            return _residual_deviations(list(curves.values()))
        if self.at == _CHOSEN_PEAK:
            return _at_chosen_peak(curves)
        return [self._of_curve(curve) for curve in curves.values()]

    def _of_file(self, folder: pathlib.Path) -> float:
        pattern, _, field = self.column.partition(":")
        path, name = next(iter(sorted(folder.glob(pattern))), folder / pattern), field.strip("|")
        try:
            with np.load(path) as archive:
                return float(np.nanmean(archive[name] if name == field else np.abs(archive[name])))
        except (OSError, KeyError, ValueError) as error:
            raise UsageError(f"{path} holds no {field} ({error}).") from error

    def _of_curve(self, curve: pd.Series) -> float:
        if self.rounds_to is not None:
            reached = curve.index[curve >= self.rounds_to]
            return float(reached[0]) if len(reached) else math.inf
        if (share_of := self._number_after("share of ")) is not None:
            return float((curve[curve >= 0] == share_of).mean())
        if isinstance(self.at, int):
            return float(curve.get(self.at, math.nan))
        if self.at == "max":
            return float(curve.max())
        named = {"last": curve.tail(1), "first": curve.head(1), "mean": curve}
        rounds = curve.tail(self.last_rounds) if self.last_rounds else named[str(self.at)]
        return float(rounds.mean())


def _shortened(number: int, rounds: int, total: int) -> int:
    """A number of rounds, scaled to a run with `rounds` instead of `total`; rounded up, so that only 0 becomes 0."""
    return -(-number * min(rounds, total) // total)


def _residual_deviations(curves: Sequence[pd.Series]) -> list[float]:
    """Standard deviation of each seed's residuals from the mean curve over seeds; NaN for a single seed.

    The factor n / (n - 1) corrects for the mean curve including the seed itself. With it, the mean square over seeds is
    the unbiased variance over seeds, averaged over rounds.
    """
    together, count = pd.concat(curves, axis=1), len(curves)
    squares = (together.sub(together.mean(axis=1), axis=0) ** 2).mean()
    return [math.sqrt(square * count / (count - 1)) if count > 1 else math.nan for square in squares]


def _at_chosen_peak(curves: Mapping[int, pd.Series]) -> list[float]:
    """Each odd seed's value in the round where the mean over the even seeds is highest; NaN for even seeds."""
    choosing = [curve for seed, curve in curves.items() if seed % 2 == 0]
    peak = pd.concat(choosing, axis=1).mean(axis=1).idxmax() if choosing else None
    return [float(curve.get(peak, math.nan)) if seed % 2 else math.nan for seed, curve in curves.items()]


@dataclasses.dataclass(frozen=True)
class Published:
    """A number that the paper states.

    Attributes:
      configuration: Label of the configuration; for an epsilon, the setting.
      measure: Name of the measure; empty for an epsilon.
      value: The number.
      place: Section or table of the paper.
      unit: Place value of the last digit, such as 0.01, at the precision of the table's other numbers.
      other_settings: Whether this project's settings differ from the paper's, so that numbers are not comparable.
      privacy_flags: Flags of `scripts.privacy_budget`, which computes an epsilon without a run.
    """

    configuration: str
    measure: str
    value: float
    place: str
    unit: float = 0.0
    other_settings: bool = False
    privacy_flags: str = ""

    @property
    def says(self) -> str:
        """Description of the number."""
        return ": ".join(filter(None, [self.configuration, self.measure.replace("_", " ")]))


@dataclasses.dataclass(frozen=True)
class Claim:
    """A statement of the paper, other than a single number, that is tested on this project's runs.

    An operand is `label`, or `label @ measure`; `A | B` is the better of two.

    Attributes:
      says: Short description of the claim.
      place: Section of the paper.
      kind: The kind of test, as follows.
        `order`: each group's operands are better than all of the next group.
        `close`: operands of different groups (with a single group, all its operands) differ by at most `within`.
        `apart`: they differ by more than that.
        `near_best`: the first is at most `within` worse than the best configuration in the plot.
        `not_worse`: the first is at most `within` worse than the second.
        `larger_lead`: the first leads the second by more than the third leads the fourth.
        `between`: the operand, or the difference of two, lies in `[low, high]`.
        `steady`: the operand's values deviate across seeds by at most `within`.
        `beats_best_fixed`: each operand is better than the best fixed action that its runs recorded.
        Empty: the claim cannot be tested; `needs` is the reason.
      operands: Groups of operands.
      within: Tolerance, relative to the mean of the second operand (for `steady`, to the operand's own mean). It is
        this project's choice.
      low: Lower end of the range, for `between`.
      high: Upper end of the range, for `between`.
      our_range: Whether `low` and `high` are this project's choice, not the paper's.
      premises: Operands that must be better than the best fixed action for the claim to be tested; `A | B` if one of
        them must be. Comparisons with Greedy or with a searched configuration have implicit premises, too; see
        `claims`.
      needs: Data or runs that are necessary to test the claim. A stand-in does not replace them.
      means: Meaning for a practitioner if the result is `holds`, `fails` or `inconclusive`.
    """

    says: str
    place: str
    kind: str
    operands: tuple[tuple[str, ...], ...]
    within: float = 0.0
    low: float = 0.0
    high: float = 0.0
    our_range: bool = False
    premises: tuple[str, ...] = ()
    needs: str = ""
    means: Mapping[str, str] = dataclasses.field(default_factory=dict)


def parse_operand(operand: str) -> tuple[list[str], str]:
    """Labels of a claim's operand, the best of which is used, and its measure (empty for the figure's first)."""
    labels, _, measure = operand.partition(" @ ")
    return labels.split(" | "), measure


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure or table at one scale.

    Attributes:
      name: Name of the figure, as in `--figure`.
      text: Authors and year of the paper.
      about: Title of the figure.
      also: Other names of the figure.
      binary: Name in `studies.STUDIES`.
      configurations: The configurations to run.
      repeat: Number of seeds.
      published_seeds: Number of seeds in the paper.
      tuning_seeds: Seeds on which searches select their points.
      halving: Minimum number of rounds of the lowest rung, if searches are by successive halving, which ranks by the
        study's metric; 0 if all points run in full.
      measures: Measures of each run; searches optimize the first.
      curves: Columns that are plotted over rounds.
      published: Numbers of the paper.
      claims: Claims of the paper.
      data_kind: One of `DATA_KINDS`.
      data: The data, if they are not exactly the paper's; None if they are.
      left_open: Choices that this project made because the paper does not state them.
      scale: `PAPER` or `SMALL`.
      own: Whether the figure answers a question of this project and is not from a paper.
      reference: The configuration, or label of the first axis, with which the others are compared.
      rehearsal: Maximum number of rounds per run if the figure is a rehearsal; 0 if it is not.
    """

    name: str
    text: str
    about: str
    binary: str
    configurations: tuple[Configuration, ...]
    repeat: int
    measures: tuple[Measure, ...]
    data_kind: str
    scale: str = PAPER
    also: tuple[str, ...] = ()
    published_seeds: int = 1
    tuning_seeds: tuple[int, ...] = (FIRST_TUNING_SEED,)
    halving: int = 0
    curves: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()
    claims: tuple[Claim, ...] = ()
    data: str | None = None
    left_open: tuple[str, ...] = ()
    own: bool = False
    reference: str | None = None
    rehearsal: int = 0

    @property
    def data_note(self) -> str:
        """Sentence about data that differ from the paper's; empty for the paper's data."""
        kind = "Stand-in data, not the paper's" if self.data_kind == STAND_IN else f"The {self.data_kind}"
        return f"{kind}: {self.data}." if self.data else ""

    def measure_of(self, operand: str) -> Measure:
        """Measure that a claim's operand names, or else the first; a value that a search selected has no column."""
        _, name = parse_operand(operand)
        known = {measure.name: measure for measure in self.measures}
        return known.get(name, Measure(name, "")) if name else self.measures[0]

    @property
    def has_paper_settings(self) -> bool:
        """Whether its numbers are comparable with the paper's: the same data and number of rounds."""
        return self.data_kind == PAPER_DATA and self.scale == PAPER

    def chosen(self, labels: str | None) -> "Figure":
        """The figure with some of its configurations.

        Args:
          labels: Labels, separated by semicolons; None for all.

        Raises:
          UsageError: If the figure does not have one of them; the message suggests similar labels.
        """
        known = {one.label: one for one in self.configurations}
        names = [label.strip() for label in labels.split(";")] if labels else list(known)
        for name in names:
            if name not in known:
                raise cli.unknown("configurations", name, known, f"{self.name} has {'; '.join(known)}.")
        return dataclasses.replace(self, configurations=tuple(known[name] for name in names))

    def runs_of(
        self, configuration: Configuration, repeat: int, base: Sequence[str], folder: pathlib.Path | None
    ) -> list[Run]:
        """Runs of a configuration: one per seed; for a search, its points on the tuning seeds.

        Args:
          configuration: The configuration.
          repeat: Number of seeds.
          base: Flags that all runs share.
          folder: Folder of all runs, where identical runs of figures share a subfolder; None to get only the first
            point.

        Raises:
          UsageError: If a configuration's flags are invalid; the message names the figure and the configuration.
        """
        seeds = self.tuning_seeds if configuration.is_searched else range(repeat)
        try:
            return configuration.runs(self.binary, seeds, base, folder)
        except UsageError as error:
            raise UsageError(f"--figure={self.name}, {configuration.label}: {error}") from error

    def first_run(self, configuration: Configuration) -> Run:
        """First run of a configuration; for a search, that of its first point."""
        return self.runs_of(configuration, 1, (), None)[0]

    def marked(self, rounds: int) -> "Figure":
        """The figure marked as a rehearsal with this many rounds: without claims, published numbers or a reference."""
        about = f"Rehearsal of {rounds} rounds, no result: {self.about}"
        return dataclasses.replace(self, rehearsal=rounds, about=about, claims=(), published=(), reference=None)

    def rehearsed(self, rounds: int) -> "Figure":
        """The figure with at most this many rounds, to try its configurations.

        All numbers of rounds are shortened in proportion: evaluations, deployments, changes of the environment, the
        initial training, and the rounds of measures.

        Raises:
          UsageError: If a configuration's flags are invalid, as in `runs_of`.
        """
        configurations = []
        for one in self.configurations:
            settings, arguments = self.first_run(one).settings, list(one.arguments)
            total = settings.total_rounds
            for name in filter(_IN_ROUNDS.search, settings):
                if settings[name]:  # A number, or several.
                    numbers = map(int, re.findall(r"\d+", str(settings[name])))
                    short = dict.fromkeys(str(_shortened(number, rounds, total)) for number in numbers)
                    arguments.append(f"--{name}={','.join(short)}")
            configurations.append(dataclasses.replace(one, arguments=tuple(arguments)))
        return dataclasses.replace(
            self.marked(rounds),
            configurations=tuple(configurations),
            measures=tuple(measure.shortened(rounds, total) for measure in self.measures),
            halving=_shortened(self.halving, rounds, total),
        )

    def check(self) -> None:
        """Checks the flags of each configuration; for a search, only those of one point to save minutes.

        Raises:
          UsageError: If a configuration's flags are invalid, as in `runs_of`.
        """
        for configuration in self.configurations:
            self.first_run(configuration)
