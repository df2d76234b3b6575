"""Dynamic regret: how much less a configuration earns than the best known policy of each round's environment.

Besbes, Gur and Zeevi, "Stochastic multi-armed bandit problem with non-stationary rewards", 2014, section 2: the
comparator of a round is the best policy of that round's rewards. Here it is the final reward of the full-feedback
baseline that was trained in that round's environment alone. It is trained, too: the regret can be negative.
"""

import dataclasses
import html
import itertools
import math
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bandits import options, studies, world_flags
from bandits.results import baselines, comparison, runs, sections, tables
from bandits.results.comparison import Better
from bandits.results.configurations import ROLES, ConfigurationResults, Part, deployed_otherwise, environment
from bandits.results.plots import capital
from bandits.results.tables import Cell
from bandits.worlds.drift import Drift
from data.errors import UsageError
from optimization.study import cli, divergence
from optimization.study.intervals import Interval
from optimization.study.results import Run

FULL_FEEDBACK = "supervised_mse"  # `--bandits_type` of the full-feedback baseline.
_MOST_SEGMENTS = 10  # That are told each: there can be more seasons than worlds.
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
_MOST_TOGETHER = 3  # Flags that need each other.
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


def section(part: Part) -> str:
    """Returns the section "Dynamic regret" of a part's page; empty where rewards stayed as they were."""
    lacking = "".join(f'<p class="note">{html.escape(line)}</p>' for line in missing(part))
    shown = found(part)
    if not shown:
        return f"<h3>Dynamic regret</h3>{lacking}" if lacking else ""
    several = [_table(some) for some in _by_segments([(arm, regret) for arm, _, regret in shown])]
    notes = " ".join([WHAT_IT_IS, *[_MIXED] * _is_mixed(shown), *_otherwise(part, shown)])
    return f'<h3>{html.escape(_title(shown))}</h3>{"".join(several)}<p class="note">{html.escape(notes)}</p>{lacking}'


def lines(parts: Sequence[Part]) -> list[str]:
    """Returns the same for the terminal."""
    told = []
    for part in parts:
        if not (shown := found(part)):
            continue
        told.append(f"{part.title}: {_title(shown)[:1].lower()}{_title(shown)[1:]}. {WHAT_IT_IS}")
        told += [*[_MIXED] * _is_mixed(shown), *_otherwise(part, shown)]
        for arm, _, regret in shown:
            told.append(f"  {_named(arm)}: total {_words(regret.total)}, per round {_words(regret.a_round)}")
            told += [
                f"    {_about(segment)}: per round {_words(mean)}; in its last tenth {_words(end)}"
                for segment, mean, end in regret.segments[:_MOST_SEGMENTS]
            ]
            told += [f"    {more}"] if (more := _more(regret)) else []
    return told


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


def _is_mixed(shown: Sequence[tuple[ConfigurationResults, World, Regret]]) -> bool:
    return any(len(segment.worlds) > 1 for _, _, regret in shown for segment, *_ in regret.segments)


def _title(shown: Sequence[tuple[ConfigurationResults, World, Regret]]) -> str:
    counts = sorted({len(world.needed(regret.rounds)) for _, world, regret in shown})
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Dynamic regret to {number} full-feedback baseline{'s' * (counts[-1] > 1)}"


def _named(arm: ConfigurationResults) -> str:
    return f"{arm.name} ({ROLES[arm.role]})" if arm.role else arm.name


def _about(segment: Segment) -> str:
    rounds = f"rounds {segment.first} to {segment.last}" if segment.last > segment.first else f"round {segment.first}"
    kind = "world" if len(segment.worlds) == 1 else "between worlds"
    return f"{rounds} ({kind} {' and '.join(map(str, segment.worlds))})"


def _words(found: Interval) -> str:
    if math.isnan(found.mean):
        return "unknown"
    return f"{found.mean:.4g}" + (f" ({found.low:.4g} to {found.high:.4g})" if math.isfinite(found.low) else "")


def _by_segments(
    shown: Sequence[tuple[ConfigurationResults, Regret]],
) -> list[list[tuple[ConfigurationResults, Regret]]]:
    """Returns the arms, those of the same segments together."""
    together: dict[tuple[Segment, ...], list[tuple[ConfigurationResults, Regret]]] = {}
    for arm, regret in shown:
        together.setdefault(tuple(segment for segment, *_ in regret.segments), []).append((arm, regret))
    return list(together.values())


def _table(shown: Sequence[tuple[ConfigurationResults, Regret]]) -> str:
    segments = [segment for segment, *_ in shown[0][1].segments[:_MOST_SEGMENTS]]
    heads = ["Configuration", "Seeds", "Total", "Per round", *(capital(_about(segment)) for segment in segments)]
    totals, a_round = (
        tables.decimals([one.mean for one in some if not math.isnan(one.mean)])
        for some in ([regret.total for _, regret in shown], [regret.a_round for _, regret in shown])
    )
    rows = []
    for arm, regret in sorted(shown, key=lambda pair: pair[1].a_round.mean):
        cells = [Cell(_named(arm), arm.name), regret.a_round.size]
        cells += [sections.interval(regret.total, totals), sections.interval(regret.a_round, a_round)]
        for _, mean, end in regret.segments[:_MOST_SEGMENTS]:
            cell = sections.interval(mean, a_round)
            ends = [] if math.isnan(end.mean) else [f"last tenth: {end.mean:.{a_round}f}"]
            cells.append(cell._replace(notes=[*cell.notes, *ends]))
        rows.append(cells)
    rest = f'<p class="note">{more}</p>' if (more := _more(shown[0][1])) else ""
    return tables.html(heads, rows) + rest


def _more(regret: Regret) -> str:
    more = len(regret.segments) - _MOST_SEGMENTS
    return f"Segments included in the total only: {more}." if more > 0 else ""


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
    kept = _kept(module, words[start:], own)
    try:
        settings = studies.resolve(module, [*kept, *own[:3]])
    except UsageError:
        return None
    if any(settings.get(one) != flags.get(one) for one in world_flags.NAMES if one != _OF_WORLD):
        return None
    kept += ["--reset=none"] * bool(settings.get("reset"))  # A --config's.
    return shlex.join([*words[:start], *kept, *own])


def _kept(module: str, words: Sequence[str], own: Sequence[str]) -> list[str]:
    """Returns which of a command's flags go with a ceiling's own, the other ones of which they replace."""
    left: list[str] = []
    for word in words:
        if word.startswith("-"):
            left.append(word)
        elif left:  # --flag value
            left[-1] += f"={word}"
    replaced = {word.partition("=")[0].lstrip("-") for word in own} | {_OF_WORLD, "repeat", "restart"}
    replaced |= {*world_flags.RESET_NAMES}  # In one world there is no change that a ceiling should learn anew for.
    left = [word for word in left if word.partition("=")[0].lstrip("-") not in replaced]
    kept: list[str] = []
    while some := _that_go(module, [own[0], *kept], left):
        kept += some
        left = [word for word in left if word not in some]
    return kept


def _that_go(module: str, kept: Sequence[str], left: Sequence[str]) -> Sequence[str]:
    """Returns flags of those left that go with what is kept: one, or a few that go together alone, as noise's do."""
    for count in range(1, _MOST_TOGETHER + 1):
        for some in itertools.combinations(left, count):
            if _goes(module, [*kept, *some]):
                return some
    return ()


def _goes(module: str, words: Sequence[str]) -> bool:
    try:
        studies.resolve(module, words)
    except UsageError:
        return False
    return True
