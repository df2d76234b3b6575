"""What a recommendation runs, how long that takes, and what is left out where time is short."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from bandits.plans import sweep
from bandits.plans.estimate import SPARE, Pace, Work, duration
from bandits.results import words

GREEDY, CHANCE, CEILING = "greedy", "uniform", "supervised_mse"
# The first explores least: what is left out of time is dropped from the end.
STRATEGIES = (GREEDY, "epsilon_greedy_unweight", "softmax", "falcon")
SEARCH, COMPARE, CONFIRM, FREQUENT, NOISE = "search", "compare", "confirm", "frequent", "noise"
# What users ask comes first: whether exploration pays, with which strategy, at what privacy.
STAGES = (SEARCH, COMPARE, CONFIRM, NOISE, FREQUENT)
FACTOR = 2
MEASURED = 2  # Strategies by which the pace is measured.
_LEAST_DEPLOYMENTS = 2


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is played.

    Attributes:
      rounds: Rounds of a run.
      deploy_every: Rounds between deployments, as planned.
      often: Rounds between deployments when they are ten times more often; 0 where they cannot be.
      strategies: Values of `--bandits_type`, greedy first.
      has_ceiling: Whether the supervised ceiling is played.
      has_uniform: Whether a model is trained on uniform exploration.
      points: Points of each search; 1 for no search.
      tuning_seeds: Seeds of each point of a search.
      seeds: Seeds on which finalists are compared.
      more_seeds: Seeds of the best one and greedy that did not pick it.
      frequent_seeds: Seeds of what is deployed more often.
      frequent_all: Whether that is each strategy, or the recommended one and greedy alone.
      epsilons: How many epsilons are played.
      noise_seeds: Seeds of each.
    """

    rounds: int
    deploy_every: int
    often: int
    strategies: tuple[str, ...] = STRATEGIES
    has_ceiling: bool = True
    has_uniform: bool = True
    points: int = 16
    tuning_seeds: int = 2
    seeds: int = 8
    more_seeds: int = 4
    frequent_seeds: int = 8
    frequent_all: bool = True
    epsilons: int = 3
    noise_seeds: int = 4

    @property
    def arms(self) -> tuple[str, ...]:
        """What is searched and compared: strategies, and what stands beside them."""
        return (*self.strategies, *[CHANCE] * self.has_uniform, *[CEILING] * self.has_ceiling)

    @property
    def rungs(self) -> list[int]:
        """Rounds of each rung of a search: before a few deployments, all strategies act alike."""
        return sweep.rungs(self.rounds, self.points, FACTOR, self.least)

    @property
    def least(self) -> int:
        """Rounds before which no point is given up."""
        return max(_LEAST_DEPLOYMENTS * self.deploy_every, 1)

    def work(self, stage: str) -> Work:
        """Returns what a stage plays."""
        if stage == SEARCH:
            return self._search()
        points, seeds = {
            COMPARE: (len(self.arms), self.seeds),
            CONFIRM: (2, self.more_seeds),
            FREQUENT: (
                len(self.strategies) if self.frequent_all else 2,
                min(self.frequent_seeds, self.seeds) if self.often else 0,
            ),
            NOISE: (self.epsilons + 1, self.noise_seeds if self.epsilons else 0),  # One is clipped alone.
        }[stage]
        # Searches have compiled what is compared, and the measurement the defaults of two strategies.
        compiled = points if stage == CONFIRM or self.points > 1 else min(points, MEASURED)
        new = points if stage in (FREQUENT, NOISE) else points - compiled
        runs = points * seeds
        if stage == FREQUENT and seeds:
            runs += 2 * self.more_seeds  # The best and greedy on what did not pick it, too.
        return Work(new if seeds else 0, runs, runs * self.rounds)

    def _search(self) -> Work:
        if self.points < 2:
            return Work(0, 0, 0)
        runs, rounds, before = 0, 0, 0
        for place, rung in enumerate(self.rungs):
            count = max(1, self.points // FACTOR**place) * self.tuning_seeds * len(self.arms)
            runs, rounds, before = runs + count, rounds + count * (rung - before), rung
        return Work(self.points * len(self.arms), runs, rounds)

    def seconds(self, pace: Pace, stages: Sequence[str] = STAGES) -> float:
        """Returns how long some stages take."""
        return sum(pace.seconds(self.work(stage)) for stage in stages)


# What goes first where time is short: answers that nobody asked for (another deployment period, a model trained by the
# uniform policy), then precision, then privacy and the search; greedy and one that explores are compared to the last.
_LADDER: tuple[tuple[str, Any], ...] = (
    ("frequent_all", False),
    ("points", 8),
    ("frequent_seeds", 4),
    ("epsilons", 2),
    ("frequent_seeds", 0),
    ("points", 4),
    ("has_uniform", False),
    ("noise_seeds", 3),
    ("tuning_seeds", 1),
    ("seeds", 6),
    ("epsilons", 1),
    ("more_seeds", 2),
    ("seeds", 4),
    ("points", 2),
    ("has_ceiling", False),
    ("more_seeds", 0),
    ("epsilons", 0),
    ("points", 1),
    ("seeds", 3),
    ("strategies", STRATEGIES[:3]),
    ("strategies", STRATEGIES[:2]),
    ("seeds", 2),
)
# What is said of a part that is left out, and of one that is left out whole.
_LEFT_OUT: Mapping[str, tuple[str, str]] = {
    "rounds": ("rounds after the first {now:,} of {planned:,}", ""),
    "strategies": ("", ""),
    "seeds": ("seeds beyond {now} of {planned} in the comparison", ""),
    "has_ceiling": ("", "the full-feedback baseline"),
    "has_uniform": ("", "a model trained by the uniform policy"),
    "points": (
        "hyperparameter settings beyond {now} of {planned} in each search",
        "the hyperparameter search (all settings are defaults)",
    ),
    "tuning_seeds": ("a second tuning seed", ""),
    "more_seeds": (
        "independent seeds beyond {now} of {planned}",
        "independent seeds to confirm the best strategy",
    ),
    "frequent_seeds": (
        "seeds beyond {now} of {planned} for more frequent deployment",
        "more frequent deployment",
    ),
    "frequent_all": ("", "more frequent deployment of the other strategies"),
    "epsilons": ("privacy: {fewer} of {planned} epsilons", "privacy: every run with noise"),
    "noise_seeds": ("seeds beyond {now} of {planned} with noise", ""),
}
# What each stage decides, for itself and for those after it.
DECIDES: Mapping[str, tuple[str, ...]] = {
    SEARCH: ("points", "tuning_seeds", "strategies", "has_uniform", "has_ceiling", "rounds"),
    COMPARE: ("seeds",),
    CONFIRM: ("more_seeds",),
    FREQUENT: ("frequent_seeds", "frequent_all"),
    NOISE: ("epsilons", "noise_seeds"),
}


def fitted(full: Plan, pace: Pace, seconds: float, left: Sequence[str] = STAGES) -> Plan:
    """Returns the plan whose stages that are left take at most so long, with as little left out as that needs.

    Args:
      full: The plan with nothing left out, but for what stages that are not left have played.
      pace: How fast this machine plays.
      seconds: Time that is left.
      left: The stages that are not run yet; what others ran stays.

    Returns:
      The plan. Where not even the smallest one fits, runs have fewer rounds; but no fewer than take as long as what
      is beside them, such as the start of a run, and so the plan can take longer.
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
    beside = work.points * pace.point_seconds + work.runs * pace.run_seconds / pace.workers
    a_round = work.runs * pace.round_seconds / pace.workers
    # Rounds that take less time than what is beside them would be cut for nothing.
    rounds = max((seconds / SPARE - beside) / a_round, beside / a_round, 1)
    return dataclasses.replace(plan, rounds=min(plan.rounds, math.floor(rounds)))


def minutes_of_all(full: Plan, pace: Pace) -> int:
    """Returns the minutes that the full plan needs, with one to start and to write pages."""
    return math.ceil(full.seconds(pace) / 60) + 1


def described(plan: Plan, pace: Pace, stages: Sequence[str] = STAGES) -> list[str]:
    """Returns a line a stage: what it runs, and how long that takes."""
    often = len(plan.strategies) if plan.frequent_all else 2
    confirmed = f"the best and greedy, {plan.more_seeds} independent seeds"
    stage_words = {
        SEARCH: f"{len(plan.arms)} searches of {words.count(plan.points, 'hyperparameter setting')}, "
        + words.seeds(plan.tuning_seeds),
        COMPARE: f"{len(plan.arms)} configurations, {plan.seeds} seeds",
        CONFIRM: confirmed,
        FREQUENT: f"{often} configurations deployed {every(plan.often)}, {min(plan.frequent_seeds, plan.seeds)} seeds; "
        + confirmed,
        NOISE: f"{words.count(plan.epsilons, 'epsilon')}, {plan.noise_seeds} seeds",
    }
    told = {stage: stage_words[stage] if plan.work(stage).runs else "left out" for stage in stages}
    return [f"  {stage:<9} {duration(plan.seconds(pace, [stage])):>12}  {text}" for stage, text in told.items()]


def every(rounds: int) -> str:
    """Returns how often something is done in words."""
    return "every round" if rounds == 1 else f"every {rounds:,} rounds"


def at_a_time(workers: int) -> str:
    """Returns how many runs are run at the same time in words."""
    return f"{workers} run{'s' * (workers != 1)} at a time"


def left_out(full: Plan, plan: Plan, names: Mapping[str, str]) -> list[str]:
    """Returns what a plan leaves out of the full one, in words.

    Args:
      full: The plan with nothing left out.
      plan: The plan.
      names: Strategies by `--bandits_type`.
    """
    told = []
    for name, (some, none) in _LEFT_OUT.items():
        now, planned = getattr(plan, name), getattr(full, name)
        is_asked = {
            "tuning_seeds": plan.points > 1,
            "frequent_seeds": full.often > 0,
            "frequent_all": full.often and plan.frequent_seeds and len(plan.strategies) > 2,
            "noise_seeds": plan.epsilons > 0,
        }.get(name, True)
        if now == planned or not is_asked:
            continue
        if name == "strategies":
            told.append(words.listed([names[one] for one in planned if one not in now]))
            continue
        is_none = now == (1 if name == "points" else 0)
        told.append((none if is_none else some).format(now=now, planned=planned, fewer=planned - now))
    return told
