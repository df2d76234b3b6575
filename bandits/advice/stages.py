"""The stages of a recommendation, one after the other: each executes its runs and adds their results."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bandits import initial_flags, metrics, studies, world_flags
from bandits.advice import findings, privacy, strategies
from bandits.advice import plan as planning
from bandits.advice.findings import Findings, StrategyResults
from bandits.advice.inputs import Data
from bandits.advice.plan import CHANCE, GREEDY, Plan
from bandits.advice.session import Session, tell
from data.errors import UsageError
from optimization.study import run_folder


class Stages:
    """Runs the stages of a recommendation.

    Attributes:
      found: What was found so far.
    """

    def __init__(
        self,
        session: Session,
        spaces: Mapping[str, strategies.Space],
        data: Data,
        where: privacy.Deployment,
        epsilons: Sequence[float],
        no_noise: str = "",
    ):
        """Executes nothing yet.

        Args:
          session: Executes runs.
          spaces: What is searched, by strategy.
          data: What is known of the data.
          where: Where the model would be trained.
          epsilons: Epsilons to run there.
          no_noise: Why none is run, in words.
        """
        self._session, self._spaces, self._data = session, spaces, data
        self._where, self._epsilons = where, epsilons
        # Where no label says which action is right, a model is measured by rewards.
        self.found = Findings(metrics.ACCURACY if data.is_labelled else metrics.HELD_OUT_REWARD, no_noise=no_noise)

    def play(self) -> Findings:
        """Runs all stages; returns what they found."""
        stages: Mapping[str, tuple[str, Callable[[Plan], None]]] = {
            planning.SEARCH: ("Searching hyperparameters", self._search),
            planning.COMPARE: ("Comparing strategies", self._compare),
            planning.CONFIRM: ("Confirming on independent seeds", self._confirm),
            planning.NOISE: ("Adding noise", self._add_noise),
            planning.FREQUENT: ("Deploying more often", self._deploy_often),
        }
        for stage in planning.STAGES:
            words, play = stages[stage]
            play(self._session.begin(stage, words))
            self._session.end()
        return self.found

    @property
    def _base(self) -> tuple[str, ...]:
        return (*self._session.base, f"--total_rounds={self._session.plan.rounds}")

    def _search(self, plan: Plan) -> None:
        base = self._base
        for name in plan.arms:
            space = self._spaces[name]
            if plan.points < 2:
                notes = ["hyperparameters are the defaults, not tuned"]
                self.found.compared[name] = StrategyResults(name, space.first, notes=notes)
                continue
            # Uniform exploration earns as much whatever it learns: its model is what is searched.
            metric = self.found.measured if name == CHANCE else findings.REWARD
            some = strategies.searched(base, space, plan.points, plan.tuning_seeds)
            points = self._session.halve("search", some, metric)
            least = min(plan.points, *(one.size for one in self._spaces.values()))
            self.found.searches[name] = findings.search(points, least, self._session.folder / "search", metric)
            if math.isnan(points[0].mean):
                tell(f"{strategies.NAMES[name]}: every hyperparameter setting of its search diverged.")
                continue
            point = strategies.point_of(points[0].outcomes[0].run)
            notes = [
                f"--{flag} is at the edge of the searched range, so a better value may lie beyond it"
                for flag in findings.edges(space, point)
            ]
            self.found.compared[name] = StrategyResults(name, point, notes=notes)

    def _play(
        self,
        where: str,
        some: Sequence[StrategyResults],
        first_seed: int,
        seeds: int,
        more: Sequence[Sequence[str]] = (),
    ) -> None:
        """Runs the runs of several strategies together, and adds what they gave to each.

        Args:
          where: Folder of the runs.
          some: The strategies.
          first_seed: Their first seed.
          seeds: Number of consecutive seeds.
          more: Further flags of each strategy.
        """
        flags = more or [()] * len(some)
        wanted = [
            strategies.runs(self._base, one.name, one.point, first_seed, seeds, *others)
            for one, others in zip(some, flags, strict=True)
        ]
        outcomes = self._session.play(where, [run for own in wanted for run in own])
        for one, own in zip(some, wanted, strict=True):
            one.read([outcomes[run.name] for run in own], self._session.folder / where, self.found.measured)

    def _compare(self, plan: Plan) -> None:
        found = self.found
        self._play("compare", list(found.compared.values()), strategies.SEED, plan.seeds)
        found.chance, found.constant = findings.bounds(self._session.folder / "compare")
        if found.chance is None and CHANCE in found.compared:
            found.chance = found.compared[CHANCE].reward
        found.verdict = findings.verdict(found.compared, found.chance, found.constant)
        found.no_noise = found.no_noise or self._why_no_noise(found.verdict.recommended)
        if found.no_noise:
            self._session.leave_out_noise()

    def _why_no_noise(self, name: str | None) -> str:
        if self.found.verdict.all_diverged:
            return "every strategy diverged, or failed"
        if name is None:
            return "no strategy earns significantly more than the uniform policy, so noise would show nothing"
        norms = list(self.found.compared[name].clip_norms.values())
        if not norms or not all(map(math.isfinite, norms)):
            return "its runs do not clip, and noise is measured in clip norms"
        return ""

    def _again(self, names: Iterable[str]) -> dict[str, StrategyResults]:
        """Returns strategies of the comparison, to be run elsewhere."""
        return {name: StrategyResults(name, self.found.compared[name].point) for name in names}

    def _confirm(self, plan: Plan) -> None:
        best = self.found.verdict.best
        if best and GREEDY in self.found.compared and plan.more_seeds:
            self.found.confirmed = self._again((best, GREEDY))
            self._play("confirm", list(self.found.confirmed.values()), strategies.MORE_SEED, plan.more_seeds)

    def _deploy_often(self, plan: Plan) -> None:
        if not (plan.often and plan.frequent_seeds):
            return
        found = self.found
        names = [name for name in plan.strategies if name in found.compared]
        if not plan.frequent_all:
            names = [name for name in names if name in (GREEDY, found.verdict.best)]
        found.often, found.often_confirmed = self._again(names), self._again(found.confirmed)
        for where, some, first_seed, seeds in (
            # Seeds of the comparison: they are paired.
            ("compare", found.often, strategies.SEED, min(plan.frequent_seeds, plan.seeds)),
            ("confirm", found.often_confirmed, strategies.MORE_SEED, plan.more_seeds),
        ):
            flags = [[f"--bandits_deploy_freq={plan.often}"]] * len(some)
            self._play(where, list(some.values()), first_seed, seeds, flags)

    def _add_noise(self, plan: Plan) -> None:
        name = self.found.verdict.recommended
        if not name or not plan.epsilons or self.found.no_noise:
            return
        self.found.noisy = name
        clip_norm = statistics.median(self.found.compared[name].clip_norms.values())
        asked: list[dict[str, Any]] = [{"noise_multiplier": 0.0, "run_noise_multiplier": 0.0}]
        for epsilon in sorted(self._epsilons[: plan.epsilons]):
            asked.append(privacy.noise(self._where, plan.rounds, self._data.cohort, epsilon, self._dimension()))
        self.found.noise = [one | {"clip_norm": clip_norm, "arm": self._again([name])[name]} for one in asked]
        noisy = [one for one in self.found.noise if "error" not in one]
        flags = [privacy.flags_of(one["run_noise_multiplier"], clip_norm, one.get("bands", 0)) for one in noisy]
        self._play("noise", [one["arm"] for one in noisy], strategies.MORE_SEED, plan.noise_seeds, flags)

    def _dimension(self) -> int:
        """Returns the parameters of the models that were compared."""
        for path in self._session.folder.glob(f"compare/**/{run_folder.MODEL_FILE}"):
            return sum(weights.size for weights in run_folder.read_model(str(path)).values())
        return 1


def refused_noise(base: Sequence[str]) -> str:
    """Returns why the flags of all runs do not go with noise, in words; empty if they do."""
    try:
        settings = studies.resolve(strategies.BINARY, (*base, f"--bandits_type={GREEDY}", *privacy.flags_of(1.0, 0.1)))
    except UsageError as error:
        return f"noise needs --aggregator_type=dpsgd, with one clip norm, which these flags exclude: {error}"
    if settings.scenario in initial_flags.PRETRAINED or settings.initial_model_path:
        return "initial training spends privacy, too (scripts.privacy_budget and docs/privacy.md compose both)"
    if settings.availability or settings.drop_out:
        return "clients who may be absent are no Poisson sample, so sampling amplifies no privacy (docs/worlds.md)"
    return world_flags.reset_of(settings).voids or ""
