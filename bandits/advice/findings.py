"""What the runs of a recommendation gave: numbers by strategy and seed, and what follows from them."""

import contextlib
import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from bandits import metrics
from bandits.advice import strategies
from bandits.advice.plan import CEILING, CHANCE, GREEDY
from bandits.plans import outcomes, plan
from bandits.plans.outcomes import Outcome
from bandits.results import baselines, comparison, runs
from bandits.results.baselines import Standing
from bandits.results.comparison import Comparison, Landmark
from data.errors import UsageError
from optimization.study import intervals
from optimization.study.metrics import Metric

REWARD = metrics.AVERAGE_REWARD
PLANNED, OFTEN, NO_NOISE = "as planned", "more often", "no noise"

BySeed = dict[int, float]


@dataclasses.dataclass
class StrategyResults:
    """A strategy at the point that its search chose, and what its runs gave.

    Attributes:
      name: Its `--bandits_type`.
      point: Flags that were searched.
      reward: Average reward of all rounds, by seed; not a number of a seed that diverged.
      recent: Reward of the last tenth of the rounds, likewise.
      model: What the trained model's greedy policy reaches on held-out data, likewise; without seeds of which it was
        not measured, as a run went on beyond the rounds that count.
      worst_tenth: Mean reward of the worst tenth of clients under that policy, likewise.
      jain_index: Jain's index of the clients' rewards, likewise.
      clip_norms: Clip norm of the last round, likewise.
      decisions: Decisions of a whole run, by seed.
      notes: What is to say of it, in words.
    """

    name: str
    point: strategies.Point
    reward: BySeed = dataclasses.field(default_factory=dict)
    recent: BySeed = dataclasses.field(default_factory=dict)
    model: BySeed = dataclasses.field(default_factory=dict)
    worst_tenth: BySeed = dataclasses.field(default_factory=dict)
    jain_index: BySeed = dataclasses.field(default_factory=dict)
    clip_norms: BySeed = dataclasses.field(default_factory=dict)
    decisions: BySeed = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def label(self) -> str:
        """What it is called, with its parameter."""
        return strategies.label(self.name, self.point)

    @property
    def flags(self) -> dict[str, str]:
        """Flags that were searched."""
        return dict(self.point)

    @property
    def reward_mean(self) -> intervals.Interval:
        """Mean reward, with its interval."""
        return self.mean()

    @property
    def diverged(self) -> list[int]:
        """Seeds that diverged."""
        return [seed for seed, value in self.reward.items() if math.isnan(value)]

    def mean(self, what: str = "reward") -> intervals.Interval:
        """Returns mean and interval of one of the numbers over seeds, without those that diverged."""
        return intervals.of_mean([value for value in getattr(self, what).values() if math.isfinite(value)])

    def read(self, some: Sequence[Outcome], folder: pathlib.Path, measured: Metric) -> None:
        """Adds what runs gave.

        Args:
          some: What became of them; those that failed are left out.
          folder: Folder of the runs.
          measured: What a model is measured by.
        """
        for outcome in some:
            if outcome.status == outcomes.FAILED:
                continue
            table, seed = runs.read_metrics(folder / outcome.run.name, outcome.run.rounds), outcome.run.seed
            recent = table[metrics.ROUND_REWARD].iloc[-runs.trailing_window(len(table)) :].mean()
            last = table.iloc[-1]
            values = {
                "reward": outcome.value,
                "recent": recent,
                "model": last.get(measured),
                "worst_tenth": last.get(metrics.WORST_TENTH),
                "jain_index": last.get(metrics.JAIN_INDEX),
                "clip_norms": last.get(metrics.CLIP_NORM),
                "decisions": table[metrics.EXAMPLES].sum() if metrics.EXAMPLES in table else None,
            }
            for name, value in values.items():
                if outcome.status == outcomes.DIVERGED:
                    getattr(self, name)[seed] = math.nan
                elif name == "reward" or (value is not None and math.isfinite(value)):
                    getattr(self, name)[seed] = float(value)


Results = Mapping[str, StrategyResults]


def bounds(folder: pathlib.Path) -> tuple[Landmark | None, Landmark | None]:
    """Returns the rewards of the uniform policy and of the best fixed action, as the runs below a folder record it.

    Each is None if it is not known, and by seed where each seed has data of its own.
    """
    found: dict[str, runs.Run] = {}
    for path in sorted(folder.glob("*/seed_*")):
        with contextlib.suppress(UsageError):  # Of one that failed.
            if path.name not in found:
                found[path.name] = runs.read(path)
    some = list(found.values())
    uniform = baselines.recorded(some, REWARD, baselines.RECORDED_UNIFORM)
    return uniform, baselines.recorded(some, REWARD, baselines.RECORDED_FIXED)


def search(points: Sequence[outcomes.Point], most: int, folder: pathlib.Path, metric: Metric) -> dict[str, Any]:
    """Returns what a search found: its points, the best first, and what the best of so many are expected to give.

    The latter is told after the first rung, the one that all points have played.

    Args:
      points: As `Session.halve` returns them.
      most: Points of the smallest search: up to so many are drawn.
      folder: Folder of the search's runs.
      metric: What ranks them.
    """
    rows, means = [], []
    rounds = min((point.rounds for point in points if point.rounds), default=0)
    for point in points:
        rows.append(
            {
                "flags": dict(strategies.point_of(point.outcomes[0].run)),
                "rounds": point.rounds,
                "values": {one.run.seed: one.value for one in point.outcomes},
                "status": ", ".join(dict.fromkeys(one.status for one in point.outcomes)),
            }
        )
        means.append(intervals.of_mean([_after(one, rounds, folder, metric) for one in point.outcomes]).mean)
    best = {drawn: comparison.expected_best(means, drawn) for drawn in range(1, min(most, len(points)) + 1)}
    return {"points": rows, "expected_best": {"rounds": rounds, "of_points": best}}


def _after(outcome: Outcome, rounds: int, folder: pathlib.Path, metric: Metric) -> float:
    """Returns a run's metric after so many of its rounds; not a number if it had diverged, or failed."""
    if outcome.rounds <= rounds:
        return outcome.value
    path = folder / outcome.run.name
    return math.nan if outcomes.has_diverged(path, rounds) else outcomes.read_value(path, metric, rounds)


def edges(space: strategies.Space, point: strategies.Point) -> list[str]:
    """Returns the flags of which a point has the least or largest value of those that searches draw from."""
    return [flag for flag, value in point if plan.is_edge([*map(float, space.values[flag])], float(value))]


def compared(some: Results, reference: str, what: str = "reward") -> dict[str, Comparison]:
    """Returns strategies against a reference, paired by seed; empty without the reference.

    Args:
      some: The strategies; those without a number are left out.
      reference: Name of the one that the others are compared with.
      what: Which of the numbers.
    """
    values = {name: found for name, one in some.items() if (found := getattr(one, what))}
    return comparison.compare(values, reference) if reference in values and len(values) > 1 else {}


def against_planned(planned: Results, often: Results) -> dict[str, dict[str, Comparison]]:
    """Returns each strategy that is deployed more often, named `OFTEN`, against itself as planned."""
    return {
        name: compared({PLANNED: planned[name], OFTEN: one}, PLANNED) for name, one in often.items() if name in planned
    }


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Which strategy, and whether exploration pays.

    Attributes:
      against_greedy: Each strategy that explores against greedy.
      stands: Where each strategy stands.
      best: The recommended strategy, if it explores; else the one that explores with the highest mean, None where all
        diverged or none was played.
      recommended: What to deploy, of the strategies that are significantly better than the uniform policy: the best of
        those that are significantly better than greedy. If there is none: greedy, or the best of the others, if it
        alone is significantly better than the best fixed action or the uniform policy. None if no strategy is.
      pays: Whether exploration is significantly better than greedy and than the uniform policy.
      costs: Whether all of exploration that was judged is told below it.
      all_diverged: Whether nothing was judged, as every strategy diverged or failed.
    """

    against_greedy: Mapping[str, Comparison] = dataclasses.field(default_factory=dict)
    stands: Mapping[str, Standing] = dataclasses.field(default_factory=dict)
    best: str | None = None
    recommended: str | None = None
    pays: bool = False
    costs: bool = False
    all_diverged: bool = False


def verdict(found: Results, chance: Any, constant: Any) -> Verdict:
    """Judges the strategies of the comparison.

    Args:
      found: The results by `--bandits_type`.
      chance: What uniformly random actions earn; None if it is not known.
      constant: Reward of the best fixed action; likewise.
    """
    judged = {name: one for name, one in found.items() if name not in (CHANCE, CEILING) and one.reward}
    against = compared(judged, GREEDY)
    ceiling = found[CEILING].reward or None if CEILING in found else None
    values = {name: one.reward for name, one in judged.items()}
    stands = baselines.compare(values, uniform=chance, fixed=constant, full_feedback=ceiling)
    sound = [name for name, one in judged.items() if not one.diverged]
    greedy, exploring = [name for name in sound if name == GREEDY], [name for name in sound if name != GREEDY]
    leads = {name: (True, judged[name].mean().mean) for name in exploring}
    if greedy and against:  # Of seeds that each shares with greedy, where some run failed.
        leads = {name: (against[name].is_judged, against[name].difference) for name in exploring}
    winners = [name for name in exploring if name in against and against[name].wins and beats(stands, name)]
    tiers = [winners]
    if not winners:
        equal = [name for name in exploring if name not in against or not against[name].loses]
        tiers = [[name for name in some if _beats_constant(stands, name)] for some in (greedy, equal)]
        tiers += [greedy, equal]
    trusted = ([name for name in some if beats(stands, name)] for some in tiers)
    first = next(filter(None, trusted), [])
    recommended = max(first, key=lambda name: leads.get(name, (False, 0.0))) if first else None
    others = winners or exploring
    best = recommended if recommended in exploring else max(others, key=leads.__getitem__) if others else None
    tested = [one for one in against.values() if one.is_judged]
    costs = bool(tested) and all(one.loses for one in tested)
    return Verdict(against, stands, best, recommended, bool(winners), costs, all_diverged=not sound)


def beats(stands: Mapping[str, Standing], name: str) -> bool:
    """Returns whether a strategy is significantly better than the uniform policy, or that is not known."""
    return name in stands and stands[name].beats_uniform is not False


def _beats_constant(stands: Mapping[str, Standing], name: str) -> bool:
    """Returns whether a strategy is significantly better than the best fixed action, or that is not known."""
    one = stands[name].fixed if name in stands else None
    return one is None or not one.is_judged or one.wins


@dataclasses.dataclass
class Findings:
    """What the stages found, one after the other.

    Attributes:
      measured: What a model is measured by, on held-out data.
      searches: By strategy, what its search found.
      compared: By strategy, its runs in the comparison.
      chance: What uniformly random actions earn, a `Landmark`; None if it is not known.
      constant: Reward of the best fixed action; likewise.
      verdict: What the comparison tells.
      confirmed: The best strategy and greedy on seeds that did not pick it.
      often: By strategy, its runs when deployed more often.
      often_confirmed: Of these the best and greedy, on the seeds that did not pick it.
      noise: By noise, from none on: what was asked for and guaranteed, the clip norm, and the results as `arm`.
      noisy: The strategy that had the noise; empty for none.
      no_noise: Why there is none, in words; empty if there is.
    """

    measured: Metric
    searches: dict[str, Any] = dataclasses.field(default_factory=dict)
    compared: dict[str, StrategyResults] = dataclasses.field(default_factory=dict)
    chance: Any = None
    constant: Any = None
    verdict: Verdict = Verdict()
    confirmed: dict[str, StrategyResults] = dataclasses.field(default_factory=dict)
    often: dict[str, StrategyResults] = dataclasses.field(default_factory=dict)
    often_confirmed: dict[str, StrategyResults] = dataclasses.field(default_factory=dict)
    noise: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    noisy: str = ""
    no_noise: str = ""

    @property
    def by_noise(self) -> dict[str, StrategyResults]:
        """Results by the words for their noise, such as `epsilon 3`; without those that were not run."""
        return {noise_name(one): one["arm"] for one in self.noise if one["arm"].reward}


def noise_name(one: Mapping[str, Any]) -> str:
    """Returns what a configuration with noise is called: its epsilon."""
    return f"epsilon {one['target_epsilon']:g}" if "target_epsilon" in one else NO_NOISE


# What `advice.json` has beside fields, and fields that have another name there.
_COMPUTED: Mapping[type, list[str]] = {
    Comparison: ["word", "detectable", "seeds_needed"],
    StrategyResults: ["label", "flags", "reward_mean", "diverged"],
}
_IN_JSON = {
    "label": "name",
    "recent": "recent_reward",
    "uniform": "chance",
    "fixed": "constant",
    "full_feedback": "ceiling",
    "score": "share",
}


def plain(value: Any) -> Any:
    """Returns a value as JSON takes it: what is not a finite number is null.

    A comparison also has its minimum detectable difference, and the seeds required for the observed one.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)] + _COMPUTED.get(type(value), [])
        value = {_IN_JSON.get(name, name): getattr(value, name) for name in names}
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
