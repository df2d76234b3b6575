"""Flags of non-stationary environments and of resets, and what they mean."""

from bandits import environments, registry, resets
from data.errors import UsageError
from data.tasks import options as task_options
from optimization.options import named
from optimization.posterior import flags as posterior_flags
from optimization.study import cli, selector_flags
from optimization.study.settings import declared, names, setting

SCENARIO = "drift"  # Random initial weights, non-stationary rewards.
_DRIFTS, _DELAYS, _RESETS = (tuple(kinds) for kinds in (environments.DRIFTS, environments.DELAYS, resets.WHAT))
_MOST_ROUNDS = 1e9  # Above any run's length.
# Their defaults depend on the length of the run or of its deployment period.
OF_LENGTH = ("drift_start", "drift_rounds", "drift_period", "delay_rounds")
_WITHOUT_REWARDS = (*task_options.OFFLINE, task_options.REPLAY)  # Values of --learn_from without simulated rewards.


class Environments:
    """Non-stationary environments.

    Attributes:
      reward_drift: How rewards change over the bandits' rounds: each change permutes the actions' columns of the reward
        matrix (default: abrupt with --scenario=drift, else none).
      drift_start: First round of the change (default: the first of the run's second half).
      drift_every: Rounds between changes, each to another environment (default: one change).
      drift_rounds: Length of the change, in rounds (default: a quarter of the run).
      drift_period: Length of both seasons together, in rounds (default: half of the run).
      drift_overlap: Fraction of each season that blends into the next.
      drift_world: Run all rounds in this environment of the drift, 0 for the task's own. With
        --bandits_type=supervised_mse this is the full-feedback baseline for dynamic regret (default: as they change).
      world_seed: Seed of the environment, shared by runs of all seeds: permutations, clients' times of change, and
        clients' time zones.
      reward_delay: Delay of rewards. A client trains on observed rewards; rewards that are not observed before the next
        deployment are lost. Needs --cache=persistent (default: none).
      delay_rounds: Maximum or mean delay, in rounds (default: half of --bandits_deploy_freq).
      delay_never: Fraction of the rewards that are never observed.
    """

    reward_drift: str = setting(words={"none": "stationary", **environments.DRIFTS})
    drift_start: int = setting(low=1, only={"reward_drift": ("abrupt", "linear", "client")})
    drift_every: int = setting(low=1, only={"reward_drift": ("abrupt",)})
    drift_rounds: int = setting(low=1, only={"reward_drift": ("linear", "client")})
    drift_period: int = setting(low=2, only={"reward_drift": ("seasonal",)})
    drift_overlap: float = setting(high=1.0, only={"reward_drift": ("seasonal",)}, filled=0.0)
    drift_world: int = setting(only={"reward_drift": _DRIFTS})
    world_seed: int = setting()
    reward_delay: str = setting(words={"none": "no delay", **environments.DELAYS})
    delay_rounds: float = setting(high=_MOST_ROUNDS, only={"reward_delay": _DELAYS})
    delay_never: float = setting(high=1.0, below=True, only={"reward_delay": _DELAYS}, filled=0.0)


class Resets:
    """Resets.

    Attributes:
      reset: What a reset of the training restarts, for non-stationary environments.
      reset_when: Trigger of a reset.
      reset_watch: Series that detectors watch.
      reset_window: Rounds from one reset to the next.
      reset_warmup: Rounds after a start or a reset before a detector may trigger.
      page_hinkley_threshold: Rise of the series, summed over rounds, that triggers a reset; see docs/environments.md.
    """

    reset: str = setting(words={"none": "nothing", **resets.WHAT})
    reset_when: str = setting(words=resets.WHEN, only={"reset": _RESETS}, filled=resets.PAGE_HINKLEY)
    reset_watch: str = setting(words=resets.WATCHED, only={"reset_when": resets.DETECTORS}, filled=resets.LOSS)
    reset_window: int = setting(low=1, only={"reset_when": (resets.WINDOW,)})
    reset_warmup: int = setting(low=1, only={"reset_when": resets.DETECTORS}, filled=10)
    page_hinkley_threshold: float = setting(above=True, only={"reset_when": (resets.PAGE_HINKLEY,)}, filled=0.5)


# Flags of the environment.
NAMES = ("scenario", *names(Environments), *names(selector_flags.Availabilities))


def define(flags: cli.FlagSet) -> None:
    """Defines the flags."""
    flags.group(Environments, *declared(selector_flags.Availabilities))
    flags.group(Resets)


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in the environment of `--scenario`.

    Raises:
      UsageError: If it contradicts `--reward_drift`.
    """
    kind = settings.reward_drift
    if settings.scenario == SCENARIO:
        if kind == "none":
            raise UsageError(f"--scenario={SCENARIO} has non-stationary rewards: leave out --reward_drift=none.")
        kind = kind or "abrupt"
    for name in ("reward_delay", "reset"):
        settings = settings.replace(**{name: None if settings[name] == "none" else settings[name]})
    settings = settings.replace(reward_drift=None if kind == "none" else kind)
    _check_availability(settings)
    has_zones = settings.availability not in (None, "always")
    if "world_seed" in settings.set_by_user and not (settings.reward_drift or has_zones):
        raise UsageError("--world_seed has an effect only with --reward_drift or --availability.")
    for name in ("reward_drift", "reward_delay"):
        if settings[name] and settings.learn_from in _WITHOUT_REWARDS:
            raise UsageError(f"--{name}: with --learn_from={settings.learn_from} all rewards were logged before.")
    if settings.reward_delay and settings.cache != "persistent":
        raise UsageError("--reward_delay needs --cache=persistent, where clients keep the actions of delayed rewards.")
    if settings.reward_delay == "uniform" and (settings.delay_rounds or 0) % 1:
        raise UsageError(f"--delay_rounds={settings.delay_rounds:g} must be whole with --reward_delay=uniform.")
    if settings.reset and not registry.BANDITS[settings.bandits_type].trains:
        raise UsageError(f"--reset has no effect with --bandits_type={settings.bandits_type}, which never trains.")
    if settings.reset == "optimizer" and settings.server_optimizer == "sgd" and not settings.server_sgd_momentum:
        raise UsageError("--reset=optimizer: --server_optimizer=sgd has no state without --server_sgd_momentum.")
    if settings.reset and settings.model_aggregation in posterior_flags.BURNING_IN:
        raise UsageError(
            f"--reset does not go with --model_aggregation={settings.model_aggregation}: it burns in once."
        )
    return settings


def _check_availability(settings: cli.Settings) -> None:
    for name in ("availability", "drop_out"):
        if settings[name] in (None, "always", 0):
            continue
        if settings.client_selection != "uniform":
            raise UsageError(f"--{name} does not go with --client_selection, which chooses among all clients.")
        if settings.aggregator_type == "ddp":
            raise UsageError(f"--{name} does not go with --aggregator_type=ddp: too few shares of noise would come.")
    if settings.time_zones_by_label and settings.learn_from in _WITHOUT_REWARDS:
        raise UsageError(f"--time_zones_by_label: with --learn_from={settings.learn_from} clients have no labels.")


def with_rounds(settings: cli.Settings) -> cli.Settings:
    """Fills in what follows from the number of rounds; needs what `Settings.settled` fills in.

    Raises:
      UsageError: If there are too many environments, an unknown one, or resets that cannot happen.
    """
    total = settings.total_rounds
    settings = selector_flags.resolve_availability(settings)
    if settings.reward_delay:
        settings = settings.filled({"delay_rounds": float(settings.bandits_deploy_freq // 2)})
    _check_reset_rounds(settings)
    if not settings.reward_drift:
        return settings
    if settings.reward_drift == "seasonal":
        settings = settings.filled({"drift_period": max(2, total // 2)})
    else:
        settings = settings.filled({"drift_start": total // 2 + 1})
    if settings.reward_drift in ("linear", "client"):
        settings = settings.filled({"drift_rounds": max(1, total // 4)})
    settings = settings.filled({"world_seed": 0})
    if (count := _environments(settings)) > environments.MOST_ENVIRONMENTS:
        raise UsageError(
            f"--drift_every={settings.drift_every} makes {count} environments; the maximum is "
            f"{environments.MOST_ENVIRONMENTS}: give a larger --drift_every."
        )
    if settings.drift_world is not None and settings.drift_world >= count:
        raise UsageError(
            f"--drift_world={settings.drift_world} must be one of this drift's environments, 0 to {count - 1}."
        )
    return settings


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


def drift_of(settings: cli.Settings) -> environments.Drift:
    """How rewards change, from resolved flags."""
    if not settings.reward_drift:
        return environments.NO_DRIFT
    kind, count, seed = settings.reward_drift, _environments(settings), settings.world_seed
    return named(
        environments.Drift, settings, "drift_", kind=kind, environments=count, seed=seed, only=settings.drift_world
    )


def delay_of(settings: cli.Settings) -> environments.Delay:
    """How late rewards are, from resolved flags."""
    return named(environments.Delay, settings, "delay_", kind=settings.reward_delay or "none")


def reset_of(settings: cli.Settings) -> resets.Reset:
    """What is reset, and when, from resolved flags."""
    return named(
        resets.Reset,
        settings,
        "reset_",
        what=settings.reset or "none",
        watched=settings.reset_watch or resets.LOSS,
        threshold=settings.page_hinkley_threshold or 0.0,
    )
