"""Dynamic regret: how much less a configuration earns than the best known policy of each round's environment.

Besbes, Gur and Zeevi, "Stochastic multi-armed bandit problem with non-stationary rewards", 2014, section 2: the
comparator of a round is the best policy of that round's rewards. Here it is the final reward of the full-feedback
baseline that was trained in that round's environment alone. It is trained, too: the regret can be negative.
"""

import dataclasses
import itertools
import math
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bandits import options, studies, world_flags
from bandits.results import baselines, comparison, runs, tables
from bandits.results.comparison import Better
from bandits.results.configurations import ROLES, ConfigurationResults, Part, deployed_otherwise, environment
from bandits.results.tables import Section
from bandits.worlds.drift import Drift
from data.errors import UsageError
from optimization.study import cli, divergence
from optimization.study.intervals import Interval
from optimization.study.results import Run

FULL_FEEDBACK = "supervised_mse"  # `--bandits_type` of the full-feedback baseline.
_MOST_SEGMENTS = 10  # Rows of a configuration.
WHAT_IT_IS = (
    "In each round: the final reward (mean of the last tenth of its rounds) of the full-feedback baseline that was "
    "trained in that round's environment alone, minus the configuration's reward. The baseline is trained, so dynamic "
    "regret can be negative."
)
_MIXED = (
    "Between two environments the mixture of both baselines is the reference. The best policy of the mixture earns at "
    "most as much, so there the regret is an upper bound."
)
_OF_WORLD = "drift_world"
_HEADS = ("Configuration", "Rounds", "Worlds", "Seeds", "Total", "Per round", "Per round, last tenth")
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
        end = segment.rounds[-runs.trailing_window(len(segment.rounds)) :]
        segments.append((segment, mean(segment.rounds) or nothing, mean(end) or nothing))
    return Regret(last, overall, tuple(segments))


def _by_seed(found: Sequence[Run], column: str) -> dict[int, np.ndarray]:
    """Returns the rewards of all rounds by seed, float64 [rounds]; not numbers where there are none, or it diverged."""
    earned = {}
    for seed, run in runs.seeds(found).items():
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
        {arm: own}, baselines.FULL_FEEDBACK, best, unpaired=[arm] if is_unpaired else (), better=better
    )[arm]
    return baselines.regret(against, better)


def world_of(arm: ConfigurationResults) -> World | None:
    """Returns in which worlds an arm played; None where rewards stayed as they were."""
    flags = arm.runs[0].flags
    if not flags.get("reward_drift"):
        return None
    drift = world_flags.drift_of(cli.Settings(flags, frozenset()))
    if drift.kind == "none" or drift.only is not None:
        return None
    every = int(flags.get("bandits_deploy_freq") or 1) if flags.get("cache") == "persistent" else 1
    return World(drift, lambda rounds: options.acted_in(rounds, every))


def found(part: Part) -> list[tuple[ConfigurationResults, World, Regret]]:
    """Returns the dynamic regret of the arms of a part that have a ceiling of each world."""
    return [(arm, world, one) for arm, world, needed in _changing(part) if (one := _regret(part, arm, world, needed))]


def missing(part: Part) -> list[str]:
    """Returns what is to say of worlds without a ceiling, once for all arms that lack the same."""
    told: dict[tuple, list[str]] = {}
    for arm, world, needed in _changing(part):
        lacking = sorted(needed - set(part.ceilings_of_worlds(arm)))
        key = (*map(str, environment(arm.flags)), *lacking)
        if not lacking and not _regret(part, arm, world, needed):
            told[(*key, arm.name)] = [
                f"{arm.name} has no dynamic regret: it shares no seed with the full-feedback baseline of each "
                "environment."
            ]
        if not lacking or key in told:
            continue
        commands = [one for world in lacking if (one := command(arm, world))]
        needs = f"needs the full-feedback baseline of {' and '.join(f'world {world}' for world in lacking)}"
        told[key] = [f"The dynamic regret of {arm.name} {needs}{_how(lacking, commands)}", *commands]
    return [line for lines in told.values() for line in lines]


def _how(lacking: Sequence[int], commands: Sequence[str]) -> str:
    """Returns how the ceilings of worlds come to be, as the end of a sentence."""
    if commands:
        return ": run these:"
    worlds = " and ".join(f"--drift_world={world}" for world in lacking)
    return f": run the same with --bandits_type={FULL_FEEDBACK}, and {worlds}."


def sections(part: Part) -> list[Section]:
    """Returns the section "Dynamic regret" of a part; nothing where its environments are stationary."""
    lacking = missing(part)
    shown = sorted(found(part), key=lambda one: one[2].a_round.mean)
    if not shown:
        return [Section("Dynamic regret", notes=lacking)] if lacking else []
    totals, a_round = (
        tables.decimals([one.mean for one in some if not math.isnan(one.mean)])
        for some in ([regret.total for *_, regret in shown], [regret.a_round for *_, regret in shown])
    )
    rows: list[tables.Row] = []
    for arm, _, regret in shown:
        name = f"{arm.name} ({ROLES[arm.role]})" if arm.role else arm.name
        overall = tables.interval(regret.total, totals), tables.interval(regret.a_round, a_round), None
        rows.append([name, f"1 to {regret.rounds}", "all", regret.a_round.size, *overall])
        for segment, *both in regret.segments[:_MOST_SEGMENTS]:
            worlds = " and ".join(map(str, segment.worlds))
            means = (tables.interval(one, a_round) for one in both)
            rows.append([name, f"{segment.first} to {segment.last}", worlds, None, None, *means])
    counts = sorted({len(world.needed(regret.rounds)) for _, world, regret in shown})
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    notes = [WHAT_IT_IS]
    if any(len(segment.worlds) > 1 for *_, regret in shown for segment, *_ in regret.segments):
        notes.append(_MIXED)
    if any(len(regret.segments) > _MOST_SEGMENTS for *_, regret in shown):
        notes.append(
            f"After the first {_MOST_SEGMENTS} segments of a configuration, only its total includes the others."
        )
    title = f"Dynamic regret to {number} full-feedback baseline{'s' * (counts[-1] > 1)}"
    return [Section(title, _HEADS, rows, [*notes, *_otherwise(part, shown), *lacking])]


def _changing(part: Part) -> Iterator[tuple[ConfigurationResults, World, set[int]]]:
    """Yields the arms whose rewards changed, and the worlds that they saw."""
    for arm in part.arms if part.columns else ():
        if world := world_of(arm):
            yield arm, world, set(world.needed(rounds_of(arm.runs)))


def _regret(part: Part, arm: ConfigurationResults, world: World, needed: Collection[int]) -> Regret | None:
    """Returns the regret of an arm; None without a ceiling of each world, or a seed that is theirs, too."""
    ceilings = part.ceilings_of_worlds(arm)
    if not set(needed) <= set(ceilings):
        return None
    return of_arm(
        arm.runs,
        part.columns[0],
        world,
        {one: ceilings[one].values(part.columns[0]) for one in needed},
        is_unpaired=arm.is_unpaired or any(ceilings[one].is_unpaired for one in needed),
        better=part.columns[0].better or "up",
    )


def _otherwise(part: Part, shown: Sequence[tuple[ConfigurationResults, World, Regret]]) -> list[str]:
    """Returns a sentence about the ceilings that are deployed otherwise than an arm; nothing if none is."""
    told: dict[str, list[str]] = {}
    for arm, world, regret in shown:
        ceilings = part.ceilings_of_worlds(arm)
        for one in world.needed(regret.rounds):
            if differ := deployed_otherwise(ceilings[one], arm):
                told.setdefault(arm.name, []).append(f"world {one} ({differ})")
    words = "; ".join(f"for {arm} those of {' and '.join(worlds)}" for arm, worlds in told.items())
    return [f"Baselines with another deployment period than the configuration: {words}."] if words else []


def command(arm: ConfigurationResults, world: int) -> str | None:
    """Returns a command that plays the ceiling of a world with an arm's seeds; None if none can.

    It has what of the arm's own command goes with a supervised learner.

    Args:
      arm: The arm.
      world: Number of the world.
    """
    words = shlex.split(arm.runs[0].command)
    if "-m" not in words[:-1]:
        return None
    start = words.index("-m") + 2
    module, flags = words[start - 1], arm.runs[0].flags
    seeds = sorted(int(run.flags.get("seed") or 0) for run in arm.runs)
    name = str(flags.get("experiment_name") or "run").removesuffix(f"/seed_{flags.get('seed')}")
    own = [f"--bandits_type={FULL_FEEDBACK}", f"--{_OF_WORLD}={world}", f"--experiment_name={name}_world_{world}"]
    own += [f"--seed={seeds[0]}"] + [f"--repeat={seeds[-1] - seeds[0] + 1}"] * (len(seeds) > 1)
    replaced = {*map(_name, own), _OF_WORLD, "repeat", "restart"}
    replaced |= {*world_flags.RESET_NAMES}  # One environment has no change to reset for.
    kept = [word for word in _joined(words[start:]) if _name(word) not in replaced]
    while True:
        try:
            settings = studies.resolve(module, [*kept, *own[:3]])
            break
        except UsageError as error:  # It names the flag that does not go with the others first.
            named = re.findall(r"--(\w+)", str(error))
            wrong = [word for name in named for word in kept if _name(word) == name]
            if not wrong:
                return None
            kept.remove(wrong[0])
    # A --config's reset cannot be taken back where it gives the reset's settings, too.
    if settings.get("reset") or any(
        settings.get(one) != flags.get(one) for one in world_flags.NAMES if one != _OF_WORLD
    ):
        return None
    return shlex.join([*words[:start], *kept, *own])


def _name(word: str) -> str:
    return word.partition("=")[0].lstrip("-")


def _joined(words: Sequence[str]) -> list[str]:
    """Returns flags with their values: `--flag value` as `--flag=value`."""
    joined: list[str] = []
    for word in words:
        if word.startswith("-"):
            joined.append(word)
        elif joined:
            joined[-1] += f"={word}"
    return joined
