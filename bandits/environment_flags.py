"""Flags for non-stationary environments, clients' availability and resets, and their checks."""

from bandits import environments, registry, resets
from data.errors import UsageError
from data.settings import make_options, names
from data.tasks import options as task_options
from optimization.posterior import flags as posterior_flags
from optimization.selection import availability
from optimization.study import cli

# Flags whose defaults depend on the length of the run or of the deployment period.
OF_LENGTH = ("drift_start", "drift_rounds", "drift_period", "delay_rounds")
_WITHOUT_REWARDS = (*task_options.OFFLINE, task_options.REPLAY)  # Values of --learn_from without simulated rewards.


_CLASSES = (environments.Drift, environments.Delay, availability.Availability)
NAMES = ("scenario", *names(*_CLASSES))


def define(flags: cli.FlagSet) -> None:
    """Defines the flags."""
    flags.group("Non-stationary environments", *_CLASSES)
    flags.group("Resets", resets.Reset)


def check(settings: cli.Settings) -> None:
    """Checks the environment, the clients' availability and the resets against the other settings.

    Raises:
      UsageError: If settings conflict or have no effect, there are too many environments, or resets cannot happen.
    """
    if settings.scenario == environments.SCENARIO and not settings.reward_drift:
        raise UsageError(
            f"--scenario={environments.SCENARIO} has non-stationary rewards: leave out --reward_drift=none."
        )
    _check_availability(settings)
    if "environment_seed" in settings.set_by_user and not (settings.reward_drift or settings.availability):
        raise UsageError("--environment_seed has an effect only with --reward_drift or --availability.")
    for name in ("reward_drift", "reward_delay"):
        if settings[name] and settings.learn_from in _WITHOUT_REWARDS:
            raise UsageError(f"--{name} has no effect with --learn_from={settings.learn_from}: rewards are logged.")
    if settings.reward_delay and settings.cache != "persistent":
        raise UsageError("--reward_delay needs --cache=persistent, which stores actions until their rewards arrive.")
    if settings.reward_delay == "uniform" and settings.delay_rounds % 1:
        raise UsageError(f"--delay_rounds={settings.delay_rounds:g} must be an integer with --reward_delay=uniform.")
    if settings.reset and not registry.chosen(settings).trains:
        raise UsageError(f"--reset has no effect with --bandits_type={settings.bandits_type}, which never trains.")
    if settings.reset == "optimizer" and settings.server_optimizer == "sgd" and not settings.server_sgd_momentum:
        raise UsageError("--reset=optimizer: sgd has no state to reset without --server_sgd_momentum.")
    if settings.reset and settings.model_aggregation in posterior_flags.BURNING_IN:
        raise UsageError(
            f"--reset conflicts with --model_aggregation={settings.model_aggregation}, which burns in only once."
        )
    _check_reset_rounds(settings)
    if settings.reward_drift:
        _check_environments(settings)


def _check_availability(settings: cli.Settings) -> None:
    for name in ("availability", "drop_out"):
        if not settings[name]:
            continue
        if settings.client_selection != "uniform":
            raise UsageError(f"--{name} conflicts with --client_selection, which chooses among all clients.")
        if settings.aggregator_type == "ddp":
            raise UsageError(f"--{name} conflicts with --aggregator_type=ddp, which needs noise from all clients.")
    if settings.time_zones_by_label and settings.learn_from in _WITHOUT_REWARDS:
        raise UsageError(f"--time_zones_by_label needs labels, but --learn_from={settings.learn_from} has none.")


def _check_environments(settings: cli.Settings) -> None:
    if (count := _environments(settings)) > environments.MOST_ENVIRONMENTS:
        raise UsageError(
            f"--drift_every={settings.drift_every} makes {count} environments; the maximum is "
            f"{environments.MOST_ENVIRONMENTS}: give a larger --drift_every."
        )
    if settings.drift_environment is not None and settings.drift_environment >= count:
        raise UsageError(
            f"--drift_environment={settings.drift_environment} must be one of the drift's environments, 0 to "
            f"{count - 1}."
        )


def _check_reset_rounds(settings: cli.Settings) -> None:
    if settings.reset_when == resets.WINDOW and not settings.reset_window:
        raise UsageError("--reset_when=window needs --reset_window, ideally a multiple of --bandits_deploy_freq.")
    total = f"--total_rounds={settings.total_rounds}"
    if settings.reset_window and settings.reset_window >= settings.total_rounds:
        raise UsageError(f"--reset_window={settings.reset_window} must be below {total}, or no reset happens.")
    if settings.reset and settings.reset_when in resets.DETECTORS and settings.total_rounds > resets.MOST_LOSSES:
        most = f"at most {resets.MOST_LOSSES:,} rounds"
        raise UsageError(f"--reset_when={settings.reset_when} monitors {most}, not {total}: use {resets.WINDOW}.")


def _environments(settings: cli.Settings) -> int:
    every = settings.drift_every
    return 2 + max(0, (settings.total_rounds - settings.drift_start) // every) if every else 2


def drift_of(settings: cli.Settings) -> environments.Drift:
    """Returns the change in rewards that the flags define."""
    if not settings.reward_drift:
        return environments.NO_DRIFT
    return make_options(environments.Drift, settings, environments=_environments(settings))
