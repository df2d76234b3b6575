"""Dynamic regret: how much less a configuration earns than the best known policy of each round's environment.

Besbes, Gur and Zeevi, "Stochastic multi-armed bandit problem with non-stationary rewards", 2014, section 2: the
comparator of a round is the best policy of that round's rewards. Here it is the final reward of the full-feedback
baseline that was trained in that round's environment alone. It is trained, too: the regret can be negative.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bandits import environment_flags, options
from bandits.environments import Drift
from bandits.results import baselines, comparison, runs, tables
from bandits.results.comparison import Better
from bandits.results.configuration import Configuration, of_values
from bandits.results.configurations import ComparableRuns
from bandits.results.tables import Section
from optimization.study import cli, divergence
from optimization.study.intervals import Interval
from optimization.study.results import Run

FULL_FEEDBACK = "supervised_mse"  # `--bandits_type` of the full-feedback baseline.
_MOST_SEGMENTS = 10  # Rows of a configuration.
_WHAT_IT_IS = (
    "In each round: the final reward (mean of the last tenth of its rounds) of the full-feedback baseline that was "
    "trained in that round's environment alone, minus the configuration's reward. The baseline is trained, so dynamic "
    "regret can be negative."
)
_MIXED = (
    "Between two environments the mixture of both baselines is the reference. The best policy of the mixture earns at "
    "most as much, so there the regret is an upper bound."
)
_REWARD = "reward"
_HEADS = ("Configuration", "Rounds", "Environments", "Seeds", "Total", "Per round", "Per round, last tenth")
FullFeedback = Mapping[int, Configuration]  # Full-feedback baselines by environment.


@dataclasses.dataclass(frozen=True)
class Segment:
    """Consecutive rounds in one environment, or in the mixture of two.

    Attributes:
      first: The first round.
      last: The last round.
      environments: Number of the environment; two numbers for a mixture.
    """

    first: int
    last: int
    environments: tuple[int, ...]

    @property
    def rounds(self) -> range:
        """All rounds, ends included."""
        return range(self.first, self.last + 1)


@dataclasses.dataclass(frozen=True)
class Regret:
    """A configuration's dynamic regret, each value with its interval over seeds.

    Attributes:
      rounds: Rounds that all runs have finished.
      a_round: Mean per round.
      segments: For each segment: the mean per round, and the mean over the last tenth of the segment.
    """

    rounds: int
    a_round: Interval
    segments: tuple[tuple[Segment, Interval, Interval], ...]

    @property
    def total(self) -> Interval:
        """Sum over all rounds; a round without a reward counts as the mean of the others."""
        mean, low, high, seeds = self.a_round
        return Interval(mean * self.rounds, low * self.rounds, high * self.rounds, seeds)


@dataclasses.dataclass(frozen=True)
class EnvironmentSchedule:
    """Which environment determined the rewards of each round.

    Attributes:
      drift: How rewards change.
      acted_in: Maps a round to the round in which its clients acted; that round's environment determines the rewards.
    """

    drift: Drift
    acted_in: Callable[[npt.NDArray[np.int_]], npt.NDArray[np.int_]]

    def shares(self, rounds: npt.ArrayLike) -> np.ndarray:
        """Mean weight of each environment over some rounds, float64 [environments]."""
        return self.drift.shares(self.acted_in(np.asarray(rounds)), None)

    def segments(self, rounds: int) -> Iterator[Segment]:
        """Segments of the first `rounds` rounds."""
        points = self.drift.at(self.acted_in(np.arange(1, rounds + 1)), None)
        mixtures = [tuple(dict.fromkeys((math.floor(point), math.ceil(point)))) for point in points.tolist()]
        for environments, group in itertools.groupby(enumerate(mixtures, 1), key=lambda pair: pair[1]):
            rounds_of_segment = [round_num for round_num, _ in group]
            yield Segment(rounds_of_segment[0], rounds_of_segment[-1], environments)

    def needed(self, rounds: int) -> list[int]:
        """Numbers of the environments in the first `rounds` rounds."""
        return np.flatnonzero(self.shares(np.arange(1, rounds + 1))).tolist()


def rounds_of(one: Configuration) -> int:
    """Number of rounds that all runs of a configuration have finished."""
    return min(int(run.metrics["round_num"].iloc[-1]) for run in one.runs)


def of_configuration(
    one: Configuration,
    metric: str,
    schedule: EnvironmentSchedule,
    full_feedback: FullFeedback,
    better: Better | None = None,
) -> Regret | None:
    """Dynamic regret of one configuration; None if a baseline or a common seed is missing, or all runs diverged.

    In a mixture of two environments the reference is the mixture of both baselines: the best policy of the mixture
    earns no more.

    Args:
      one: The configuration.
      metric: The reward per round.
      schedule: The environment of each round.
      full_feedback: Full-feedback baselines of all environments in these rounds.
      better: Whether more or less is better (default: `comparison.direction`).
    """
    last, better = rounds_of(one), comparison.direction(metric, better)
    needed = schedule.needed(last)
    if not set(needed) <= set(full_feedback):
        return None
    earned = {seed: rewards[:last] for seed, rewards in _by_seed(one.runs, metric).items()}
    best = {environment: full_feedback[environment].by_seed(metric) for environment in needed}
    is_unpaired = one.unpaired or any(full_feedback[environment].unpaired for environment in needed)

    def mean(rounds: Collection[int]) -> Interval | None:
        return _mean(earned, np.array(rounds), schedule, best, is_unpaired, better)

    if (overall := mean(range(1, last + 1))) is None:
        return None
    nothing = Interval(math.nan, math.nan, math.nan, 0)
    segments = []
    for segment in schedule.segments(last):
        end = segment.rounds[-runs.trailing_window(len(segment.rounds)) :]
        segments.append((segment, mean(segment.rounds) or nothing, mean(end) or nothing))
    return Regret(last, overall, tuple(segments))


def _by_seed(seed_runs: Sequence[Run], column: str) -> dict[int, np.ndarray]:
    """Rewards of all rounds by seed, float64 [rounds]; NaN for rounds without a reward and for diverged runs."""
    earned = {}
    for seed, run in runs.seeds(seed_runs).items():
        rewards = np.full(int(run.metrics["round_num"].iloc[-1]), np.nan)
        if column in run.metrics and not divergence.is_lost(run.metrics, run.columns, run.flags):
            rewards[run.metrics["round_num"].to_numpy() - 1] = run.metrics[column].to_numpy(float)
        earned[seed] = np.where(np.isfinite(rewards), rewards, np.nan)
    return earned


def _mean(
    earned: Mapping[int, np.ndarray],
    rounds: npt.NDArray[np.int_],
    schedule: EnvironmentSchedule,
    full_feedback: Mapping[int, Mapping[int, float]],
    is_unpaired: bool,
    better: Better,
) -> Interval | None:
    """Mean regret of some rounds, each compared with the baseline of its own environment."""
    paid = {seed: rounds[np.isfinite(rewards[rounds - 1])] for seed, rewards in earned.items()}
    mean_rewards = {
        seed: float(earned[seed][paid[seed] - 1].mean()) if len(paid[seed]) else math.nan for seed in earned
    }
    every = np.concatenate(list(paid.values()))
    if not len(every):
        return None
    common = set.intersection(*map(set, full_feedback.values()))
    best = {}
    for seed in sorted(common):
        # A paired seed is compared over its own rounds, an unpaired one over those of all seeds.
        compared_rounds = every if is_unpaired or not len(paid.get(seed, ())) else paid[seed]
        shares = enumerate(schedule.shares(compared_rounds))
        best[seed] = float(sum(share * full_feedback[environment][seed] for environment, share in shares if share))
    own, reference = (
        dataclasses.replace(of_values(name, _REWARD, values), unpaired=is_unpaired)
        for name, values in (("configuration", mean_rewards), (baselines.FULL_FEEDBACK, best))
    )
    (against,) = comparison.compare([(own, reference)], _REWARD, better)
    return baselines.regret(against, better)


def environments_of(one: Configuration) -> EnvironmentSchedule | None:
    """Schedule of a configuration's environments; None in a stationary environment."""
    flags = one.runs[0].flags
    if not flags.get("reward_drift"):
        return None
    drift = environment_flags.drift_of(cli.Settings(flags, frozenset()))
    if drift.kind == "none" or drift.only is not None:
        return None
    every = int(flags.get("bandits_deploy_freq") or 1) if flags.get("cache") == "persistent" else 1
    return EnvironmentSchedule(drift, lambda rounds: options.acted_in(rounds, every))


class Result(NamedTuple):
    """A configuration in a non-stationary environment.

    Attributes:
      configuration: The configuration.
      needed: Numbers of its environments.
      full_feedback: The full-feedback baselines that exist, by environment.
      regret: Its dynamic regret; None if a baseline is missing, or shares no seed with the configuration.
    """

    configuration: Configuration
    needed: list[int]
    full_feedback: FullFeedback
    regret: Regret | None


def results(part: ComparableRuns) -> list[Result]:
    """Configurations in non-stationary environments, with their dynamic regret."""
    some = []
    for one in part.configurations if part.columns else ():
        if schedule := environments_of(one):
            full_feedback = part.full_feedback_by_environment(one)
            regret = of_configuration(one, part.columns[0], schedule, full_feedback)
            some.append(Result(one, schedule.needed(rounds_of(one)), full_feedback, regret))
    return some


def sections(part: ComparableRuns) -> list[Section]:
    """Section "Dynamic regret"; empty in stationary environments."""
    all_results = results(part)
    lacking = _missing(all_results)
    shown = sorted(((one, one.regret) for one in all_results if one.regret), key=lambda pair: pair[1].a_round.mean)
    if not shown:
        return [Section("Dynamic regret", notes=lacking)] if lacking else []
    rows: list[tables.Row] = []
    for (one, *_), regret in shown:
        name = f"{one.name} ({one.role.value})" if one.role else one.name
        overall = tables.estimate(regret.total), tables.estimate(regret.a_round), None
        rows.append([name, f"1 to {regret.rounds}", "all", regret.a_round.size, *overall])
        for segment, *both in regret.segments[:_MOST_SEGMENTS]:
            environments = " and ".join(map(str, segment.environments))
            means = map(tables.estimate, both)
            rows.append([name, f"{segment.first} to {segment.last}", environments, None, None, *means])
    counts = sorted({len(one.needed) for one, _ in shown})
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    notes = [_WHAT_IT_IS]
    if any(len(segment.environments) > 1 for _, regret in shown for segment, *_ in regret.segments):
        notes.append(_MIXED)
    if any(len(regret.segments) > _MOST_SEGMENTS for _, regret in shown):
        notes.append(
            f"After the first {_MOST_SEGMENTS} segments of a configuration, only its total includes the others."
        )
    title = f"Dynamic regret to {number} full-feedback baseline{'s' * (counts[-1] > 1)}"
    return [Section(title, _HEADS, rows, [*notes, *lacking])]


def _missing(all_results: Sequence[Result]) -> list[str]:
    """Sentences about missing full-feedback baselines."""
    lines = []
    for one, needed, full_feedback, regret in all_results:
        if lacking := [environment for environment in needed if environment not in full_feedback]:
            numbers = " and ".join(f"environment {environment}" for environment in lacking)
            flags = " and ".join(f"--drift_world={environment}" for environment in lacking)
            lines.append(
                f"The dynamic regret of {one.name} needs the full-feedback baseline of {numbers}: run the same with "
                f"--bandits_type={FULL_FEEDBACK}, and {flags}."
            )
        elif not regret:
            lines.append(
                f"{one.name} has no dynamic regret: it shares no seed with the full-feedback baseline of each "
                "environment."
            )
    return lines
