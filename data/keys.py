"""Keyed randomness: every sample is a function of (seed, purpose, place).

No generator state persists between samples, so samples do not change when a run is resumed, its clients are reordered,
or the number of workers changes.
"""

import enum
import hashlib

import numpy as np


class Purpose(enum.IntEnum):
    """Purpose of a sample, with its number and the length of its place.

    Runs are only reproducible if the numbers stay the same: new purposes may be added, but never renumber the old ones.
    `SeedSequence` treats a missing number as a zero, so all keys of a purpose have the same length. Events that do not
    belong to a round or client have 0 in that position.

    Attributes:
      places: Length of `place`.
    """

    places: int

    def __new__(cls, value: int, places: int):
        member = int.__new__(cls, value)
        member._value_ = value
        member.places = places
        return member

    COHORT = 1, 1
    EXAMPLES = 2, 1
    PARTITION = 3, 0
    HELD_OUT = 4, 1
    WEIGHTS = 5, 0
    CACHE = 6, 2
    TRAINING = 7, 2
    EVALUATION = 8, 2
    SILOS = 9, 0
    DECISION = 10, 2
    LABEL_NOISE = 11, 0
    DELAY = 20, 2
    NOISE = 21, 2
    LANGEVIN = 22, 1
    PARTICIPATION = 23, 2
    BOOTSTRAP = 24, 1
    FOLD = 25, 1
    LOG_ROWS = 30, 2
    LABORATORY = 40, 1
    LOGGED_REWARDS = 50, 1
    LOG_FOLDS = 51, 0
    DRIFT = 60, 1
    CLIENT_TIME = 61, 1
    ARRIVAL = 62, 2
    AVAILABILITY = 63, 1
    RESERVE = 64, 1
    DROP_OUT = 65, 1
    TIME_ZONE = 66, 0
    HALVES = 70, 1
    REWARD_SCALE = 71, 0
    HASHING = 72, 0
    ARMS = 73, 1
    DISTRACTORS = 90, 1


def _sequence(seed: int, purpose: Purpose, *place: int) -> np.random.SeedSequence:
    if len(place) != purpose.places:
        raise ValueError(f"A key of {purpose.name} has {purpose.places} places, not {len(place)}: {place}.")
    return np.random.SeedSequence([seed, int(purpose), *place])


def number_of(name: str) -> int:
    """Returns a number for a client's name, which does not depend on the other clients."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") | 1 << 63  # Always two 32-bit words in a `SeedSequence`.


def generator(seed: int, purpose: Purpose, *place: int) -> np.random.Generator:
    """NumPy generator for one purpose at one place, such as (round, client).

    Raises:
      ValueError: If the length of the place does not match the purpose.
    """
    return np.random.default_rng(_sequence(seed, purpose, *place))


def tensorflow_key(seed: int, purpose: Purpose, *place: int) -> np.ndarray:
    """Seed for TensorFlow's stateless operations, int32 [2]; see `generator`."""
    return _sequence(seed, purpose, *place).generate_state(2).view(np.int32)


def integer_key(seed: int, purpose: Purpose, *place: int) -> int:
    """Seed of at most 62 bits, for code that takes one number and increments it for further seeds.

    Seeds are random, and so far apart that an overlap of their sequences is very unlikely.
    """
    return int(_sequence(seed, purpose, *place).generate_state(1, np.uint64)[0]) >> 2
