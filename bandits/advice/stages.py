"""Stages of a recommendation: each executes its runs and adds their results."""

import math
import pathlib
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bandits import environment_flags, federation_flags, initial_flags, metrics, studies
from bandits import flags as run_flags
from bandits.advice import findings, privacy, strategies
from bandits.advice import plan as planning
from bandits.advice.findings import Findings, StrategyResults
from bandits.advice.inputs import Data
from bandits.advice.plan import GREEDY, UNIFORM, Plan
from bandits.advice.session import Session, print_status
from bandits.plans import outcomes
from bandits.plans.plan import Run
from bandits.results import baselines, federating
from bandits.results.runs import grouped
from data.errors import UsageError
from optimization.study import run_folder

_SHOWN = 0.5  # Share of the linear model's gain in the average reward of all rounds.
_ALONE = (f"--federation={federation_flags.ALONE}",)


class Stages:
    """Runs the stages of a recommendation.

    Attributes:
      results: Results so far.
    """

    def __init__(
        self,
        session: Session,
        spaces: Mapping[str, strategies.Space],
        data: Data,
        deployment: privacy.Deployment,
        epsilons: Sequence[float],
        no_noise: str = "",
        no_federation: str = "",
        can_lengthen: bool = False,
    ):
        """Initializes the stages.

        Args:
          session: Executes runs.
          spaces: Search spaces by strategy.
          data: Facts about the data.
          deployment: Where the model would be trained.
          epsilons: Epsilons to try.
          no_noise: Why no noise is run, in words.
          no_federation: Why no client trains alone, in words.
          can_lengthen: Whether the command leaves the number of rounds open.
        """
        self._can_lengthen = can_lengthen
        self._session, self._spaces, self._data = session, spaces, data
        self._deployment, self._epsilons = deployment, epsilons
        # Without a right action for each label, rewards measure a model.
        measured = metrics.ACCURACY if data.is_labelled else metrics.HELD_OUT_REWARD
        self.results = Findings(measured, no_noise=no_noise, no_federation=no_federation)

    def run(self) -> Findings:
        """Runs all stages."""
        stages: Mapping[str, tuple[str, Callable[[Plan], None]]] = {
            planning.SEARCH: ("Searching hyperparameters", self._search),
            planning.COMPARE: ("Comparing strategies", self._compare),
            planning.CONFIRM: ("Confirming on independent seeds", self._confirm),
            planning.NOISE: ("Adding noise", self._add_noise),
            planning.FREQUENT: ("Deploying more often", self._deploy_often),
            planning.FEDERATE: ("Training each client alone", self._federate),
        }
        for stage in planning.STAGES:
            words, run_stage = stages[stage]
            run_stage(self._session.begin(stage, words))
            self._session.end()
        return self.results

    @property
    def _base(self) -> tuple[str, ...]:
        return (*self._session.base, f"--total_rounds={self._session.plan.rounds}")

    def _search(self, plan: Plan) -> None:
        base = (*self._session.base, f"--total_rounds={plan.search_rounds}")
        for name in plan.configurations:
            space = self._spaces[name]
            if plan.points < 2:
                notes = ["hyperparameters are the defaults, not tuned"]
                self.results.compared[name] = StrategyResults(name, space.first, notes=notes)
                continue
            # The uniform policy's reward does not depend on hyperparameters: its model is searched.
            metric = self.results.measured if name == UNIFORM else findings.REWARD
            runs = strategies.searched(base, space, plan.points, plan.tuning_seeds)
            points = self._session.halve("search", runs, metric)
            least = min(plan.points, *(other.size for other in self._spaces.values()))
            folder = self._session.folder / "search"
            self.results.searches[name] = findings.search(points, space, least, folder, metric)
            if math.isnan(points[0].mean):
                print_status(f"{strategies.NAMES[name]}: every hyperparameter setting of its search diverged.")
                continue
            point = space.point_of(points[0].outcomes[0].run)
            notes = [
                f"--{flag} is at the edge of the searched range, so a better value may lie beyond it"
                for flag in space.edges(point)
            ]
            self.results.compared[name] = StrategyResults(name, point, notes=notes)
        if plan.points < 2:
            return
        self._read_models(plan.search_rounds)
        for done in range(1, plan.doublings + 1):
            self._continue_search(plan.search_rounds << done)
        while self._can_lengthen and self._is_far() and self._session.lengthen():
            self._continue_search(self._session.plan.rounds)

    def _continue_search(self, rounds: int) -> None:
        """Runs the best settings of each strategy for more rounds."""
        self._session.run("search", self._best_runs(rounds))
        self._read_models(rounds)

    def _best_runs(self, rounds: int) -> list[Run]:
        base, seeds = (*self._session.base, f"--total_rounds={rounds}"), self._session.plan.tuning_seeds
        return [
            run
            for name, one in self.results.compared.items()
            for run in strategies.runs(base, name, one.point, strategies.TUNING_SEED, seeds)
        ]

    def _read_models(self, rounds: int) -> None:
        """Reads what the best settings have learned and earned."""
        folder, results = self._session.folder / "search", self.results
        for name, runs in grouped(self._best_runs(rounds), lambda run: run.settings.bandits_type).items():
            finished = [folder / run.name for run in runs if outcomes.finished_rounds(folder / run.name) >= rounds]
            for column, means in ((metrics.HELD_OUT_REWARD, results.learned), (findings.REWARD, results.searched)):
                values = [outcomes.read_value(path, column, rounds) for path in finished]
                means[name] = statistics.fmean(values) if values else math.nan

    def _is_far(self) -> bool:
        """Whether no model comes near the central linear model, or no strategy's reward shows what was learned.

        Without references, or if the linear model is no better than the uniform policy, there is nothing to reach.
        """
        references, results = self._data.references, self.results
        if references is None or math.isnan(references.near_linear):
            return False
        uniform = findings.recorded_baselines(self._session.folder / "search")[0]
        mean = math.nan if uniform is None else baselines.interval(uniform).mean
        least = mean + _SHOWN * references.measured_gain
        earned = (value for name, value in results.searched.items() if name in planning.STRATEGIES)
        is_near = any(value >= references.near_linear for value in results.learned.values())
        return not (is_near and (uniform is None or any(value >= least for value in earned)))

    def _run(
        self,
        folder: str,
        configurations: Sequence[StrategyResults],
        first_seed: int,
        seeds: int,
        more: Sequence[Sequence[str]] = (),
    ) -> list[pathlib.Path]:
        """Executes the runs of several configurations together, adds their results, and returns their folders.

        Args:
          folder: Name of the runs' folder.
          configurations: The configurations.
          first_seed: Their first seed.
          seeds: Number of consecutive seeds.
          more: Further flags of each configuration.
        """
        flags = more or [()] * len(configurations)
        planned = [
            strategies.runs(self._base, one.name, one.point, first_seed, seeds, *others)
            for one, others in zip(configurations, flags, strict=True)
        ]
        executed = self._session.run(folder, [run for runs in planned for run in runs])
        for one, runs in zip(configurations, planned, strict=True):
            one.read([executed[run.name] for run in runs], self._session.folder / folder, self.results.measured)
        return [self._session.folder / folder / run.name for runs in planned for run in runs]

    def _compare(self, plan: Plan) -> None:
        results = self.results
        self._run("compare", list(results.compared.values()), strategies.SEED, plan.seeds)
        results.uniform, results.best_fixed = findings.recorded_baselines(self._session.folder / "compare")
        if results.uniform is None and UNIFORM in results.compared:
            results.uniform = results.compared[UNIFORM].reward
        results.parameters = self._dimension()
        results.verdict = findings.verdict(results.compared, results.uniform, results.best_fixed)
        results.no_noise = results.no_noise or self._why_no_noise(results.verdict.recommended)
        if results.no_noise:
            self._session.leave_out_noise()

    def _why_no_noise(self, name: str | None) -> str:
        if self.results.verdict.all_diverged:
            return "every strategy diverged, or failed"
        if name is None:
            return "no strategy earns significantly more than the uniform policy, so noise would show nothing"
        norms = list(self.results.compared[name].clip_norms.values())
        if not norms or not all(map(math.isfinite, norms)):
            return "its runs do not clip, and the noise is a multiple of the clip norm"
        return ""

    def _again(self, names: Iterable[str]) -> dict[str, StrategyResults]:
        """Strategies of the comparison without results, to run again."""
        return {name: StrategyResults(name, self.results.compared[name].point) for name in names}

    def _confirm(self, plan: Plan) -> None:
        best = self.results.verdict.best
        if best and GREEDY in self.results.compared and plan.independent_seeds:
            self.results.confirmed = self._again((best, GREEDY))
            self._run(
                "confirm", list(self.results.confirmed.values()), strategies.INDEPENDENT_SEED, plan.independent_seeds
            )

    def _deploy_often(self, plan: Plan) -> None:
        if not (plan.often and plan.frequent_seeds):
            return
        results = self.results
        names = [name for name in plan.strategies if name in results.compared]
        if not plan.frequent_all:
            names = [name for name in names if name in (GREEDY, results.verdict.best)]
        results.often, results.often_confirmed = self._again(names), self._again(results.confirmed)
        for folder, configurations, first_seed, seeds in (
            # Paired with the comparison by its seeds.
            ("compare", results.often, strategies.SEED, min(plan.frequent_seeds, plan.seeds)),
            ("confirm", results.often_confirmed, strategies.INDEPENDENT_SEED, plan.independent_seeds),
        ):
            flags = [[f"--bandits_deploy_freq={plan.often}"]] * len(configurations)
            self._run(folder, list(configurations.values()), first_seed, seeds, flags)

    def _federate(self, plan: Plan) -> None:
        results, name = self.results, self.results.verdict.recommended or GREEDY
        if not plan.federation_seeds or name not in results.compared:
            return
        kinds = {federating.FEDERATED: ["--report_clients"], federating.ALONE: ["--report_clients", *_ALONE]}
        results.federation = {kind: self._again([name])[name] for kind in kinds}
        flags = list(kinds.values())
        configurations = list(results.federation.values())
        folders = self._run("federate", configurations, strategies.SEED, plan.federation_seeds, flags)
        if all((folder / run_folder.CLIENT_REPORT_FILE).exists() for folder in folders):
            results.by_client = federating.helped(federating.read(folders))

    def _add_noise(self, plan: Plan) -> None:
        name = self.results.verdict.recommended
        if not name or not plan.epsilons or self.results.no_noise:
            return
        self.results.noisy = name
        clip_norm = statistics.median(self.results.compared[name].clip_norms.values())
        targets: list[dict[str, Any]] = [{"noise_multiplier": 0.0, "run_noise_multiplier": 0.0}]
        for epsilon in sorted(self._epsilons[: plan.epsilons]):
            targets.append(
                privacy.noise(self._deployment, plan.rounds, self._data.cohort, epsilon, self.results.parameters)
            )
        self.results.noise = [one | {"clip_norm": clip_norm, "results": self._again([name])[name]} for one in targets]
        noisy = [one for one in self.results.noise if "error" not in one]
        flags = [privacy.flags_of(one["run_noise_multiplier"], clip_norm, one.get("bands", 0)) for one in noisy]
        self._run("noise", [one["results"] for one in noisy], strategies.INDEPENDENT_SEED, plan.noise_seeds, flags)

    def _dimension(self) -> int:
        """Number of parameters of the compared models."""
        for path in self._session.folder.glob(f"compare/**/{run_folder.MODEL_FILE}"):
            return sum(weights.size for weights in run_folder.read_model(str(path)).values())
        return 1


def refused_federation(base: Sequence[str], num_clients: int) -> str:
    """Why the flags of all runs, or their number of clients, exclude clients that train alone; empty if they do not."""
    try:
        settings = studies.resolve(strategies.BINARY, (*base, f"--bandits_type={GREEDY}", "--report_clients", *_ALONE))
        federation_flags.warnings(run_flags.options(settings), num_clients)
    except UsageError as error:
        return str(error)
    return ""


def refused_noise(base: Sequence[str]) -> str:
    """Why the flags of all runs exclude noise, in words; empty if they do not."""
    try:
        settings = studies.resolve(strategies.BINARY, (*base, f"--bandits_type={GREEDY}", *privacy.flags_of(1.0, 0.1)))
    except UsageError as error:
        return f"noise needs --aggregator_type=dpsgd, with one clip norm, which these flags exclude: {error}"
    if settings.scenario in initial_flags.PRETRAINED or settings.initial_model_path:
        return "initial training spends privacy, too (scripts.privacy_budget and docs/privacy.md compose both)"
    if settings.availability or settings.drop_out:
        return "absent clients make no Poisson sample, so sampling does not amplify privacy (docs/environments.md)"
    return environment_flags.reset_of(settings).voids or ""
