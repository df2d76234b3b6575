"""Results of a recommendation by strategy and seed, and the verdict that follows from them."""

import contextlib
import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from bandits import metrics
from bandits.advice import plan as planning
from bandits.advice.plan import FULL_FEEDBACK, GREEDY, UNIFORM
from bandits.plans import sweep as outcomes
from bandits.plans.sweep import Outcome
from bandits.results import configuration, former, runs
from bandits.results.baselines import BaselineComparison
from bandits.results.comparison import Comparison
from bandits.results.former import Landmark
from data.errors import UsageError
from optimization.study import intervals
from optimization.study.metrics import Metric

REWARD = metrics.AVERAGE_REWARD
PLANNED, OFTEN, NO_NOISE = "as planned", "more often", "no noise"

BySeed = dict[int, float]


@dataclasses.dataclass
class StrategyResults:
    """Results of a strategy at the best point of its search.

    Attributes:
      name: `--bandits_type`.
      point: Searched flags.
      reward: Average reward of all rounds, by seed; NaN for a seed that diverged.
      recent: Reward of the last tenth of the rounds, likewise.
      model: Held-out metric of the trained model's greedy policy, likewise; seeds without an evaluation after the
        planned rounds are missing.
      worst_tenth: Mean reward of the worst tenth of clients under that policy, likewise.
      clip_norms: Clip norm of the last round, likewise.
      decisions: Decisions of a whole run, by seed.
      ranges: Smallest and largest possible value of each of these attributes.
      notes: Remarks on the search, in words.
    """

    name: str
    point: planning.Point
    reward: BySeed = dataclasses.field(default_factory=dict)
    recent: BySeed = dataclasses.field(default_factory=dict)
    model: BySeed = dataclasses.field(default_factory=dict)
    worst_tenth: BySeed = dataclasses.field(default_factory=dict)
    clip_norms: BySeed = dataclasses.field(default_factory=dict)
    decisions: BySeed = dataclasses.field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def label(self) -> str:
        """Name, with the strategy's parameter."""
        return planning.label(self.name, self.point)

    @property
    def diverged(self) -> list[int]:
        """Seeds that diverged."""
        return [seed for seed, value in self.reward.items() if math.isnan(value)]

    def mean(self, attribute: str = "reward") -> intervals.Interval:
        """Mean and interval of an attribute over seeds, without those that diverged."""
        values = [value for value in getattr(self, attribute).values() if math.isfinite(value)]
        return intervals.of_mean(values).within(*self.ranges.get(attribute, configuration.UNBOUNDED))

    def read(self, runs_of_seeds: Sequence[Outcome], folder: pathlib.Path, measured: Metric) -> None:
        """Adds the results of runs.

        Args:
          runs_of_seeds: Outcomes of the runs; failed ones are left out.
          folder: Folder of the runs.
          measured: Held-out metric of a model.
        """
        for outcome in runs_of_seeds:
            if outcome.status == outcomes.FAILED:
                continue
            run, seed = runs.read(folder / outcome.run.name), outcome.run.seed
            table = run.metrics[run.metrics["round_num"] <= outcome.run.rounds]
            columns = {"reward": REWARD, "recent": metrics.ROUND_REWARD}
            columns |= {"model": measured, "worst_tenth": metrics.WORST_TENTH}
            self.ranges = {name: configuration.range_of([run], column) for name, column in columns.items()}
            recent = table[metrics.ROUND_REWARD].iloc[-runs.trailing_window(len(table)) :].mean()
            last = table.iloc[-1]
            values = {name: last.get(column) for name, column in columns.items()}
            values |= {"reward": outcome.value, "recent": recent, "clip_norms": last.get(metrics.CLIP_NORM)}
            values["decisions"] = table[metrics.EXAMPLES].sum() if metrics.EXAMPLES in table else None
            for name, value in values.items():
                if outcome.status == outcomes.DIVERGED:
                    getattr(self, name)[seed] = math.nan
                elif name == "reward" or (value is not None and math.isfinite(value)):
                    getattr(self, name)[seed] = float(value)


Results = Mapping[str, StrategyResults]


def recorded_baselines(folder: pathlib.Path) -> tuple[Landmark | None, Landmark | None]:
    """Rewards of the uniform policy and of the best fixed action, as recorded by the runs below a folder.

    Each is None if it is unknown, and by seed if each seed has its own data.
    """
    by_seed: dict[str, runs.Run] = {}
    for path in sorted(folder.glob("*/seed_*")):
        with contextlib.suppress(UsageError):  # Of a failed run.
            if path.name not in by_seed:
                by_seed[path.name] = runs.read(path)
    read = list(by_seed.values())
    uniform = former.recorded(read, REWARD, "chance")
    return uniform, former.recorded(read, REWARD, "constant")


def search(points: Sequence[outcomes.Point], space: planning.Space) -> list[dict[str, Any]]:
    """Settings of a search, the best first, with their values by seed."""
    return [
        {
            "flags": dict(space.point_of(point[0].run)),
            "rounds": outcomes.rounds_of(point),
            "values": {outcome.run.seed: outcome.value for outcome in point},
            "status": ", ".join(dict.fromkeys(outcome.status for outcome in point)),
        }
        for point in points
    ]


def compared(results: Results, reference: str, attribute: str = "reward") -> dict[str, Comparison]:
    """Comparisons with a reference, paired by seed; empty without the reference.

    Args:
      results: Results by name; those without a value are left out.
      reference: Name of the reference.
      attribute: Compared attribute of the results.
    """
    values = {name: by_seed for name, one in results.items() if (by_seed := getattr(one, attribute))}
    if reference not in values or len(values) < 2:
        return {}
    least, largest = results[reference].ranges.get(attribute, configuration.UNBOUNDED)
    return {name: one.within(largest - least) for name, one in former.compare(values, reference).items()}


def against_planned(planned: Results, often: Results) -> dict[str, dict[str, Comparison]]:
    """Each strategy with more frequent deployment, named `OFTEN`, against itself as planned."""
    return {
        name: compared({PLANNED: planned[name], OFTEN: one}, PLANNED) for name, one in often.items() if name in planned
    }


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Verdict on exploration, and the recommended strategy.

    Attributes:
      against_greedy: Each strategy that explores, compared with greedy.
      against_baselines: Each strategy, compared with the baselines.
      best: The recommended strategy, if it explores; else the one that explores with the highest mean. None if all
        diverged, or none was run.
      recommended: The strategy to deploy, among those significantly above the uniform policy: the best of those
        significantly above greedy. If there is none: greedy; or the best other strategy, if it is significantly above
        the best fixed action and greedy is not, or if greedy is not significantly above the uniform policy. None if no
        strategy qualifies.
      pays: Whether a strategy that explores is significantly above greedy and the uniform policy.
      costs: Whether all tested strategies that explore are significantly below greedy.
      all_diverged: Whether every strategy diverged or failed.
    """

    against_greedy: Mapping[str, Comparison] = dataclasses.field(default_factory=dict)
    against_baselines: Mapping[str, BaselineComparison] = dataclasses.field(default_factory=dict)
    best: str | None = None
    recommended: str | None = None
    pays: bool = False
    costs: bool = False
    all_diverged: bool = False


def verdict(results: Results, uniform: Any, best_fixed: Any) -> Verdict:
    """Verdict on the strategies of the comparison.

    Args:
      results: Results by `--bandits_type`.
      uniform: Reward of the uniform policy; None if it is unknown.
      best_fixed: Reward of the best fixed action; likewise.
    """
    judged = {name: one for name, one in results.items() if name not in (UNIFORM, FULL_FEEDBACK) and one.reward}
    against = compared(judged, GREEDY)
    full_feedback = results[FULL_FEEDBACK].reward or None if FULL_FEEDBACK in results else None
    values = {name: one.reward for name, one in judged.items()}
    against_baselines = former.compare_with_baselines(
        values, uniform=uniform, fixed=best_fixed, full_feedback=full_feedback
    )
    complete = [name for name, one in judged.items() if not one.diverged]
    greedy = [name for name in complete if name == GREEDY]
    exploring = [name for name in complete if name != GREEDY]
    leads = {name: (True, judged[name].mean().mean) for name in exploring}
    if greedy and against:  # Some runs may have failed: only shared seeds count.
        leads = {name: (against[name].is_judged, against[name].difference) for name in exploring}
    winners = [name for name in exploring if name in against and against[name].wins and beats(against_baselines, name)]
    tiers = [winners]
    if not winners:
        equal = [name for name in exploring if name not in against or not against[name].loses]
        tiers = [[name for name in tier if _beats_best_fixed(against_baselines, name)] for tier in (greedy, equal)]
        tiers += [greedy, equal]
    trusted = ([name for name in tier if beats(against_baselines, name)] for tier in tiers)
    first = next(filter(None, trusted), [])
    recommended = max(first, key=lambda name: leads.get(name, (False, 0.0))) if first else None
    others = winners or exploring
    best = recommended if recommended in exploring else max(others, key=leads.__getitem__) if others else None
    tested = [one for one in against.values() if one.is_judged]
    costs = bool(tested) and all(one.loses for one in tested)
    return Verdict(against, against_baselines, best, recommended, bool(winners), costs, all_diverged=not complete)


def beats(against_baselines: Mapping[str, BaselineComparison], name: str) -> bool:
    """Whether a strategy is significantly above the uniform policy, or that is unknown."""
    return name in against_baselines and against_baselines[name].beats_uniform is not False


def _beats_best_fixed(against_baselines: Mapping[str, BaselineComparison], name: str) -> bool:
    """Whether a strategy is significantly above the best fixed action, or that is unknown."""
    fixed = against_baselines[name].fixed if name in against_baselines else None
    return fixed is None or not fixed.is_judged or fixed.wins


@dataclasses.dataclass
class Findings:
    """Results of all stages.

    Attributes:
      measured: Metric of a model on held-out data.
      searches: Results of each strategy's search.
      compared: Results of each strategy in the comparison.
      learned: Held-out reward of the model of each strategy's best setting in its search, by name.
      searched: Average reward of that setting, by name.
      uniform: Reward of the uniform policy, a `Landmark`; None if it is unknown.
      best_fixed: Reward of the best fixed action; likewise.
      parameters: Number of parameters of a model.
      verdict: Verdict of the comparison.
      confirmed: Results of the best strategy and greedy on independent seeds.
      often: Results of the best strategy and greedy with more frequent deployment.
      noise: For no noise and each epsilon: the target, noise multipliers, guarantee, clip norm and `results`.
      noisy: The strategy with noise; empty for none.
      no_noise: Why no noise was run, in words; empty if it was.
      federation: Results of one strategy by configuration, `federating.FEDERATED` and `ALONE`.
      by_client: What `federating.helped` gives of them; empty without.
      no_federation: Why no client trained alone, in words; empty if it did.
    """

    measured: Metric
    searches: dict[str, Any] = dataclasses.field(default_factory=dict)
    learned: dict[str, float] = dataclasses.field(default_factory=dict)
    searched: dict[str, float] = dataclasses.field(default_factory=dict)
    compared: dict[str, StrategyResults] = dataclasses.field(default_factory=dict)
    uniform: Any = None
    best_fixed: Any = None
    parameters: int = 0
    verdict: Verdict = Verdict()
    confirmed: dict[str, StrategyResults] = dataclasses.field(default_factory=dict)
    often: dict[str, StrategyResults] = dataclasses.field(default_factory=dict)
    noise: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    noisy: str = ""
    no_noise: str = ""
    federation: dict[str, StrategyResults] = dataclasses.field(default_factory=dict)
    by_client: dict[str, Any] = dataclasses.field(default_factory=dict)
    no_federation: str = ""

    @property
    def by_noise(self) -> dict[str, StrategyResults]:
        """Results by `noise_name`, without those that were not run."""
        return {noise_name(one): one["results"] for one in self.noise if one["results"].reward}


def noise_name(entry: Mapping[str, Any]) -> str:
    """Name of a configuration with noise, such as `epsilon 3`."""
    return f"epsilon {entry['target_epsilon']:g}" if "target_epsilon" in entry else NO_NOISE


# Computed properties in `advice.json`, and fields with another name there.
_COMPUTED: Mapping[type, list[str]] = {
    Comparison: ["significance", "detectable", "seeds_needed"],
    StrategyResults: ["label", "diverged"],
}
_IN_JSON = {"label": "name", "recent": "recent_reward"}


def plain(value: Any) -> Any:
    """A value for JSON, with null for numbers that are not finite.

    A comparison also has its minimum detectable difference and the seeds required for the observed one; results have
    the mean reward and the flags of their point.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)] + _COMPUTED.get(type(value), [])
        content = {_IN_JSON.get(name, name): getattr(value, name) for name in names}
        if isinstance(value, StrategyResults):
            content |= {"flags": dict(value.point), "reward_mean": value.mean()}
        return plain(content)
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
