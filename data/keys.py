"""Keyed randomness: every draw is a function of (seed, purpose, where it happens).

No generator lives on between two draws, so resuming a run, reordering its clients or changing the number of
workers changes no draw.
"""

import enum

import numpy as np


class Purpose(enum.IntEnum):
    """What a draw is for. Values are part of a run's reproducibility: add, never renumber."""

    COHORT = 1
    EXAMPLES = 2
    PARTITION = 3
    HELD_OUT = 4
    WEIGHTS = 5
    CACHE = 6
    TRAINING = 7
    EVALUATION = 8
    SILOS = 9
    DECISION = 10
    DELAY = 20


def _sequence(seed: int, purpose: Purpose, *where: int) -> np.random.SeedSequence:
    return np.random.SeedSequence([seed, int(purpose), *where])


def generator(seed: int, purpose: Purpose, *where: int) -> np.random.Generator:
    """Returns a NumPy generator for one purpose at one place, such as (round, client)."""
    return np.random.default_rng(_sequence(seed, purpose, *where))


def tensorflow_key(seed: int, purpose: Purpose, *where: int) -> np.ndarray:
    """Returns the int32 [2] seed that TensorFlow's stateless operations take."""
    return _sequence(seed, purpose, *where).generate_state(2).view(np.int32)
