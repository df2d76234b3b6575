"""Flags of worlds that change, and of the resets that answer them, and what they mean."""

from bandits import registry
from bandits.worlds import delay, drift, resets
from data.errors import UsageError
from data.tasks import logged
from optimization.posterior import algorithm_flags
from optimization.study import availability_flags, cli

SCENARIO = "drift"  # From scratch, with rewards that change.
_MOST_ROUNDS = 1e9  # More than a run can have.
# Whose defaults follow from how long a run, or its deployment period, is.
OF_LENGTH = ("drift_start", "drift_rounds", "drift_period", "delay_rounds")
# Which say in what world a run is played.
NAMES = (
    *("scenario", "reward_drift", "drift_start", "drift_every", "drift_rounds", "drift_period", "drift_overlap"),
    "drift_world",
    *("reward_delay", "delay_rounds", "delay_never", *availability_flags.NAMES, "world_seed"),
)

_OF_DETECTORS = {"reset_watch": resets.LOSS, "reset_warmup": 10}
_RESET_DEFAULTS = {
    resets.PAGE_HINKLEY: {**_OF_DETECTORS, "page_hinkley_threshold": 0.5, "page_hinkley_delta": 0.005},
    resets.ADWIN: {**_OF_DETECTORS, "adwin_delta": 0.2, "adwin_scale": 100.0},
    resets.WINDOW: {},
}
RESET_NAMES = (
    *("reset", "reset_when", "reset_window"),
    *dict.fromkeys(name for own in _RESET_DEFAULTS.values() for name in own),
)


def define(flags: cli.FlagSet) -> None:
    """Defines the flags."""
    flags.group("Worlds that change")
    flags.choice(
        "reward_drift",
        None,
        {"none": "they stay", **drift.KINDS},
        "how rewards change over the bandits' rounds: the columns of the reward matrix, its actions, are permuted "
        f"(default: abrupt with --scenario={SCENARIO}, else none)",
    )
    flags.integer(
        "drift_start", None, "first round that is paid otherwise (default: the first of the run's second half)", low=1
    )
    flags.integer("drift_every", None, "rounds between changes, each to another world (default: one change)", low=1)
    flags.integer("drift_rounds", None, "rounds that the change takes (default: a quarter of all)", low=1)
    flags.integer("drift_period", None, "rounds of both seasons (default: half of all)", low=2)
    flags.number("drift_overlap", None, "part of each season that goes over to the next (default: 0)", high=1.0)
    flags.integer(
        "drift_world",
        None,
        "play all rounds in this one of the drift's worlds, 0 for the task's own: with --bandits_type=supervised_mse "
        "its ceiling, for dynamic regret (default: as they change)",
    )
    flags.integer(
        "world_seed",
        None,
        "seed of what is the world's, so that runs of all seeds meet one: permutations, clients' own times of change "
        "and their time zones (default: 0)",
    )
    flags.choice(
        "reward_delay",
        None,
        {"none": "none is late", **delay.KINDS},
        "how late rewards are: a client trains on those that have arrived, and what has not when the next model is "
        "deployed is lost; needs --cache=persistent (default: none)",
    )
    flags.number(
        "delay_rounds", None, "most rounds, or their mean (default: half of --bandits_deploy_freq)", high=_MOST_ROUNDS
    )
    flags.number("delay_never", None, "share of the rewards that never arrive (default: 0)", high=1.0, below=True)
    flags.belong("delay_rounds", "delay_never", reward_delay=list(delay.KINDS))
    availability_flags.define(flags)
    flags.belong("drift_world", reward_drift=list(drift.KINDS))
    flags.belong("drift_start", reward_drift=("abrupt", "linear", "client"))
    flags.belong("drift_every", reward_drift=("abrupt",))
    flags.belong("drift_rounds", reward_drift=("linear", "client"))
    flags.belong("drift_period", "drift_overlap", reward_drift=("seasonal",))
    _define_resets(flags)


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in what `--scenario` says of the world.

    Raises:
      UsageError: On flags that do not go with each other.
    """
    kind = settings.reward_drift
    if settings.scenario == SCENARIO:
        if kind == "none":
            raise UsageError(f"--scenario={SCENARIO} has rewards that change: leave out --reward_drift=none.")
        kind = kind or "abrupt"
    settings = settings.replace(reward_drift=None if kind == "none" else kind)
    if settings.learn_from in (*logged.OFFLINE, logged.REPLAY) and settings.reward_drift:
        raise UsageError(
            f"--reward_drift={settings.reward_drift}: with --learn_from={settings.learn_from} rewards are those that "
            "were logged, and cannot change."
        )
    settings = _resolve_reset(_resolve_availability(_resolve_delay(settings)))
    if "world_seed" in settings.given and not (settings.reward_drift or settings.availability):
        raise UsageError(
            "--world_seed draws worlds that drift and clients' time zones: it has an effect only with "
            "--reward_drift or --availability."
        )
    return settings


def _resolve_availability(settings: cli.Settings) -> cli.Settings:
    settings = availability_flags.resolve(settings)
    kind = settings.availability
    if not (kind or settings.drop_out):
        return settings
    flag = f"--availability={kind}" if kind else f"--drop_out={settings.drop_out:g}"
    if settings.client_selection != "uniform":
        raise UsageError(
            f"{flag} does not go with --client_selection={settings.client_selection}, which chooses among all clients "
            "and hears of each that it chose."
        )
    if settings.aggregator_type == "ddp":
        raise UsageError(
            f"{flag} does not go with --aggregator_type=ddp: each client adds its share of the noise, and those who "
            "come would add too little."
        )
    if settings.time_zones_by_label and settings.learn_from in (*logged.OFFLINE, logged.REPLAY):
        raise UsageError(f"--time_zones_by_label: with --learn_from={settings.learn_from} clients have no labels.")
    return settings


def _resolve_delay(settings: cli.Settings) -> cli.Settings:
    if settings.reward_delay in (None, "none"):
        return settings.replace(reward_delay=None)
    flag = f"--reward_delay={settings.reward_delay}"
    if settings.learn_from in (*logged.OFFLINE, logged.REPLAY):
        raise UsageError(f"{flag}: with --learn_from={settings.learn_from} all rewards were logged before.")
    if settings.cache != "persistent":
        raise UsageError(
            f"{flag} needs --cache=persistent: a client that acts anew in each round keeps nothing whose reward could "
            "arrive later."
        )
    if settings.reward_delay == "uniform" and (settings.delay_rounds or 0) % 1:
        raise UsageError(f"--delay_rounds={settings.delay_rounds:g} must be a whole number with {flag}.")
    return settings


def with_rounds(settings: cli.Settings) -> cli.Settings:
    """Fills in what follows from the number of rounds.

    Raises:
      UsageError: On more worlds than there can be, a world that is none of them, or resets that cannot come.
    """
    total = settings.total_rounds
    if settings.reward_delay:
        settings = settings.filled({"delay_rounds": float(settings.bandits_deploy_freq // 2), "delay_never": 0.0})
    defaults = {
        "abrupt": {"drift_start": total // 2 + 1},
        "linear": {"drift_start": total // 2 + 1, "drift_rounds": max(1, total // 4)},
        "client": {"drift_start": total // 2 + 1, "drift_rounds": max(1, total // 4)},
        "seasonal": {"drift_period": max(2, total // 2), "drift_overlap": 0.0},
    }
    _check_resets(settings)
    if not settings.reward_drift:
        return settings
    settings = settings.filled(defaults[settings.reward_drift] | {"world_seed": 0})
    if (worlds := _worlds(settings)) > drift.MOST_WORLDS:
        raise UsageError(
            f"--drift_every={settings.drift_every} makes {worlds} worlds of {total} rounds, and there can be "
            f"{drift.MOST_WORLDS}: give more rounds between changes."
        )
    if settings.drift_world is not None and settings.drift_world >= worlds:
        raise UsageError(
            f"--drift_world={settings.drift_world} is no world of this drift: {total} rounds of "
            f"--reward_drift={settings.reward_drift} have the worlds 0 to {worlds - 1}."
        )
    return settings


def _worlds(settings: cli.Settings) -> int:
    every = settings.drift_every
    return 2 + max(0, (settings.total_rounds - settings.drift_start) // every) if every else 2


def drift_of(settings: cli.Settings) -> drift.Drift:
    """Returns how rewards change."""
    if not settings.reward_drift:
        return drift.NONE
    values = {name: settings[f"drift_{name}"] for name in ("start", "every", "rounds", "period", "overlap")}
    return drift.Drift(
        kind=settings.reward_drift,
        worlds=_worlds(settings),
        seed=settings.world_seed,
        only=settings.drift_world,
        **{name: value for name, value in values.items() if value is not None},
    )


def delay_of(settings: cli.Settings) -> delay.Delay:
    """Returns how late rewards are."""
    if not settings.reward_delay:
        return delay.NONE
    return delay.Delay(settings.reward_delay, settings.delay_rounds, settings.delay_never)


def _define_resets(flags: cli.FlagSet) -> None:
    flags.group("Resets")
    flags.choice("reset", None, {"none": "nothing", **resets.WHAT}, "what starts again, for worlds that change")
    flags.choice("reset_when", None, resets.WHEN, f"when it does (default: {resets.PAGE_HINKLEY})")
    flags.choice("reset_watch", None, resets.WATCHED, f"what detectors watch (default: {resets.LOSS})")
    flags.integer("reset_window", None, "rounds from one reset to the next", low=1)
    flags.integer(
        "reset_warmup", None, "rounds after a start, or a reset, before a detector decides (default: 10)", low=1
    )
    flags.number(
        "page_hinkley_threshold",
        None,
        "rise of what is watched, summed over rounds, at which there is a reset: some rounds' worth of what a change "
        "costs, see docs/worlds.md (default: 0.5)",
        above=True,
    )
    flags.number("page_hinkley_delta", None, "rise of one round that counts as none (default: 0.005)")
    flags.number(
        "adwin_delta",
        None,
        "chance of a change found where there is none, for values that spread over 0 to 1: smaller is slower "
        "(default: 0.2)",
        high=1.0,
        above=True,
        below=True,
    )
    flags.number(
        "adwin_scale",
        None,
        "factor of what is watched that makes it such values: 1 / its spread from round to round (default: 100)",
        above=True,
    )
    flags.belong(*RESET_NAMES[1:], reset=list(resets.WHAT))
    flags.belong("reset_window", reset_when=(resets.WINDOW,))
    flags.belong("reset_watch", "reset_warmup", reset_when=resets.DETECTORS)
    flags.belong("page_hinkley_threshold", "page_hinkley_delta", reset_when=(resets.PAGE_HINKLEY,))
    flags.belong("adwin_delta", "adwin_scale", reset_when=(resets.ADWIN,))


def _resolve_reset(settings: cli.Settings) -> cli.Settings:
    if settings.reset in (None, "none"):
        return settings.replace(reset=None)
    flag = f"--reset={settings.reset}"
    if not registry.BANDITS[settings.bandits_type].trains:
        raise UsageError(f"{flag} has no effect with --bandits_type={settings.bandits_type}, which never trains.")
    if settings.reset == "optimizer" and settings.server_optimizer == "sgd" and not settings.server_sgd_momentum:
        raise UsageError(f"{flag}: --server_optimizer=sgd has no state without --server_sgd_momentum.")
    if settings.model_aggregation in algorithm_flags.BURNING_IN:
        raise UsageError(
            f"{flag} does not go with --model_aggregation={settings.model_aggregation}, which burns in once, in its "
            "first rounds."
        )
    settings = settings.filled({"reset_when": resets.PAGE_HINKLEY})
    return settings.filled(_RESET_DEFAULTS[settings.reset_when])


def _check_resets(settings: cli.Settings) -> None:
    if settings.reset_when == resets.WINDOW and not settings.reset_window:
        raise UsageError(
            f"--reset_when={resets.WINDOW} needs --reset_window: rounds that a model learns, best a multiple of "
            f"--bandits_deploy_freq={settings.bandits_deploy_freq}."
        )
    if settings.reset_window and settings.reset_window >= settings.total_rounds:
        raise UsageError(
            f"--reset_window={settings.reset_window} must be below --total_rounds={settings.total_rounds}, or there is "
            "no reset."
        )
    if settings.reset and settings.reset_when in resets.DETECTORS and settings.total_rounds > resets.MOST_LOSSES:
        raise UsageError(
            f"--reset_when={settings.reset_when} follows {resets.MOST_LOSSES:,} rounds, and not "
            f"--total_rounds={settings.total_rounds}: use {resets.WINDOW}."
        )


def reset_of(settings: cli.Settings) -> resets.Reset:
    """Returns what is reset when."""
    if not settings.reset:
        return resets.NONE
    when = settings.reset_when
    return resets.Reset(
        what=settings.reset,
        when=when,
        watched=settings.reset_watch or resets.LOSS,
        window=settings.reset_window or 0,
        warmup=settings.reset_warmup or 0,
        threshold=settings.page_hinkley_threshold or 0.0,
        scale=settings.adwin_scale or 1.0,
        delta=(settings.page_hinkley_delta if when == resets.PAGE_HINKLEY else settings.adwin_delta) or 0.0,
    )
