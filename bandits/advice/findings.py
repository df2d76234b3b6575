"""Results of a recommendation by strategy and seed, and the verdict that follows from them."""

import contextlib
import dataclasses
import math
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits import metrics
from bandits.advice import plan as planning
from bandits.advice.plan import FULL_FEEDBACK, GREEDY, UNIFORM
from bandits.plans import sweep
from bandits.plans.sweep import Outcome
from bandits.results import baselines, comparison, runs
from bandits.results.baselines import Baselines
from bandits.results.comparison import Comparison
from bandits.results.configuration import Baseline, Configuration
from data.errors import UsageError
from optimization.study.metrics import Metric

REWARD, DECISIONS = metrics.AVERAGE_REWARD, "decisions"
PLANNED, OFTEN, NO_NOISE = "as planned", "more often", "no noise"
UNIFORM_POLICY, BEST_FIXED = baselines.UNIFORM, baselines.FIXED

Results = Mapping[str, Configuration]  # Named by `--bandits_type`, with the searched flags.


def planned(name: str, point: planning.Point) -> Configuration:
    """A strategy at a point, without runs yet."""
    import pandas as pd

    return Configuration(name, pd.DataFrame(), dict(point))


def point(one: Configuration) -> planning.Point:
    """Searched flags of a strategy."""
    return tuple(one.flags.items())


def label(one: Configuration) -> str:
    """Name of a strategy, with its parameter."""
    return planning.label(one.name, point(one))


def with_runs(one: Configuration, outcomes: Iterable[Outcome], folder: pathlib.Path, measured: Metric) -> Configuration:
    """A strategy with the values of its runs: all are NaN where a run diverged.

    Rewards are of all rounds, and of the last tenth; the model and the clip norm are those of the last round. A model
    that was not evaluated after the planned rounds is NaN.

    Args:
      one: The strategy.
      outcomes: Outcomes of its runs; failed ones are left out.
      folder: Folder of the runs.
      measured: Held-out metric of a model.
    """
    import pandas as pd

    rows, read = {}, []
    for outcome in outcomes:
        if outcome.status == sweep.FAILED:
            continue
        run = runs.read(folder / outcome.run.name)
        table = run.metrics[run.metrics["round_num"] <= outcome.run.rounds]
        row: dict[str, Any] = {
            name: table.iloc[-1].get(name) for name in (measured, metrics.WORST_TENTH, metrics.CLIP_NORM)
        }
        recent = runs.final_value(dataclasses.replace(run, metrics=table), metrics.ROUND_REWARD)
        row |= {REWARD: outcome.value, metrics.ROUND_REWARD: recent}
        row[DECISIONS] = table[metrics.EXAMPLES].sum() if metrics.EXAMPLES in table else None
        rows[outcome.run.seed] = dict.fromkeys(row) if outcome.status == sweep.DIVERGED else row
        read.append(run)
    values = pd.DataFrame.from_dict(rows, orient="index", dtype=float)
    diverged = frozenset(seed for seed, row in rows.items() if row[REWARD] is None or math.isnan(row[REWARD]))
    return dataclasses.replace(one, values=values, diverged=diverged, runs=tuple(read))


def recorded_baselines(folder: pathlib.Path) -> Baselines:
    """The uniform policy and the best fixed action, as far as the runs below a folder recorded their rewards."""
    by_seed: dict[str, runs.Run] = {}
    for path in sorted(folder.glob("*/seed_*")):
        with contextlib.suppress(UsageError):  # Of a failed run.
            if path.name not in by_seed:
                by_seed[path.name] = runs.read(path)
    return baselines.recorded([*by_seed.values()], REWARD)


def search(points: Sequence[sweep.Point], space: planning.Space) -> list[dict[str, Any]]:
    """Settings of a search, the best first, with their values by seed."""
    return [
        {
            "flags": dict(space.point_of(outcomes[0].run)),
            "rounds": sweep.rounds_of(outcomes),
            "values": {outcome.run.seed: outcome.value for outcome in outcomes},
            "status": ", ".join(dict.fromkeys(outcome.status for outcome in outcomes)),
        }
        for outcomes in points
    ]


def compared(results: Results, reference: str, metric: str = REWARD) -> dict[str, Comparison]:
    """Comparisons with a reference, paired by seed; empty without the reference.

    Args:
      results: Results by name; those without runs are left out.
      reference: Name of the reference.
      metric: Compared metric.
    """
    finished = {name: dataclasses.replace(one, name=name) for name, one in results.items() if len(one.values)}
    if reference not in finished:
        return {}
    pairs = [(one, finished[reference]) for name, one in finished.items() if name != reference]
    return {one.configuration: one for one in comparison.compare(pairs, metric)}


def against_planned(planned: Results, often: Results) -> dict[str, dict[str, Comparison]]:
    """Each strategy with more frequent deployment, named `OFTEN`, against itself as planned."""
    return {
        name: compared({PLANNED: planned[name], OFTEN: one}, PLANNED) for name, one in often.items() if name in planned
    }


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Verdict on exploration, and the recommended strategy.

    Attributes:
      against: Comparisons by reference and by strategy: with greedy, the uniform policy and the best fixed action. All
        are one family of tests.
      scores: Normalized score of each strategy, if the baselines are known and apart.
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

    against: Mapping[str, Mapping[str, Comparison]] = dataclasses.field(default_factory=dict)
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    best: str | None = None
    recommended: str | None = None
    pays: bool = False
    costs: bool = False
    all_diverged: bool = False

    def than(self, name: str | None, reference: str) -> Comparison | None:
        """A strategy compared with a reference; None if there is no such comparison."""
        return self.against.get(reference, {}).get(name or "")

    def beats(self, name: str, baseline: str) -> bool:
        """Whether a strategy is significantly above a baseline, or that is unknown."""
        compared = self.than(name, baseline)
        return compared is None or compared.wins


def verdict(results: Results, known: Baselines) -> Verdict:
    """Verdict on the strategies of the comparison.

    Args:
      results: Results by `--bandits_type`.
      known: The uniform policy and the best fixed action, if they are known.
    """
    finished = {name: one for name, one in results.items() if len(one.values)}
    judged = {name: one for name, one in finished.items() if name not in (UNIFORM, FULL_FEEDBACK)}
    pairs: list[tuple[Configuration, comparison.Reference]] = []
    if GREEDY in judged:
        pairs += [(one, judged[GREEDY]) for name, one in judged.items() if name != GREEDY]
    for baseline, full_feedback in ((Baseline.uniform_policy, ""), (Baseline.best_fixed_action, FULL_FEEDBACK)):
        if baseline in known:
            reference = dataclasses.replace(known[baseline], name=str(baseline))
            names = [*judged, *[full_feedback] * (full_feedback in finished)]
            pairs += [(finished[name], reference) for name in names]
    against: dict[str, dict[str, Comparison]] = {}
    for one in comparison.compare(pairs, REWARD):
        against.setdefault(one.reference, {})[one.configuration] = one
    complete = [name for name, one in judged.items() if not one.diverged]
    scores = {}
    if FULL_FEEDBACK in finished and Baseline.uniform_policy in known:
        scale = {**known, Baseline.full_feedback: finished[FULL_FEEDBACK]}
        with contextlib.suppress(ValueError):  # The baselines overlap.
            for name in complete:
                by_seed = baselines.normalized_scores(judged[name], scale, REWARD)
                scores[name] = statistics.fmean(by_seed.values())
    found = Verdict(against, scores, all_diverged=not complete)
    greedy = [name for name in complete if name == GREEDY]
    exploring = [name for name in complete if name != GREEDY]
    leads = {name: (True, judged[name].estimate(REWARD).mean) for name in exploring}
    if greedy:  # Some runs may have failed: only shared seeds count.
        than_greedy = against.get(GREEDY, {})
        leads = {name: (than_greedy[name].is_judged, than_greedy[name].difference) for name in exploring}
    than = {name: found.than(name, GREEDY) for name in exploring}
    winners = [name for name, one in than.items() if one and one.wins and found.beats(name, UNIFORM_POLICY)]
    tiers = [winners]
    if not winners:
        equal = [name for name, one in than.items() if not (one and one.loses)]
        tiers = [[name for name in tier if found.beats(name, BEST_FIXED)] for tier in (greedy, equal)]
        tiers += [greedy, equal]
    trusted = ([name for name in tier if found.beats(name, UNIFORM_POLICY)] for tier in tiers)
    first = next(filter(None, trusted), [])
    recommended = max(first, key=lambda name: leads.get(name, (False, 0.0))) if first else None
    others = winners or exploring
    best = recommended if recommended in exploring else max(others, key=leads.__getitem__) if others else None
    tested = [one for one in against.get(GREEDY, {}).values() if one.is_judged]
    costs = bool(tested) and all(one.loses for one in tested)
    return dataclasses.replace(found, best=best, recommended=recommended, pays=bool(winners), costs=costs)


@dataclasses.dataclass
class Findings:
    """Results of all stages.

    Attributes:
      measured: Metric of a model on held-out data.
      searches: Results of each strategy's search.
      notes: Remarks on each search, in words.
      configurations: Results of each strategy in the comparison.
      learned: Held-out reward of the model of each strategy's best setting in its search, by name.
      searched: Average reward of that setting, by name.
      baselines: The uniform policy and the best fixed action, if they are known.
      parameters: Number of parameters of a model.
      verdict: Verdict of the comparison.
      confirmed: Results of the best strategy and greedy on independent seeds.
      more_often: Results of the best strategy and greedy with more frequent deployment.
      noise: For no noise and each epsilon: the target, noise multipliers, guarantee, clip norm and `results`.
      strategy_with_noise: The strategy with noise; empty for none.
      why_no_noise: Why no noise was run, in words; empty if it was.
      federation: Results of one strategy by configuration, `federating.FEDERATED` and `ALONE`.
      by_client: What `federating.helped` gives of them; empty without.
      why_no_federation: Why no client trained alone, in words; empty if it did.
    """

    measured: Metric
    searches: dict[str, Any] = dataclasses.field(default_factory=dict)
    notes: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    learned: dict[str, float] = dataclasses.field(default_factory=dict)
    searched: dict[str, float] = dataclasses.field(default_factory=dict)
    configurations: dict[str, Configuration] = dataclasses.field(default_factory=dict)
    baselines: dict[Baseline, comparison.Reference] = dataclasses.field(default_factory=dict)
    parameters: int = 0
    verdict: Verdict = Verdict()
    confirmed: dict[str, Configuration] = dataclasses.field(default_factory=dict)
    more_often: dict[str, Configuration] = dataclasses.field(default_factory=dict)
    noise: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    strategy_with_noise: str = ""
    why_no_noise: str = ""
    federation: dict[str, Configuration] = dataclasses.field(default_factory=dict)
    by_client: dict[str, Any] = dataclasses.field(default_factory=dict)
    why_no_federation: str = ""

    @property
    def by_noise(self) -> dict[str, Configuration]:
        """Results by `noise_name`, without those that were not run."""
        return {noise_name(one): one["results"] for one in self.noise if len(one["results"].values)}


def noise_name(entry: Mapping[str, Any]) -> str:
    """Name of a configuration with noise, such as `epsilon 3`."""
    return f"epsilon {entry['target_epsilon']:g}" if "target_epsilon" in entry else NO_NOISE


# Keys of `advice.json` for the metrics of results.
_KEYS: Mapping[str, str] = {
    REWARD: "reward",
    metrics.ROUND_REWARD: "recent_reward",
    metrics.ACCURACY: "model",
    metrics.HELD_OUT_REWARD: "model",
    metrics.WORST_TENTH: "worst_tenth",
    metrics.CLIP_NORM: "clip_norms",
    DECISIONS: DECISIONS,
}


def plain(value: Any) -> Any:
    """A value for JSON, with null for numbers that are not finite.

    A comparison also has its minimum detectable difference and the seeds required for the observed one; results have
    their values by seed, the mean reward and the flags of their point.
    """
    if isinstance(value, Configuration):
        by_seed = {_KEYS[metric]: value.by_seed(metric) for metric in value.values}
        content = {"name": label(value), "flags": value.flags, "diverged": sorted(value.diverged)}
        return plain({"reward": {}} | content | by_seed | {"reward_mean": value.estimate(REWARD)})
    if isinstance(value, Comparison):
        names = ["significance", "detectable", "seeds_needed"]
        return plain(vars(value) | {name: getattr(value, name) for name in names})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
