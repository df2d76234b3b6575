"""The ways to account a mechanism: a release, how often, what sampling amplifies, and which data sets are neighbours.

Every mechanism here divides by a fixed number of clients, so that an absent client contributes nothing: zero to the
sum of updates and, with adaptive clipping, zero to the centred count of unclipped updates. (A client that is there
with a zero update differs: it counts as unclipped, as any client that replaces another may.)

Sources: Abadi et al. 2016 and Mironov 2017 (RDP), McMahan et al. 2018 (DP-FedAvg), Andrew et al. 2021 (adaptive
clipping), Kairouz, McMahan et al. 2021 (DP-FTRL by tree aggregation), Choquette-Choo et al. 2023 (banded matrix
factorization), Kairouz, Liu and Steinke 2021 (distributed discrete Gaussian). Nothing here imports TensorFlow.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import dp_accounting
import numpy as np
from dp_accounting import pld, rdp

from optimization.privacy import factorizations, releases, sensitivities

if TYPE_CHECKING:
    from optimization.privacy.mechanisms import Mechanism

Relation: TypeAlias = dp_accounting.NeighboringRelation

_RELATION_NAMES = {
    Relation.ADD_OR_REMOVE_ONE: "one client added or removed",
    Relation.REPLACE_ONE: "one client replaced",
    Relation.REPLACE_SPECIAL: "one client's contributions set to zero",
}
# Beyond this RDP epsilon, privacy loss distributions overflow: e to the first grid must be a number.
_PLD_LIMIT = 8e5
# Grid of the privacy loss relative to the RDP epsilon. What it adds to epsilon falls with its square, so that once a
# quarter of the grid changes epsilon by less than the tolerance, a fifteenth of that is left.
_PLD_FIRST_GRID = 8e-4
_PLD_TOLERANCE = 0.005
_PLD_REFINEMENTS = 8


@dataclasses.dataclass(frozen=True)
class Analysis:
    """One way to account a mechanism.

    Attributes:
      relation: Which data sets are neighbours. REPLACE_SPECIAL replaces a client by one that contributes nothing, which
        is adding or removing it where the others' turns stay as they are.
      sampling: Which randomness of the cohorts amplifies privacy, in words.
      assumed: Whether the run only resembles that sampling.
      release: What is released.
      amount: Rounds -> how often; need not be whole for a Gaussian release.
      note: What a reader of the figures should know besides.
      earlier: Analysis and rounds of a pre-training.
      disjoint: Whether no client is in both, so that the larger epsilon counts, not both.
    """

    relation: Relation
    sampling: str
    assumed: bool
    release: releases.Release
    amount: Callable[[int], float]
    note: str = ""
    earlier: "tuple[Analysis, int] | None" = None
    disjoint: bool = False

    @property
    def neighbours(self) -> str:
        """The relation in words."""
        return _RELATION_NAMES[self.relation]

    @property
    def replaces(self) -> bool:
        """Whether a client may be replaced by any other."""
        return self.relation is Relation.REPLACE_ONE

    def after(self, earlier: "Analysis", rounds: int, *, disjoint: bool) -> "Analysis":
        """Returns this analysis with that of a pre-training."""
        special = Relation.REPLACE_SPECIAL
        # An added client would move others from one training to the other.
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
        """Returns the trainings that a client can be in together, with their rounds; epsilon is the largest of theirs.

        Of disjoint trainings a client is in one alone, and in all that are composed with them.
        """
        if not self.earlier:
            return [(self, rounds)]
        earlier, earlier_rounds = self.earlier
        before = earlier._parts(earlier_rounds)
        if self.disjoint:
            return [(dataclasses.replace(self, earlier=None, disjoint=False), rounds), *before]
        return [(dataclasses.replace(self, earlier=one), rounds) for one in before]

    def divergences(self, rounds: int) -> np.ndarray:
        """Returns the Renyi divergences, float64 [orders]; they add up over rounds, and over trainings of a client."""
        amount = self.amount(rounds)
        total = amount * self.release.divergences if amount else np.zeros_like(releases.ORDERS)
        if not self.earlier:
            return total
        earlier = self.earlier[0].divergences(self.earlier[1])
        return np.maximum(total, earlier) if self.disjoint else total + earlier

    def epsilon(self, rounds: int, delta: float) -> tuple[float, float]:
        """Returns the RDP epsilon and the order that it comes from, among dp-accounting's default orders."""
        epsilons = [
            rdp.compute_epsilon(releases.ORDERS, part.divergences(count), delta) for part, count in self._parts(rounds)
        ]
        epsilon, order = max(epsilons)
        return float(epsilon), float(order)

    def pld_epsilon(self, rounds: int, delta: float) -> float | None:
        """Returns the PLD epsilon, at most 0.1% above that of a grid without steps; None where there is none."""
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

    def _losses(self, rounds: int, grid: float) -> releases.Losses:
        amount = self.amount(rounds)
        losses = self.release.losses(amount, grid) if amount else pld.privacy_loss_distribution.identity(grid)
        return losses.compose(self.earlier[0]._losses(self.earlier[1], grid)) if self.earlier else losses

    def report(self, rounds: int, delta: float) -> dict[str, Any]:
        """Returns this analysis' part of `privacy.json`."""
        epsilon, order = self.epsilon(rounds, delta)
        pld_epsilon = self.pld_epsilon(rounds, delta)
        beyond = "beyond the numbers of PLD" if pld_epsilon is None and self._has_losses(0, delta) else ""
        return {
            "neighbours": self.neighbours,
            "sampling": self.sampling,
            "sampling_assumed": self.assumed,
            "epsilon_rdp": epsilon,
            "rdp_order": order,
            "epsilon_pld": pld_epsilon,
            "note": "; ".join(filter(None, (self.note, beyond))),
        }


def of(mechanism: "Mechanism") -> tuple[Analysis, ...]:
    """Returns the analyses of a mechanism with noise, its own rounds only, the headline first."""
    return _OF_KIND[mechanism.kind](mechanism)


def _gaussian_pair(noise: float, amount: Callable[[int], float], sampling: str) -> tuple[Analysis, ...]:
    """Returns the analyses of Gaussian noise without amplification; replacing a client moves the sum twice as far."""
    return (
        Analysis(Relation.REPLACE_SPECIAL, sampling, False, releases.Gaussian(noise), amount),
        Analysis(Relation.REPLACE_ONE, sampling, False, releases.Gaussian(noise / 2), amount),
    )


def _each_round(rounds: int) -> int:
    return rounds


def _poisson(mechanism: "Mechanism", noise: float, *, assumed: bool) -> Analysis:
    release = releases.PoissonGaussian(mechanism.rate, noise)
    return Analysis(Relation.ADD_OR_REMOVE_ONE, "Poisson", assumed, release, _each_round)


def _dpsgd(mechanism: "Mechanism") -> tuple[Analysis, ...]:
    noise = mechanism.noise_multiplier
    if mechanism.sampling == "cyclic" or mechanism.may_be_absent:
        return _gaussian_pair(
            noise, lambda rounds: sensitivities.participations(rounds, mechanism.min_separation), _turns(mechanism)
        )
    if mechanism.sampling == "poisson":
        return (_poisson(mechanism, noise, assumed=False),)
    release = releases.SubsetGaussian(mechanism.population, mechanism.cohort, noise / 2)
    return (
        _poisson(mechanism, noise, assumed=mechanism.cohort < mechanism.population),
        Analysis(Relation.REPLACE_ONE, _FIXED, False, release, _each_round),
    )


def _dpftrl(mechanism: "Mechanism") -> tuple[Analysis, ...]:
    def amount(rounds):
        return sensitivities.tree_sensitivity(rounds, mechanism.restart_frequency, mechanism.min_separation)

    return _gaussian_pair(mechanism.noise_multiplier, amount, _turns(mechanism))


def _mf_dpftrl(mechanism: "Mechanism") -> tuple[Analysis, ...]:
    """Amplified, a client's participations share no noise: each is a Poisson-sampled Gaussian (2023, section 4)."""
    if mechanism.sampling == "cyclic_poisson":
        release = releases.PoissonGaussian(mechanism.rate, mechanism.noise_multiplier)
        name = f"Poisson, in {mechanism.groups} groups by turns"
        turns = functools.partial(sensitivities.participations, min_separation=mechanism.groups)
        return (Analysis(Relation.ADD_OR_REMOVE_ONE, name, False, release, turns),)

    def amount(rounds):
        return factorizations.squared_sensitivity(mechanism.column(rounds), rounds, mechanism.min_separation)

    return _gaussian_pair(mechanism.noise_multiplier, amount, _turns(mechanism))


def _ddp(mechanism: "Mechanism") -> tuple[Analysis, ...]:
    """The proven figures first: amplification of RDP without replacement, where it helps."""
    noise = sensitivities.distributed_noise_multiplier(
        mechanism.noise_multiplier, mechanism.clip_norm, mechanism.cohort, mechanism.dimension, mechanism.bits
    )

    def amount(rounds):
        return sensitivities.participations(rounds, mechanism.min_separation)

    # Clients who take turns are in each of their cohorts for certain.
    fixed = mechanism.sampling == "fixed"
    population = mechanism.population if fixed else mechanism.cohort
    note = "discrete noise: its concentrated differential privacy bounds RDP; there is no PLD"
    zeroed, replaced = (
        Analysis(
            Relation.REPLACE_ONE if replaces else Relation.REPLACE_SPECIAL,
            _FIXED if fixed else _CYCLIC,
            False,
            releases.SubsetConcentrated(population, mechanism.cohort, noise, replaces),
            amount,
            note,
        )
        for replaces in (False, True)
    )
    if population == mechanism.cohort:
        return zeroed, replaced
    heuristic = dataclasses.replace(
        _poisson(mechanism, noise, assumed=True),
        note="a heuristic: takes discrete noise for Gaussian, and cohorts for Poisson samples",
    )
    return zeroed, replaced, heuristic


_OF_KIND = {"dpsgd": _dpsgd, "dpftrl": _dpftrl, "mf_dpftrl": _mf_dpftrl, "ddp": _ddp}
_CYCLIC = "none: clients take turns"
_FIXED = "fixed size, without replacement"


def _turns(mechanism: "Mechanism") -> str:
    return _CYCLIC if mechanism.sampling == "cyclic" else "none: a client may be in every cohort"
