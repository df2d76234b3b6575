"""Stages of a recommendation: each executes its runs and adds their results."""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bandits import federation_flags, metrics, resets, studies, task_defaults
from bandits import flags as run_flags
from bandits import options as run_options
from bandits.advice import findings
from bandits.advice import plan as planning
from bandits.advice.findings import Findings
from bandits.advice.inputs import Data
from bandits.advice.plan import GREEDY, UNIFORM, Plan
from bandits.advice.session import Session, print_status
from bandits.plans import sweep
from bandits.plans.plan import Run
from bandits.results import baselines, federating
from bandits.results.configuration import Baseline, Configuration
from data.errors import UsageError
from data.settings import make_options
from optimization.privacy import calibration
from optimization.privacy.mechanisms import Mechanism
from optimization.study import run_folder

_SHOWN = 0.5  # Share of the linear model's gain in the average reward of all rounds.
_ALONE = (f"--federation={run_options.ALONE}",)


@dataclasses.dataclass
class Stages:
    """Runs the stages of a recommendation.

    Attributes:
      session: Executes runs.
      spaces: Search spaces by strategy.
      data: Facts about the data.
      deployment: Where the model would be trained.
      epsilons: Epsilons to try.
      results: Results so far.
      can_lengthen: Whether the command leaves the number of rounds open.
    """

    session: Session
    spaces: Mapping[str, planning.Space]
    data: Data
    deployment: Mechanism
    epsilons: Sequence[float]
    results: Findings
    can_lengthen: bool = False

    def run(self) -> None:
        """Runs all stages."""
        stages = (self.search, self.compare, self.confirm, self.add_noise, self.deploy_often, self.federate)
        for name, run_stage in zip(planning.STAGES, stages, strict=True):
            run_stage(self.session.begin(name))
            self.session.end()

    @property
    def _base(self) -> tuple[str, ...]:
        return (*self.session.base, f"--total_rounds={self.session.plan.rounds}")

    def search(self, plan: Plan) -> None:
        """Tunes each strategy, with equal numbers of points and rounds."""
        base, results = (*self.session.base, f"--total_rounds={plan.search_rounds}"), self.results
        for name in plan.configurations:
            space = self.spaces[name]
            if plan.points < 2:
                results.notes[name] = ["hyperparameters are the defaults, not tuned"]
                results.configurations[name] = findings.planned(name, space.first)
                continue
            # The uniform policy's reward does not depend on hyperparameters: its model is searched.
            metric = results.measured if name == UNIFORM else findings.REWARD
            runs = planning.searched(base, space, plan.points, plan.tuning_seeds)
            points = self.session.halve("search", runs, metric)
            results.searches[name] = findings.search(points, space)
            if math.isnan(sweep.mean(points[0])):
                print_status(f"{planning.NAMES[name]}: every hyperparameter setting of its search diverged.")
                continue
            point = space.point_of(points[0][0].run)
            results.notes[name] = [
                f"--{flag} is at the edge of the searched range, so a better value may lie beyond it"
                for flag in space.edges(point)
            ]
            results.configurations[name] = findings.planned(name, point)
        if plan.points < 2:
            return
        self._read_models(plan.search_rounds)
        for done in range(1, plan.doublings + 1):
            self._continue_search(plan.search_rounds << done)
        while self.can_lengthen and self._is_far() and self.session.lengthen():
            self._continue_search(self.session.plan.rounds)

    def _continue_search(self, rounds: int) -> None:
        """Runs the best settings of each strategy for more rounds."""
        self.session.run("search", [run for runs in self._best_runs(rounds).values() for run in runs])
        self._read_models(rounds)

    def _best_runs(self, rounds: int) -> dict[str, list[Run]]:
        base, seeds = (*self.session.base, f"--total_rounds={rounds}"), self.session.plan.tuning_seeds
        best = self.results.configurations.items()
        return {name: planning.runs(base, name, findings.point(one), planning.TUNING_SEED, seeds) for name, one in best}

    def _read_models(self, rounds: int) -> None:
        """Reads what the best settings have learned and earned."""
        folder, results = self.session.folder / "search", self.results
        for name, runs in self._best_runs(rounds).items():
            finished = [folder / run.name for run in runs if sweep.finished_rounds(folder / run.name) >= rounds]
            for column, means in ((metrics.HELD_OUT_REWARD, results.learned), (findings.REWARD, results.searched)):
                values = [sweep.read_value(path, column, rounds) for path in finished]
                means[name] = statistics.fmean(values) if values else math.nan

    def _is_far(self) -> bool:
        """Whether no model comes near the central linear model, or no strategy's reward shows what was learned.

        Without references, or if the linear model is no better than the uniform policy, there is nothing to reach.
        """
        references, results = self.data.references, self.results
        if references is None or math.isnan(references.near_linear):
            return False
        uniform = findings.recorded_baselines(self.session.folder / "search").get(Baseline.uniform_policy)
        mean = math.nan if uniform is None else baselines.interval(uniform, findings.REWARD).mean
        least = mean + _SHOWN * references.measured_gain
        earned = (value for name, value in results.searched.items() if name in planning.STRATEGIES)
        is_near = any(value >= references.near_linear for value in results.learned.values())
        return not (is_near and (uniform is None or any(value >= least for value in earned)))

    def _run(
        self,
        folder: str,
        strategies: Mapping[str, Configuration],
        first_seed: int,
        seeds: int,
        more: Mapping[str, Sequence[str]] | None = None,
    ) -> dict[str, Configuration]:
        """Executes the runs of several strategies together; returns the strategies with their results.

        Args:
          folder: Name of the runs' folder.
          strategies: The strategies.
          first_seed: Their first seed.
          seeds: Number of consecutive seeds.
          more: Further flags of each strategy.
        """
        planned = {
            key: planning.runs(self._base, one.name, findings.point(one), first_seed, seeds, *(more or {}).get(key, ()))
            for key, one in strategies.items()
        }
        executed = self.session.run(folder, [run for runs in planned.values() for run in runs])
        path, measured = self.session.folder / folder, self.results.measured
        return {
            key: findings.with_runs(one, [executed[run.name] for run in planned[key]], path, measured)
            for key, one in strategies.items()
        }

    def compare(self, plan: Plan) -> None:
        """Compares all strategies on new seeds."""
        results = self.results
        results.configurations = self._run("compare", results.configurations, planning.SEED, plan.seeds)
        results.baselines = dict(findings.recorded_baselines(self.session.folder / "compare"))
        if UNIFORM in results.configurations:
            results.baselines.setdefault(Baseline.uniform_policy, results.configurations[UNIFORM])
        results.parameters = self._dimension()
        results.verdict = findings.verdict(results.configurations, results.baselines)
        results.why_no_noise = results.why_no_noise or self._why_no_noise(results.verdict.recommended)
        if results.why_no_noise:
            self.session.leave_out_noise()

    def _why_no_noise(self, name: str | None) -> str:
        if self.results.verdict.all_diverged:
            return "every strategy diverged, or failed"
        if name is None:
            return "no strategy earns significantly more than the uniform policy, so noise would show nothing"
        if not all(map(math.isfinite, self.results.configurations[name].by_seed(metrics.CLIP_NORM).values())):
            return "its runs do not clip, and the noise is a multiple of the clip norm"
        return ""

    def confirm(self, plan: Plan) -> None:
        """Runs the best strategy and greedy on seeds that did not select it."""
        results, best = self.results, self.results.verdict.best
        if best and results.verdict.recommended and GREEDY in results.configurations and plan.independent_seeds:
            both = {name: results.configurations[name] for name in (best, GREEDY)}
            results.confirmed = self._run("confirm", both, planning.INDEPENDENT_SEED, plan.independent_seeds)

    def deploy_often(self, plan: Plan) -> None:
        """Deploys the best strategy and greedy more often."""
        if not plan.frequent_seeds:
            return
        results = self.results
        best, finished = results.verdict.best, results.configurations
        both = {name: finished[name] for name in (GREEDY, best) if name in finished}
        # Paired with the comparison by its seeds.
        flags, seeds = [f"--bandits_deploy_freq={plan.often}"], min(plan.frequent_seeds, plan.seeds)
        results.more_often = self._run("compare", both, planning.SEED, seeds, dict.fromkeys(both, flags))

    def federate(self, plan: Plan) -> None:
        """Trains each client alone, and together."""
        results, name = self.results, self.results.verdict.recommended or GREEDY
        if not plan.federation_seeds or name not in results.configurations:
            return
        kinds = {federating.FEDERATED: ["--report_clients"], federating.ALONE: ["--report_clients", *_ALONE]}
        both = dict.fromkeys(kinds, results.configurations[name])
        results.federation = self._run("federate", both, planning.SEED, plan.federation_seeds, kinds)
        folders = [run.folder for one in results.federation.values() for run in one.runs]
        reports = [folder for folder in folders if (folder / run_folder.CLIENT_REPORT_FILE).exists()]
        if len(reports) == len(kinds) * plan.federation_seeds:
            results.by_client = federating.helped(federating.read(reports))

    def add_noise(self, plan: Plan) -> None:
        """Trains the recommended strategy with noise."""
        results, name = self.results, self.results.verdict.recommended
        if not name or not plan.epsilons or results.why_no_noise:
            return
        results.strategy_with_noise, strategy = name, results.configurations[name]
        clip_norm = statistics.median(strategy.by_seed(metrics.CLIP_NORM).values())
        targets: list[dict[str, Any]] = [{"noise_multiplier": 0.0, "run_noise_multiplier": 0.0}]
        for epsilon in sorted(self.epsilons[: plan.epsilons]):
            targets.append(noise(self.deployment, plan.rounds, self.data.cohort, epsilon, results.parameters))
        noisy = {findings.noise_name(one): one for one in targets if "error" not in one}
        flags = {
            key: noise_flags(one["run_noise_multiplier"], clip_norm, one.get("bands", 0)) for key, one in noisy.items()
        }
        seeds = planning.INDEPENDENT_SEED, plan.noise_seeds
        found = self._run("noise", dict.fromkeys(noisy, strategy), *seeds, flags)
        nothing = findings.planned(name, findings.point(strategy))
        results.noise = [
            one | {"clip_norm": clip_norm, "results": found.get(findings.noise_name(one), nothing)} for one in targets
        ]

    def _dimension(self) -> int:
        """Number of parameters of the compared models."""
        for path in self.session.folder.glob(f"compare/**/{run_folder.MODEL_FILE}"):
            return sum(weights.size for weights in run_folder.read_model(str(path)).values())
        return 1


def refused_federation(base: Sequence[str], num_clients: int) -> str:
    """Why the flags of all runs, or their number of clients, exclude clients that train alone; empty if they do not."""
    try:
        settings = studies.resolve(planning.BINARY, (*base, f"--bandits_type={GREEDY}", "--report_clients", *_ALONE))
        federation_flags.warnings(run_flags.options(settings), num_clients)
    except UsageError as error:
        return str(error)
    return ""


def refused_noise(base: Sequence[str]) -> str:
    """Why the flags of all runs exclude noise, in words; empty if they do not."""
    try:
        settings = studies.resolve(planning.BINARY, (*base, f"--bandits_type={GREEDY}", *noise_flags(1.0, 0.1)))
    except UsageError as error:
        return f"noise needs --aggregator_type=dpsgd, with one clip norm, which these flags exclude: {error}"
    if settings.scenario in task_defaults.PRETRAINED or settings.initial_model_path:
        return "initial training spends privacy, too (scripts.privacy_budget and docs/privacy.md compose both)"
    if settings.availability or settings.drop_out:
        return "absent clients make no Poisson sample, so sampling does not amplify privacy (docs/environments.md)"
    return make_options(resets.Reset, settings).voids


def noise(deployment: Mechanism, rounds: int, cohort: int, epsilon: float, dimension: int = 1) -> dict[str, Any]:
    """The mechanism with the least noise for an epsilon in deployment, its noise in a run, and its guarantee.

    Args:
      deployment: Where the model would be trained.
      rounds: Rounds.
      cohort: Clients of a round of the run.
      epsilon: The epsilon.
      dimension: Parameters of the model.

    Returns:
      `target_epsilon`; `mechanism`, in words; `noise_multiplier` in deployment; `run_noise_multiplier`; `bands`, 0 for
      independent noise; `guarantee`, as in privacy.json of a run. `target_epsilon` and `error` alone if no noise in a
      wide range reaches the epsilon.
    """
    plans = calibration.alternatives(deployment, rounds, epsilon, dimension)
    # No tree: bands with the same cohorts have less noise.
    mechanisms = [one.mechanism for one in plans if one.mechanism.kind != "dpftrl"]
    if not mechanisms:
        return {"target_epsilon": epsilon, "error": f"no noise multiplier from 0.01 to 1e6 reaches epsilon {epsilon:g}"}
    chosen = mechanisms[0]
    return {
        "target_epsilon": epsilon,
        "mechanism": chosen.name,
        "noise_multiplier": chosen.noise_multiplier,
        "run_noise_multiplier": calibration.noise_of_sample(chosen.noise_multiplier, cohort, deployment.cohort),
        "bands": chosen.bands if chosen.kind == "mf_dpftrl" else 0,
        "guarantee": chosen.report(rounds),
    }


def noise_flags(run_noise_multiplier: float, clip_norm: float, bands: int = 0) -> tuple[str, ...]:
    """Flags of a run with noise, which is seeded, so that runs of one seed differ in the noise alone.

    All runs have Poisson cohorts, whatever the deployment's sampling, so that all epsilons have the same cohorts.

    Args:
      run_noise_multiplier: Noise multiplier of the run.
      clip_norm: Clip norm.
      bands: Bands of correlated noise; 0 for independent noise.
    """
    seeded = ["--insecure_seeded_noise"] if run_noise_multiplier else []
    return (
        *(["--aggregator_type=mf_dpftrl", f"--mf_bands={bands}"] if bands else ["--aggregator_type=dpsgd"]),
        "--noadaptive_clipping",
        f"--clip_norm={clip_norm:.4g}",
        f"--noise_multiplier={run_noise_multiplier:.6g}",
        "--cohort_sampling=poisson",
        *seeded,
    )
