"""What a round releases, and what it costs: Renyi divergences and distributions of the privacy loss.

The pair of distributions behind everything is P = N(1, noise^2) against Q = N(0, noise^2), mixed by sampling. Sources:
Mironov 2017 and Mironov, Talwar and Zhang 2019 (RDP), Wang, Balle and Kasiviswanathan 2019 (RDP of samples without
replacement), Zhu, Dong and Wang 2022 (dominating pairs), Doroshenko et al. 2022 (discretization). dp-accounting has the
rest. Nothing here imports TensorFlow.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TypeAlias

import dp_accounting
import numpy as np
from dp_accounting import pld, rdp
from dp_accounting.pld import pld_pmf
from scipy import special

Relation: TypeAlias = dp_accounting.NeighboringRelation
Losses: TypeAlias = pld.privacy_loss_distribution.PrivacyLossDistribution

ORDERS = np.array(rdp.RdpAccountant().orders)  # 1.1 to 10.9 by 0.1, 11 to 63, 128 to 1,024.
# Rounding errors of dp-accounting's series, which at enormous noise exceed the divergence itself.
_RDP_FLOOR = 1e-13
# Outside, dp-accounting's series overflow. Below, sampling does not help; above, less noise is counted.
_LEAST_NOISE, _MOST_NOISE = 1e-3, 1e9
# Rounds beyond which rounding errors of the privacy loss' probabilities add up.
_MOST_COMPOSED = 1e6
# Delta, a round, below which those errors are no longer far smaller than delta.
_LEAST_DELTA = 1e-13
# Privacy losses whose probability is below e^-50 count as infinite.
_LOG_TAIL = -50.0


class Release(abc.ABC):
    """What one round, or several, give away about one client."""

    @functools.cached_property
    def divergences(self) -> np.ndarray:
        """Renyi divergences of one release, float64 [ORDERS]; infinite where they are beyond numbers."""
        with np.errstate(all="ignore"):
            return np.maximum(self._divergences(), _RDP_FLOOR)

    @abc.abstractmethod
    def _divergences(self) -> np.ndarray:
        """Returns them before rounding errors are seen to."""

    def has_losses(self, amount: float, delta: float) -> bool:
        """Returns whether `losses` is known for so many releases, and free of rounding errors at this delta."""
        return amount <= _MOST_COMPOSED and amount * _LEAST_DELTA <= delta

    def losses(self, amount: float, grid: float) -> Losses:
        """Returns the distribution of the privacy loss of several releases, rounded up to multiples of `grid`.

        Raises:
          NotImplementedError: If no distribution is known, and so `has_losses` is false for any amount.
        """
        raise NotImplementedError(f"The privacy loss distribution of {type(self).__name__} is not known.")


@dataclasses.dataclass(frozen=True)
class Gaussian(Release):
    """A sum with Gaussian noise.

    Attributes:
      noise: Its standard deviation, in units of what one client moves.
    """

    noise: float

    def _divergences(self) -> np.ndarray:
        return ORDERS / 2 / self.noise / self.noise

    def has_losses(self, amount: float, delta: float) -> bool:
        """See the base class."""
        return True

    def losses(self, amount: float, grid: float) -> Losses:
        """See the base class; `amount` need not be whole."""
        noise = self.noise / math.sqrt(amount)
        high = _highest_loss(1.0, noise)
        return Losses(_connect_dots(lambda epsilons: _deltas_of_mixture(epsilons, 1.0, noise), -high, high, grid))


@dataclasses.dataclass(frozen=True)
class PoissonGaussian(Release):
    """The same of a Poisson sample, where a client is added or removed.

    Attributes:
      rate: Probability that a client is in the sample.
      noise: As for `Gaussian`.
    """

    rate: float
    noise: float

    def _divergences(self) -> np.ndarray:
        if self.rate == 1 or self.noise < _LEAST_NOISE:
            return Gaussian(self.noise)._divergences()
        event = dp_accounting.PoissonSampledDpEvent(self.rate, _counted_noise(self.noise))
        return rdp.RdpAccountant().compose(event).rdp

    def losses(self, amount: float, grid: float) -> Losses:
        """See the base class."""
        if self.rate == 1:
            return Gaussian(self.noise).losses(amount, grid)
        low, high = math.log1p(-self.rate), _highest_loss(self.rate, self.noise)
        remove = _connect_dots(lambda epsilons: _deltas_of_mixture(epsilons, self.rate, self.noise), low, high, grid)
        add = _connect_dots(lambda epsilons: _deltas_from_mixture(epsilons, self.rate, self.noise), -high, -low, grid)
        return Losses(remove, add).self_compose(int(amount))


@dataclasses.dataclass(frozen=True)
class SubsetGaussian(Release):
    """The same of a sample of a fixed size, drawn without replacement, where a client is replaced.

    Zhu, Dong and Wang 2022: at any alpha of at least 1, the hockey-stick divergence of two neighbours is at most that
    of the mixture rate P + (1 - rate) Q against Q, by advanced joint convexity; below 1, as replacing is symmetric, at
    most that of P against (1 - rate) P + rate Q. A pair with this pieced profile dominates each round, and so its
    composition dominates the rounds. Neither mixture alone does: Lebeda et al. 2024 show that composing one of them
    understates epsilon.

    Attributes:
      population: Clients.
      cohort: Clients of the sample.
      noise: Standard deviation of the noise, in units of what a replaced client moves: of two clip norms.
    """

    population: int
    cohort: int
    noise: float

    def _divergences(self) -> np.ndarray:
        whole = Gaussian(self.noise)._divergences()
        if self.cohort == self.population or self.noise < _LEAST_NOISE:
            return whole
        event = dp_accounting.SampledWithoutReplacementDpEvent(self.population, self.cohort, _counted_noise(self.noise))
        return np.minimum(whole, rdp.RdpAccountant(neighboring_relation=Relation.REPLACE_ONE).compose(event).rdp)

    def losses(self, amount: float, grid: float) -> Losses:
        """See the base class."""
        if self.cohort == self.population:
            return Gaussian(self.noise).losses(amount, grid)
        rate = self.cohort / self.population

        def pieced(epsilons):
            below, above = epsilons[epsilons < 0], epsilons[epsilons >= 0]
            pieces = _deltas_from_mixture(below, rate, self.noise), _deltas_of_mixture(above, rate, self.noise)
            return np.concatenate(pieces)

        high = _highest_loss(rate, self.noise)
        return Losses(_connect_dots(pieced, -high, high, grid)).self_compose(int(amount))


@dataclasses.dataclass(frozen=True)
class SubsetConcentrated(Release):
    """A release of which only its concentrated differential privacy is known, of a sample without replacement.

    Attributes:
      population: Clients.
      cohort: Clients of the sample.
      noise: Noise of the Gaussian with the same bound for a client that is replaced by one without an update.
      replaces: Whether a client may be replaced by any other, which moves twice as much.
    """

    population: int
    cohort: int
    noise: float
    replaces: bool

    def has_losses(self, amount: float, delta: float) -> bool:
        """See the base class."""
        return False

    def _divergences(self) -> np.ndarray:
        whole = Gaussian(self.noise / 2 if self.replaces else self.noise)._divergences()
        if self.cohort == self.population or self.noise < _LEAST_NOISE:
            return whole
        # A client without an update is another client too: what bounds any replacement bounds this one.
        amplified = amplified_divergences(
            self.cohort / self.population, lambda orders: 2 * orders / self.noise / self.noise
        )
        return np.minimum(whole, amplified)


def amplified_divergences(rate: float, divergences: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Returns the Renyi divergences of a mechanism on a sample without replacement, float64 [ORDERS].

    Wang, Balle and Kasiviswanathan 2019, Theorem 9, for any mechanism, where one member of the data is replaced. It
    holds for whole orders; between them the moments' logarithm is convex.

    Args:
      rate: Members of the sample over all.
      divergences: Whole orders from 2, float64 [any] -> bounds of the mechanism's own divergences.
    """

    def log_moment(order):
        if order == 1:
            return 0.0
        counts = np.arange(2, order + 1)
        divergences_of_counts = divergences(counts)
        terms = math.log(2) + (counts - 1) * divergences_of_counts
        terms[0] = min(terms[0], math.log(4) + divergences_of_counts[0] + np.log(-np.expm1(-divergences_of_counts[0])))
        log_choices = special.gammaln(order + 1) - special.gammaln(counts + 1) - special.gammaln(order - counts + 1)
        return np.logaddexp(0.0, special.logsumexp(terms + log_choices + counts * math.log(rate)))

    whole = np.unique([np.floor(ORDERS), np.ceil(ORDERS)])
    return np.interp(ORDERS, whole, [log_moment(int(order)) for order in whole]) / (ORDERS - 1)


def _counted_noise(noise: float) -> dp_accounting.GaussianDpEvent:
    return dp_accounting.GaussianDpEvent(min(noise, _MOST_NOISE))


def _log_ratio(epsilons: np.ndarray, rate: float) -> np.ndarray:
    """Returns log(P / Q) where the mixture rate P + (1 - rate) Q is e^epsilon Q; minus infinity where it never is."""
    ratio = np.full(epsilons.shape, -np.inf)
    met = np.full(epsilons.shape, True) if rate == 1 else epsilons > math.log1p(-rate)
    ratio[met] = epsilons[met] - math.log(rate)
    if rate < 1:
        ratio[met] += np.log1p((rate - 1) * np.exp(-epsilons[met]))
    return ratio


def _deltas_of_mixture(epsilons: np.ndarray, rate: float, noise: float) -> np.ndarray:
    """Returns the hockey-stick divergences of rate P + (1 - rate) Q from Q at e^epsilon."""
    ratio = _log_ratio(epsilons, rate)
    cut = noise * ratio
    deltas = rate * (special.ndtr(0.5 / noise - cut) - np.exp(ratio + special.log_ndtr(-0.5 / noise - cut)))
    return np.where(np.isfinite(ratio), deltas, -np.expm1(np.minimum(epsilons, 0.0)))


def _deltas_from_mixture(epsilons: np.ndarray, rate: float, noise: float) -> np.ndarray:
    """Returns the hockey-stick divergences of Q from rate P + (1 - rate) Q at e^epsilon, for a rate below 1."""
    ratio = _log_ratio(-epsilons, rate)
    cut = noise * ratio
    scale = np.exp(np.minimum(epsilons, -math.log1p(-rate)))
    deltas = (1 - (1 - rate) * scale) * special.ndtr(cut + 0.5 / noise) - rate * scale * special.ndtr(cut - 0.5 / noise)
    return np.where(np.isfinite(ratio), deltas, 0.0)


def _highest_loss(rate: float, noise: float) -> float:
    """Returns the privacy loss of the mixture from Q that P exceeds with the probability of the tail."""
    loss = 0.5 / noise**2 - float(special.ndtri_exp(_LOG_TAIL)) / noise
    return loss + math.log(rate + (1 - rate) * math.exp(-loss))


def _connect_dots(deltas: Callable[[np.ndarray], np.ndarray], low: float, high: float, grid: float) -> pld_pmf.PLDPmf:
    """Returns the distribution on a grid of losses whose divergences are these at the grid, and above between."""
    first, last = math.floor(low / grid), math.ceil(high / grid)
    falling = np.minimum.accumulate(np.clip(deltas(np.arange(first, last + 1) * grid), 0.0, 1.0))
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, first, last, falling)
