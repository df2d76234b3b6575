"""Sampling of cohorts. A cohort depends only on the seed and the round, so rounds pass no state on."""

import concurrent.futures
import hashlib
import secrets
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from data import keys
from optimization import options


def draw(
    cohort: options.Cohorts, population: int, seed: int, round_num: int, group_of: np.ndarray | None = None
) -> np.ndarray:
    """Samples a round's cohort.

    Args:
      cohort: Size of the cohort, and how it is sampled.
      population: Number of clients to sample from.
      seed: Seed of the run, or a secret seed.
      round_num: Number of the round, from 1.
      group_of: int [population], the clients' groups for `cyclic_poisson` sampling; see `groups`.

    Returns:
      int [clients], positions in the population. It may be empty under Poisson sampling.
    """
    if cohort.sampling == "cyclic":
        order = keys.generator(seed, keys.Purpose.COHORT, 0).permutation(population)
        return order[(np.arange(cohort.size) + (round_num - 1) * cohort.size) % population]
    generator = keys.generator(seed, keys.Purpose.COHORT, round_num)
    if cohort.sampling == "poisson":
        return np.flatnonzero(generator.random(population) < cohort.size / population)
    if cohort.sampling == "cyclic_poisson":
        has_turn = group_of == (round_num - 1) % cohort.groups
        return np.flatnonzero(has_turn & (generator.random(population) < cohort.size * cohort.groups / population))
    return generator.choice(population, cohort.size, replace=False)


def groups(names: Iterable[str], count: int, seed: int) -> np.ndarray:
    """Assigns clients to groups by a keyed hash of their names, so a client's group does not depend on other clients.

    Args:
      names: Names of the clients.
      count: Number of groups.
      seed: Key of the hash. It need not be secret.

    Returns:
      int64 [names], group of each client, from 0.
    """
    key = hashlib.blake2b(str(seed).encode(), digest_size=16).digest()
    digests = b"".join(hashlib.blake2b(name.encode(), key=key, digest_size=8).digest() for name in names)
    return (np.frombuffer(digests, "<u8") % count).astype(np.int64)


def secret_seed() -> np.ndarray:
    """Seed from the system's entropy, uint32 [4], as an array that a checkpoint can hold."""
    return np.frombuffer(secrets.token_bytes(16), np.uint32)


def as_integer(seed: np.ndarray) -> int:
    """Converts a seed from `secret_seed` to an integer."""
    return int.from_bytes(np.asarray(seed).astype("<u4").tobytes(), "little")


class PreparedAhead:
    """Prepares each round's clients while TFF's worker is still running the previous round.

    An instance is called like `prepare`, and returns or raises the same. Rounds may be requested in any order, but all
    arguments except the round must stay the same from one call to the next.
    """

    def __init__(self, prepare: Callable[..., Any], total_rounds: int):
        """Stores the arguments. The first call of the instance starts to prepare rounds ahead.

        Args:
          prepare: Reads the clients of a round, given its number and other arguments. It is also called from another
            thread.
          total_rounds: Number of the last round.
        """
        self._prepare = prepare
        self._total_rounds = total_rounds
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        self._ahead: dict[int, concurrent.futures.Future] = {}

    def __call__(self, round_num: int, *others: Any) -> Any:
        ready = self._ahead.pop(round_num, None)
        prepared = ready.result() if ready else self._prepare(round_num, *others)
        self._ahead.clear()
        if round_num < self._total_rounds:
            self._ahead[round_num + 1] = self._pool.submit(self._prepare, round_num + 1, *others)
        return prepared
