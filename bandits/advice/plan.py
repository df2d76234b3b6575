"""Strategies of a recommendation, their search spaces and runs, and how much of this fits into the time budget.

This module does not import TensorFlow.
"""

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits import environment_flags, registry, studies
from bandits.plans import sweep
from bandits.plans.estimate import SAFETY_FACTOR, Pace, Work
from bandits.plans.plan import Grid, Run, as_text
from bandits.results.configuration import Configuration
from bandits.results.phrases import listed
from data.errors import UsageError
from optimization.study import cli

GREEDY, UNIFORM, FULL_FEEDBACK = "greedy", "uniform", "supervised_mse"
# Strategies are dropped from the end if time is short.
STRATEGIES = (GREEDY, "epsilon_greedy_unweight", "softmax", "falcon")
SEARCH, COMPARE, CONFIRM, NOISE, FEDERATE = "search", "compare", "confirm", "noise", "federate"
# The most important questions come first: whether exploration pays off, with which strategy, and what privacy costs.
STAGES: Mapping[str, str] = {
    SEARCH: "Searching hyperparameters",
    COMPARE: "Comparing strategies",
    CONFIRM: "Confirming on independent seeds",
    NOISE: "Adding noise",
    FEDERATE: "Training each client alone",
}
FACTOR = 2
NOISE_SEEDS = 4
MEASURED = 2  # Number of strategies that are run to measure the pace.
_MIN_DEPLOYMENTS = 2
# Minimum numbers of points, seeds and rounds for concluding that no strategy is good. A plan that has fewer than these,
# and fewer than the full plan, is reported as cut short.
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
# Server learning rates for averaging without an adaptive optimizer. Adam takes equally large steps for small and large
# rewards, so a model of rare clicks converges sooner without it.
_AVERAGING = ("1", "0.5", "2")
# Searched parameters of strategies, for rewards with a range of width 1.
_TRIED: Mapping[str, Sequence[float]] = {
    "epsilon": (0.02, 0.05, 0.1, 0.2),
    "temperature": (0.02, 0.05, 0.1, 0.2),
    "mu": (0, 30, 100, 300),
    "gamma": (100, 300, 1000, 3000),
}
_TRIES = 4096  # More samples would hardly add new points.

Point = Mapping[str, str]  # Searched flags and their values, as strings.


@dataclasses.dataclass(frozen=True)
class Space:
    """Search space of a strategy.

    Attributes:
      name: `--bandits_type`.
      axes: Choices along each axis; a point combines one choice per axis.
      tried_first: The default point, and the point for plain averaging if the server optimizer is searched.
    """

    name: str
    axes: Sequence[Sequence[Point]]
    tried_first: Sequence[Point]

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(map(len, self.axes))

    def points(self, count: int) -> list[Point]:
        """The points in `tried_first`, then others that are spread evenly; at most `count` and at most `size` in all.

        All strategies try the same learning rates, so that sampling does not favour any of them.
        """
        points = list(self.tried_first)
        for sample in _quasi_random():
            if len(points) >= min(count, self.size):
                break
            choices = (axis[int(share * len(axis))].items() for axis, share in zip(self.axes, sample, strict=False))
            point = dict(itertools.chain.from_iterable(choices))
            if point not in points:
                points.append(point)
        return points[:count]

    def point_of(self, run: Run) -> Point:
        """The point of a run: the searched flags and their values."""
        return {flag: as_text(run.settings[flag]) for flag in self.tried_first[0]}


@functools.cache
def _quasi_random() -> list[tuple[float, ...]]:
    """Points in [0, 1)^4. For every n, the first n points cover the space evenly."""
    from scipy.stats import qmc

    return [tuple(map(float, row)) for row in qmc.Halton(d=4, seed=0).random(_TRIES)]


def spaces(
    base: Sequence[str], strategies: Sequence[str], num_actions: int, reward_width: float = 1.0
) -> dict[str, Space]:
    """Search spaces by strategy.

    Args:
      base: Flags of all runs. A learning rate that they set is not searched.
      strategies: Values of `--bandits_type`.
      num_actions: Number of actions.
      reward_width: Largest minus smallest reward, which is the unit of temperatures and gaps.

    Raises:
      UsageError: If a strategy conflicts with the flags.
    """
    by_name, fixed = {}, studies.parse(BINARY, base).set_by_user
    units, smallest = {"temperature": reward_width, "gamma": 1 / reward_width}, {"mu": max(num_actions - 1.0, 1.0)}
    for name in strategies:
        settings = studies.resolve(BINARY, (*base, f"--bandits_type={name}"))
        axes, first = [], {}
        for rate in RATES:
            default = settings[rate]
            rates = [as_text(default)] if rate in fixed else [_text(default * factor) for factor in _FACTORS]
            axes.append([{rate: value} for value in dict.fromkeys(rates)])
            first[rate] = as_text(default) if rate in fixed else _text(default)
        for parameter, declared in registry.POLICIES[registry.BANDITS[name].policy].parameters.items():
            flag, unit, least = f"bandits_{parameter}", units.get(parameter, 1.0), smallest.get(parameter, 0.0)
            default, *tried = (max(unit * value, least) for value in (declared.default or 0.0, *_TRIED[parameter]))
            # A preset's value takes precedence.
            first[flag] = _text(default if settings[flag] == declared.default else settings[flag])
            axes.append([{flag: value} for value in dict.fromkeys([*map(_text, tried), first[flag]])])
        tried_first = [first]
        if settings.server_optimizer == "adam" and not fixed & {*_TRAINING[:2]} and not settings.reset:
            adam, averaging = {"server_optimizer": "adam"}, {"server_optimizer": "sgd"}
            axes[0] = [adam | choice for choice in axes[0]] + [averaging | {RATES[0]: rate} for rate in _AVERAGING]
            tried_first = [adam | first, averaging | first | {RATES[0]: _AVERAGING[0]}]
        by_name[name] = Space(name, axes, tried_first)
    return by_name


def _text(value: float) -> str:
    return as_text(float(f"{value:.4g}"))


def runs(base: Sequence[str], name: str, point: Point, first_seed: int, seeds: int, *more: str) -> list[Run]:
    """Runs of a strategy at a point with `seeds` consecutive seeds; `base` and `more` are the other flags."""
    block = {"bandits_type": (name,)} | {flag: (value,) for flag, value in point.items()}
    return Grid(BINARY, (*base, *more), (block,), tuple(range(first_seed, first_seed + seeds))).runs()


def label(strategy: Configuration) -> str:
    """Printed name of a strategy, with its searched parameters."""
    values = {flag.removeprefix("bandits_"): value for flag, value in strategy.flags.items() if "bandits" in flag}
    parameters = ", ".join(f"{parameter} {value}" for parameter, value in values.items())
    return f"{NAMES[strategy.name]} ({parameters})" if parameters else NAMES[strategy.name]


def command(base: Sequence[str], name: str, point: Point, *more: str) -> str:
    """Command line that runs a strategy at a point."""
    fixed = studies.parse(BINARY, base).set_by_user
    searched = [f"--{flag}={value}" for flag, value in point.items() if flag not in fixed]
    return cli.command_line(BINARY, [*base, f"--bandits_type={name}", *searched, *more])


def offline_command(base: Sequence[str], points: Mapping[str, Point], is_log: bool, *more: str) -> str:
    """Command line that trains offline on all rewards in the data; empty if the flags rule this out.

    Args:
      base: Flags of all runs.
      points: Best points of the searches, by strategy.
      is_log: Whether the data is a log. A model that is trained on a log learns from doubly robust rewards.
      *more: Further flags.
    """
    point = points.get(FULL_FEEDBACK) or points.get(UNIFORM) or next(iter(points.values()))
    rates = [f"--{flag}={value}" for flag, value in point.items() if flag in _TRAINING]
    kind = "--learn_from=dr" if is_log else f"--bandits_type={FULL_FEEDBACK}"
    words = [*base, kind, *(word for word in rates if word not in base), *more]
    try:
        studies.resolve(BINARY, words)
    except UsageError:
        return ""
    return cli.command_line(BINARY, words)


def with_environment(base: Sequence[str]) -> tuple[str, ...]:
    """Adds the environment flags whose defaults depend on the number of rounds or deployments.

    Runs that end early then have the same rewards as full runs in each round.
    """
    settings = studies.resolve(BINARY, (*base, f"--bandits_type={GREEDY}"))
    fixed = studies.parse(BINARY, base).set_by_user
    added = [name for name in environment_flags.OF_LENGTH if name not in fixed and settings[name] is not None]
    return (*base, *(f"--{name}={as_text(settings[name])}" for name in added))


def check(base: Sequence[str]) -> list[str]:
    """Strategies and baselines that are compatible with the flags of all runs.

    The full-feedback baseline is omitted if a flag applies to bandits only.

    Raises:
      UsageError: If a strategy is incompatible.
    """
    names = [*STRATEGIES, UNIFORM]
    for name in names:
        studies.resolve(BINARY, (*base, f"--bandits_type={name}"))
    with contextlib.suppress(UsageError):
        studies.resolve(BINARY, (*base, f"--bandits_type={FULL_FEEDBACK}"))
        names.append(FULL_FEEDBACK)
    return names


@dataclasses.dataclass(frozen=True)
class Plan:
    """The runs of a recommendation.

    Attributes:
      rounds: Rounds per run.
      deploy_every: Rounds between deployments.
      configurations: Strategies and baselines (values of `--bandits_type`), all of which are searched and compared.
      points: Points per search; 1 means no search.
      tuning_seeds: Seeds per point in a search.
      seeds: Number of seeds in the comparison.
      independent_seeds: Number of new seeds on which the best strategy and greedy are run again; these seeds were not
        used to select the strategy.
      epsilons: Number of epsilons.
      doublings: How many times the search's rounds were doubled because models or strategies earned too little.
      federation_seeds: Number of seeds for clients that train alone, and for the federated runs that report metrics per
        client.
      alone_rounds: Number of federated rounds that take as long as one round in which clients train alone.
    """

    rounds: int
    deploy_every: int
    configurations: tuple[str, ...] = (*STRATEGIES, UNIFORM, FULL_FEEDBACK)
    points: int = 16
    tuning_seeds: int = 2
    seeds: int = 8
    independent_seeds: int = 4
    epsilons: int = 3
    doublings: int = 0
    federation_seeds: int = 4
    alone_rounds: int = 1

    def is_cut_short(self, full: "Plan") -> bool:
        """Whether there are too few points, seeds or rounds for the verdict that no strategy is good."""
        return any(getattr(self, name) < min(getattr(full, name), least) for name, least in _LEAST.items())

    @property
    def rungs(self) -> list[int]:
        """Rounds of each rung in a search; at least two deployments, as all strategies act alike before the first."""
        return sweep.rungs(self.search_rounds, self.points, FACTOR, self.least)

    @property
    def search_rounds(self) -> int:
        """Rounds of the best points of a search, before they are doubled."""
        return self.rounds >> self.doublings

    @property
    def least(self) -> int:
        """Minimum number of rounds for a point that is stopped early."""
        return max(_MIN_DEPLOYMENTS * self.deploy_every, 1)

    def work(self, stage: str) -> Work:
        """The work in a stage."""
        if stage == SEARCH:
            return self._search()
        if stage == FEDERATE:
            seeds = self.federation_seeds
            return Work(2 if seeds else 0, 2 * seeds, seeds * self.rounds * (1 + self.alone_rounds))
        points, seeds = {
            COMPARE: (len(self.configurations), self.seeds),
            CONFIRM: (2, self.independent_seeds),
            NOISE: (self.epsilons + 1, NOISE_SEEDS if self.epsilons else 0),  # One run clips without adding noise.
        }[stage]
        # The search has already compiled the points to be compared, and the timing run has compiled the defaults.
        compiled = {COMPARE: points if self.points > 1 else min(points, MEASURED), CONFIRM: points, NOISE: 0}[stage]
        runs = points * seeds
        return Work(points - compiled if seeds else 0, runs, runs * self.rounds)

    def _search(self) -> Work:
        if self.points < 2:
            return Work(0, 0, 0)
        runs, rounds, before = 0, 0, 0
        for place, rung in enumerate(self.rungs):
            count = max(1, self.points // FACTOR**place) * self.tuning_seeds * len(self.configurations)
            runs, rounds, before = runs + count, rounds + count * (rung - before), rung
        return Work(self.points * len(self.configurations), runs, rounds)

    def seconds(self, pace: Pace, stages: Iterable[str] = STAGES) -> float:
        """Duration of some stages in seconds."""
        return sum(pace.seconds(self.work(stage)) for stage in stages)


# Order in which parts are omitted: numbers are reduced to the given value, and configurations are dropped. Every
# strategy keeps the minimum budget for a verdict, `_LEAST`, for as long as possible. Precision beyond this budget is
# omitted first, then clients that train alone and privacy, and only then points and seeds. Greedy and one exploring
# strategy always remain.
_LADDER: tuple[tuple[str, Any], ...] = (
    ("federation_seeds", 2),
    ("points", 8),
    ("epsilons", 2),
    ("configurations", UNIFORM),
    ("tuning_seeds", 1),
    ("seeds", 6),
    ("epsilons", 1),
    ("federation_seeds", 0),
    ("epsilons", 0),
    ("independent_seeds", 2),
    ("configurations", FULL_FEEDBACK),
    ("independent_seeds", 0),
    ("seeds", 4),
    ("configurations", STRATEGIES[3]),
    ("points", 4),
    ("configurations", STRATEGIES[2]),
    ("seeds", 3),
    ("points", 2),
    ("seeds", 2),
    ("points", 1),
)
_PARTS: Mapping[str, str] = {
    "rounds": "rounds",
    "points": "hyperparameter settings in each search",
    "tuning_seeds": "seeds in each search",
    "seeds": "seeds in the comparison",
    "independent_seeds": "independent seeds to confirm the best strategy",
    "epsilons": "privacy levels (epsilons)",
    "federation_seeds": "seeds for clients that train alone",
}
# Fields that each stage fixes for itself and for all later stages.
DECIDES: Mapping[str, tuple[str, ...]] = {
    SEARCH: ("points", "tuning_seeds", "configurations", "rounds", "doublings"),
    COMPARE: ("seeds",),
    CONFIRM: ("independent_seeds",),
    NOISE: ("epsilons",),
    FEDERATE: ("federation_seeds",),
}


def fitted(full: Plan, pace: Pace, seconds: float, left: Iterable[str] = STAGES) -> Plan:
    """The largest plan whose remaining stages fit into the time.

    Args:
      full: The full plan, except for the fields that finished stages have already fixed.
      pace: Speed of this machine.
      seconds: Remaining time.
      left: Remaining stages; finished ones stay as they are.

    Returns:
      The plan. If even the smallest plan does not fit and the search is still to come, runs get fewer rounds. These
      still take at least as long as a run's overhead, such as startup, so the plan can exceed the time.
    """
    plan = full
    for name, value in _LADDER:
        if plan.seconds(pace, left) <= seconds:
            return plan
        if any(name in DECIDES[stage] for stage in left):
            now = getattr(plan, name)
            less: Any = tuple(other for other in now if other != value) if isinstance(value, str) else min(now, value)
            plan = dataclasses.replace(plan, **{name: less})
    if plan.seconds(pace, left) <= seconds or SEARCH not in left:
        return plan
    work = plan.work(COMPARE)
    overhead = work.points * pace.point_seconds + work.runs * pace.run_seconds / pace.workers
    round_seconds = work.runs * pace.round_seconds / pace.workers
    # Cutting rounds below the overhead would save little.
    rounds = max((seconds / SAFETY_FACTOR - overhead) / round_seconds, overhead / round_seconds, 1)
    return dataclasses.replace(plan, rounds=min(plan.rounds, math.floor(rounds)))


def left_out(full: Plan, plan: Plan) -> list[str]:
    """Parts of the full plan that a plan omits, in words."""
    missing = [NAMES[name] for name in full.configurations if name not in plan.configurations]
    parts = [listed(missing)] if missing else []
    for name, what in _PARTS.items():
        now, planned = getattr(plan, name), getattr(full, name)
        parts += [f"{planned - now:,} of {planned:,} {what}"] if now < planned else []
    return parts
