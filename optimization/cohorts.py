"""Which clients make up a round: drawn anew from (seed, round), so that no state lives between rounds."""

from collections.abc import Mapping

import numpy as np

from data import keys

SAMPLINGS: Mapping[str, str] = {
    "fixed": "a fixed number, uniformly without replacement",
    "poisson": "each client by its own coin: a cohort of random size, as privacy accounting assumes",
    "cyclic": "a fixed number, by turns in one random order: a client comes back after population / cohort rounds",
}


def draw(sampling: str, population: int, cohort_size: int, seed: int, round_num: int) -> np.ndarray:
    """Draws a round's cohort.

    Args:
      sampling: One of `SAMPLINGS`.
      population: Clients to draw from.
      cohort_size: Clients of a round; under Poisson sampling the expected number.
      seed: Seed of the run.
      round_num: The round, from 1.

    Returns:
      int [clients], positions in the population; may be empty under Poisson sampling.
    """
    if sampling == "cyclic":
        order = keys.generator(seed, keys.Purpose.COHORT).permutation(population)
        return order[(np.arange(cohort_size) + (round_num - 1) * cohort_size) % population]
    generator = keys.generator(seed, keys.Purpose.COHORT, round_num)
    if sampling == "poisson":
        return np.flatnonzero(generator.random(population) < cohort_size / population)
    return generator.choice(population, cohort_size, replace=False)
