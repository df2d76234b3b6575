"""Sensitivity: how much one client can change the releases of all rounds. Nothing here imports TensorFlow."""

import functools
import math

import numpy as np
from scipy import special

# Probability that a coordinate of TFF's distributed sum wraps around. This is the factory's default.
_WRAP_PROBABILITY = 1e-4
_MAX_SCALE = 1e6
# Standard deviation of the noise on the count of unclipped clients, as a share of the cohort. The value is the one that
# Andrew et al. 2021 recommend.
COUNT_NOISE_SHARE = 0.05
_MOST_PATTERNS = 20_000  # Trying this many patterns of participation takes about ten milliseconds.


def participations(rounds: int, min_separation: int) -> int:
    """Returns how often a client can participate in these rounds."""
    return -(-rounds // min_separation)


@functools.lru_cache(1024)
def tree_sensitivity(rounds: int, restart_frequency: int, min_separation: int) -> int:
    """Returns the squared sensitivity of all tree nodes, in squared clip norms, or an upper bound in large trees.

    A client that participates k times below a node changes it by k clip norms (Kairouz, McMahan et al. 2021, appendix
    D). A search over all patterns of participation finds the exact value. The upper bound holds because, at each level
    of the tree, the sum of k^2 over the nodes is at most the largest k times the sum of k.

    Args:
      rounds: Number of rounds so far.
      restart_frequency: Number of rounds per tree; 0 for a single tree.
      min_separation: Number of rounds after which a client can participate again.
    """
    size = min(restart_frequency or rounds, rounds)
    if not rounds:
        return 0
    whole_trees, rest = divmod(rounds, size)
    if (whole_trees + 1) * _num_patterns(size, min_separation) <= _MOST_PATTERNS:
        return _exact_tree_sensitivity(rounds, size, min_separation)
    total = 0
    for level in range(size.bit_length()):
        width = 2**level
        in_trees = whole_trees * participations(size - size % width, min_separation)
        in_trees += participations(rest - rest % width, min_separation)
        total += min(in_trees, participations(rounds, min_separation)) * participations(width, min_separation)
    return total


def _num_patterns(size: int, min_separation: int) -> int:
    """Number of patterns of participation in a tree, for clients who participate as often as they can."""
    counts = [1] * (size + 2 * min_separation)
    for start in reversed(range(size)):
        counts[start] = 1 + sum(counts[start + min_separation : start + 2 * min_separation])
    return sum(counts[:size])


def _exact_tree_sensitivity(rounds: int, size: int, min_separation: int) -> int:
    """`tree_sensitivity` by dynamic programming over all patterns of participation."""

    @functools.cache
    def most(begin: int, earliest: int, members: tuple[int, ...]) -> int:
        """Largest increase by participations from round `earliest` on, given `members` of the tree at `begin`."""
        if begin >= rounds:
            return 0
        length = min(size, rounds - begin)
        best = most(begin + size, earliest, ())
        for place in range(max(earliest - begin, 0), min(max(earliest - begin, 0) + min_separation, length)):
            added = sum(
                1 + 2 * sum(member >> level == place >> level for member in members)
                for level in range(length.bit_length())
                if ((place >> level) + 1) << level <= length  # Unfinished nodes are not released.
            )
            best = max(best, added + most(begin, begin + place + min_separation, (*members, place)))
        return best

    return most(0, 0, ())


def distributed_noise_multiplier(
    noise_multiplier: float, clip_norm: float, cohort: int, dimension: int, bits: int
) -> float:
    """Returns the noise multiplier of a Gaussian mechanism that is as private as TFF's distributed sum.

    Privacy is measured by concentrated differential privacy. Two effects weaken it (Kairouz, Liu and Steinke 2021,
    section 3): rounding to the grid of TFF's `DistributedDpSumFactory` (Hadamard rotation, no conditional rounding)
    lengthens an update, and a sum of discrete Gaussians is not exactly a discrete Gaussian.

    Args:
      noise_multiplier: Standard deviation of the whole cohort's noise, in clip norms.
      clip_norm: L2 norm to which an update is clipped.
      cohort: Number of clients, each of whom adds a share of the noise.
      dimension: Number of model parameters.
      bits: Number of bits per coordinate of the sum.

    Raises:
      ValueError: If the bits are too few for the cohort.
    """
    padded = 2 ** math.ceil(math.log2(dimension))
    local_stddev = noise_multiplier * clip_norm / math.sqrt(cohort)
    deviations = math.sqrt(2) * special.erfcinv(_WRAP_PROBABILITY)
    if 2 ** (2 * bits) <= cohort * deviations**2:
        raise ValueError(f"{bits} bits are too few for the sum of {cohort} clients.")
    spread = math.sqrt(clip_norm**2 * cohort**2 / padded + cohort * local_stddev**2)
    scale = min(math.sqrt(2.0 ** (2 * bits) - cohort * deviations**2) / (2 * deviations * spread), _MAX_SCALE)
    sensitivity = (clip_norm + math.sqrt(padded) / scale + 1e-5) * scale  # The factory adds 1e-5, too.
    stddev = math.ceil(local_stddev * scale)  # The sampler takes whole numbers.
    shares = np.arange(1, cohort)
    gap = 10 * np.exp(-2 * math.pi**2 * stddev**2 * shares / (shares + 1)).sum()
    ratio = sensitivity / (math.sqrt(cohort) * stddev)
    return 1 / min(math.sqrt(ratio**2 + gap * padded / 2), ratio + gap * math.sqrt(padded))


def split_noise(noise_multiplier: float, clipped_count_stddev: float) -> float:
    """Returns the noise multiplier of the updates, if the count of unclipped clients is released as well.

    Andrew et al. 2021, Theorem 1: z_delta = (z^-2 - (2 sigma_b)^-2)^(-1/2). The count of unclipped clients, to which
    each client adds +1/2 or -1/2, is released with the sum of updates. Together they cost as much privacy as the sum
    alone with `noise_multiplier`. An absent client adds nothing to either of them. Replacing a client changes each of
    them at most twice as much as removing the client.

    Args:
      noise_multiplier: Total noise multiplier z, which is accounted for; 0 returns 0.
      clipped_count_stddev: sigma_b, the standard deviation of the noise on the count, in clients.

    Raises:
      ValueError: If the count's noise is too small for this noise multiplier.
    """
    if not noise_multiplier:
        return 0.0
    if noise_multiplier >= 2 * clipped_count_stddev:
        raise ValueError(
            f"A noise multiplier of {noise_multiplier:g} needs noise of more than {noise_multiplier / 2:g} on the "
            f"count of unclipped clients, not {clipped_count_stddev:g}: use less noise, larger cohorts, or a fixed "
            "clip norm."
        )
    return (noise_multiplier**-2 - (2 * clipped_count_stddev) ** -2) ** -0.5
