"""Flags for exploration schedules: epsilon, temperature or gamma as a function of the deployment."""

import dataclasses
from collections.abc import Mapping

from bandits import registry, schedules
from bandits.options import Phase
from bandits.registry import PolicyEntry
from bandits.schedules import CONSTANT, COSINE, EPOCHS, LINEAR, POWER
from data.errors import UsageError
from data.settings import Count, Parameter, Positive, PositiveFraction, declared, names, setting
from data.tasks import options as task_options
from optimization.study import cli

_FLAG = "bandits_schedule"
_END, _EXPONENT, _TIME, _HORIZON = (f"{_FLAG}_{name}" for name in ("end", "exponent", "time", "deployments"))
_DEPLOYMENTS, _INTERACTIONS = "deployments", "interactions"
_KINDS: Mapping[str, tuple[str, ...]] = {
    _END: (LINEAR, COSINE),
    _EXPONENT: (POWER,),
    _TIME: (POWER,),
    _HORIZON: (LINEAR, COSINE, EPOCHS),
}
_POWERS = {name: entry.exponent for name, entry in registry.POLICIES.items() if entry.exponent is not None}
_DEFAULTS = ", ".join(f"{name}: {exponent:.3g}" for name, exponent in _POWERS.items())


def _entry(settings: cli.Settings) -> PolicyEntry:
    return registry.POLICIES[registry.BANDITS[settings.bandits_type].policy]


def _bandits(schedule: str) -> list[str]:
    """Returns the values of `--bandits_type` with this fixed schedule, or for "", those that accept any schedule."""
    policies = {name for name, entry in registry.POLICIES.items() if entry.scheduled and entry.schedule == schedule}
    return [name for name, bandit in registry.BANDITS.items() if bandit.policy in policies]


def _kind(settings: cli.Settings) -> str:
    return _entry(settings).schedule or settings.get(_FLAG) or CONSTANT


def _horizon(settings: cli.Settings) -> int | None:
    """Total number of deployments, if the schedule ends with the last one."""
    return -(-settings.total_rounds // settings.bandits_deploy_freq) if _kind(settings) in _KINDS[_HORIZON] else None


@dataclasses.dataclass(frozen=True)
class _Schedules:
    """Settings of exploration schedules."""

    bandits_schedule: str = setting(
        None,
        "Schedule of epsilon, temperature or gamma over deployments, starting at the value of its flag",
        {
            CONSTANT: "constant; default",
            LINEAR: f"to --{_END}, linearly in deployments",
            COSINE: f"to --{_END}, along half a cosine",
            POWER: f"times t to the power of --{_EXPONENT}",
        },
        only={"bandits_type": _bandits("")},
    )
    bandits_schedule_end: float = setting(None, "Value at the last deployment", low=-1e30, only={_FLAG: _KINDS[_END]})
    bandits_schedule_exponent: float = setting(
        lambda settings: _entry(settings).exponent if _kind(settings) == POWER else None,
        f"Exponent of t; only for --{_FLAG}={POWER}, and {' and '.join(_POWERS)} (default: {_DEFAULTS})",
        low=-10.0,
        high=10.0,
    )
    bandits_schedule_time: str = setting(
        lambda settings: _DEPLOYMENTS if _kind(settings) == POWER else None,
        "What t counts; only if --bandits_schedule_exponent is used",
        {
            _DEPLOYMENTS: "deployments, from 1; default",
            _INTERACTIONS: "planned interactions before the deployment: rounds x cohort x maximum examples per client",
        },
    )
    bandits_schedule_deployments: Count = setting(
        _horizon, "Deployments until linear and cosine schedules end; I of falcon_epochs (default: all in the run)"
    )
    bandits_log_class_size: Positive = setting(
        None, "Log size of FALCON's class, ln |F|", only={"bandits_type": _bandits(EPOCHS)}, applied_default=10.0
    )
    bandits_delta: PositiveFraction = setting(
        None,
        "Probability with which FALCON's bound may fail to hold",
        only={"bandits_type": _bandits(EPOCHS)},
        applied_default=0.05,
    )
    bandits_fed_opt: float = setting(
        None,
        "Excess loss of federated training itself, epsilon_fed-opt",
        only={"bandits_type": _bandits(EPOCHS)},
        applied_default=0.0,
    )


SETTINGS = declared(_Schedules)
NAMES = names(_Schedules)


def check(settings: cli.Settings) -> None:
    """Checks that schedule flags are consistent with the chosen schedule and with each other.

    Raises:
      UsageError: If flags cannot be combined.
    """
    kind, entry = _kind(settings), _entry(settings)
    for name, kinds in _KINDS.items():
        if name in settings.set_by_user and kind not in kinds:
            ways = [f"--{_FLAG}={other}" for other in kinds if other != EPOCHS]
            ways += [f"--bandits_type={other}" for kind in kinds for other in _bandits(kind)]
            raise UsageError(f"--{name} has an effect only with {' or '.join(ways)}.")
    if kind == CONSTANT:
        return
    flag = f"--{_FLAG}={kind}" if not entry.schedule else f"--bandits_type={settings.bandits_type}"
    if settings.importance_weights == "published_code":
        raise UsageError(f"{flag} changes epsilon, but --importance_weights=published_code needs a constant epsilon.")
    if kind == POWER and settings[_EXPONENT] is None:
        raise UsageError(f"{flag} needs --{_EXPONENT}: below 0, the parameter falls; above 0, it grows.")
    if kind in (LINEAR, COSINE):
        if settings[_END] is None:
            raise UsageError(f"{flag} needs --{_END}, the value at the last deployment.")
        if wrong := entry.parameters[entry.scheduled].complaint(settings[_END]):
            raise UsageError(f"--{_END}={settings[_END]:g}: {wrong}, like --bandits_{entry.scheduled}.")
    if settings.learn_from == task_options.REPLAY or settings.max_examples_per_client:
        return
    if kind == EPOCHS or settings[_TIME] == _INTERACTIONS:
        flag = flag if kind == EPOCHS else f"--{_TIME}={_INTERACTIONS}"
        raise UsageError(f"{flag} counts planned interactions: give a --max_examples_per_client above 0.")


def schedule(settings: cli.Settings) -> tuple[schedules.Schedule, str] | None:
    """Returns the schedule that the flags define, and the parameter that it changes; None without a schedule."""
    kind, entry = _kind(settings), _entry(settings)
    if kind == CONSTANT:
        return None
    start = settings[f"bandits_{entry.scheduled}"]
    if kind == POWER:
        return schedules.Power(start, settings[_EXPONENT], settings[_TIME] == _INTERACTIONS), entry.scheduled
    if kind == EPOCHS:
        learned = settings.bandits_log_class_size, settings.bandits_delta, settings.bandits_fed_opt
        return schedules.FalconEpochs(start, *learned, settings[_HORIZON]), entry.scheduled
    between = schedules.Linear if kind == LINEAR else schedules.Cosine
    return between(start, settings[_END], settings[_HORIZON]), entry.scheduled


def check_range(phase: Phase, num_actions: int) -> None:
    """Refuses a schedule that takes the parameter out of its valid range.

    Raises:
      UsageError: If the first or the last deployment's value is out of range.
    """
    if phase.scheduled_value(num_actions, 0) is None:
        return
    parameter: Parameter = registry.POLICIES[phase.bandit.policy].parameters[phase.policy.scheduled]
    for period in (0, phase.periods - 1):  # Schedules are monotonic, so it is enough to check both ends.
        value = phase.scheduled_value(num_actions, period)
        if wrong := parameter.complaint(value):
            raise UsageError(
                f"--{_FLAG}: at deployment {period + 1} of {phase.periods} {phase.policy.scheduled} would be out of "
                f"range: {wrong}. Choose another --{_EXPONENT} or --bandits_{phase.policy.scheduled}."
            )
