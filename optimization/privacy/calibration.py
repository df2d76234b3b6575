"""The noise, or the cohort, that an epsilon needs. Nothing here imports TensorFlow."""

import bisect
import contextlib
import dataclasses
import functools
import itertools
import math
from typing import NamedTuple

from optimization.privacy import factorizations, mechanisms

_NOISE_RANGE = (1e-2, 1e6)
# Numbers that the memory of correlated noise may hold: 0.5 GiB, as much in a checkpoint, and 0.1 s of a round.
MOST_NOISE_NUMBERS = 2**27
_HOPELESS = 1.1  # Noise relative to the least so far, beyond which more bands are not tried.


# Kind and sampling of what is compared at one epsilon.
ALTERNATIVES = (
    ("dpsgd", "poisson"),
    ("dpftrl", "cyclic"),
    ("mf_dpftrl", "cyclic"),
    ("mf_dpftrl", "cyclic_poisson"),
)


class Plan(NamedTuple):
    """What a run adds, fixed before its first round.

    Attributes:
      mechanism: The mechanism.
      reason: What was chosen, and what else would cost, in sentences.
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
    """Plans the noise of a run: with an epsilon its multiplier, with `mf_dpftrl` its bands.

    Args:
      mechanism: The mechanism; its own bands and groups are not used, nor is its noise with an epsilon.
      rounds: Planned rounds.
      target_epsilon: Epsilon of the headline, by the mechanism's accountant; None to keep the noise multiplier.
      bands: Bands; None for the number with the least noise on the prefix sums.
      dimension: Parameters of the model.

    Raises:
      ValueError: If no noise reaches the epsilon, or the mechanism is impossible.
    """
    choices: tuple[mechanisms.Mechanism, ...] = ()
    if mechanism.kind == "mf_dpftrl":
        if bands is None:
            choices = compare_bands(mechanism, rounds, target_epsilon, dimension)
            bands = min(choices, key=lambda one: one.prefix_noise(rounds)).bands
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
        scale = noise / min(one.prefix_noise(rounds) for one in choices)
        by_bands = [f"{scale * one.prefix_noise(rounds):.3g} with {one.bands}" for one in choices]
        text = f"{text}, the least of all numbers of bands tried: {', '.join(by_bands)}"
    return Plan(mechanism, f"{text}.")


def alternatives(
    mechanism: mechanisms.Mechanism, rounds: int, target_epsilon: float, dimension: int = 1
) -> tuple[Plan, ...]:
    """Plans the mechanisms that reach one epsilon with the same clients and cohorts, least noise on prefix sums first.

    They are `ALTERNATIVES`, each with the sampling that suits it and its best bands; those out of reach are left out.

    Args:
      mechanism: Population, cohort, delta and accountant.
      rounds: Planned rounds.
      target_epsilon: The epsilon.
      dimension: Parameters of the model.
    """
    names = ("population", "cohort", "delta", "apart_from", "accountant")
    same = {name: getattr(mechanism, name) for name in names}
    plans = []
    for kind, sampling in ALTERNATIVES:
        restart = mechanism.population // mechanism.cohort if kind == "dpftrl" else 0
        one = mechanisms.Mechanism(kind, 1.0, sampling=sampling, restart_frequency=restart, **same)
        with contextlib.suppress(ValueError):
            plans.append(plan(one, rounds, target_epsilon, dimension=dimension))
    return tuple(sorted(plans, key=lambda one: one.mechanism.prefix_noise(rounds)))


def _banded(mechanism: mechanisms.Mechanism, bands: int, planned_rounds: int) -> mechanisms.Mechanism:
    """Copy with bands, whose coefficients are optimized for the planned rounds unless a client's noises overlap.

    Poisson samples of all clients have the optimized ones, too: simulations of groups by turns use them.
    """
    is_apart = "poisson" in mechanism.sampling or bands <= mechanism.min_separation
    groups = bands if mechanism.sampling == "cyclic_poisson" else 1
    return dataclasses.replace(
        mechanism, bands=bands, groups=groups, optimized_rounds=planned_rounds if is_apart else 0
    )


def round_up(value: float) -> float:
    """Number rounded up to five significant digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 4)
    return float(f"{math.ceil(value / step) * step:.5g}")


def noise_of_sample(noise_multiplier: float, cohort: int, planned_cohort: int) -> float:
    """The noise multiplier of a smaller cohort that leaves the noise of the planned one on the mean, z m / M.

    Args:
      noise_multiplier: That of the planned cohort.
      cohort: Clients of a round.
      planned_cohort: Clients of a round in the plan.
    """
    return float(f"{noise_multiplier * cohort / planned_cohort:.6g}")


@functools.lru_cache(64)
def compare_bands(
    mechanism: mechanisms.Mechanism, rounds: int, target_epsilon: float | None, dimension: int = 1
) -> tuple[mechanisms.Mechanism, ...]:
    """Compares numbers of bands at one epsilon, by RDP, within the memory of the noise.

    They are on a geometric grid, and then twice halfway between the best number and its neighbours.

    Args:
      mechanism: A `mf_dpftrl` mechanism; its own bands, groups and noise are not used.
      rounds: Planned rounds.
      target_epsilon: The epsilon; None, without amplification, for that of noise multiplier 1 where a client takes part
        once.
      dimension: Parameters of the model.

    Returns:
      The mechanism with each number of bands, in their order, with the noise multiplier that reaches the epsilon.
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
    """Returns the smallest noise multiplier with which some rounds cost at most an epsilon, to 0.1% of epsilon.

    Args:
      mechanism: The mechanism; its own noise multiplier is not used.
      rounds: Rounds.
      target_epsilon: Epsilon of the headline, by the mechanism's accountant.
      proven: Whether it is that of the first proven analysis instead.

    Raises:
      ValueError: If no noise multiplier in a wide range does that.
    """
    return _calibrated(dataclasses.replace(mechanism, noise_multiplier=1.0), rounds, target_epsilon, proven)


@functools.lru_cache(64)
def _calibrated(mechanism: mechanisms.Mechanism, rounds: int, target_epsilon: float, proven: bool) -> float:
    @functools.cache
    def spent(log_noise):
        return dataclasses.replace(mechanism, noise_multiplier=math.exp(log_noise)).epsilon(rounds, proven=proven)

    def excess(log_noise):  # Aims at the middle of the 0.1%.
        return math.log(max(spent(log_noise), 1e-300) / target_epsilon) + 5e-4

    least, most = map(math.log, _NOISE_RANGE)
    low, high, step = 0.0, 0.0, 1.0
    while excess(high) > 0:
        if high == most:
            raise ValueError(
                f"is out of reach: a noise multiplier of {_NOISE_RANGE[1]:g} still spends {spent(most):.4g}"
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
    while spent(root) > target_epsilon:  # Tiny epsilons jump to 0: the root may lie before the jump.
        root += tolerance
    return math.exp(root)


def scale_cohort(mechanism: mechanisms.Mechanism, rounds: int, target_epsilon: float) -> mechanisms.Mechanism:
    """Returns the mechanism with the smallest cohort that reaches an epsilon at the same noise on the mean update.

    Agarwal et al. 2023, section 5.3: cohort and noise multiplier grow by the same factor, so that the noise on the
    mean, noise multiplier times clip norm over cohort, and with it the utility, stay as they are.

    Args:
      mechanism: The mechanism, with the noise that training tolerates at its cohort.
      rounds: Rounds.
      target_epsilon: Epsilon of the headline, by the mechanism's accountant.

    Raises:
      ValueError: If not even the whole population reaches it.
    """

    def scaled(cohort):
        noise_multiplier = mechanism.noise_multiplier * cohort / mechanism.cohort
        return dataclasses.replace(mechanism, cohort=cohort, noise_multiplier=noise_multiplier)

    @functools.cache
    def spent(cohort):
        return scaled(cohort).epsilon(rounds)

    if spent(mechanism.population) > target_epsilon:
        raise ValueError(
            f"is out of reach: a cohort of the whole population still spends {spent(mechanism.population):.4g}"
        )
    cohorts = range(mechanism.cohort, mechanism.population + 1)
    return scaled(cohorts[bisect.bisect_left(cohorts, -target_epsilon, key=lambda cohort: -spent(cohort))])
