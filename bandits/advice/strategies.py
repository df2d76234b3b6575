"""The strategies of a recommendation: search spaces, and runs of a point. Nothing here imports TensorFlow."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

from bandits import registry, studies, world_flags
from bandits.advice.plan import CEILING, CHANCE, GREEDY, STRATEGIES
from bandits.plans import plan
from data.errors import UsageError
from optimization.study import cli
from optimization.study.settings import Parameter

BINARY = studies.STUDIES["run_federated"]
RATES = ("server_learning_rate", "client_learning_rate")
NAMES: Mapping[str, str] = {
    GREEDY: "greedy",
    "epsilon_greedy_unweight": "epsilon-greedy",
    "softmax": "softmax",
    "falcon": "FALCON",
    CHANCE: "uniform policy",
    CEILING: "full feedback",
}
# Seeds of searches, of the comparison, and of what did not pick the best.
TUNING_SEED, SEED, MORE_SEED = 1000, 2000, 3000
_FACTORS = (0.2, 0.5, 1.0, 2.0, 5.0)  # Of a rate's default.
_TRIES = 4096  # Draws after which no new point is to be expected.

Point = tuple[tuple[str, str], ...]  # Flags and their values, as texts.


@dataclasses.dataclass(frozen=True)
class Space:
    """What a search of one strategy tries.

    Attributes:
      name: Its `--bandits_type`.
      values: Values of each flag.
      first: Its defaults, which are tried first.
    """

    name: str
    values: Mapping[str, tuple[str, ...]]
    first: Point

    @property
    def size(self) -> int:
        """How many points there are."""
        return math.prod(len(set(values)) for values in self.values.values())

    def points(self, count: int) -> list[Point]:
        """Returns the defaults and further points, spread evenly; fewer where there are not so many.

        Strategies that search the same rates try the same ones: no luck of the draw comes between them.
        """
        found = [self.first]
        for draw in _spread():
            if len(found) == min(count, self.size):
                break
            point = tuple(
                (flag, values[int(share * len(values))])
                for (flag, values), share in zip(self.values.items(), draw, strict=False)
            )
            if point not in found:
                found.append(point)
        return found[:count]


@functools.cache
def _spread() -> list[tuple[float, ...]]:
    """Returns points in [0, 1)^4 that fill it evenly, however many of them are taken."""
    from scipy.stats import qmc

    return [tuple(map(float, row)) for row in qmc.Halton(d=4, seed=0).random(_TRIES)]


def spaces(
    base: Sequence[str], strategies: Sequence[str], num_actions: int, reward_width: float = 1.0
) -> dict[str, Space]:
    """Returns what the searches try.

    Args:
      base: Flags of all runs. A rate that is given is not searched.
      strategies: Values of `--bandits_type`.
      num_actions: Actions of the task.
      reward_width: Between the smallest and the largest reward: temperatures and gaps are in its units.

    Raises:
      UsageError: If a strategy does not go with the flags.
    """
    found = {}
    for name in strategies:
        settings = studies.resolve(BINARY, (*base, f"--bandits_type={name}"))
        given = studies.parse(BINARY, base).given
        values = {}
        defaults = {rate: settings[rate] for rate in RATES}
        is_ours = RATES[0] not in given and not settings.preset
        if settings.reward_columns and is_ours and settings.server_optimizer != "sgd":
            # Steps of these optimizers have a length of their own, and the rewards' scale is anyone's.
            defaults[RATES[0]] *= reward_width
        for rate, default in defaults.items():
            rates = [plan.as_text(default)] if rate in given else [_text(default * one) for one in _FACTORS]
            values[rate] = tuple(dict.fromkeys(rates))
        first = {rate: (values[rate][0] if rate in given else _text(default)) for rate, default in defaults.items()}
        for parameter, (default, tried) in _parameters(name, num_actions, reward_width).items():
            flag = f"bandits_{parameter}"
            # A preset's own value counts more than ours.
            default = default if settings[flag] == _declared(name)[parameter].default else settings[flag]
            values[flag], first[flag] = tuple(dict.fromkeys(map(_text, (*tried, default)))), _text(default)
        found[name] = Space(name, values, tuple(first.items()))
    return found


def _parameters(name: str, num_actions: int, width: float) -> dict[str, tuple[float, tuple[float, ...]]]:
    """Returns the default of each parameter of a strategy and the values that are tried, the default among them."""
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
    """Returns the runs of a strategy at a point.

    Args:
      base: Flags of all runs.
      name: `--bandits_type`.
      point: Flags that were searched.
      first_seed: The first seed.
      seeds: Number of consecutive seeds.
      *more: Further flags.
    """
    block = {"bandits_type": (name,)} | {flag: (value,) for flag, value in point}
    every = tuple(range(first_seed, first_seed + seeds))
    return plan.Grid(BINARY, (*base, *more), (block,), every).runs()


def searched(base: Sequence[str], space: Space, count: int, seeds: int) -> list[plan.Run]:
    """Returns the runs of a search, point by point."""
    return [run for point in space.points(count) for run in runs(base, space.name, point, TUNING_SEED, seeds)]


def point_of(run: plan.Run) -> Point:
    """Returns the flags that were searched, as a run has them."""
    return tuple((flag, plan.as_text(run.settings[flag])) for flag in run.numbers)


def label(name: str, point: Point = ()) -> str:
    """Returns what a strategy is called, with its parameter."""
    own = [f"{flag.removeprefix('bandits_')} {value}" for flag, value in point if flag not in RATES]
    return f"{NAMES[name]} ({', '.join(own)})" if own else NAMES[name]


def command(base: Sequence[str], name: str, point: Point, *more: str) -> str:
    """Returns a command line that runs a strategy at a point."""
    given = studies.parse(BINARY, base).given
    words = [f"--bandits_type={name}", *(f"--{flag}={value}" for flag, value in point if flag not in given), *more]
    return cli.command_line(BINARY, [*base, *words])


def in_one_world(base: Sequence[str]) -> tuple[str, ...]:
    """Returns flags of all runs with what they leave, of a world, to defaults that follow from rounds or deployments.

    So runs that end early, or deploy more often, meet the same rewards at the same time.
    """
    settings = studies.resolve(BINARY, (*base, f"--bandits_type={GREEDY}"))
    given = studies.parse(BINARY, base).given
    left = [name for name in world_flags.OF_LENGTH if name not in given and settings[name] is not None]
    return (*base, *(f"--{name}={plan.as_text(settings[name])}" for name in left))


def check(base: Sequence[str]) -> list[str]:
    """Returns the strategies that go with the flags of all runs; without the ceiling, where a flag is a bandit's alone.

    Raises:
      UsageError: If even greedy does not.
    """
    for name in STRATEGIES:
        studies.resolve(BINARY, (*base, f"--bandits_type={name}"))
    found = [*STRATEGIES, CHANCE]
    try:
        studies.resolve(BINARY, (*base, f"--bandits_type={CEILING}"))
    except UsageError:
        return found
    return [*found, CEILING]
