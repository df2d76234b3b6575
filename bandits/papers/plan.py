"""Which runs a figure or table consists of, and what its text says about them.

Nothing here reads data or imports TensorFlow; `texts` reads figures from files.
"""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from bandits.plans.plan import Configuration, Run
from data.errors import UsageError

FIRST_TUNING_SEED = 100  # Points are picked on seeds that no reported value comes from.
PAPER, SMALL = "paper", "small"  # Scales.
PAPER_DATA, REDUCED, STAND_IN = "paper's data", "paper's data, reduced", "stand-in"
DATA_KINDS = (PAPER_DATA, REDUCED, STAND_IN)
_ROUNDS_TO = "rounds to "
_SHARE_OF = "share of "
_LAST = "last "


@dataclasses.dataclass(frozen=True)
class Measure:
    """One number of a run.

    Attributes:
      name: What it is called.
      column: Column of `metrics.csv`; or `FILE.npz:FIELD` of the run's folder, where FILE may be a pattern: the mean of
        that array, or of its absolute values for `FILE.npz:|FIELD|`.
      at: A round, or `last`, `last N` (mean of the last N rounds), `first`, `mean`, `max`, `deviation` (of residuals
        to the mean over seeds), `chosen peak` (the round where the mean over the even seeds is highest; odd seeds alone
        have the value, so that none of them chose the round), `rounds to X`, or `share of X` (of the rounds that have a
        value of 0 or more).
      smallest: Whether less is better.
    """

    name: str
    column: str
    at: int | str = "last"
    smallest: bool = False

    @property
    def rounds_to(self) -> float | None:
        """What is to be reached, if it is the rounds until then."""
        return self._after(_ROUNDS_TO)

    @property
    def last_rounds(self) -> int | None:
        """How many of the last rounds, if it is their mean."""
        return None if (rounds := self._after(_LAST)) is None else int(rounds)

    @property
    def share_of(self) -> float | None:
        """The value whose share of rounds is taken, if one is."""
        return self._after(_SHARE_OF)

    def _after(self, words: str) -> float | None:
        _, is_one, number = str(self.at).partition(words)
        return float(number) if is_one else None


@dataclasses.dataclass(frozen=True)
class Published:
    """A number that the text states.

    Attributes:
      arm: Label.
      measure: Name.
      value: The number.
      place: Where it stands in the text.
      unit: Of its last digit, as the other numbers of its table show it.
      other_settings: Whether this project's settings are not those that the paper states for it: not comparable.
    """

    arm: str
    measure: str
    value: float
    place: str
    unit: float = 0.0
    other_settings: bool = False


@dataclasses.dataclass(frozen=True)
class Accounted:
    """An epsilon that the text states. It follows from settings, without a run.

    Attributes:
      says: What it is the epsilon of.
      place: Where it stands in the text.
      value: The number.
      unit: Of its last digit.
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
        Comparisons with Greedy, and of searched rates, have premises without it (`judging`).
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
    """Returns the labels of a claim's operand, of which the best counts, and its measure; empty for the first one."""
    labels, _, measure = operand.partition(" @ ")
    return labels.split(" | "), measure


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure or table at one scale.

    Attributes:
      name: As in `--figure`.
      text: Authors and year.
      about: What it is.
      also: Other names of it.
      binary: Name in `studies.STUDIES`.
      arms: What is run.
      repeat: Seeds.
      published_seeds: Seeds of the text's numbers.
      tuning_seeds: Seeds on which points of a search are picked.
      measures: What is taken of each run; the first decides searches.
      curves: Columns drawn over rounds.
      published: Numbers of the text.
      accounted: Its epsilons.
      claims: Orderings of the text.
      own_figures: Which of the study's own pictures are drawn beside.
      study: The `run_mab_fl` study that the arms are taken from.
      data_kind: One of `DATA_KINDS`.
      data: The data, if they are not exactly the paper's; None if they are.
      left_open: What the paper does not state, and this project chose.
      scale: At which scale.
      own: Whether it is this project's question, not a text's figure.
      reference: The arm, or label of the first axis, with which the others are compared.
    """

    name: str
    text: str
    about: str
    binary: str
    arms: tuple[Configuration, ...]
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

    @property
    def has_paper_settings(self) -> bool:
        """Whether its numbers are comparable with the paper's: of the paper's data and rounds."""
        return self.data_kind == PAPER_DATA and self.scale == PAPER

    def runs_of(self, arm: Configuration, repeat: int, base: Sequence[str], folder: pathlib.Path) -> list[Run]:
        """Returns the runs of an arm: all seeds', or of a search, those of its points on the tuning seeds.

        Args:
          arm: The arm.
          repeat: Seeds.
          base: Flags that all runs share.
          folder: Where runs of earlier figures lie; what is the same run has the same folder.

        Raises:
          UsageError: If an arm's flags are not sound; it names the figure and arm.
        """
        return self._runs(arm, range(repeat), base, folder)

    def planned(self, repeat: int, base: Sequence[str], folder: pathlib.Path) -> Iterator[tuple[Run, int]]:
        """Yields (run, how often it counts): a search's points, and as often as seeds one for what it will pick."""
        for arm in self.arms:
            some = self.runs_of(arm, repeat, base, folder)
            yield from ((run, 1) for run in some)
            if arm.is_searched:
                yield some[0].with_seed(0), repeat

    def rounds_of(self, arm: Configuration) -> int:
        """Returns how many rounds a run of an arm has."""
        return self.first_run(arm).rounds

    def first_run(self, arm: Configuration) -> Run:
        """Returns one run of an arm, of a search that of its first point.

        Raises:
          UsageError: As `runs_of`.
        """
        return self._runs(arm, [0], (), None)[0]

    def check(self) -> None:
        """Checks the flags of each arm, of a search only one point: all of them take minutes.

        Raises:
          UsageError: As `runs_of`; or if two arms are the same runs.
        """
        seen: dict[object, str] = {}
        for arm in self.arms:
            first = self.first_run(arm)
            other = seen.setdefault((first.name, arm.sweeps, arm.grid), arm.label)
            if other != arm.label:
                raise UsageError(f"--figure={self.name}: {other} and {arm.label} are the same runs.")

    def _runs(
        self, arm: Configuration, seeds: Sequence[int], base: Sequence[str], folder: pathlib.Path | None
    ) -> list[Run]:
        try:
            return arm.runs(self.binary, self.tuning_seeds if arm.is_searched else seeds, base, folder)
        except UsageError as error:
            raise UsageError(f"--figure={self.name}, {arm.label}: {error}") from error
