"""Client availability: which clients are available at the hour of a round, and which of them drop out."""

import dataclasses

import numpy as np

from data import clients, keys
from data.settings import Count, Fraction, none_of, setting

KINDS = {"diurnal": "each client with a probability that depends on the time of day in its time zone"}
_KINDS = {"availability": tuple(KINDS)}
MIDNIGHT, NOON = 0.1, 0.9  # Probability of being available.


@dataclasses.dataclass(frozen=True)
class Availability:
    """Availability of clients.

    Attributes:
      seed: Seed of random time zones.
    """

    kind: str = setting(
        None,
        "Availability of clients for a round's cohort (default: always)",
        {"always": "all clients", **KINDS},
        name="availability",
        unset="always",
        convert=none_of("always"),
    )
    day: int = setting(
        None, "Number of rounds per day", name="availability_day", unset=1, low=2, only=_KINDS, applied_default=24
    )
    time_zones: Count = setting(
        None,
        "Number of time zones, evenly spaced over the day; round 1 is at noon in the first",
        unset=1,
        only=_KINDS,
        applied_default=4,
    )
    by_labels: bool = setting(
        None,
        "Choose time zones by clients' most frequent labels instead of at random (default: no)",
        name="time_zones_by_label",
        unset=False,
        only=_KINDS,
        applied_default=False,
    )
    drop_out: Fraction = setting(
        None,
        "Probability that a client in the cohort does not report (default: 0)",
        unset=0.0,
        below=True,
        convert=none_of(0.0),
    )
    seed: int = 0

    @property
    def may_be_absent(self) -> bool:
        """Whether clients may be absent."""
        return self.kind != "always" or self.drop_out > 0

    @property
    def revealed(self) -> tuple[str, ...]:
        """Descriptions of what participation reveals about the clients' data."""
        times = "when clients are available, which depends on their labels"
        return (times,) if self.kind != "always" and self.by_labels else ()

    def zones(self, population: clients.ClientData, num_labels: int, members: range | None = None) -> np.ndarray:
        """Time zones of clients, int [clients], from 0.

        If zones depend on labels, each zone stands for a range of consecutive labels, and a client's zone is the one
        that contains its most frequent label. The data of each client is then read once.

        Args:
          population: Data of all clients of the task.
          num_labels: Number of labels of the task.
          members: Indices of the clients; None for all. The zone of a client does not depend on the other clients.
        """
        members = range(len(population)) if members is None else members
        if not self.by_labels:
            return self.random_zones(len(population))[members.start : members.stop]
        most = [_most_frequent(population.load(client).labels) for client in members]
        return np.array(most, int) * self.time_zones // num_labels

    def random_zones(self, num_clients: int) -> np.ndarray:
        """Time zones that are independent of the clients' data, int [num_clients], from 0."""
        return keys.generator(self.seed, keys.Purpose.TIME_ZONE).integers(self.time_zones, size=num_clients)

    def probabilities(self, zones: np.ndarray, round_num: int) -> np.ndarray:
        """Probability that each client is available in a round, float64 [clients]; `zones` is int [clients]."""
        hour = (round_num - 1) / self.day - zones / self.time_zones
        return MIDNIGHT + (NOON - MIDNIGHT) * (1 + np.cos(2 * np.pi * hour)) / 2


ALWAYS = Availability()


def _most_frequent(labels: np.ndarray) -> int:
    counts = np.bincount(labels) if labels.ndim == 1 else labels.sum(axis=0)
    return int(np.argmax(counts)) if len(labels) else 0


@dataclasses.dataclass(frozen=True)
class Attendance:
    """The clients' attendance in the rounds of a run.

    Attributes:
      availability: How likely clients are to be available and to drop out.
      zones: int [clients], time zones of the clients.
      seed: Seed of the run.
    """

    availability: Availability
    zones: np.ndarray
    seed: int

    def available(self, round_num: int) -> np.ndarray:
        """Clients that are available in a round, bool [clients]."""
        if self.availability.kind == "always":
            return np.ones(len(self.zones), bool)
        draw = keys.generator(self.seed, keys.Purpose.AVAILABILITY, round_num)
        return draw.random(len(self.zones)) < self.availability.probabilities(self.zones, round_num)

    def start(self, sampled: np.ndarray, round_num: int, *, fill: bool) -> np.ndarray:
        """Available clients who start a round, int [clients]. Some of them may drop out later.

        A change in one client's availability changes the attendance of at most one other client.

        Args:
          sampled: int [clients], a cohort sampled from all clients, whether they are available or not.
          round_num: Number of the round, from 1.
          fill: Whether available clients, sampled uniformly, replace unavailable ones, as far as possible. Clients who
            drop out are not replaced.
        """
        is_there = self.available(round_num)
        attending = sampled[is_there[sampled]]
        if fill and len(attending) < len(sampled):
            others = keys.generator(self.seed, keys.Purpose.RESERVE, round_num).permutation(len(self.zones))
            others = others[is_there[others] & ~np.isin(others, sampled)]
            attending = np.concatenate([attending, others[: len(sampled) - len(attending)]])
        return attending

    def come(self, sampled: np.ndarray, round_num: int, *, fill: bool) -> np.ndarray:
        """Clients who start a round and do not drop out, int [clients]. For the arguments, see `start`."""
        attending = self.start(sampled, round_num, fill=fill)
        if self.availability.drop_out:
            stays = keys.generator(self.seed, keys.Purpose.DROP_OUT, round_num).random(len(self.zones))
            attending = attending[stays[attending] >= self.availability.drop_out]
        return attending
