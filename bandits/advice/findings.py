"""Results of a recommendation as configurations, and the resulting verdict."""

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from bandits import metrics
from bandits.advice import plan as planning
from bandits.advice.plan import GREEDY, STRATEGIES
from bandits.plans import sweep
from bandits.plans.sweep import Outcome
from bandits.results import baselines, comparison, configuration, runs
from bandits.results.baselines import Baselines
from bandits.results.comparison import Comparison
from bandits.results.configuration import Baseline, Configuration
from optimization.study.intervals import Interval

REWARD, DECISIONS = metrics.AVERAGE_REWARD, "decisions"
MEASURED = (REWARD, metrics.ROUND_REWARD, metrics.HELD_OUT_REWARD, metrics.WORST_TENTH, metrics.CLIP_NORM)
NO_NOISE = "no noise"
UNIFORM_POLICY, BEST_FIXED = baselines.UNIFORM, baselines.FIXED

Results = Mapping[str, Configuration]  # Keys are names: usually `--bandits_type` with the searched flags.


def with_point(name: str, point: planning.Point) -> Configuration:
    """A strategy at a point of its search space, without runs so far."""
    return Configuration(name, pd.DataFrame(), point)


def with_runs(name: str, point: planning.Point, outcomes: Iterable[Outcome], folder: pathlib.Path) -> Configuration:
    """A configuration with the values of its runs after the planned rounds, even if they were continued later.

    Args:
      name: Name of the configuration.
      point: Searched flags of the configuration.
      outcomes: Outcomes of the runs; failed runs are omitted.
      folder: Folder of the runs.
    """
    read, diverged = [], set()
    for outcome in outcomes:
        if outcome.status != sweep.FAILED:
            read.append(runs.read(folder / outcome.run.name, outcome.run.rounds))
            if math.isnan(outcome.value):
                diverged.add(outcome.run.seed)
    result = configuration.of_runs(name, read, MEASURED, point)
    values = result.values.assign(**{DECISIONS: [float(run.metrics[metrics.EXAMPLES].sum()) for run in read]})
    return dataclasses.replace(result, values=values, diverged=result.diverged | diverged)


def recorded_baselines(results: Results) -> Baselines:
    """The uniform policy and the best fixed action, if the runs recorded their rewards."""
    return baselines.recorded([run for result in results.values() for run in result.runs], REWARD)


def compared(results: Results, reference: str) -> dict[str, Comparison]:
    """Comparisons of average rewards with a reference, paired by seed; empty without the reference.

    Args:
      results: Results by name; those without runs are omitted.
      reference: Name of the reference.
    """
    finished = {name: result for name, result in results.items() if len(result.values)}
    if reference not in finished:
        return {}
    pairs = [(result, finished[reference]) for name, result in finished.items() if name != reference]
    return {compared.configuration: compared for compared in comparison.compare(pairs, REWARD)}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Verdict on exploration, and the recommended strategy.

    Attributes:
      against: Comparisons by reference and by strategy. The references are greedy, the uniform policy and the best
        fixed action. All comparisons belong to one family of tests.
      best: The recommended strategy if it explores, and otherwise the exploring strategy with the largest gain over
        greedy. None if all of them diverged or none was run.
      recommended: The strategy to deploy. Only strategies that are significantly better than the uniform policy
        qualify. The first choice is the best of those that are also significantly better than greedy. If there is none,
        the choice is greedy, with two exceptions that lead to the best other strategy: if that strategy is
        significantly better than the best fixed action and greedy is not, or if greedy is not significantly better than
        the uniform policy. None if no strategy qualifies.
      pays: Whether a strategy that explores is significantly better than greedy and the uniform policy.
      costs: Whether all tested strategies that explore are significantly worse than greedy.
      all_diverged: Whether every strategy diverged or failed.
    """

    against: Mapping[str, Mapping[str, Comparison]] = dataclasses.field(default_factory=dict)
    best: str | None = None
    recommended: str | None = None
    pays: bool = False
    costs: bool = False
    all_diverged: bool = False

    def than(self, name: str | None, reference: str) -> Comparison | None:
        """A strategy compared with a reference; None if there is no such comparison."""
        return self.against.get(reference, {}).get(name or "")

    def beats(self, name: str, baseline: str) -> bool:
        """Whether a strategy is significantly better than a baseline, or was not compared with it."""
        comparison = self.than(name, baseline)
        return comparison is None or comparison.wins

    @property
    def tested(self) -> list[Comparison]:
        """Comparisons of exploring strategies with greedy that were tested."""
        return [comparison for comparison in self.against.get(GREEDY, {}).values() if comparison.is_judged]


def verdict(results: Results, known: Baselines) -> Verdict:
    """Verdict on the strategies of the comparison.

    Args:
      results: Results by `--bandits_type`.
      known: The uniform policy and the best fixed action, if they are known.
    """
    judged = {name: results[name] for name in STRATEGIES if name in results and len(results[name].values)}
    references: list[comparison.Reference] = [judged[GREEDY]] if GREEDY in judged else []
    references += [dataclasses.replace(known[kind], name=str(kind)) for kind in Baseline if kind in known]
    pairs = [(result, reference) for reference in references for result in judged.values() if result is not reference]
    against: dict[str, dict[str, Comparison]] = {}
    for test in comparison.compare(pairs, REWARD):
        against.setdefault(test.reference, {})[test.configuration] = test
    complete = [name for name, result in judged.items() if not result.diverged]
    greedy = [name for name in complete if name == GREEDY]
    exploring = [name for name in complete if name != GREEDY]
    tests = Verdict(against, all_diverged=not complete)

    def lead(name: str) -> tuple[bool, float]:
        than = tests.than(name, GREEDY)
        if greedy and than:  # Some runs may have failed, so only shared seeds count.
            return than.is_judged, than.difference
        return True, judged[name].estimate(REWARD).mean

    than_greedy = {name: tests.than(name, GREEDY) for name in exploring}
    winners = [name for name, than in than_greedy.items() if than and than.wins and tests.beats(name, UNIFORM_POLICY)]
    tiers = [winners]
    if not winners:
        equal = [name for name, than in than_greedy.items() if not (than and than.loses)]
        tiers = [[name for name in tier if tests.beats(name, BEST_FIXED)] for tier in (greedy, equal)]
        tiers += [greedy, equal]
    trusted = ([name for name in tier if tests.beats(name, UNIFORM_POLICY)] for tier in tiers)
    recommended = max(next(filter(None, trusted), []), key=lead, default="") or None
    best = recommended if recommended in exploring else max(winners or exploring, key=lead, default="") or None
    costs = bool(tests.tested) and all(test.loses for test in tests.tested)
    return dataclasses.replace(tests, best=best, recommended=recommended, pays=bool(winners), costs=costs)


@dataclasses.dataclass
class Findings:
    """Results of all stages.

    Attributes:
      searches: Settings from each strategy's search, best first, with their values by seed.
      searched: Results of each strategy's best setting in its search.
      configurations: Results of each strategy in the comparison.
      baselines: The uniform policy and the best fixed action, if they are known.
      verdict: Verdict of the comparison.
      confirmed: Results of the best strategy and greedy on independent seeds.
      noise: Noise multipliers and guarantee of each epsilon, and of runs without noise, by name.
      with_noise: Results of the recommended strategy at each noise level that was run.
      clip_norm: Clip norm of the runs with noise.
      why_no_noise: The reason in words why noise cannot be added or would show nothing; empty if there is none.
      federation: Results of one strategy by kind, `federating.FEDERATED` or `ALONE`.
      by_client: Fractions of clients that federated training helps and hurts, from `federating.helped`; empty if
        unknown.
      why_no_federation: The reason in words why no client can train alone; empty if clients can.
    """

    searches: dict[str, Any] = dataclasses.field(default_factory=dict)
    searched: Results = dataclasses.field(default_factory=dict)
    configurations: Results = dataclasses.field(default_factory=dict)
    baselines: dict[Baseline, comparison.Reference] = dataclasses.field(default_factory=dict)
    verdict: Verdict = Verdict()
    confirmed: Results = dataclasses.field(default_factory=dict)
    noise: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    with_noise: Results = dataclasses.field(default_factory=dict)
    clip_norm: float = math.nan
    why_no_noise: str = ""
    federation: Results = dataclasses.field(default_factory=dict)
    by_client: dict[str, Any] = dataclasses.field(default_factory=dict)
    why_no_federation: str = ""


def plain(value: Any) -> Any:
    """Converts a value for JSON, with null for numbers that are not finite.

    A comparison also includes its minimum detectable difference and the seeds required for the observed difference.
    A configuration includes its flags, diverged seeds, values by metric and seed, and mean reward with its interval.
    """
    if isinstance(value, Configuration):
        content = {"flags": value.flags, "diverged": sorted(value.diverged), "mean_reward": value.estimate(REWARD)}
        return plain(content | {"values": {metric: value.by_seed(metric) for metric in value.values}})
    if isinstance(value, Comparison):
        return plain(vars(value) | {name: getattr(value, name) for name in ("detectable", "seeds_needed")})
    if isinstance(value, Interval):
        return plain(value._asdict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
