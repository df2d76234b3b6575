"""Plan of a recommendation: its runs, their time, and what is left out if time is short."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from bandits.plans import sweep
from bandits.plans.estimate import SAFETY_FACTOR, Pace, Work, duration
from bandits.results import words

GREEDY, UNIFORM, FULL_FEEDBACK = "greedy", "uniform", "supervised_mse"
# Strategies are dropped from the end if time is short.
STRATEGIES = (GREEDY, "epsilon_greedy_unweight", "softmax", "falcon")
SEARCH, COMPARE, CONFIRM, FREQUENT, NOISE = "search", "compare", "confirm", "frequent", "noise"
FEDERATE = "federate"
# The most important questions come first: whether exploration pays, with which strategy, at what privacy.
STAGES = (SEARCH, COMPARE, CONFIRM, NOISE, FREQUENT, FEDERATE)
FACTOR = 2
MEASURED = 2  # Strategies with which the pace is measured.
_MIN_DEPLOYMENTS = 2
# Budget of a verdict that no strategy is good; less, where the full plan has more, is a search cut short.
_LEAST = {"points": 8, "seeds": 6, "rounds": math.inf}


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
      frequent_all: Whether all strategies are deployed more often, or only the recommended one and greedy.
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
    frequent_all: bool = True
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
            FREQUENT: (
                len(self.strategies) if self.frequent_all else 2,
                min(self.frequent_seeds, self.seeds) if self.often else 0,
            ),
            NOISE: (self.epsilons + 1, self.noise_seeds if self.epsilons else 0),  # One run is clipped, without noise.
        }[stage]
        # The search has already compiled the points to be compared, and the timing run has compiled the defaults.
        compiled = points if stage == CONFIRM or self.points > 1 else min(points, MEASURED)
        new = points if stage in (FREQUENT, NOISE) else points - compiled
        runs = points * seeds
        if stage == FREQUENT and seeds:
            runs += 2 * self.independent_seeds  # The best and greedy on independent seeds, too.
        return Work(new if seeds else 0, runs, runs * self.rounds)

    def _search(self) -> Work:
        if self.points < 2:
            return Work(0, 0, 0)
        runs, rounds, before = 0, 0, 0
        for place, rung in enumerate(self.rungs):
            count = max(1, self.points // FACTOR**place) * self.tuning_seeds * len(self.configurations)
            runs, rounds, before = runs + count, rounds + count * (rung - before), rung
        return Work(self.points * len(self.configurations), runs, rounds)

    def seconds(self, pace: Pace, stages: Sequence[str] = STAGES) -> float:
        """Seconds that some stages take."""
        return sum(pace.seconds(self.work(stage)) for stage in stages)


# Order in which parts are left out. Each strategy gets the budget of a verdict, `_LEAST`, before anything else: first
# precision beyond it is left out, then another deployment period, clients that train alone and privacy, and only then
# points and seeds. Greedy and one strategy that explores always remain.
_LADDER: tuple[tuple[str, Any], ...] = (
    ("frequent_all", False),
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
    "independent_seeds": (
        "{fewer} of {planned} independent seeds",
        "independent seeds to confirm the best strategy",
    ),
    "frequent_seeds": ("{fewer} of {planned} seeds of more frequent deployment", "more frequent deployment"),
    "frequent_all": ("", "more frequent deployment of the other strategies"),
    "epsilons": ("privacy: {fewer} of {planned} epsilons", "privacy: every run with noise"),
    "noise_seeds": ("{fewer} of {planned} seeds with noise", ""),
    "federation_seeds": ("{fewer} of {planned} seeds of clients that train alone", "clients that train alone"),
}
# Fields that each stage fixes, for itself and for later stages.
DECIDES: Mapping[str, tuple[str, ...]] = {
    SEARCH: ("points", "tuning_seeds", "strategies", "has_uniform", "has_full_feedback", "rounds", "doublings"),
    COMPARE: ("seeds",),
    CONFIRM: ("independent_seeds",),
    FREQUENT: ("frequent_seeds", "frequent_all"),
    NOISE: ("epsilons", "noise_seeds"),
    FEDERATE: ("federation_seeds",),
}


def fitted(full: Plan, pace: Pace, seconds: float, left: Sequence[str] = STAGES) -> Plan:
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


def described(plan: Plan, pace: Pace, stages: Sequence[str] = STAGES) -> list[str]:
    """A line per stage: its runs and their time."""
    often = len(plan.strategies) if plan.frequent_all else 2
    confirmed = f"the best and greedy, {plan.independent_seeds} independent seeds"
    stage_words = {
        SEARCH: f"{len(plan.configurations)} searches of {words.count(plan.points, 'hyperparameter setting')}, "
        + words.seeds(plan.tuning_seeds),
        COMPARE: f"{len(plan.configurations)} configurations, {plan.seeds} seeds",
        CONFIRM: confirmed,
        FREQUENT: f"{often} configurations deployed {every(plan.often)}, {min(plan.frequent_seeds, plan.seeds)} seeds; "
        + confirmed,
        NOISE: f"{words.count(plan.epsilons, 'epsilon')}, {plan.noise_seeds} seeds",
        FEDERATE: f"each client alone, and together, {plan.federation_seeds} seeds",
    }
    texts = {stage: stage_words[stage] if plan.work(stage).runs else "left out" for stage in stages}
    return [f"  {stage:<9} {duration(plan.seconds(pace, [stage])):>12}  {text}" for stage, text in texts.items()]


def every(rounds: int) -> str:
    """A period in words, such as `every 10 rounds`."""
    return "every round" if rounds == 1 else f"every {rounds:,} rounds"


def at_a_time(workers: int) -> str:
    """Number of parallel runs in words, such as `2 runs at a time`."""
    return f"{workers} run{'s' * (workers != 1)} at a time"


def left_out(full: Plan, plan: Plan, names: Mapping[str, str]) -> list[str]:
    """Parts of the full plan that a plan leaves out, in words.

    Args:
      full: The plan with nothing left out.
      plan: The plan.
      names: Strategies by `--bandits_type`.
    """
    texts = []
    for name, (some, none) in _LEFT_OUT.items():
        now, planned = getattr(plan, name), getattr(full, name)
        is_asked = {
            "tuning_seeds": plan.points > 1,
            "frequent_seeds": full.often > 0,
            "frequent_all": full.often and plan.frequent_seeds and len(plan.strategies) > 2,
            "noise_seeds": plan.epsilons > 0,
        }.get(name, True)
        if now == planned or (name == "rounds" and now > planned) or not is_asked:
            continue
        if name == "strategies":
            texts.append(words.listed([names[one] for one in planned if one not in now]))
            continue
        is_none = now == (1 if name == "points" else 0)
        texts.append((none if is_none else some).format(now=now, planned=planned, fewer=planned - now))
    return texts
