"""Flags of client availability, and their options; needs no TensorFlow."""

from optimization.options import named
from optimization.selection.availability import ALWAYS, KINDS, Availability
from optimization.study import cli
from optimization.study.settings import setting

_KINDS = tuple(KINDS)
_BY_LABEL = "time_zones_by_label"


class Availabilities:
    """Availability of clients.

    Attributes:
      availability: Availability of clients to a round's cohort (default: always).
      availability_day: Rounds of a day.
      time_zones: Number of time zones, evenly spaced over the day.
      time_zones_by_label: Time zones by clients' most frequent labels (default: no).
      drop_out: Probability that a client of a cohort never reports (default: 0).
    """

    availability: str = setting(words={"always": "all are", **KINDS})
    availability_day: int = setting(low=2, only={"availability": _KINDS}, filled=24)
    time_zones: int = setting(low=1, only={"availability": _KINDS}, filled=4)
    time_zones_by_label: bool = setting(only={"availability": _KINDS}, filled=False)
    drop_out: float = setting(high=1.0, below=True)


def resolve(settings: cli.Settings) -> cli.Settings:
    """Resolves the settings: None where all clients are available; needs `--world_seed`."""
    kind = None if settings.availability == "always" else settings.availability
    settings = settings.replace(availability=kind, drop_out=settings.drop_out or None)
    return settings.filled({"world_seed": 0}) if kind else settings


def options(settings: cli.Settings) -> Availability:
    """Availability of clients by round."""
    drop_out = settings.drop_out or 0.0
    if not settings.availability:
        return Availability(drop_out=drop_out) if drop_out else ALWAYS
    by_labels = settings.get(_BY_LABEL) or False
    zones = {"time_zones": settings.time_zones, "by_labels": by_labels, "world_seed": settings.world_seed}
    return named(Availability, settings, "availability_", kind=settings.availability, drop_out=drop_out, **zones)
