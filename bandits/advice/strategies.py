"""Strategies of a recommendation: search spaces, and runs of a point. Imports no TensorFlow."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence

from bandits import environment_flags, registry, studies
from bandits.advice.plan import FULL_FEEDBACK, GREEDY, STRATEGIES, UNIFORM
from bandits.plans import plan
from data.errors import UsageError
from optimization.study import cli
from optimization.study.settings import Parameter

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
_FACTORS = (0.2, 0.5, 1.0, 2.0, 5.0)  # Of a rate's default.
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

    def point_of(self, run: plan.Run) -> Point:
        """Searched flags of a run."""
        return tuple((flag, plan.as_text(run.settings[flag])) for flag, _ in self.first)

    def edges(self, point: Point) -> list[str]:
        """Flags whose value in a point is the smallest or largest of the search space."""
        flags, names = dict(point), []
        for axis in self.axes:
            *others, (flag, _) = axis[0]
            same = [
                dict(choice)[flag] for choice in axis if all(flags[name] == dict(choice)[name] for name, _ in others)
            ]
            if plan.is_edge([*map(float, same)], float(flags[flag])):
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
            rates = [plan.as_text(default)] if is_fixed else [_text(default * factor) for factor in _FACTORS]
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
    return plan.as_text(float(f"{value:.4g}"))


def runs(base: Sequence[str], name: str, point: Point, first_seed: int, seeds: int, *more: str) -> list[plan.Run]:
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
    return plan.Grid(BINARY, (*base, *more), (block,), all_seeds).runs()


def searched(base: Sequence[str], space: Space, count: int, seeds: int) -> list[plan.Run]:
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
    return (*base, *(f"--{name}={plan.as_text(settings[name])}" for name in added))


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
