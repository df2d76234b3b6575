"""Flags of resets, and what they mean."""

from bandits import registry
from bandits.worlds import resets
from data.errors import UsageError
from optimization.posterior import algorithm_flags
from optimization.study import cli

_OF_DETECTORS = {"reset_watch": resets.LOSS, "reset_warmup": 10}
_DEFAULTS = {
    resets.PAGE_HINKLEY: {**_OF_DETECTORS, "page_hinkley_threshold": 0.5, "page_hinkley_delta": 0.005},
    resets.ADWIN: {**_OF_DETECTORS, "adwin_delta": 0.2, "adwin_scale": 100.0},
    resets.WINDOW: {},
}
NAMES = ("reset", "reset_when", "reset_window", *dict.fromkeys(name for own in _DEFAULTS.values() for name in own))


def define(flags: cli.FlagSet) -> None:
    """Defines the flags."""
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
    flags.belong(*NAMES[1:], reset=list(resets.WHAT))
    flags.belong("reset_window", reset_when=(resets.WINDOW,))
    flags.belong("reset_watch", "reset_warmup", reset_when=resets.DETECTORS)
    flags.belong("page_hinkley_threshold", "page_hinkley_delta", reset_when=(resets.PAGE_HINKLEY,))
    flags.belong("adwin_delta", "adwin_scale", reset_when=(resets.ADWIN,))


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in what was not given.

    Raises:
      UsageError: Where nothing is trained, or could be reset.
    """
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
    return settings.filled(_DEFAULTS[settings.reset_when])


def check_length(settings: cli.Settings) -> None:
    """Checks resets against the number of rounds.

    Raises:
      UsageError: If it is not known when they come, none can come, or there is no room for all losses.
    """
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
    """Returns what is reset when; of a run from before there were these flags, nothing."""
    if not settings.get("reset"):
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
