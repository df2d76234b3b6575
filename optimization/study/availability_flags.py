"""Flags of which clients come to a round, and what they mean; needs no TensorFlow."""

from data.errors import UsageError
from optimization.options import named
from optimization.selection.availability import ALWAYS, KINDS, Availability
from optimization.study import cli
from optimization.study.settings import setting

_KINDS = tuple(KINDS)
_BY_LABEL = "time_zones_by_label"


class Availabilities:
    """Availability of clients.

    Attributes:
      availability: Which clients can take part in a round: a cohort is of those who are available (default: always).
      availability_day: Rounds of a day.
      availability_low: A client's chance at night.
      availability_high: A client's chance at noon.
      time_zones: Time zones, evenly over the day.
      time_zones_by_label: Clients whose most frequent labels are near share a time zone (default: no).
      drop_out: Chance that a client of a cohort never reports (default: 0).
    """

    availability: str = setting(words={"always": "all are", **KINDS})
    availability_day: int = setting(low=2, only={"availability": _KINDS}, filled=24)
    availability_low: float = setting(high=1.0, only={"availability": _KINDS}, filled=0.1)
    availability_high: float = setting(high=1.0, only={"availability": _KINDS}, filled=0.9)
    time_zones: int = setting(low=1, only={"availability": _KINDS}, filled=4)
    time_zones_by_label: bool = setting(only={"availability": _KINDS}, filled=False)
    drop_out: float = setting(high=1.0, below=True)


def resolve(settings: cli.Settings) -> cli.Settings:
    """Returns settings, settled, without a value where all clients come; needs `--world_seed`.

    Raises:
      UsageError: If the chance at night is above that at noon, or nobody is ever available.
    """
    kind = None if settings.availability == "always" else settings.availability
    settings = settings.replace(availability=kind, drop_out=settings.drop_out or None)
    if not kind:
        return settings
    settings = settings.filled({"world_seed": 0})
    settings.check_order("availability_low", "availability_high")
    if not settings.availability_high:
        raise UsageError("--availability_high=0: no client would ever be available; give a chance above 0.")
    return settings


def options(settings: cli.Settings) -> Availability:
    """Returns who comes to a round."""
    drop_out = settings.drop_out or 0.0
    if not settings.availability:
        return Availability(drop_out=drop_out) if drop_out else ALWAYS
    by_labels = settings.get(_BY_LABEL) or False
    own = {"time_zones": settings.time_zones, "by_labels": by_labels, "world_seed": settings.world_seed}
    return named(Availability, settings, "availability_", kind=settings.availability, drop_out=drop_out, **own)
