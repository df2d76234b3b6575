"""Privacy accounting: what the rounds of a mechanism release, and how much privacy that costs.

A `Release` provides Renyi divergences and distributions of the privacy loss. An `Analysis` is one way to account for a
mechanism: its release, the number of releases, the sampling that amplifies privacy, and which data sets are neighbours.

The distributions behind a release with Gaussian noise are P = N(1, noise^2) and Q = N(0, noise^2), mixed by sampling.
Every mechanism divides by a fixed number of clients, so an absent client contributes nothing: zero to the sum of
updates and, with adaptive clipping, zero to the centred count of unclipped updates. (A client that is present with a
zero update is different: it counts as unclipped, and so may any client that replaces another.)

Sources: Abadi et al. 2016, Mironov 2017, Mironov, Talwar and Zhang 2019 (RDP), Wang, Balle and Kasiviswanathan 2019
(RDP of samples without replacement), Zhu, Dong and Wang 2022 (dominating pairs), Doroshenko et al. 2022
(discretization), McMahan et al. 2018 (DP-FedAvg), Andrew et al. 2021 (adaptive clipping), Kairouz, McMahan et al. 2021
(DP-FTRL by tree aggregation), Choquette-Choo et al. 2023 (banded matrix factorization), Kairouz, Liu and Steinke 2021
(distributed discrete Gaussian). Everything else is from dp-accounting. Nothing here imports TensorFlow.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import dp_accounting
import numpy as np
from dp_accounting import pld, rdp
from dp_accounting.pld import pld_pmf
from scipy import special

from optimization.privacy import factorizations, sensitivities

Mechanism: TypeAlias = Any  # A `mechanisms.Mechanism`; that module imports this one.
Relation: TypeAlias = dp_accounting.NeighboringRelation
Losses: TypeAlias = pld.privacy_loss_distribution.PrivacyLossDistribution

ORDERS = np.array(rdp.RdpAccountant().orders)  # 1.1, 1.2, ..., 10.9; 11, 12, ..., 63; 128, 256, 512, 1024.
# Rounding error of dp-accounting's series. If the noise is enormous, the error exceeds the divergence itself.
_RDP_FLOOR = 1e-13
# Outside this range, dp-accounting's series overflow. Below it, amplification by sampling is ignored. Noise above it
# counts as the maximum.
_LEAST_NOISE, _MOST_NOISE = 1e-3, 1e9
# Number of rounds beyond which rounding errors in the probabilities of the privacy loss add up.
_MOST_COMPOSED = 1e6
# Delta per round below which those errors are no longer much smaller than delta.
_LEAST_DELTA = 1e-13
# Privacy losses whose probability is below e^-50 count as infinite.
_LOG_TAIL = -50.0


class Release(abc.ABC):
    """What one or several rounds release, from the point of view of a single client."""

    @functools.cached_property
    def divergences(self) -> np.ndarray:
        """Renyi divergences of one release at `ORDERS`, float64 [orders]; infinite if they overflow."""
        with np.errstate(all="ignore"):
            return np.maximum(self._divergences(), _RDP_FLOOR)

    @abc.abstractmethod
    def _divergences(self) -> np.ndarray:
        """Returns the divergences without a floor for rounding errors."""

    def has_losses(self, amount: float, delta: float) -> bool:
        """Returns whether `losses` is available for this many releases, and accurate enough for this delta."""
        return amount <= _MOST_COMPOSED and amount * _LEAST_DELTA <= delta

    def losses(self, amount: float, grid: float) -> Losses:
        """Returns the distribution of the privacy loss of several releases, rounded up to multiples of `grid`.

        Raises:
          NotImplementedError: If no distribution is known; `has_losses` is then always false.
        """
        raise NotImplementedError(f"The privacy loss distribution of {type(self).__name__} is not known.")


@dataclasses.dataclass(frozen=True)
class Gaussian(Release):
    """A sum with Gaussian noise.

    Attributes:
      noise: Standard deviation of the noise, in units of the change by one client.
    """

    noise: float

    def _divergences(self) -> np.ndarray:
        return ORDERS / 2 / self.noise / self.noise

    def has_losses(self, amount: float, delta: float) -> bool:
        return True

    def losses(self, amount: float, grid: float) -> Losses:
        """See the base class; `amount` need not be whole."""
        noise = self.noise / math.sqrt(amount)
        high = _highest_loss(1.0, noise)
        return Losses(_connect_dots(lambda epsilons: _deltas_of_mixture(epsilons, 1.0, noise), -high, high, grid))


@dataclasses.dataclass(frozen=True)
class PoissonGaussian(Release):
    """A sum with Gaussian noise over a Poisson sample; neighbours add or remove a client.

    Attributes:
      rate: Probability that a client is in the sample.
      noise: Standard deviation of the noise, in units of the change by one client.
    """

    rate: float
    noise: float

    def _divergences(self) -> np.ndarray:
        if self.rate == 1 or self.noise < _LEAST_NOISE:
            return Gaussian(self.noise)._divergences()
        event = dp_accounting.PoissonSampledDpEvent(self.rate, _counted_noise(self.noise))
        return rdp.RdpAccountant().compose(event).rdp

    def losses(self, amount: float, grid: float) -> Losses:
        if self.rate == 1:
            return Gaussian(self.noise).losses(amount, grid)
        low, high = math.log1p(-self.rate), _highest_loss(self.rate, self.noise)
        remove = _connect_dots(lambda epsilons: _deltas_of_mixture(epsilons, self.rate, self.noise), low, high, grid)
        add = _connect_dots(lambda epsilons: _deltas_from_mixture(epsilons, self.rate, self.noise), -high, -low, grid)
        return Losses(remove, add).self_compose(int(amount))


@dataclasses.dataclass(frozen=True)
class SubsetGaussian(Release):
    """A sum with Gaussian noise over a fixed-size sample without replacement; neighbours replace a client.

    The bound is from Zhu, Dong and Wang 2022. Let alpha = e^epsilon. For alpha >= 1, by advanced joint convexity, the
    hockey-stick divergence of two neighbours is at most that of the mixture rate P + (1 - rate) Q against Q. For
    alpha < 1, since replacing is symmetric, it is at most that of P against (1 - rate) P + rate Q. A pair with this
    piecewise profile dominates each round, so its composition dominates all rounds. Neither mixture alone does: Lebeda
    et al. 2024 show that composing only one of them understates epsilon.

    Attributes:
      population: Number of clients.
      cohort: Size of the sample.
      noise: Standard deviation of the noise, in units of the change by a replaced client, which is two clip norms.
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
    """A release over a sample without replacement for which only concentrated differential privacy is known.

    Attributes:
      population: Number of clients.
      cohort: Size of the sample.
      noise: Noise of the Gaussian release that has the same bound if a client's update is replaced by zero.
      replaces: Whether a client may be replaced by any other, which doubles the change.
    """

    population: int
    cohort: int
    noise: float
    replaces: bool

    def has_losses(self, amount: float, delta: float) -> bool:
        return False

    def _divergences(self) -> np.ndarray:
        whole = Gaussian(self.noise / 2 if self.replaces else self.noise)._divergences()
        if self.cohort == self.population or self.noise < _LEAST_NOISE:
            return whole
        # Replacing an update by zero is a special case, so the bound for an arbitrary replacement holds.
        amplified = amplified_divergences(
            self.cohort / self.population, lambda orders: 2 * orders / self.noise / self.noise
        )
        return np.minimum(whole, amplified)


def amplified_divergences(rate: float, divergences: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Returns bounds on the Renyi divergences of a mechanism on a sample without replacement, float64 [orders].

    This is Theorem 9 of Wang, Balle and Kasiviswanathan 2019, for any mechanism, where neighbours replace one member of
    the data. The theorem holds for integer orders. Between them, the logarithm of the moments is convex, so linear
    interpolation is an upper bound.

    Args:
      rate: Size of the sample divided by the number of members.
      divergences: Maps integer orders from 2, int [any], to bounds on the divergences without sampling, float64 [any].
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
    """Returns log(P / Q) where rate P + (1 - rate) Q equals e^epsilon Q; minus infinity if it never does."""
    ratio = np.full(epsilons.shape, -np.inf)
    met = np.full(epsilons.shape, True) if rate == 1 else epsilons > math.log1p(-rate)
    ratio[met] = epsilons[met] - math.log(rate)
    if rate < 1:
        ratio[met] += np.log1p((rate - 1) * np.exp(-epsilons[met]))
    return ratio


def _deltas_of_mixture(epsilons: np.ndarray, rate: float, noise: float) -> np.ndarray:
    """Returns the hockey-stick divergences of rate P + (1 - rate) Q from Q at each e^epsilon."""
    ratio = _log_ratio(epsilons, rate)
    cut = noise * ratio
    deltas = rate * (special.ndtr(0.5 / noise - cut) - np.exp(ratio + special.log_ndtr(-0.5 / noise - cut)))
    return np.where(np.isfinite(ratio), deltas, -np.expm1(np.minimum(epsilons, 0.0)))


def _deltas_from_mixture(epsilons: np.ndarray, rate: float, noise: float) -> np.ndarray:
    """Returns the hockey-stick divergences of Q from rate P + (1 - rate) Q at each e^epsilon, for a rate below 1."""
    ratio = _log_ratio(-epsilons, rate)
    cut = noise * ratio
    scale = np.exp(np.minimum(epsilons, -math.log1p(-rate)))
    deltas = (1 - (1 - rate) * scale) * special.ndtr(cut + 0.5 / noise) - rate * scale * special.ndtr(cut - 0.5 / noise)
    return np.where(np.isfinite(ratio), deltas, 0.0)


def _highest_loss(rate: float, noise: float) -> float:
    """Returns the privacy loss of the mixture against Q that is exceeded under P with probability e^`_LOG_TAIL`."""
    loss = 0.5 / noise**2 - float(special.ndtri_exp(_LOG_TAIL)) / noise
    return loss + math.log(rate + (1 - rate) * math.exp(-loss))


def _connect_dots(deltas: Callable[[np.ndarray], np.ndarray], low: float, high: float, grid: float) -> pld_pmf.PLDPmf:
    """Returns a loss distribution on a grid that has these divergences at grid points, and larger ones in between."""
    first, last = math.floor(low / grid), math.ceil(high / grid)
    falling = np.minimum.accumulate(np.clip(deltas(np.arange(first, last + 1) * grid), 0.0, 1.0))
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, first, last, falling)


_RELATION_NAMES = {
    Relation.ADD_OR_REMOVE_ONE: "one client added or removed",
    Relation.REPLACE_ONE: "one client replaced",
    Relation.REPLACE_SPECIAL: "one client's contributions set to zero",
}
# Beyond this RDP epsilon, privacy loss distributions overflow.
_PLD_LIMIT = 8e5
# Grid of the privacy loss relative to the RDP epsilon. The error of epsilon falls with the square of the grid spacing.
# Once quartering the spacing changes epsilon by less than the tolerance, the remaining error is a fifteenth of that.
_PLD_FIRST_GRID = 8e-4
_PLD_TOLERANCE = 0.005
_PLD_REFINEMENTS = 8


@dataclasses.dataclass(frozen=True)
class Analysis:
    """One way to account for a mechanism.

    Attributes:
      relation: Which data sets are neighbours. REPLACE_SPECIAL replaces a client by one that contributes nothing. This
        amounts to adding or removing the client while the other clients keep their turns.
      sampling: Description of the random sampling of cohorts that amplifies privacy.
      assumed: Whether the run only approximates this sampling, so that epsilon is not proven.
      release: What each of the releases discloses.
      amount: Function from the number of rounds to the number of releases. For a Gaussian release, the result need not
        be an integer.
      note: A remark on the numbers, or an empty string.
      earlier: Analysis and number of rounds of a pre-training; None without one.
      disjoint: Whether no client is in both trainings, so that the larger of their two epsilons counts.
    """

    relation: Relation
    sampling: str
    assumed: bool
    release: Release
    amount: Callable[[int], float]
    note: str = ""
    earlier: "tuple[Analysis, int] | None" = None
    disjoint: bool = False

    @property
    def neighbours(self) -> str:
        """Description of the relation."""
        return _RELATION_NAMES[self.relation]

    @property
    def replaces(self) -> bool:
        """Whether a client may be replaced by any other."""
        return self.relation is Relation.REPLACE_ONE

    def after(self, earlier: "Analysis", rounds: int, *, disjoint: bool) -> "Analysis":
        """Returns this analysis composed with the analysis of a pre-training."""
        special = Relation.REPLACE_SPECIAL
        # An added client would move other clients from one training to the other.
        zeroed = special in (self.relation, earlier.relation) or (disjoint and not self.replaces)
        return dataclasses.replace(
            self,
            relation=special if zeroed else self.relation,
            sampling=" and ".join(dict.fromkeys((self.sampling, earlier.sampling))),
            assumed=self.assumed or earlier.assumed,
            earlier=(earlier, rounds),
            disjoint=disjoint,
        )

    def _parts(self, rounds: int) -> "list[tuple[Analysis, int]]":
        """Returns an analysis and a number of rounds for each combination of trainings that a client can be in.

        The largest of their epsilons counts. A client is in only one of two disjoint trainings, and in every training
        that is composed with them.
        """
        if not self.earlier:
            return [(self, rounds)]
        earlier, earlier_rounds = self.earlier
        before = earlier._parts(earlier_rounds)
        if self.disjoint:
            return [(dataclasses.replace(self, earlier=None, disjoint=False), rounds), *before]
        return [(dataclasses.replace(self, earlier=part), rounds) for part in before]

    def divergences(self, rounds: int) -> np.ndarray:
        """Returns the Renyi divergences, float64 [orders], summed over rounds and over a client's trainings."""
        amount = self.amount(rounds)
        total = amount * self.release.divergences if amount else np.zeros_like(ORDERS)
        if not self.earlier:
            return total
        earlier = self.earlier[0].divergences(self.earlier[1])
        return np.maximum(total, earlier) if self.disjoint else total + earlier

    def epsilon(self, rounds: int, delta: float) -> tuple[float, float]:
        """Returns the RDP epsilon, and the order among `ORDERS` at which it is attained."""
        epsilons = [rdp.compute_epsilon(ORDERS, part.divergences(count), delta) for part, count in self._parts(rounds)]
        epsilon, order = max(epsilons)
        return float(epsilon), float(order)

    def pld_epsilon(self, rounds: int, delta: float) -> float | None:
        """Returns the PLD epsilon, at most 0.1% above the exact value; None if it is not available."""
        epsilons = [part._composed_pld_epsilon(count, delta) for part, count in self._parts(rounds)]
        return None if None in epsilons else max(epsilon for epsilon in epsilons if epsilon is not None)

    def _composed_pld_epsilon(self, rounds: int, delta: float) -> float | None:
        scale = self.epsilon(rounds, delta)[0]
        if not scale <= _PLD_LIMIT or not self._has_losses(rounds, delta):
            return None
        if not scale:
            return 0.0
        grid = scale * _PLD_FIRST_GRID
        finer = self._losses(rounds, grid).get_epsilon_for_delta(delta)
        for _ in range(_PLD_REFINEMENTS):
            grid /= 4
            coarser, finer = finer, self._losses(rounds, grid).get_epsilon_for_delta(delta)
            if not coarser - finer > _PLD_TOLERANCE * finer:
                break
        return float(finer) if np.isfinite(finer) else None

    def _has_losses(self, rounds: int, delta: float) -> bool:
        is_known = self.release.has_losses(self.amount(rounds), delta)
        return is_known and (not self.earlier or self.earlier[0]._has_losses(self.earlier[1], delta))

    def _losses(self, rounds: int, grid: float) -> Losses:
        amount = self.amount(rounds)
        losses = self.release.losses(amount, grid) if amount else pld.privacy_loss_distribution.identity(grid)
        return losses.compose(self.earlier[0]._losses(self.earlier[1], grid)) if self.earlier else losses

    def report(self, rounds: int, delta: float) -> dict[str, Any]:
        """Returns the entry of this analysis in `privacy.json`."""
        epsilon, order = self.epsilon(rounds, delta)
        pld_epsilon = self.pld_epsilon(rounds, delta)
        beyond = "outside the numeric range of PLD" if pld_epsilon is None and self._has_losses(0, delta) else ""
        return {
            "neighbours": self.neighbours,
            "sampling": self.sampling,
            "sampling_assumed": self.assumed,
            "epsilon_rdp": epsilon,
            "rdp_order": order,
            "epsilon_pld": pld_epsilon,
            "note": "; ".join(filter(None, (self.note, beyond))),
        }


def of(mechanism: Mechanism) -> tuple[Analysis, ...]:
    """Returns the analyses of a mechanism with noise, starting with the headline. They do not include pre-training."""
    return _OF_KIND[mechanism.kind](mechanism)


def _gaussian_pair(mechanism: Mechanism, amount: Callable[[int], float]) -> tuple[Analysis, ...]:
    """Returns the analyses of unamplified Gaussian noise. Replacing a client changes the sum twice as much."""
    noise = mechanism.noise_multiplier
    sampling = _CYCLIC if mechanism.sampling == "cyclic" else "none, because a client may be in every cohort"
    return (
        Analysis(Relation.REPLACE_SPECIAL, sampling, False, Gaussian(noise), amount),
        Analysis(Relation.REPLACE_ONE, sampling, False, Gaussian(noise / 2), amount),
    )


def _each_round(rounds: int) -> int:
    return rounds


def _participations(mechanism: Mechanism) -> Callable[[int], int]:
    return functools.partial(sensitivities.participations, min_separation=mechanism.min_separation)


def _poisson(mechanism: Mechanism, noise: float, *, assumed: bool) -> Analysis:
    release = PoissonGaussian(mechanism.rate, noise)
    return Analysis(Relation.ADD_OR_REMOVE_ONE, "Poisson", assumed, release, _each_round)


def _dpsgd(mechanism: Mechanism) -> tuple[Analysis, ...]:
    noise = mechanism.noise_multiplier
    if mechanism.sampling == "cyclic" or mechanism.may_be_absent:
        return _gaussian_pair(mechanism, _participations(mechanism))
    if mechanism.sampling == "poisson":
        return (_poisson(mechanism, noise, assumed=False),)
    release = SubsetGaussian(mechanism.population, mechanism.cohort, noise / 2)
    return (
        _poisson(mechanism, noise, assumed=mechanism.cohort < mechanism.population),
        Analysis(Relation.REPLACE_ONE, _FIXED, False, release, _each_round),
    )


def _dpftrl(mechanism: Mechanism) -> tuple[Analysis, ...]:
    def amount(rounds):
        return sensitivities.tree_sensitivity(rounds, mechanism.restart_frequency, mechanism.min_separation)

    return _gaussian_pair(mechanism, amount)


def _mf_dpftrl(mechanism: Mechanism) -> tuple[Analysis, ...]:
    """Returns the analyses of `mf_dpftrl`.

    With amplification, participations share no noise, so each is a Poisson-sampled Gaussian (Choquette-Choo et al.
    2023, section 4).
    """
    if mechanism.sampling == "cyclic_poisson":
        release = PoissonGaussian(mechanism.rate, mechanism.noise_multiplier)
        name = f"Poisson, in {mechanism.groups} groups that take turns"
        return (Analysis(Relation.ADD_OR_REMOVE_ONE, name, False, release, _participations(mechanism)),)

    def amount(rounds):
        return factorizations.squared_sensitivity(mechanism.column(rounds), rounds, mechanism.min_separation)

    return _gaussian_pair(mechanism, amount)


def _ddp(mechanism: Mechanism) -> tuple[Analysis, ...]:
    """Returns the analyses of `ddp`. The proven ones are first, with amplification by sampling where that helps."""
    noise = sensitivities.distributed_noise_multiplier(
        mechanism.noise_multiplier, mechanism.clip_norm, mechanism.cohort, mechanism.dimension, mechanism.bits
    )

    # Clients that take turns participate in their cohorts with certainty, so sampling amplifies nothing.
    fixed = mechanism.sampling == "fixed"
    population = mechanism.population if fixed else mechanism.cohort
    note = "the noise is discrete: RDP is bounded by its concentrated differential privacy, and there is no PLD"
    zeroed, replaced = (
        Analysis(
            Relation.REPLACE_ONE if replaces else Relation.REPLACE_SPECIAL,
            _FIXED if fixed else _CYCLIC,
            False,
            SubsetConcentrated(population, mechanism.cohort, noise, replaces),
            _participations(mechanism),
            note,
        )
        for replaces in (False, True)
    )
    if population == mechanism.cohort:
        return zeroed, replaced
    heuristic = dataclasses.replace(
        _poisson(mechanism, noise, assumed=True),
        note="a heuristic that treats discrete noise as Gaussian, and cohorts as Poisson samples",
    )
    return zeroed, replaced, heuristic


_OF_KIND = {"dpsgd": _dpsgd, "dpftrl": _dpftrl, "mf_dpftrl": _mf_dpftrl, "ddp": _ddp}
_CYCLIC = "none, because clients take turns"
_FIXED = "fixed size, without replacement"
