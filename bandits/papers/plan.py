"""Figures and tables as data: their runs, and the paper's numbers and claims about them.

Nothing here reads data or imports TensorFlow; `figures` reads them from files.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from bandits.plans.plan import Configuration, Run
from data.errors import UsageError

FIRST_TUNING_SEED = 100  # Searches select on other seeds than those that are reported.
PAPER, SMALL = "paper", "small"  # Scales.
PAPER_DATA, REDUCED, STAND_IN = "paper's data", "paper's data, reduced", "stand-in"
DATA_KINDS = (PAPER_DATA, REDUCED, STAND_IN)
_ROUNDS_TO = "rounds to "
_SHARE_OF = "share of "
_LAST = "last "


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number that is taken from each run.

    Attributes:
      name: The name.
      column: Column of `metrics.csv`; or `FILE.npz:FIELD` of the run's folder, where FILE may be a pattern: the mean of
        that array, or of its absolute values for `FILE.npz:|FIELD|`.
      at: A round, or `last`, `last N` (mean of the last N rounds), `first`, `mean`, `max`, `deviation` (of residuals
        to the mean over seeds), `chosen peak` (the round where the mean over the even seeds is highest; only odd seeds
        have the value, because the even seeds select the round), `rounds to X`, or `share of X` (of the rounds that
        have a value of 0 or more).
      smallest: Whether less is better.
    """

    name: str
    column: str
    at: int | str = "last"
    smallest: bool = False

    @property
    def rounds_to(self) -> float | None:
        """The value to reach, if the measure is the number of rounds to a value."""
        return self._after(_ROUNDS_TO)

    @property
    def last_rounds(self) -> int | None:
        """Number of last rounds, if the measure is their mean."""
        return None if (rounds := self._after(_LAST)) is None else int(rounds)

    @property
    def is_of_some_seeds(self) -> bool:
        """Whether only some seeds have a value."""
        return self.at == "chosen peak"

    @property
    def share_of(self) -> float | None:
        """The value, if the measure is the share of rounds with it."""
        return self._after(_SHARE_OF)

    def _after(self, words: str) -> float | None:
        _, separator, number = str(self.at).partition(words)
        return float(number) if separator else None


@dataclasses.dataclass(frozen=True)
class Published:
    """A number that the paper states.

    Attributes:
      configuration: Label of the configuration.
      measure: Name of the measure.
      value: The number.
      place: Section or table of the paper.
      unit: Unit of its last digit, as in the other numbers of its table.
      other_settings: Whether this project's settings differ from the paper's, so that numbers are not comparable.
    """

    configuration: str
    measure: str
    value: float
    place: str
    unit: float = 0.0
    other_settings: bool = False


@dataclasses.dataclass(frozen=True)
class Accounted:
    """An epsilon that the paper states; it is computed from settings, without a run.

    Attributes:
      says: The setting that it belongs to.
      place: Section of the paper.
      value: The number.
      unit: Unit of its last digit.
      arguments: Flags of `scripts.privacy_budget`.
    """

    says: str
    place: str
    value: float
    unit: float
    arguments: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Claim:
    """A statement of the paper without a number for each configuration, tested on this project's runs.

    An operand is `label`, or `label @ measure`; `A | B` is the better of two.

    Attributes:
      says: The claim in short.
      place: Section of the paper.
      kind: `order`: each group's operands are better than all of the next group. `close`: the operands of different
        groups, of a single group all of them, differ by at most `within`. `apart`: they differ by more. `near_best`:
        the first is at most `within` behind the best of all drawn configurations. `not_worse`: the first is at most
        `within` behind the second. `larger_lead`: the first leads the second by more than the third leads the fourth.
        `between`: the operand, or the distance of two, lies in `[low, high]`. `steady`: the operand's seeds deviate by
        at most `within`. `beats_best_fixed`: each operand is better than the best fixed action that its runs recorded.
        Empty: nothing decides it, and `needs` says why.
      operands: Groups of operands.
      within: Tolerance, relative to the mean that is compared with (`steady`: to its own); this project's choice.
      low: Of `between`.
      high: Of `between`.
      our_range: Whether `low` and `high` are this project's choice, not the paper's.
      premises: What must be better than the best fixed action for the claim to be tested: operands, `A | B` for either.
        Comparisons with Greedy, and of searched rates, have premises without it (`claims`).
      needs: The data or runs without which the claim is not tested; a stand-in does not replace them.
      means: What a result means for a practitioner, by `holds`, `fails` or `inconclusive`.
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
    """Labels of a claim's operand, of which the best counts, and its measure; empty for the figure's first measure."""
    labels, _, measure = operand.partition(" @ ")
    return labels.split(" | "), measure


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure or table at one scale.

    Attributes:
      name: As in `--figure`.
      text: Authors and year of the paper.
      about: The title.
      also: Other names of the figure.
      binary: Name in `studies.STUDIES`.
      configurations: What is run.
      repeat: Number of seeds.
      published_seeds: Number of seeds of the paper's numbers.
      tuning_seeds: Seeds on which searches select their points.
      measures: Measures of each run; the first decides searches.
      curves: Columns drawn over rounds.
      published: Numbers of the paper.
      accounted: Epsilons of the paper.
      claims: Claims of the paper.
      own_figures: Which of the study's own pictures are drawn, too.
      study: The `run_mab_fl` study whose configurations are run.
      data_kind: One of `DATA_KINDS`.
      data: The data, if they are not exactly the paper's; None if they are.
      left_open: Choices of this project that the paper does not state.
      scale: `PAPER` or `SMALL`.
      own: Whether it answers a question of this project, and is not a paper's figure.
      reference: The configuration, or label of the first axis, with which the others are compared.
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
    curves: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()
    accounted: tuple[Accounted, ...] = ()
    claims: tuple[Claim, ...] = ()
    own_figures: str | None = None
    study: str | None = None
    data: str | None = None
    left_open: tuple[str, ...] = ()
    own: bool = False
    reference: str | None = None

    def measure_of(self, operand: str) -> Measure:
        """Measure that an operand of a claim names, or the first."""
        _, name = parse_operand(operand)
        return next((one for one in self.measures if one.name == name), Measure(name, "")) if name else self.measures[0]

    def reference_of(self, configuration: Configuration) -> str:
        """Label of the configuration with the reference on its axis; empty without one."""
        drawn = [other for other in self.configurations if other.is_drawn]
        axis = next((other.words.index(self.reference) for other in drawn if self.reference in other.words), None)
        if axis is None or not configuration.is_drawn or configuration.words[axis] == self.reference:
            return ""
        return ", ".join((*configuration.words[:axis], str(self.reference), *configuration.words[axis + 1 :]))

    @property
    def has_paper_settings(self) -> bool:
        """Whether its numbers are comparable with the paper's: the same data and number of rounds."""
        return self.data_kind == PAPER_DATA and self.scale == PAPER

    def runs_of(
        self, configuration: Configuration, repeat: int, base: Sequence[str], folder: pathlib.Path
    ) -> list[Run]:
        """Runs of a configuration: one per seed; for a search, its points on the tuning seeds.

        Args:
          configuration: The configuration.
          repeat: Number of seeds.
          base: Flags that all runs share.
          folder: Folder of all runs; equal runs of several figures share a subfolder.

        Raises:
          UsageError: If a configuration's flags are invalid; the message names the figure and the configuration.
        """
        return self._runs(configuration, range(repeat), base, folder)

    def planned(self, repeat: int, base: Sequence[str], folder: pathlib.Path) -> Iterator[tuple[Run, int]]:
        """Pairs of (run, how often it counts): a search's points, and one run per seed for the point it will select."""
        for configuration in self.configurations:
            some = self.runs_of(configuration, repeat, base, folder)
            yield from ((run, 1) for run in some)
            if configuration.is_searched:
                yield some[0].with_seed(0), repeat

    def rounds_of(self, configuration: Configuration) -> int:
        """Number of rounds of a configuration's runs."""
        return self.first_run(configuration).rounds

    def first_run(self, configuration: Configuration) -> Run:
        """First run of a configuration; for a search, that of its first point.

        Raises:
          UsageError: As `runs_of`.
        """
        return self._runs(configuration, [0], (), None)[0]

    def check(self, *, early_stop: bool = False) -> None:
        """Checks the flags of each configuration; for a search only one point, because all would take minutes.

        Args:
          early_stop: Whether points of searches are stopped early.

        Raises:
          UsageError: As `runs_of`; or if two configurations are the same runs.
        """
        seen: dict[object, str] = {}
        for configuration in self.configurations:
            first = self.first_run(configuration)
            other = seen.setdefault((first.name, configuration.sweeps, configuration.grid), configuration.label)
            if other != configuration.label:
                raise UsageError(
                    f"--figure={self.name}: {other} and {configuration.label} are the same runs: remove one of them."
                )
            if early_stop and configuration.is_searched:
                first.at_rounds(1)

    def _runs(
        self, configuration: Configuration, seeds: Sequence[int], base: Sequence[str], folder: pathlib.Path | None
    ) -> list[Run]:
        with naming(self.name, configuration.label):
            return configuration.runs(
                self.binary, self.tuning_seeds if configuration.is_searched else seeds, base, folder
            )


@contextlib.contextmanager
def naming(figure: str, configuration: str) -> Iterator[None]:
    """Raises errors with the names of the figure and the configuration that they are about."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"--figure={figure}, {configuration}: {error}") from error
