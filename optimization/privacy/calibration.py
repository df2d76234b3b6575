"""Calibration of the noise or the cohort size to an epsilon. Nothing here imports TensorFlow."""

import bisect
import contextlib
import dataclasses
import functools
import itertools
import math
from typing import NamedTuple

from optimization.privacy import factorizations, mechanisms

_NOISE_RANGE = (1e-2, 1e6)
# Maximum number of stored noise values: they take 0.5 GiB in memory and in each checkpoint, and 0.1 s per round.
MOST_NOISE_NUMBERS = 2**27
_HOPELESS = 1.1  # If the noise exceeds the smallest noise so far by this factor, no more bands are tried.


# Kind and sampling of the mechanisms that are compared at the same epsilon.
ALTERNATIVES = (("dpsgd", "poisson"), ("dpftrl", "cyclic"), ("mf_dpftrl", "cyclic"), ("mf_dpftrl", "cyclic_poisson"))


class Plan(NamedTuple):
    """Mechanism of a run, fixed before its first round.

    Attributes:
      mechanism: The mechanism, with its noise and bands.
      reason: Sentences that describe the mechanism and compare it with other numbers of bands.
    """

    mechanism: mechanisms.Mechanism
    reason: str


def plan(
    mechanism: mechanisms.Mechanism,
    rounds: int,
    target_epsilon: float | None = None,
    *,
    bands: int | None = None,
    dimension: int = 1,
) -> Plan:
    """Plans the noise of a run: the noise multiplier if an epsilon is given, and the bands of `mf_dpftrl`.

    Args:
      mechanism: The mechanism. If an epsilon is given, its noise multiplier is replaced. The bands and groups of
        `mf_dpftrl` are always replaced.
      rounds: Number of planned rounds.
      target_epsilon: Headline epsilon, from the mechanism's accountant; None to keep the noise multiplier.
      bands: Number of bands of `mf_dpftrl`; None for the number with the least noise on the prefix sums.
      dimension: Number of the model's parameters.

    Raises:
      ValueError: If no noise multiplier in the range of `calibrate` fits the epsilon, or the mechanism is impossible.
    """
    choices: tuple[mechanisms.Mechanism, ...] = ()
    if mechanism.kind == "mf_dpftrl":
        if bands is None:
            choices = compare_bands(mechanism, rounds, target_epsilon, dimension)
            bands = min(choices, key=lambda choice: choice.prefix_noise(rounds)).bands
        mechanism = _banded(mechanism, bands, rounds)
    wanted = ""
    if target_epsilon is not None:
        noise = round_up(calibrate(mechanism, rounds, target_epsilon))
        mechanism = dataclasses.replace(mechanism, noise_multiplier=noise)
        assumed = ", if Poisson" if mechanism.analyses[0].assumed else ""
        wanted = f" (epsilon {target_epsilon:g} by {mechanism.accountant.upper()}{assumed}, after {rounds:,} rounds)"
    noise = mechanism.prefix_noise(rounds)
    text = (
        f"{mechanism.name}, noise multiplier {mechanism.noise_multiplier:g}{wanted}. "
        f"Noise on the prefix sums after {rounds:,} rounds: {noise:.3g} clip norms"
    )
    if choices:
        scale = noise / min(choice.prefix_noise(rounds) for choice in choices)
        by_bands = [f"{scale * choice.prefix_noise(rounds):.3g} with {choice.bands}" for choice in choices]
        text = f"{text}, the least noise among all numbers of bands that were tried: {', '.join(by_bands)}"
    return Plan(mechanism, f"{text}.")


def alternatives(
    mechanism: mechanisms.Mechanism, rounds: int, target_epsilon: float, dimension: int = 1
) -> tuple[Plan, ...]:
    """Plans mechanisms that reach the same epsilon with the same clients and cohorts.

    These are the `ALTERNATIVES` that can reach the epsilon, each with the best number of bands. The mechanism with the
    least noise on the prefix sums is first.

    Args:
      mechanism: The mechanism. Only its population, cohort, delta, accountant and `apart_from` are used.
      rounds: Number of planned rounds.
      target_epsilon: The epsilon to reach.
      dimension: Number of the model's parameters.
    """
    names = ("population", "cohort", "delta", "apart_from", "accountant")
    same = {name: getattr(mechanism, name) for name in names}
    plans = []
    for kind, sampling in ALTERNATIVES:
        restart = mechanism.population // mechanism.cohort if kind == "dpftrl" else 0
        other = mechanisms.Mechanism(kind, 1.0, sampling=sampling, restart_frequency=restart, **same)
        with contextlib.suppress(ValueError):
            plans.append(plan(other, rounds, target_epsilon, dimension=dimension))
    return tuple(sorted(plans, key=lambda each: each.mechanism.prefix_noise(rounds)))


def _banded(mechanism: mechanisms.Mechanism, bands: int, planned_rounds: int) -> mechanisms.Mechanism:
    """Copy with this number of bands.

    The coefficients are optimized for the planned rounds, unless two participations of a client can share noise.
    Poisson sampling of all clients also uses optimized coefficients, since it simulates groups that take turns.
    """
    is_apart = "poisson" in mechanism.sampling or bands <= mechanism.min_separation
    groups = bands if mechanism.sampling == "cyclic_poisson" else 1
    return dataclasses.replace(
        mechanism, bands=bands, groups=groups, optimized_rounds=planned_rounds if is_apart else 0
    )


def round_up(value: float) -> float:
    """Rounds a number up to five significant digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 4)
    return float(f"{math.ceil(value / step) * step:.5g}")


def noise_of_sample(noise_multiplier: float, cohort: int, planned_cohort: int) -> float:
    """Noise multiplier, z m / M, that gives a smaller cohort the same noise on the mean as the planned cohort.

    Args:
      noise_multiplier: Noise multiplier of the planned cohort.
      cohort: Number of clients in a round.
      planned_cohort: Number of clients in a planned round.
    """
    return float(f"{noise_multiplier * cohort / planned_cohort:.6g}")


@functools.lru_cache(64)
def compare_bands(
    mechanism: mechanisms.Mechanism, rounds: int, target_epsilon: float | None, dimension: int = 1
) -> tuple[mechanisms.Mechanism, ...]:
    """Compares numbers of bands at the same RDP epsilon, as far as memory allows.

    The numbers are first taken from a geometric grid, and then, twice, from halfway between the best number and its
    neighbours.

    Args:
      mechanism: An `mf_dpftrl` mechanism; its bands, groups, noise multiplier and accountant are not used.
      rounds: Number of planned rounds.
      target_epsilon: The epsilon; None for that of one participation at noise multiplier 1, without
        amplification.
      dimension: Number of the model's parameters.

    Returns:
      For each number of bands, in ascending order, the mechanism with the noise multiplier that reaches the epsilon.
    """
    most = min(rounds, factorizations.MOST_BANDS, max(MOST_NOISE_NUMBERS // dimension, 1))
    if mechanism.sampling == "cyclic_poisson":
        most = min(most, mechanism.population // mechanism.cohort)
    alone = dataclasses.replace(mechanism, noise_multiplier=1.0, accountant="rdp")
    choices: dict[int, mechanisms.Mechanism] = {}
    noises: dict[int, float] = {}

    def compare(bands: int) -> None:
        one = _banded(alone, bands, rounds)
        if target_epsilon is None:
            column = one.column(rounds)
            noise = math.sqrt(factorizations.squared_sensitivity(column, rounds, one.min_separation))
        else:
            noise = calibrate(one, rounds, target_epsilon)
        choices[bands] = dataclasses.replace(one, noise_multiplier=noise)
        noises[bands] = choices[bands].prefix_noise(rounds)

    powers = (2**power for power in range(most.bit_length()))
    for bands in sorted({*powers, most, min(mechanism.min_separation, most)}):
        compare(bands)
        if noises[bands] > _HOPELESS * min(noises.values()):
            break
    for _ in range(2):
        tried = sorted(noises)
        best = tried.index(min(noises, key=noises.__getitem__))
        near = tried[max(best - 1, 0) : best + 2]
        for bands in {(low + high) // 2 for low, high in itertools.pairwise(near)} - noises.keys():
            compare(bands)
    return tuple(choices[bands] for bands in sorted(choices))


def calibrate(mechanism: mechanisms.Mechanism, rounds: int, target_epsilon: float, *, proven: bool = False) -> float:
    """Returns the smallest noise multiplier at which the rounds cost at most the epsilon, to 0.1% of epsilon.

    Args:
      mechanism: The mechanism; its noise multiplier is not used.
      rounds: Number of rounds.
      target_epsilon: Headline epsilon, from the mechanism's accountant.
      proven: Whether to use the first proven analysis instead of the headline analysis.

    Raises:
      ValueError: If the epsilon needs a noise multiplier below 0.01 or above a million.
    """
    return _calibrated(dataclasses.replace(mechanism, noise_multiplier=1.0), rounds, target_epsilon, proven)


@functools.lru_cache(64)
def _calibrated(mechanism: mechanisms.Mechanism, rounds: int, target_epsilon: float, proven: bool) -> float:
    @functools.cache
    def spent(log_noise):
        return dataclasses.replace(mechanism, noise_multiplier=math.exp(log_noise)).epsilon(rounds, proven=proven)

    def excess(log_noise):  # Zero in the middle of the tolerated 0.1%.
        return math.log(max(spent(log_noise), 1e-300) / target_epsilon) + 5e-4

    least, most = map(math.log, _NOISE_RANGE)
    low, high, step = 0.0, 0.0, 1.0
    while excess(high) > 0:
        if high == most:
            raise ValueError(
                f"is out of reach: even a noise multiplier of {_NOISE_RANGE[1]:g} spends {spent(most):.4g}"
            )
        low, high, step = high, min(high + step, most), step if high < 3 else 2 * step
    while excess(low) < 0:
        if low == least:
            raise ValueError(
                f"needs no search: a noise multiplier of {_NOISE_RANGE[0]:g} spends "
                + (
                    f"only {spent(least):.4g}"
                    if spent(least)
                    else f"nothing, because delta, {mechanism.delta:.3g}, is large"
                )
            )
        low, high = max(low - 1, least), low
    tolerance = 1e-5
    from scipy import optimize

    root = optimize.brentq(excess, low, high, xtol=tolerance)
    while spent(root) > target_epsilon:  # Tiny epsilons jump to 0, and the root may be just below the jump.
        root += tolerance
    return math.exp(root)


def scale_cohort(mechanism: mechanisms.Mechanism, rounds: int, target_epsilon: float) -> mechanisms.Mechanism:
    """Returns the mechanism with the smallest cohort that reaches the epsilon at the same noise on the mean update.

    As in Agarwal et al. 2023, section 5.3, cohort and noise multiplier grow by the same factor. The noise on the mean,
    which is the noise multiplier times the clip norm divided by the cohort size, therefore stays the same, as does the
    utility. The cohort never becomes smaller than before.

    Args:
      mechanism: The mechanism, with the noise multiplier that training tolerates at its cohort size.
      rounds: Number of rounds.
      target_epsilon: Headline epsilon, from the mechanism's accountant.

    Raises:
      ValueError: If a cohort of the whole population does not reach the epsilon.
    """

    def scaled(cohort):
        noise_multiplier = mechanism.noise_multiplier * cohort / mechanism.cohort
        return dataclasses.replace(mechanism, cohort=cohort, noise_multiplier=noise_multiplier)

    @functools.cache
    def spent(cohort):
        return scaled(cohort).epsilon(rounds)

    if spent(mechanism.population) > target_epsilon:
        raise ValueError(
            f"is out of reach: even a cohort of the whole population spends {spent(mechanism.population):.4g}"
        )
    cohorts = range(mechanism.cohort, mechanism.population + 1)
    return scaled(cohorts[bisect.bisect_left(cohorts, -target_epsilon, key=lambda cohort: -spent(cohort))])
