"""Flags of which clients come to a round, and what they mean; needs no TensorFlow."""

from data.errors import UsageError
from optimization.selection.availability import ALWAYS, KINDS, Availability
from optimization.study import cli

_BY_LABEL = "time_zones_by_label"
_OF_DAY = ("availability_day", "availability_low", "availability_high", "time_zones")
NAMES = ("availability", *_OF_DAY, _BY_LABEL, "drop_out")
_DEFAULTS = {"availability_day": 24, "availability_low": 0.1, "availability_high": 0.9, "time_zones": 4}


def define(flags: cli.FlagSet, *, has_labels: bool = True) -> None:
    """Defines the flags in the current group, but for `--world_seed`, the seed of time zones.

    Args:
      flags: Where to.
      has_labels: Whether clients have labels, by which they can share time zones.
    """
    flags.choice(
        "availability",
        None,
        {"always": "all are", **KINDS},
        "which clients can take part in a round: a cohort is of those who are available (default: always)",
    )
    flags.integer("availability_day", None, "rounds of a day (default: 24)", low=2)
    flags.number("availability_low", None, "a client's chance at night (default: 0.1)", high=1.0)
    flags.number("availability_high", None, "a client's chance at noon (default: 0.9)", high=1.0)
    flags.integer("time_zones", None, "time zones, evenly over the day (default: 4)", low=1)
    if has_labels:
        flags.switch(_BY_LABEL, None, "clients whose most frequent labels are near share a time zone (default: no)")
    flags.belong(*_OF_DAY, *[_BY_LABEL] * has_labels, availability=list(KINDS))
    flags.number("drop_out", None, "chance that a client of a cohort never reports (default: 0)", high=1.0, below=True)


def resolve(settings: cli.Settings) -> cli.Settings:
    """Returns settings without a value where all clients come, else with all values filled in.

    Raises:
      UsageError: If the chance at night is above that at noon, or nobody is ever available.
    """
    kind = None if settings.availability == "always" else settings.availability
    settings = settings.replace(availability=kind, drop_out=settings.drop_out or None)
    if not kind:
        return settings
    settings = settings.filled({**_DEFAULTS, "world_seed": 0, **({_BY_LABEL: False} if _BY_LABEL in settings else {})})
    if settings.availability_low > settings.availability_high:
        raise UsageError(
            f"--availability_low={settings.availability_low:g} is above "
            f"--availability_high={settings.availability_high:g}: a chance at night is at most that at noon."
        )
    if not settings.availability_high:
        raise UsageError("--availability_high=0: no client would ever be available; give a chance above 0.")
    return settings


def options(settings: cli.Settings) -> Availability:
    """Returns who comes to a round."""
    drop_out = settings.drop_out or 0.0
    if not settings.availability:
        return Availability(drop_out=drop_out) if drop_out else ALWAYS
    return Availability(
        kind=settings.availability,
        day=settings.availability_day,
        low=settings.availability_low,
        high=settings.availability_high,
        time_zones=settings.time_zones,
        by_labels=settings.get(_BY_LABEL) or False,
        drop_out=drop_out,
        world_seed=settings.world_seed,
    )
