"""Strategies of a recommendation, their search spaces and runs, and how much of them fits into the time.

Imports no TensorFlow.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits import environment_flags, registry, studies
from bandits.plans import sweep
from bandits.plans.estimate import SAFETY_FACTOR, Pace, Work, duration
from bandits.plans.plan import Grid, Run, as_text, is_edge
from bandits.results.phrases import count, listed
from data.errors import UsageError
from data.settings import Parameter
from optimization.study import cli

GREEDY, UNIFORM, FULL_FEEDBACK = "greedy", "uniform", "supervised_mse"
# Strategies are dropped from the end if time is short.
STRATEGIES = (GREEDY, "epsilon_greedy_unweight", "softmax", "falcon")
SEARCH, COMPARE, CONFIRM, FREQUENT, NOISE = "search", "compare", "confirm", "frequent", "noise"
FEDERATE = "federate"
# The most important questions come first: whether exploration pays, with which strategy, at what privacy.
STAGES: Mapping[str, str] = {
    SEARCH: "Searching hyperparameters",
    COMPARE: "Comparing strategies",
    CONFIRM: "Confirming on independent seeds",
    NOISE: "Adding noise",
    FREQUENT: "Deploying more often",
    FEDERATE: "Training each client alone",
}
FACTOR = 2
MEASURED = 2  # Strategies with which the pace is measured.
_MIN_DEPLOYMENTS = 2
# Budget of a verdict that no strategy is good; less, where the full plan has more, is a search cut short.
_LEAST = {"points": 8, "seeds": 6, "rounds": math.inf}
BINARY = studies.STUDIES["run_federated"]
RATES = ("server_learning_rate", "client_learning_rate")
_TRAINING = ("server_optimizer", *RATES)
NAMES: Mapping[str, str] = {
    GREEDY: "greedy",
    "epsilon_greedy_unweight": "epsilon-greedy",
    "softmax": "softmax",
    "falcon": "FALCON",
    UNIFORM: "uniform policy",
    FULL_FEEDBACK: "full feedback",
}
# First seeds of searches, of the comparison, and of the independent runs.
TUNING_SEED, SEED, INDEPENDENT_SEED = 1000, 2000, 3000
_FACTORS = (0.2, 0.5, 1.0, 2.0, 5.0)  # Searched learning rates, as multiples of the default.
# Server rates of averaging without an adaptive optimizer. Adam's steps are as long for small rewards as for large ones,
# so a model of rare clicks settles sooner without it.
_AVERAGING = ("1", "0.5", "2")
_TRIES = 4096  # More samples would hardly give new points.

Point = tuple[tuple[str, str], ...]  # Flags and their values, as texts.


@dataclasses.dataclass(frozen=True)
class Space:
    """Search space of a strategy.

    Attributes:
      name: `--bandits_type`.
      axes: Choices that are combined: each is a list of flags with their values.
      tried_first: The default point, and that of plain averaging if the server's optimizer is searched.
    """

    name: str
    axes: tuple[tuple[Point, ...], ...]
    tried_first: tuple[Point, ...]

    @property
    def first(self) -> Point:
        """Default point."""
        return self.tried_first[0]

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(map(len, self.axes))

    def points(self, count: int) -> list[Point]:
        """The points that are tried first and further ones, spread evenly; at most `size`.

        Strategies try the same learning rates, so that sampling favours none.
        """
        points = list(self.tried_first)
        for sample in _quasi_random():
            if len(points) >= min(count, self.size):
                break
            choices = (axis[int(share * len(axis))] for axis, share in zip(self.axes, sample, strict=False))
            point = tuple(itertools.chain.from_iterable(choices))
            if point not in points:
                points.append(point)
        return points[:count]

    def point_of(self, run: Run) -> Point:
        """Searched flags of a run."""
        return tuple((flag, as_text(run.settings[flag])) for flag, _ in self.first)

    def edges(self, point: Point) -> list[str]:
        """Flags whose value in a point is the smallest or largest of the search space."""
        flags, names = dict(point), []
        for axis in self.axes:
            *others, (flag, _) = axis[0]
            same = [
                dict(choice)[flag] for choice in axis if all(flags[name] == dict(choice)[name] for name, _ in others)
            ]
            if is_edge([*map(float, same)], float(flags[flag])):
                names.append(flag)
        return names


@functools.cache
def _quasi_random() -> list[tuple[float, ...]]:
    """Points in [0, 1)^4, any first of which cover it evenly."""
    from scipy.stats import qmc

    return [tuple(map(float, row)) for row in qmc.Halton(d=4, seed=0).random(_TRIES)]


def spaces(
    base: Sequence[str], strategies: Sequence[str], num_actions: int, reward_width: float = 1.0
) -> dict[str, Space]:
    """Search spaces by strategy.

    Args:
      base: Flags of all runs. A rate among them is not searched.
      strategies: Values of `--bandits_type`.
      num_actions: Actions of the task.
      reward_width: Largest minus smallest reward: the unit of temperatures and gaps.

    Raises:
      UsageError: If a strategy conflicts with the flags.
    """
    by_name = {}
    for name in strategies:
        settings = studies.resolve(BINARY, (*base, f"--bandits_type={name}"))
        fixed = studies.parse(BINARY, base).set_by_user
        axes: list[list[Point]] = []
        first: list[tuple[str, str]] = []
        for rate in RATES:
            is_fixed, default = rate in fixed, settings[rate]
            rates = [as_text(default)] if is_fixed else [_text(default * factor) for factor in _FACTORS]
            axes.append([((rate, value),) for value in dict.fromkeys(rates)])
            first.append((rate, rates[0] if is_fixed else _text(default)))
        for parameter, (default, tried) in _parameters(name, num_actions, reward_width).items():
            flag = f"bandits_{parameter}"
            # A preset's value takes precedence.
            default = default if settings[flag] == _declared(name)[parameter].default else settings[flag]
            axes.append([((flag, value),) for value in dict.fromkeys(map(_text, (*tried, default)))])
            first.append((flag, _text(default)))
        tried_first = [tuple(first)]
        if settings.server_optimizer == "adam" and not fixed & {*_TRAINING[:2]} and not settings.reset:
            adam, averaging = ("server_optimizer", "adam"), ("server_optimizer", "sgd")
            axes[0] = [(adam, *choice) for choice in axes[0]] + [(averaging, (RATES[0], rate)) for rate in _AVERAGING]
            tried_first = [(adam, *first), (averaging, (RATES[0], _AVERAGING[0]), *first[1:])]
        by_name[name] = Space(name, tuple(map(tuple, axes)), tuple(tried_first))
    return by_name


def _parameters(name: str, num_actions: int, width: float) -> dict[str, tuple[float, tuple[float, ...]]]:
    """Default and candidate values of each parameter of a strategy."""
    declared = _declared(name)
    least_mu = max(num_actions - 1, 1)
    tried = {
        "epsilon": (0.02, 0.05, 0.1, 0.2),
        "temperature": tuple(one * width for one in (0.02, 0.05, 0.1, 0.2)),
        "mu": tuple(sorted({float(least_mu), 3.0 * least_mu, 100.0, 300.0} - set(range(least_mu)))),
        "gamma": tuple(one / width for one in (100.0, 300.0, 1000.0, 3000.0)),
    }
    scale = {"temperature": width, "gamma": 1 / width}
    default = {one: (parameter.default or 0.0) * scale.get(one, 1.0) for one, parameter in declared.items()}
    if "mu" in default:
        default["mu"] = max(default["mu"], float(least_mu))
    return {one: (default[one], tried[one]) for one in declared}


def _declared(name: str) -> Mapping[str, Parameter]:
    return registry.POLICIES[registry.BANDITS[name].policy].parameters


def _text(value: float) -> str:
    return as_text(float(f"{value:.4g}"))


def runs(base: Sequence[str], name: str, point: Point, first_seed: int, seeds: int, *more: str) -> list[Run]:
    """Runs of a strategy at a point.

    Args:
      base: Flags of all runs.
      name: `--bandits_type`.
      point: Searched flags.
      first_seed: The first seed.
      seeds: Number of consecutive seeds.
      *more: Further flags.
    """
    block = {"bandits_type": (name,)} | {flag: (value,) for flag, value in point}
    all_seeds = tuple(range(first_seed, first_seed + seeds))
    return Grid(BINARY, (*base, *more), (block,), all_seeds).runs()


def searched(base: Sequence[str], space: Space, count: int, seeds: int) -> list[Run]:
    """Runs of a search, point by point."""
    return [run for point in space.points(count) for run in runs(base, space.name, point, TUNING_SEED, seeds)]


def label(name: str, point: Point = ()) -> str:
    """Name of a strategy, with its parameter."""
    parameters = [f"{flag.removeprefix('bandits_')} {value}" for flag, value in point if flag not in _TRAINING]
    return f"{NAMES[name]} ({', '.join(parameters)})" if parameters else NAMES[name]


def command(base: Sequence[str], name: str, point: Point, *more: str) -> str:
    """Command line that runs a strategy at a point."""
    fixed = studies.parse(BINARY, base).set_by_user
    words = [f"--bandits_type={name}", *(f"--{flag}={value}" for flag, value in point if flag not in fixed), *more]
    return cli.command_line(BINARY, [*base, *words])


def offline_command(base: Sequence[str], points: Mapping[str, Point], is_log: bool, *more: str) -> str:
    """Command line that trains on all rewards of the data, without acting; empty if the flags exclude it.

    Args:
      base: Flags of all runs.
      points: Best points of the searches, by strategy.
      is_log: Whether the data is a log, whose doubly robust rewards are learned.
      *more: Further flags.
    """
    point = points.get(FULL_FEEDBACK) or points.get(UNIFORM) or next(iter(points.values()))
    rates = [f"--{flag}={value}" for flag, value in point if flag in _TRAINING]
    kind = "--learn_from=dr" if is_log else f"--bandits_type={FULL_FEEDBACK}"
    words = [*base, kind, *(word for word in rates if word not in base), *more]
    try:
        studies.resolve(BINARY, words)
    except UsageError:
        return ""
    return cli.command_line(BINARY, words)


def with_environment(base: Sequence[str]) -> tuple[str, ...]:
    """Flags of all runs with those of the environment whose defaults depend on rounds or deployments.

    Runs that end early, or deploy more often, then have the same rewards in the same rounds.
    """
    settings = studies.resolve(BINARY, (*base, f"--bandits_type={GREEDY}"))
    fixed = studies.parse(BINARY, base).set_by_user
    added = [name for name in environment_flags.OF_LENGTH if name not in fixed and settings[name] is not None]
    return (*base, *(f"--{name}={as_text(settings[name])}" for name in added))


def check(base: Sequence[str]) -> list[str]:
    """Strategies and baselines that are compatible with the flags of all runs.

    The full-feedback baseline is missing if a flag applies to bandits only.

    Raises:
      UsageError: If greedy is incompatible.
    """
    for name in STRATEGIES:
        studies.resolve(BINARY, (*base, f"--bandits_type={name}"))
    names = [*STRATEGIES, UNIFORM]
    try:
        studies.resolve(BINARY, (*base, f"--bandits_type={FULL_FEEDBACK}"))
    except UsageError:
        return names
    return [*names, FULL_FEEDBACK]


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan.

    Attributes:
      rounds: Rounds of a run.
      deploy_every: Rounds between deployments, as planned.
      often: Rounds between deployments when these are ten times as frequent; 0 if that is impossible.
      strategies: Values of `--bandits_type`, greedy first.
      has_full_feedback: Whether the full-feedback baseline runs.
      has_uniform: Whether a model is trained on the uniform policy's log.
      points: Points of each search; 1 for no search.
      tuning_seeds: Seeds of each point of a search.
      seeds: Seeds of the comparison.
      independent_seeds: Seeds of the best strategy and greedy that did not select it.
      frequent_seeds: Seeds of more frequent deployment.
      epsilons: Number of epsilons.
      noise_seeds: Seeds of each epsilon.
      doublings: How often the rounds of the search were doubled, as no model had come near the central linear model.
      federation_seeds: Seeds of clients that train alone, and of the federated runs that report their clients.
      alone_rounds: Federated rounds that take as long as one of clients that train alone.
    """

    rounds: int
    deploy_every: int
    often: int
    strategies: tuple[str, ...] = STRATEGIES
    has_full_feedback: bool = True
    has_uniform: bool = True
    points: int = 16
    tuning_seeds: int = 2
    seeds: int = 8
    independent_seeds: int = 4
    frequent_seeds: int = 8
    epsilons: int = 3
    noise_seeds: int = 4
    doublings: int = 0
    federation_seeds: int = 4
    alone_rounds: int = 1

    @property
    def configurations(self) -> tuple[str, ...]:
        """Strategies and baselines, which are all searched and compared."""
        return (*self.strategies, *[UNIFORM] * self.has_uniform, *[FULL_FEEDBACK] * self.has_full_feedback)

    def is_cut_short(self, full: "Plan") -> bool:
        """Whether strategies have too small a budget for a verdict against all: few points, seeds or rounds."""
        return any(getattr(self, name) < min(getattr(full, name), least) for name, least in _LEAST.items())

    @property
    def rungs(self) -> list[int]:
        """Rounds of each rung of a search: before a few deployments, all strategies act alike."""
        return sweep.rungs(self.search_rounds, self.points, FACTOR, self.least)

    @property
    def search_rounds(self) -> int:
        """Rounds of the best points of a search, before they are doubled."""
        return self.rounds >> self.doublings

    @property
    def least(self) -> int:
        """Minimum rounds of a point that is stopped early."""
        return max(_MIN_DEPLOYMENTS * self.deploy_every, 1)

    def work(self, stage: str) -> Work:
        """Work of a stage."""
        if stage == SEARCH:
            return self._search()
        if stage == FEDERATE:
            seeds = self.federation_seeds
            return Work(2 if seeds else 0, 2 * seeds, seeds * self.rounds * (1 + self.alone_rounds))
        points, seeds = {
            COMPARE: (len(self.configurations), self.seeds),
            CONFIRM: (2, self.independent_seeds),
            FREQUENT: (2, min(self.frequent_seeds, self.seeds)),
            NOISE: (self.epsilons + 1, self.noise_seeds if self.epsilons else 0),  # One run is clipped, without noise.
        }[stage]
        # The search has already compiled the points to be compared, and the timing run has compiled the defaults.
        compiled = points if stage == CONFIRM or self.points > 1 else min(points, MEASURED)
        new = points if stage in (FREQUENT, NOISE) else points - compiled
        runs = points * seeds
        return Work(new if seeds else 0, runs, runs * self.rounds)

    def _search(self) -> Work:
        if self.points < 2:
            return Work(0, 0, 0)
        runs, rounds, before = 0, 0, 0
        for place, rung in enumerate(self.rungs):
            count = max(1, self.points // FACTOR**place) * self.tuning_seeds * len(self.configurations)
            runs, rounds, before = runs + count, rounds + count * (rung - before), rung
        return Work(self.points * len(self.configurations), runs, rounds)

    def seconds(self, pace: Pace, stages: Iterable[str] = STAGES) -> float:
        """Seconds that some stages take."""
        return sum(pace.seconds(self.work(stage)) for stage in stages)


# Order in which parts are left out. Each strategy gets the budget of a verdict, `_LEAST`, before anything else: first
# precision beyond it is left out, then another deployment period, clients that train alone and privacy, and only then
# points and seeds. Greedy and one strategy that explores always remain.
_LADDER: tuple[tuple[str, Any], ...] = (
    ("federation_seeds", 2),
    ("points", 8),
    ("frequent_seeds", 4),
    ("epsilons", 2),
    ("frequent_seeds", 0),
    ("has_uniform", False),
    ("noise_seeds", 3),
    ("tuning_seeds", 1),
    ("seeds", 6),
    ("epsilons", 1),
    ("federation_seeds", 0),
    ("epsilons", 0),
    ("independent_seeds", 2),
    ("has_full_feedback", False),
    ("independent_seeds", 0),
    ("seeds", 4),
    ("strategies", STRATEGIES[:3]),
    ("points", 4),
    ("strategies", STRATEGIES[:2]),
    ("seeds", 3),
    ("points", 2),
    ("seeds", 2),
    ("points", 1),
)
# Texts of a part that is left out partly, and wholly.
_LEFT_OUT: Mapping[str, tuple[str, str]] = {
    "rounds": ("rounds after the first {now:,} of {planned:,}", ""),
    "strategies": ("", ""),
    "seeds": ("{fewer} of {planned} seeds of the comparison", ""),
    "has_full_feedback": ("", "the full-feedback baseline"),
    "has_uniform": ("", "a model trained by the uniform policy"),
    "points": (
        "{fewer} of {planned} hyperparameter settings in each search",
        "the hyperparameter search (all settings are defaults)",
    ),
    "tuning_seeds": ("a second tuning seed", ""),
    "independent_seeds": ("{fewer} of {planned} independent seeds", "independent seeds to confirm the best strategy"),
    "frequent_seeds": ("{fewer} of {planned} seeds of more frequent deployment", "more frequent deployment"),
    "epsilons": ("privacy: {fewer} of {planned} epsilons", "privacy: every run with noise"),
    "noise_seeds": ("{fewer} of {planned} seeds with noise", ""),
    "federation_seeds": ("{fewer} of {planned} seeds of clients that train alone", "clients that train alone"),
}
# Fields that each stage fixes, for itself and for later stages.
DECIDES: Mapping[str, tuple[str, ...]] = {
    SEARCH: ("points", "tuning_seeds", "strategies", "has_uniform", "has_full_feedback", "rounds", "doublings"),
    COMPARE: ("seeds",),
    CONFIRM: ("independent_seeds",),
    FREQUENT: ("frequent_seeds",),
    NOISE: ("epsilons", "noise_seeds"),
    FEDERATE: ("federation_seeds",),
}


def fitted(full: Plan, pace: Pace, seconds: float, left: Iterable[str] = STAGES) -> Plan:
    """The largest plan whose remaining stages fit into the time.

    Args:
      full: The plan with nothing left out, except by finished stages.
      pace: Speed of this machine.
      seconds: Remaining time.
      left: Remaining stages; finished ones stay as they are.

    Returns:
      The plan. If not even the smallest one fits, its runs have fewer rounds. Their rounds still take at least as long
      as the overhead, such as the start of a run, so the plan can take longer.
    """
    plan = full
    for name, value in _LADDER:
        if plan.seconds(pace, left) <= seconds:
            return plan
        if any(name in DECIDES[stage] for stage in left):
            now = getattr(plan, name)
            less: Any = tuple(one for one in now if one in value) if isinstance(value, tuple) else min(now, value)
            plan = dataclasses.replace(plan, **{name: less})
    if plan.seconds(pace, left) <= seconds or SEARCH not in left:
        return plan
    work = plan.work(COMPARE)
    overhead = work.points * pace.point_seconds + work.runs * pace.run_seconds / pace.workers
    round_seconds = work.runs * pace.round_seconds / pace.workers
    # Cutting rounds below the overhead would save little.
    rounds = max((seconds / SAFETY_FACTOR - overhead) / round_seconds, overhead / round_seconds, 1)
    return dataclasses.replace(plan, rounds=min(plan.rounds, math.floor(rounds)))


def minutes_of_all(full: Plan, pace: Pace) -> int:
    """Minutes of the full plan, plus one to start and to write pages."""
    return math.ceil(full.seconds(pace) / 60) + 1


def described(plan: Plan, pace: Pace, stages: Iterable[str] = STAGES) -> list[str]:
    """A line per stage: its time and its runs."""
    work = {stage: plan.work(stage).runs for stage in stages}
    return [
        f"  {stage:<9} {duration(plan.seconds(pace, [stage])):>12}  {count(size, 'run') if size else 'left out'}"
        for stage, size in work.items()
    ]


def every(rounds: int) -> str:
    """A period in words, such as `every 10 rounds`."""
    return "every round" if rounds == 1 else f"every {rounds:,} rounds"


def at_a_time(workers: int) -> str:
    """Number of parallel runs in words, such as `2 runs at a time`."""
    return f"{workers} run{'s' * (workers != 1)} at a time"


def left_out(full: Plan, plan: Plan) -> list[str]:
    """Parts of the full plan that a plan leaves out, in words.

    Args:
      full: The plan with nothing left out.
      plan: The plan.
    """
    texts = []
    for name, (some, none) in _LEFT_OUT.items():
        now, planned = getattr(plan, name), getattr(full, name)
        is_part_of_another = {"tuning_seeds": plan.points < 2, "noise_seeds": not plan.epsilons}.get(name, False)
        if now == planned or (name == "rounds" and now > planned) or is_part_of_another:
            continue
        if name == "strategies":
            texts.append(listed([NAMES[one] for one in planned if one not in now]))
        else:
            text = none if now == (name == "points") else some
            texts.append(text.format(now=now, planned=planned, fewer=planned - now))
    return texts
