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
from bandits.results import baselines, federating
from bandits.results.configuration import Baseline, Configuration
from data.errors import UsageError
from data.settings import make_options
from optimization.privacy import calibration
from optimization.privacy.mechanisms import Mechanism
from optimization.study import run_folder

# Share of the linear model's gain over the uniform policy that a strategy must earn, on average over all rounds.
_SHOWN = 0.5
_ALONE = (f"--federation={run_options.ALONE}",)


@dataclasses.dataclass
class Stages:
    """Runs the stages of a recommendation.

    Attributes:
      session: The session that executes all runs.
      spaces: Search spaces by strategy.
      data: Facts about the data.
      deployment: Privacy mechanism of the real application that would train the model.
      epsilons: Epsilons to try.
      results: Results so far.
      can_lengthen: Whether the search may double the number of rounds.
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
        stages = (self.search, self.compare, self.confirm, self.add_noise, self.federate)
        for name, run_stage in zip(planning.STAGES, stages, strict=True):
            run_stage(self.session.begin(name))
            self.session.end()

    def search(self, plan: Plan) -> None:
        """Tunes each strategy with the same number of points and rounds, or takes the defaults without a search."""
        results = self.results
        if plan.points < 2:
            defaults = {name: self.spaces[name].tried_first[0] for name in plan.configurations}
            results.configurations = {name: findings.with_point(name, point) for name, point in defaults.items()}
            return
        base, best = (*self.session.base, f"--total_rounds={plan.search_rounds}"), {}
        for name in plan.configurations:
            # The uniform policy's reward does not depend on hyperparameters, so its model is tuned instead.
            metric = metrics.HELD_OUT_REWARD if name == UNIFORM else findings.REWARD
            seeds = planning.TUNING_SEED, plan.tuning_seeds
            points = self.spaces[name].points(plan.points)
            runs = [run for point in points for run in planning.runs(base, name, point, *seeds)]
            ranked = self.session.halve("search", runs, metric)
            results.searches[name] = [
                {
                    "flags": self.spaces[name].point_of(outcomes[0].run),
                    "rounds": sweep.rounds_of(outcomes),
                    "values": {outcome.run.seed: outcome.value for outcome in outcomes},
                    "status": ", ".join(dict.fromkeys(outcome.status for outcome in outcomes)),
                }
                for outcomes in ranked
            ]
            if math.isnan(sweep.mean(ranked[0])):
                print_status(f"{planning.NAMES[name]}: every hyperparameter setting in its search diverged or failed.")
            else:
                best[name] = findings.with_point(name, results.searches[name][0]["flags"])
        results.configurations = best
        self._continue_search(plan.search_rounds)
        for done in range(1, plan.doublings + 1):
            self._continue_search(plan.search_rounds << done)
        while self.can_lengthen and self._is_far() and self.session.lengthen():
            self._continue_search(self.session.plan.rounds)

    def _continue_search(self, rounds: int) -> None:
        """Runs the best setting of each strategy up to a number of rounds."""
        seeds = planning.TUNING_SEED, self.session.plan.tuning_seeds
        self.results.searched = self._run("search", self.results.configurations, *seeds, rounds=rounds)

    def _is_far(self) -> bool:
        """Whether no model comes close to the central linear model, or no strategy earns half of that model's gain.

        The gain is over the uniform policy. Without references, or without a gain, the answer is no.
        """
        references, searched = self.data.references, self.results.searched
        if references is None or math.isnan(references.near_linear):
            return False
        learned = [best.estimate(metrics.HELD_OUT_REWARD).mean for best in searched.values()]
        is_near = any(reward >= references.near_linear for reward in learned)
        uniform = findings.recorded_baselines(searched).get(Baseline.uniform_policy)
        if uniform is None or not is_near:
            return not is_near
        least = baselines.interval(uniform, findings.REWARD).mean + _SHOWN * references.measured_gain
        strategies = [searched[name] for name in planning.STRATEGIES if name in searched]
        return not any(strategy.estimate(findings.REWARD).mean >= least for strategy in strategies)

    def _run(
        self,
        folder: str,
        strategies: Mapping[str, Configuration],
        first_seed: int,
        seeds: int,
        more: Mapping[str, Sequence[str]] | None = None,
        rounds: int = 0,
    ) -> dict[str, Configuration]:
        """Executes the runs of several strategies together; returns their results.

        Args:
          folder: Name of the runs' folder.
          strategies: The strategies, keyed by the name of their results.
          first_seed: First seed.
          seeds: Number of consecutive seeds.
          more: Additional flags, keyed by the same names.
          rounds: Number of rounds (default: the plan's).
        """
        base = (*self.session.base, f"--total_rounds={rounds or self.session.plan.rounds}")
        planned = {
            name: planning.runs(base, strategy.name, strategy.flags, first_seed, seeds, *(more or {}).get(name, ()))
            for name, strategy in strategies.items()
        }
        executed = self.session.run(folder, [run for runs in planned.values() for run in runs])
        results = {}
        for name, strategy in strategies.items():
            outcomes = [executed[run.name] for run in planned[name]]
            results[name] = findings.with_runs(name, strategy.flags, outcomes, self.session.folder / folder)
        return results

    def compare(self, plan: Plan) -> None:
        """Compares all strategies on new seeds."""
        results = self.results
        results.configurations = self._run("compare", results.configurations, planning.SEED, plan.seeds)
        results.baselines = dict(findings.recorded_baselines(results.configurations))
        if UNIFORM in results.configurations:
            results.baselines.setdefault(Baseline.uniform_policy, results.configurations[UNIFORM])
        results.verdict = findings.verdict(results.configurations, results.baselines)
        results.why_no_noise = results.why_no_noise or self._why_no_noise(results.verdict.recommended)
        if results.why_no_noise:
            self.session.leave_out_noise()

    def _why_no_noise(self, name: str | None) -> str:
        if self.results.verdict.all_diverged:
            return "every strategy diverged or failed"
        if name is None:
            return "no strategy earns significantly more than the uniform policy, so adding noise would show nothing"
        if not all(map(math.isfinite, self.results.configurations[name].by_seed(metrics.CLIP_NORM).values())):
            return "its runs do not clip updates, but noise is a multiple of the clip norm"
        return ""

    def confirm(self, plan: Plan) -> None:
        """Runs the best strategy and greedy on seeds that were not used to select it."""
        results, best = self.results, self.results.verdict.best
        if best and results.verdict.recommended and GREEDY in results.configurations and plan.independent_seeds:
            both = {name: results.configurations[name] for name in (best, GREEDY)}
            results.confirmed = self._run("confirm", both, planning.INDEPENDENT_SEED, plan.independent_seeds)

    def add_noise(self, plan: Plan) -> None:
        """Trains the recommended strategy without noise, and with the noise of each epsilon."""
        results, name = self.results, self.results.verdict.recommended
        if not name or not plan.epsilons or results.why_no_noise:
            return
        strategy = results.configurations[name]
        results.clip_norm = statistics.median(strategy.by_seed(metrics.CLIP_NORM).values())
        models = self.session.folder.glob(f"compare/**/{run_folder.MODEL_FILE}")
        dimension = sum(weights.size for weights in run_folder.read_model(str(next(models))).values())
        results.noise[findings.NO_NOISE] = {"noise_multiplier": 0.0, "run_noise_multiplier": 0.0, "bands": 0}
        for epsilon in sorted(self.epsilons[: plan.epsilons]):
            noise_of_epsilon = noise(self.deployment, plan.rounds, self.data.cohort, epsilon, dimension)
            results.noise[f"epsilon {epsilon:g}"] = noise_of_epsilon
        flags = {
            name: noise_flags(entry["run_noise_multiplier"], results.clip_norm, entry["bands"])
            for name, entry in results.noise.items()
            if "error" not in entry
        }
        seeds = planning.INDEPENDENT_SEED, planning.NOISE_SEEDS
        results.with_noise = self._run("noise", dict.fromkeys(flags, strategy), *seeds, flags)

    def federate(self, plan: Plan) -> None:
        """Trains each client alone, and all clients together."""
        results, name = self.results, self.results.verdict.recommended or GREEDY
        if not plan.federation_seeds or name not in results.configurations:
            return
        kinds = {federating.FEDERATED: ["--report_clients"], federating.ALONE: ["--report_clients", *_ALONE]}
        both = dict.fromkeys(kinds, results.configurations[name])
        results.federation = self._run("federate", both, planning.SEED, plan.federation_seeds, kinds)
        folders = [run.folder for kind in results.federation.values() for run in kind.runs]
        reports = [folder for folder in folders if (folder / run_folder.CLIENT_REPORT_FILE).exists()]
        if len(reports) == len(kinds) * plan.federation_seeds:
            results.by_client = federating.helped(federating.read(reports))


def refused_federation(base: Sequence[str], num_clients: int) -> str:
    """Why clients cannot train alone with these flags or this number of clients; empty if they can."""
    try:
        settings = studies.resolve(planning.BINARY, (*base, f"--bandits_type={GREEDY}", "--report_clients", *_ALONE))
        federation_flags.warnings(run_flags.options(settings), num_clients)
    except UsageError as error:
        return str(error)
    return ""


def refused_noise(base: Sequence[str]) -> str:
    """Why noise cannot be added with these flags; empty if it can."""
    try:
        settings = studies.resolve(planning.BINARY, (*base, f"--bandits_type={GREEDY}", *noise_flags(1.0, 0.1)))
    except UsageError as error:
        return f"noise needs --aggregator_type=dpsgd with one clip norm, which these flags do not allow: {error}"
    if settings.scenario in task_defaults.PRETRAINED or settings.initial_model_path:
        return "the initial training spends privacy budget, too (see docs/privacy.md and scripts.privacy_budget)"
    if settings.availability or settings.drop_out:
        return "cohorts with absent clients are not Poisson samples, so privacy is not amplified (docs/environments.md)"
    return make_options(resets.Reset, settings).voids


def noise(deployment: Mechanism, rounds: int, cohort: int, epsilon: float, dimension: int = 1) -> dict[str, Any]:
    """The mechanism with the least noise for an epsilon in deployment, its noise in a run, and its guarantee.

    Args:
      deployment: Privacy mechanism of the real application that would train the model.
      rounds: Number of rounds.
      cohort: Number of clients in a round of the run.
      epsilon: The epsilon.
      dimension: Number of model parameters.

    Returns:
      `mechanism`, a description; `noise_multiplier` in deployment; `run_noise_multiplier`; `bands`, 0 for independent
      noise; `guarantee`, as in privacy.json of a run. `error` alone if no noise multiplier from 0.01 to 1e6
      reaches the epsilon.
    """
    plans = calibration.alternatives(deployment, rounds, epsilon, dimension)
    # Tree aggregation is left out: banded noise with the same cohorts is smaller.
    mechanisms = [plan.mechanism for plan in plans if plan.mechanism.kind != "dpftrl"]
    if not mechanisms:
        return {"error": f"no noise multiplier from 0.01 to 1e6 reaches epsilon {epsilon:g}"}
    chosen = mechanisms[0]
    return {
        "mechanism": chosen.name,
        "noise_multiplier": chosen.noise_multiplier,
        "run_noise_multiplier": calibration.noise_of_sample(chosen.noise_multiplier, cohort, deployment.cohort),
        "bands": chosen.bands if chosen.kind == "mf_dpftrl" else 0,
        "guarantee": chosen.report(rounds),
    }


def noise_flags(run_noise_multiplier: float, clip_norm: float, bands: int = 0) -> tuple[str, ...]:
    """Flags of a run whose noise and cohorts follow its seed, so that runs of a seed differ only in how much noise.

    All runs sample Poisson cohorts, even if the deployment does not, so that all epsilons have the same cohorts.

    Args:
      run_noise_multiplier: Noise multiplier of the run.
      clip_norm: Clip norm.
      bands: Bands of correlated noise; 0 for independent noise.
    """
    return (
        *(["--aggregator_type=mf_dpftrl", f"--mf_bands={bands}"] if bands else ["--aggregator_type=dpsgd"]),
        "--noadaptive_clipping",
        f"--clip_norm={clip_norm:.4g}",
        f"--noise_multiplier={run_noise_multiplier:.6g}",
        "--cohort_sampling=poisson",
        *["--insecure_seeded_noise"] * bool(run_noise_multiplier),
    )
