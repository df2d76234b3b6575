"""Dynamic regret: what an arm earns less than the best known policy of each round's world, where worlds change.

Besbes, Gur and Zeevi, "Stochastic multi-armed bandit problem with non-stationary rewards", 2014, section 2: the
comparator of a round is the best policy of that round's rewards. Here it is what the ceiling of the round's world earns
at its end, a supervised learner in that world alone. That one was trained, too: the regret can be negative.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bandits.results import comparison, landmarks, of_runs
from bandits.results.significance import Better
from bandits.worlds.drift import Drift
from optimization.study import divergence
from optimization.study.intervals import Interval
from optimization.study.results import Run

Ceilings = Mapping[int, Mapping[int, float]]  # By world and seed, what its ceiling earns at its end.


@dataclasses.dataclass(frozen=True)
class Segment:
    """Consecutive rounds in one world, or on the way from one to another.

    Attributes:
      first: Its first round.
      last: Its last one.
      worlds: The world; two of a mixture.
    """

    first: int
    last: int
    worlds: tuple[int, ...]

    @property
    def rounds(self) -> range:
        """Its rounds."""
        return range(self.first, self.last + 1)


@dataclasses.dataclass(frozen=True)
class Regret:
    """An arm's dynamic regret, each with its interval over seeds.

    Attributes:
      rounds: Rounds that all its runs have played.
      a_round: Mean of a round.
      segments: Of each segment: the mean of a round, and that of the last tenth of its rounds.
    """

    rounds: int
    a_round: Interval
    segments: tuple[tuple[Segment, Interval, Interval], ...]

    @property
    def total(self) -> Interval:
        """Sum over all rounds; one without a reward counts as the mean of the others."""
        mean, low, high, seeds = self.a_round
        return Interval(mean * self.rounds, low * self.rounds, high * self.rounds, seeds)


@dataclasses.dataclass(frozen=True)
class World:
    """In which world each round was paid.

    Attributes:
      drift: How rewards changed.
      acted_in: Takes a round; returns the one in which its clients acted, whose world pays.
    """

    drift: Drift
    acted_in: Callable[[npt.NDArray[np.int_]], npt.NDArray[np.int_]]

    def shares(self, rounds: npt.ArrayLike) -> np.ndarray:
        """Returns the mean weight of each world over some rounds, float64 [worlds]."""
        return self.drift.shares(self.acted_in(np.asarray(rounds)), None)

    def segments(self, rounds: int) -> Iterator[Segment]:
        """Yields the segments of so many rounds."""
        points = self.drift.at(self.acted_in(np.arange(1, rounds + 1)), None)
        ends = [tuple(dict.fromkeys((math.floor(point), math.ceil(point)))) for point in points.tolist()]
        for worlds, group in itertools.groupby(enumerate(ends, 1), key=lambda pair: pair[1]):
            places = [place for place, _ in group]
            yield Segment(places[0], places[-1], worlds)

    def needed(self, rounds: int) -> list[int]:
        """Returns the worlds that so many rounds have seen."""
        return np.flatnonzero(self.shares(np.arange(1, rounds + 1))).tolist()


def rounds_of(found: Sequence[Run]) -> int:
    """Returns how many rounds all runs of an arm have played."""
    return min(int(run.metrics["round_num"].iloc[-1]) for run in found)


def of_arm(
    found: Sequence[Run],
    column: str,
    world: World,
    ceilings: Ceilings,
    *,
    is_unpaired: bool = False,
    better: Better = "up",
) -> Regret | None:
    """Returns the dynamic regret of the runs of one arm; None where no seed is common, or all diverged.

    Between two worlds the comparator is the mixture of both ceilings: the best policy of the mixture earns no more.

    Args:
      found: The runs.
      column: What is earned, a number a round.
      world: Where they were played.
      ceilings: Those of all worlds that are needed.
      is_unpaired: Whether no seed pairs the arm with the ceilings.
      better: Whether more or less is better.
    """
    last = rounds_of(found)
    earned = {seed: rewards[:last] for seed, rewards in _by_seed(found, column).items()}

    def mean(rounds: Collection[int]) -> Interval | None:
        return _mean(earned, np.array(rounds), world, ceilings, is_unpaired, better)

    if (overall := mean(range(1, last + 1))) is None:
        return None
    nothing = Interval(math.nan, math.nan, math.nan, 0)
    segments = []
    for segment in world.segments(last):
        end = segment.rounds[-of_runs.tenth(len(segment.rounds)) :]
        segments.append((segment, mean(segment.rounds) or nothing, mean(end) or nothing))
    return Regret(last, overall, tuple(segments))


def _by_seed(found: Sequence[Run], column: str) -> dict[int, np.ndarray]:
    """Returns the rewards of all rounds by seed, float64 [rounds]; not numbers where there are none, or it diverged."""
    earned = {}
    for seed, run in of_runs.seeds(found).items():
        rewards = np.full(int(run.metrics["round_num"].iloc[-1]), np.nan)
        if column in run.metrics and not divergence.is_lost(run.metrics, run.columns, run.flags):
            rewards[run.metrics["round_num"].to_numpy() - 1] = run.metrics[column].to_numpy(float)
        earned[seed] = np.where(np.isfinite(rewards), rewards, np.nan)
    return earned


def _mean(
    earned: Mapping[int, np.ndarray],
    rounds: npt.NDArray[np.int_],
    world: World,
    ceilings: Ceilings,
    is_unpaired: bool,
    better: Better,
) -> Interval | None:
    """Returns the mean regret of some rounds, each beside what its own world's ceiling earns."""
    paid = {seed: rounds[np.isfinite(rewards[rounds - 1])] for seed, rewards in earned.items()}
    own = {seed: float(earned[seed][paid[seed] - 1].mean()) if len(paid[seed]) else math.nan for seed in earned}
    every = np.concatenate(list(paid.values()))
    if not len(every):
        return None
    needed = world.needed(max(map(len, earned.values())))
    common = set.intersection(*(set(ceilings[one]) for one in needed))
    best = {}
    for seed in sorted(common):
        # A seed's own rounds where it is paired; those of all seeds where none is its.
        its = every if is_unpaired or not len(paid.get(seed, ())) else paid[seed]
        best[seed] = float(sum(share * ceilings[one][seed] for one, share in enumerate(world.shares(its)) if share))
    arm = "arm"
    against = comparison.against(
        {arm: own}, landmarks.CEILING, best, unpaired=[arm] if is_unpaired else (), better=better
    )[arm]
    return landmarks.regret(against, better)
