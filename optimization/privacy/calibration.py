"""The noise, or the cohort, that an epsilon needs. Nothing here imports TensorFlow."""

import dataclasses
import functools
import math

from optimization.privacy import mechanisms

_NOISE_RANGE = (1e-2, 1e6)


def calibrate(mechanism: mechanisms.Mechanism, rounds: int, target_epsilon: float) -> float:
    """Returns the smallest noise multiplier with which some rounds cost at most an epsilon, to 0.1% of epsilon.

    Args:
      mechanism: The mechanism; its own noise multiplier is not used.
      rounds: Rounds.
      target_epsilon: Epsilon of the headline, by the mechanism's accountant.

    Raises:
      ValueError: If no noise multiplier in a wide range does that.
    """

    @functools.cache
    def spent(log_noise):
        return dataclasses.replace(mechanism, noise_multiplier=math.exp(log_noise)).epsilon(rounds)

    def excess(log_noise):  # Aims at the middle of the 0.1%.
        return math.log(max(spent(log_noise), 1e-300) / target_epsilon) + 5e-4

    least, most = map(math.log, _NOISE_RANGE)
    low = high = 0.0
    while excess(high) > 0:
        if high == most:
            raise ValueError(
                f"is out of reach: a noise multiplier of {_NOISE_RANGE[1]:g} still spends {spent(most):.4g}"
            )
        low, high = high, min(high + 1, most)
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

    def excess(log_cohort):
        return math.log(max(spent(round(math.exp(log_cohort))), 1e-300) / target_epsilon)

    low, high = math.log(mechanism.cohort), math.log(mechanism.population)
    if excess(low) <= 0:
        return mechanism
    if excess(high) > 0:
        raise ValueError(
            f"is out of reach: a cohort of the whole population still spends {spent(mechanism.population):.4g}"
        )
    from scipy import optimize

    cohort = round(math.exp(optimize.brentq(excess, low, high, xtol=1e-6)))
    while spent(cohort) > target_epsilon:
        cohort += 1
    return scaled(cohort)
