"""Flags of non-stationary environments and of resets, and what they mean."""

import dataclasses
from typing import Any

from bandits import environments, registry, resets
from bandits.options import DRIFT
from data.errors import UsageError
from data.settings import Count, Fraction, Positive, declared, make_options, names, setting
from data.tasks import options as task_options
from optimization.posterior import flags as posterior_flags
from optimization.study import cli, selector_flags

_DRIFTS, _DELAYS, _RESETS = (tuple(kinds) for kinds in (environments.DRIFTS, environments.DELAYS, resets.WHAT))
_MOST_ROUNDS = 1e9  # Above any run's length.
# Their defaults depend on the length of the run or of its deployment period.
OF_LENGTH = ("drift_start", "drift_rounds", "drift_period", "delay_rounds")
_WITHOUT_REWARDS = (*task_options.OFFLINE, task_options.REPLAY)  # Values of --learn_from without simulated rewards.


@dataclasses.dataclass(frozen=True)
class Environments:
    """Non-stationary environments."""

    reward_drift: str = setting(
        lambda settings: "abrupt" if settings.scenario == DRIFT else None,
        "How rewards change over the bandits' rounds: each change permutes the actions' columns of the reward "
        "matrix (default: abrupt with --scenario=drift, else none)",
        {"none": "stationary", **environments.DRIFTS},
        used=lambda value, _: None if value == "none" else value,
    )
    drift_start: Count = setting(
        None,
        "First round of the change (default: the first of the run's second half)",
        only={"reward_drift": ("abrupt", "linear", "client")},
        filled=lambda settings: settings.total_rounds // 2 + 1,
    )
    drift_every: Count = setting(
        None,
        "Rounds between changes, each to another environment (default: one change)",
        only={"reward_drift": ("abrupt",)},
    )
    drift_rounds: Count = setting(
        None,
        "Length of the change, in rounds (default: a quarter of the run)",
        only={"reward_drift": ("linear", "client")},
        filled=lambda settings: max(1, settings.total_rounds // 4),
    )
    drift_period: int = setting(
        None,
        "Length of both seasons together, in rounds (default: half of the run)",
        low=2,
        only={"reward_drift": ("seasonal",)},
        filled=lambda settings: max(2, settings.total_rounds // 2),
    )
    drift_overlap: Fraction = setting(
        None, "Fraction of each season that blends into the next", only={"reward_drift": ("seasonal",)}, filled=0.0
    )
    drift_world: int = setting(
        None,
        "Run all rounds in this environment of the drift, 0 for the task's own. With "
        "--bandits_type=supervised_mse this is the full-feedback baseline for dynamic regret (default: as they "
        "change)",
        only={"reward_drift": _DRIFTS},
    )
    world_seed: int = setting(
        lambda settings: 0 if settings.reward_drift or settings.availability else None,
        "Seed of the environment, shared by runs of all seeds: permutations, clients' times of change, and "
        "clients' time zones",
    )
    reward_delay: str = setting(
        None,
        "Delay of rewards. A client trains on observed rewards; rewards that are not observed before the next "
        "deployment are lost. Needs --cache=persistent (default: none)",
        {"none": "no delay", **environments.DELAYS},
        used=lambda value, _: None if value == "none" else value,
    )
    delay_rounds: float = setting(
        None,
        "Maximum or mean delay, in rounds (default: half of --bandits_deploy_freq)",
        high=_MOST_ROUNDS,
        only={"reward_delay": _DELAYS},
        filled=lambda settings: float(settings.bandits_deploy_freq // 2),
    )
    delay_never: Fraction = setting(
        None, "Fraction of the rewards that are never observed", below=True, only={"reward_delay": _DELAYS}, filled=0.0
    )


@dataclasses.dataclass(frozen=True)
class Resets:
    """Resets."""

    reset: str = setting(
        None,
        "What a reset of the training restarts, for non-stationary environments",
        {"none": "nothing", **resets.WHAT},
        used=lambda value, _: None if value == "none" else value,
    )
    reset_when: str = setting(
        None, "Trigger of a reset", resets.WHEN, only={"reset": _RESETS}, filled=resets.PAGE_HINKLEY
    )
    reset_watch: str = setting(
        None, "Series that detectors watch", resets.WATCHED, only={"reset_when": resets.DETECTORS}, filled=resets.LOSS
    )
    reset_window: Count = setting(None, "Rounds from one reset to the next", only={"reset_when": (resets.WINDOW,)})
    reset_warmup: Count = setting(
        None,
        "Rounds after a start or a reset before a detector may trigger",
        only={"reset_when": resets.DETECTORS},
        filled=10,
    )
    page_hinkley_threshold: Positive = setting(
        None,
        "Rise of the series, summed over rounds, that triggers a reset; see docs/environments.md",
        only={"reset_when": (resets.PAGE_HINKLEY,)},
        filled=0.5,
    )


# Flags of the environment.
NAMES = ("scenario", *names(Environments), *names(selector_flags.Availabilities))


def define(flags: cli.FlagSet) -> None:
    """Defines the flags."""
    flags.group(Environments, *declared(selector_flags.Availabilities))
    flags.group(Resets)


def check(settings: cli.Settings) -> None:
    """Checks the environment and the resets against the other settings.

    Raises:
      UsageError: If they contradict each other, there are too many environments, or resets cannot happen.
    """
    if settings.scenario == DRIFT and not settings.reward_drift:
        raise UsageError(f"--scenario={DRIFT} has non-stationary rewards: leave out --reward_drift=none.")
    _check_availability(settings)
    if "world_seed" in settings.set_by_user and not (settings.reward_drift or settings.availability):
        raise UsageError("--world_seed has an effect only with --reward_drift or --availability.")
    for name in ("reward_drift", "reward_delay"):
        if settings[name] and settings.learn_from in _WITHOUT_REWARDS:
            raise UsageError(f"--{name}: with --learn_from={settings.learn_from} all rewards were logged before.")
    if settings.reward_delay and settings.cache != "persistent":
        raise UsageError("--reward_delay needs --cache=persistent, where clients keep the actions of delayed rewards.")
    if settings.reward_delay == "uniform" and settings.delay_rounds % 1:
        raise UsageError(f"--delay_rounds={settings.delay_rounds:g} must be whole with --reward_delay=uniform.")
    if settings.reset and not registry.BANDITS[settings.bandits_type].trains:
        raise UsageError(f"--reset has no effect with --bandits_type={settings.bandits_type}, which never trains.")
    if settings.reset == "optimizer" and settings.server_optimizer == "sgd" and not settings.server_sgd_momentum:
        raise UsageError("--reset=optimizer: --server_optimizer=sgd has no state without --server_sgd_momentum.")
    if settings.reset and settings.model_aggregation in posterior_flags.BURNING_IN:
        raise UsageError(
            f"--reset does not go with --model_aggregation={settings.model_aggregation}: it burns in once."
        )
    _check_reset_rounds(settings)
    if settings.reward_drift:
        _check_environments(settings)


def _check_availability(settings: cli.Settings) -> None:
    for name in ("availability", "drop_out"):
        if not settings[name]:
            continue
        if settings.client_selection != "uniform":
            raise UsageError(f"--{name} does not go with --client_selection, which chooses among all clients.")
        if settings.aggregator_type == "ddp":
            raise UsageError(f"--{name} does not go with --aggregator_type=ddp: too few shares of noise would come.")
    if settings.time_zones_by_label and settings.learn_from in _WITHOUT_REWARDS:
        raise UsageError(f"--time_zones_by_label: with --learn_from={settings.learn_from} clients have no labels.")


def _check_environments(settings: cli.Settings) -> None:
    if (count := _environments(settings)) > environments.MOST_ENVIRONMENTS:
        raise UsageError(
            f"--drift_every={settings.drift_every} makes {count} environments; the maximum is "
            f"{environments.MOST_ENVIRONMENTS}: give a larger --drift_every."
        )
    if settings.drift_world is not None and settings.drift_world >= count:
        raise UsageError(
            f"--drift_world={settings.drift_world} must be one of this drift's environments, 0 to {count - 1}."
        )


def _check_reset_rounds(settings: cli.Settings) -> None:
    if settings.reset_when == resets.WINDOW and not settings.reset_window:
        raise UsageError("--reset_when=window needs --reset_window, best a multiple of --bandits_deploy_freq.")
    total = f"--total_rounds={settings.total_rounds}"
    if settings.reset_window and settings.reset_window >= settings.total_rounds:
        raise UsageError(f"--reset_window={settings.reset_window} must be below {total}, or there is no reset.")
    if settings.reset and settings.reset_when in resets.DETECTORS and settings.total_rounds > resets.MOST_LOSSES:
        most = f"{resets.MOST_LOSSES:,} rounds"
        raise UsageError(f"--reset_when={settings.reset_when} follows {most}, not {total}: use {resets.WINDOW}.")


def _environments(settings: cli.Settings) -> int:
    every = settings.drift_every
    return 2 + max(0, (settings.total_rounds - settings.drift_start) // every) if every else 2


def _prefixed(settings: cli.Settings, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): settings[name] for name in settings if name.startswith(prefix)}


def drift_of(settings: cli.Settings) -> environments.Drift:
    """How rewards change."""
    if not settings.reward_drift:
        return environments.NO_DRIFT
    kind, count, seed = settings.reward_drift, _environments(settings), settings.world_seed
    values = _prefixed(settings, "drift_")
    return make_options(environments.Drift, values, kind=kind, environments=count, seed=seed, only=settings.drift_world)


def delay_of(settings: cli.Settings) -> environments.Delay:
    """How late rewards are."""
    values = _prefixed(settings, "delay_")
    return make_options(environments.Delay, values, kind=settings.reward_delay or "none")


def reset_of(settings: cli.Settings) -> resets.Reset:
    """What is reset, and when."""
    return make_options(
        resets.Reset,
        _prefixed(settings, "reset_"),
        what=settings.reset or "none",
        watched=settings.reset_watch or resets.LOSS,
        threshold=settings.page_hinkley_threshold or 0.0,
    )
