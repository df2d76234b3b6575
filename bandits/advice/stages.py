"""The stages of a recommendation, one after the other: each executes its runs and adds their results."""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bandits import initial_flags, metrics, world_flags
from bandits.advice import arms, findings, privacy
from bandits.advice import plan as planning
from bandits.advice.findings import Arm
from bandits.advice.plan import CEILING, CHANCE, GREEDY
from bandits.advice.session import Session
from bandits.plans.plan import Run
from data.errors import UsageError
from optimization.study import intervals
from optimization.study.metrics import Metric

_WORDS = {
    planning.SEARCH: "Searching hyperparameters",
    planning.COMPARE: "Comparing strategies",
    planning.CONFIRM: "Confirming on independent seeds",
    planning.FREQUENT: "Deploying more often",
    planning.NOISE: "Adding noise",
}


@dataclasses.dataclass
class Advice:
    """What the stages found, one after the other.

    Attributes:
      measured: What a model is measured by, on held-out data.
      searches: By strategy, what its search found.
      arms: By strategy, its runs in the comparison.
      chance: What uniformly random actions earn, a `Landmark`; None if it is not known.
      constant: What the best constant action earns; likewise.
      verdict: What the comparison tells.
      confirmed: The best strategy and greedy on seeds that did not pick it.
      often: By strategy, its runs when deployed more often.
      often_confirmed: Of these the best and greedy, on the seeds that did not pick it.
      noise: By noise, from none on: what was asked for and guaranteed, and its runs.
      noisy: The strategy that had the noise; empty for none.
      no_noise: Why there is none, in words; empty if there is.
    """

    measured: Metric
    searches: dict[str, Any] = dataclasses.field(default_factory=dict)
    arms: dict[str, Arm] = dataclasses.field(default_factory=dict)
    chance: Any = None
    constant: Any = None
    verdict: findings.Verdict = findings.NO_VERDICT
    confirmed: dict[str, Arm] = dataclasses.field(default_factory=dict)
    often: dict[str, Arm] = dataclasses.field(default_factory=dict)
    often_confirmed: dict[str, Arm] = dataclasses.field(default_factory=dict)
    noise: list[tuple[dict[str, Any], Arm]] = dataclasses.field(default_factory=list)
    noisy: str = ""
    no_noise: str = ""


class Stages:
    """Runs the stages of a recommendation."""

    def __init__(
        self,
        session: Session,
        spaces: Mapping[str, arms.Space],
        measured: Metric,
        where: privacy.Deployment,
        epsilons: Sequence[float],
        cohort: int,
        no_noise: str = "",
    ):
        """Plays nothing yet.

        Args:
          session: Plays runs.
          spaces: What is searched, by strategy.
          measured: What a model is measured by.
          where: Where the model would be trained.
          epsilons: Epsilons to play there.
          cohort: Clients of a round of the runs.
          no_noise: Why none is played, in words.
        """
        self._session, self._spaces = session, spaces
        self._where, self._epsilons, self._cohort = where, epsilons, cohort
        self.found = Advice(measured, no_noise=no_noise)

    def play(self) -> Advice:
        """Plays all stages; returns what they found."""
        self._search()
        self._compare()
        self._confirm()
        self._add_noise()
        self._deploy_often()
        return self.found

    def _begin(self, stage: str) -> planning.Plan:
        return self._session.begin(stage, _WORDS[stage])

    def _search(self) -> None:
        plan = self._begin(planning.SEARCH)
        base = self._base
        for name in plan.arms:
            space = self._spaces[name]
            if plan.points < 2:
                self.found.arms[name] = Arm(name, space.first, notes=["hyperparameters are the defaults, not tuned"])
                continue
            # Uniform exploration earns as much whatever it learns: its model is what is searched.
            metric = self.found.measured if name == CHANCE else findings.REWARD
            points = self._session.halve("search", arms.searched(base, space, plan.points, plan.tuning_seeds), metric)
            least = min(plan.points, *(one.size for one in self._spaces.values()))
            self.found.searches[name] = findings.search(points, least, self._session.folder / "search", metric)
            if math.isnan(points[0].mean):
                self._session.tell(f"{arms.NAMES[name]}: every hyperparameter setting of its search diverged.")
                continue
            point = arms.point_of(points[0].outcomes[0].run)
            notes = [
                f"--{flag} is at the edge of the searched range, so a better value may lie beyond it"
                for flag in findings.edges(space, point)
            ]
            self.found.arms[name] = Arm(name, point, notes=notes)
        self._session.end()

    @property
    def _base(self) -> tuple[str, ...]:
        return (*self._session.base, f"--total_rounds={self._session.plan.rounds}")

    def _play(self, where: str, wanted: Sequence[tuple[Arm, list[Run]]]) -> None:
        """Plays the runs of several arms together, and adds what they gave to each."""
        outcomes = self._session.play(where, [run for _, some in wanted for run in some])
        for arm, some in wanted:
            own = {run.name: outcomes[run.name] for run in some}
            findings.read(arm, own, self._session.folder / where, self.found.measured)

    def _runs(self, arm: Arm, first_seed: int, seeds: int, *more: str) -> tuple[Arm, list[Run]]:
        return arm, arms.runs(self._base, arm.name, arm.point, first_seed, seeds, *more)

    def _compare(self) -> None:
        plan = self._begin(planning.COMPARE)
        self._play("compare", [self._runs(arm, arms.SEED, plan.seeds) for arm in self.found.arms.values()])
        self._bounds()
        self.found.verdict = findings.verdict(self.found.arms, self.found.chance, self.found.constant)
        self.found.no_noise = self.found.no_noise or self._why_no_noise(self.found.verdict.recommended)
        self._session.end()
        if self.found.no_noise:
            self._session.leave_out_noise()

    def _bounds(self) -> None:
        """Adds what chance and the best constant action earn, as runs record it; else chance as it was played."""
        self.found.chance, self.found.constant = findings.bounds(self._session.folder / "compare")
        if self.found.chance is None and CHANCE in self.found.arms:
            self.found.chance = self.found.arms[CHANCE].reward

    def _copy(self, name: str) -> Arm:
        return Arm(name, self.found.arms[name].point)

    def _confirm(self) -> None:
        plan = self._begin(planning.CONFIRM)
        best = self.found.verdict.best
        if best and GREEDY in self.found.arms and plan.more_seeds:
            self.found.confirmed = {name: self._copy(name) for name in (best, GREEDY)}
            self._play(
                "confirm", [self._runs(arm, arms.MORE_SEED, plan.more_seeds) for arm in self.found.confirmed.values()]
            )
        self._session.end()

    def _deploy_often(self) -> None:
        plan = self._begin(planning.FREQUENT)
        verdict = self.found.verdict
        if plan.often and plan.frequent_seeds:
            names = [name for name in plan.strategies if name in self.found.arms]
            if not plan.frequent_all:
                names = [name for name in names if name in (GREEDY, verdict.best)]
            self.found.often = {name: self._copy(name) for name in names}
            flag = f"--bandits_deploy_freq={plan.often}"
            seeds = min(plan.frequent_seeds, plan.seeds)  # Those of the comparison: they are paired.
            self._play("compare", [self._runs(arm, arms.SEED, seeds, flag) for arm in self.found.often.values()])
            self.found.often_confirmed = {name: self._copy(name) for name in self.found.confirmed}
            again = [
                self._runs(arm, arms.MORE_SEED, plan.more_seeds, flag) for arm in self.found.often_confirmed.values()
            ]
            self._play("confirm", again)
        self._session.end()

    def _add_noise(self) -> None:
        plan = self._begin(planning.NOISE)
        name = self.found.verdict.recommended
        if name and plan.epsilons and not self.found.no_noise:
            self.found.noisy = name
            clip_norm = statistics.median(self.found.arms[name].clip_norms.values())
            asked: list[dict[str, Any]] = [{"noise_multiplier": 0.0, "run_noise_multiplier": 0.0}]
            for epsilon in sorted(self._epsilons[: plan.epsilons]):
                asked.append(privacy.noise(self._where, plan.rounds, self._cohort, epsilon))
            wanted = []
            for one in asked:
                arm = self._copy(name)
                self.found.noise.append((one | {"clip_norm": clip_norm}, arm))
                if "error" not in one:
                    more = privacy.flags_of(one["run_noise_multiplier"], clip_norm)
                    wanted.append(self._runs(arm, arms.MORE_SEED, plan.noise_seeds, *more))
            self._play("noise", wanted)
        self._session.end()

    def _why_no_noise(self, name: str | None) -> str:
        if self.found.verdict.all_diverged:
            return "every strategy diverged, or failed"
        if name is None:
            return "no strategy earns significantly more than the uniform policy, so noise would show nothing"
        norms = list(self.found.arms[name].clip_norms.values())
        if not norms or not all(math.isfinite(norm) for norm in norms):
            return "its runs do not clip, and noise is measured in clip norms"
        return ""


def measured_by(is_labelled: bool) -> Metric:
    """Returns what a model is measured by: rewards, where no label says which action is right."""
    return metrics.ACCURACY if is_labelled else metrics.HELD_OUT_REWARD


def mean(values: Mapping[int, float]) -> intervals.Interval:
    """Returns mean and interval over seeds, without those that diverged."""
    return intervals.of_mean([value for value in values.values() if math.isfinite(value)])


def refused_noise(base: Sequence[str]) -> str:
    """Returns why the flags of all runs do not go with noise, in words; empty if they do."""
    from bandits import binaries

    try:
        settings = binaries.resolve(arms.BINARY, (*base, f"--bandits_type={GREEDY}", *privacy.flags_of(1.0, 0.1)))
    except UsageError as error:
        return f"noise needs --aggregator_type=dpsgd, with one clip norm, which these flags exclude: {error}"
    if settings.scenario in initial_flags.PRETRAINED or settings.initial_model_path:
        return "initial training spends privacy, too (scripts.privacy_budget and docs/privacy.md compose both)"
    if settings.availability or settings.drop_out:
        return "clients who may be absent are no Poisson sample, so sampling amplifies no privacy (docs/worlds.md)"
    if voids := world_flags.reset_of(settings).voids:
        return voids
    return ""


__all__ = ("CEILING", "Advice", "Stages", "mean", "measured_by", "refused_noise")
