"""Dynamic regret: how much less a configuration earns than the best known policy of each round's environment.

Besbes, Gur and Zeevi, "Stochastic multi-armed bandit problem with non-stationary rewards", 2014, section 2: the
comparator of a round is the best policy of that round's rewards. Here it is the final reward of the full-feedback
baseline that was trained in that round's environment alone. It is trained, too: the regret can be negative.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from bandits import environment_flags, options
from bandits.results import baselines, comparison, runs, tables
from bandits.results.comparison import Better
from bandits.results.configuration import Configuration, of_values
from bandits.results.configurations import ComparableRuns
from bandits.results.tables import Section
from optimization.study import cli, divergence
from optimization.study.intervals import Interval

FULL_FEEDBACK = "supervised_mse"  # `--bandits_type` of the full-feedback baseline.
_ABOUT = (
    "In each round: the final reward (mean of the last tenth of its rounds) of the full-feedback baseline that was "
    "trained in that round's environment alone, minus the configuration's reward. The baseline is trained, so dynamic "
    "regret can be negative. In a transition between two environments, the mixture of their baselines is the "
    "reference. The best policy of the mixture earns at most as much, so there the regret is an upper bound."
)
_REWARD = "reward"
_HEADS = ("Configuration", "Rounds", "Seeds", "Total", "Per round")

FullFeedback = Mapping[int, Configuration]  # Full-feedback baselines by environment.
# Maps rounds to the mean weight of each environment over them, float64 [environments].
Shares = Callable[[npt.NDArray[np.int_]], np.ndarray]


def finished_rounds(one: Configuration) -> int:
    """Number of rounds that all runs of a configuration have finished."""
    return min(int(run.metrics["round_num"].iloc[-1]) for run in one.runs)


def environments(one: Configuration, shares: Shares) -> list[int]:
    """Numbers of the environments in a configuration's finished rounds."""
    return np.flatnonzero(shares(np.arange(1, finished_rounds(one) + 1))).tolist()


def regret_per_round(
    one: Configuration, metric: str, shares: Shares, full_feedback: FullFeedback, better: Better | None = None
) -> Interval | None:
    """Mean dynamic regret per round; None without the needed baselines or a common seed, or if all runs diverged.

    A round without a reward counts as the mean of the others.

    Args:
      one: The configuration.
      metric: The reward per round.
      shares: The environment of each round.
      full_feedback: Full-feedback baselines of all environments in these rounds.
      better: Whether more or less is better (default: `comparison.direction`).
    """
    needed, last = environments(one, shares), finished_rounds(one)
    if not set(needed) <= set(full_feedback):
        return None
    earned = {}  # The rewards by round, by seed. A diverged run has none.
    for seed, run in runs.seeds(one.runs).items():
        table = run.metrics.set_index("round_num").reindex(columns=[metric])[metric].loc[:last]
        is_lost = divergence.is_lost(run.metrics, run.columns, run.flags)
        earned[seed] = table[np.isfinite(table) & (not is_lost)]
    rounds_of_all = np.concatenate([rewards.index for rewards in earned.values()])
    if not len(rounds_of_all):
        return None
    is_unpaired = one.unpaired or any(full_feedback[environment].unpaired for environment in needed)
    finals = {environment: full_feedback[environment].by_seed(metric) for environment in needed}
    best = {}
    for seed in sorted(set.intersection(*map(set, finals.values()))):
        # A paired seed is compared over its own rounds, an unpaired one over those of all seeds.
        is_alone = seed in earned and len(earned[seed]) and not is_unpaired
        weights = shares(earned[seed].index.to_numpy() if is_alone else rounds_of_all)
        best[seed] = float(sum(weights[environment] * finals[environment][seed] for environment in needed))
    means = {seed: float(rewards.mean()) if len(rewards) else math.nan for seed, rewards in earned.items()}
    configuration, reference = (
        dataclasses.replace(of_values(name, _REWARD, values), unpaired=is_unpaired)
        for name, values in (("configuration", means), (baselines.FULL_FEEDBACK, best))
    )
    better = comparison.direction(metric, better)
    (against,) = comparison.compare([(configuration, reference)], _REWARD, better)
    return baselines.regret(against, better)


def environment_shares(one: Configuration) -> Shares | None:
    """Environments of a configuration's rounds; None in a stationary environment."""
    flags = one.runs[0].flags
    if not flags.get("reward_drift"):
        return None
    drift = environment_flags.drift_of(cli.Settings(flags, frozenset()))
    if drift.kind == "none" or drift.only is not None:
        return None
    every = int(flags.get("bandits_deploy_freq") or 1) if flags.get("cache") == "persistent" else 1
    # The environment of the round in which a client acted determines its rewards.
    return lambda rounds: drift.shares(options.acted_in(rounds, every), None)


def sections(part: ComparableRuns) -> list[Section]:
    """Section "Dynamic regret"; empty in stationary environments."""
    shown, missing = [], []
    for one in part.configurations if part.columns else ():
        if (shares := environment_shares(one)) is None:
            continue
        full_feedback, needed = part.full_feedback_by_environment(one), environments(one, shares)
        if regret := regret_per_round(one, part.columns[0], shares, full_feedback):
            shown.append((one, regret))
        elif lacking := [environment for environment in needed if environment not in full_feedback]:
            numbers = " and ".join(f"environment {environment}" for environment in lacking)
            flags = " and ".join(f"--drift_environment={environment}" for environment in lacking)
            missing.append(
                f"The dynamic regret of {one.name} needs the full-feedback baseline of {numbers}: run the same with "
                f"--bandits_type={FULL_FEEDBACK}, and {flags}."
            )
        else:
            missing.append(
                f"{one.name} has no dynamic regret: it shares no seed with the full-feedback baseline of each "
                "environment."
            )
    rows: list[tables.Row] = []
    for one, regret in sorted(shown, key=lambda pair: pair[1].mean):
        rounds = finished_rounds(one)
        name = f"{one.name} ({one.role.value})" if one.role else one.name
        rows.append([name, rounds, regret.size, tables.estimate(regret.scaled(rounds)), tables.estimate(regret)])
    notes = [*[_ABOUT] * bool(rows), *missing]
    return [Section("Dynamic regret", _HEADS, rows, notes)] if notes else []
