"""The differential privacy that a run has spent, by Renyi (RDP) and privacy loss distribution (PLD) accounting.

A `Mechanism` says what a round releases and who takes part in it. Its `analyses` say how that may be accounted: every
one of them is a release, composed as often as the rounds demand. The first is the headline, the one that a study
reports. A client is the unit of privacy: "add or remove one" and "replace one" speak of all data of one client.

Every mechanism here divides by a fixed number of clients, so that a client's absence is the same as a zero update.

Sources: Abadi et al. 2016 and Mironov 2017 (RDP), McMahan et al. 2018 (DP-FedAvg), Andrew et al. 2021 (adaptive
clipping), Kairouz, McMahan et al. 2021 (DP-FTRL by tree aggregation), Choquette-Choo et al. 2023 (banded matrix
factorization), Kairouz, Liu and Steinke 2021 (distributed discrete Gaussian). `sensitivities` has what one client can
change, `calibration` the noise that an epsilon needs. Nothing here imports TensorFlow.
"""

import dataclasses
import functools
import json
import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting import pld, rdp

from optimization import cohorts, sensitivities

Relation = dp_accounting.NeighboringRelation

KINDS: Mapping[str, str] = {
    "none": "no noise",
    "dpsgd": "Gaussian noise in each round (DP-FedAvg)",
    "dpftrl": "tree aggregation with restarts (DP-FTRL)",
    "mf_dpftrl": "banded matrix factorization (DP-FTRL)",
    "ddp": "discrete Gaussian noise of each client, under secure aggregation",
}

ACCOUNTANTS: Mapping[str, str] = {
    "rdp": "Renyi differential privacy, as the study has it",
    "pld": "privacy loss distributions: tighter, slower",
}

# Noise on the count of clipped clients, as a share of the cohort: Andrew et al. 2021 recommend it.
COUNT_NOISE_SHARE = 0.05

_RELATION_NAMES = {
    Relation.ADD_OR_REMOVE_ONE: "one client added or removed",
    Relation.REPLACE_ONE: "one client replaced",
    Relation.REPLACE_SPECIAL: "one client's updates set to zero",
}
_ORDERS = rdp.RdpAccountant().orders  # dp-accounting's default: 1.1 to 10.9 by 0.1, 11 to 63, 128 to 1,024.
# Rounding errors of dp-accounting's series, which at enormous noise exceed the divergence itself.
_RDP_FLOOR = 1e-13
# Beyond this RDP epsilon, dp-accounting's privacy loss distributions overflow.
_PLD_LIMIT = 1e4
# Grid of the privacy loss relative to the RDP epsilon: rounding up costs less than 1% of epsilon.
_PLD_GRID = 2e-4


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """What a run releases, and how its clients are drawn.

    Attributes:
      kind: One of `KINDS`.
      noise_multiplier: Standard deviation of the noise on the sum of a round's updates, in units of the clip norm. With
        adaptive clipping, the total that `split_noise` divides. For `dpftrl` the noise of each tree node; for
        `mf_dpftrl` that of each round before it is correlated.
      population: Clients.
      cohort: Clients of a round; the expected number under Poisson sampling.
      sampling: One of `cohorts.SAMPLINGS`. That the draws stay secret is assumed.
      delta: Probability that the guarantee fails; None for 1 / population^1.1.
      restart_frequency: Rounds after which `dpftrl` starts a new tree; 0 for never.
      bands: Bands of `mf_dpftrl`; 1 is independent noise.
      dimension: For `ddp`, the model's number of parameters.
      bits: For `ddp`, bits of a coordinate of the sum.
      clip_norm: For `ddp`, the clip norm.
      pretraining: Mechanism of an earlier training on private clients, whose model this run starts from.
      pretraining_rounds: Its rounds.
      pretraining_disjoint: Whether no client is in both trainings. Then a client's epsilon is the larger of the two,
        both at this mechanism's delta; otherwise they are composed, as if each client could have been in both.
      voided: Why nothing is guaranteed whatever the noise, as the words after "because"; empty if nothing voids it.
      apart_from: What comes from private clients and is left out of the guarantee, in words.
      accountant: One of `ACCOUNTANTS`, whose epsilon is the headline's.

    Raises:
      ValueError: If a value is out of range, or the mechanism cannot be accounted.
    """

    kind: str
    noise_multiplier: float
    population: int
    cohort: int
    sampling: str = "fixed"
    delta: float | None = None
    restart_frequency: int = 0
    bands: int = 1
    dimension: int = 1
    bits: int = 20
    clip_norm: float = 1.0
    pretraining: "Mechanism | None" = None
    pretraining_rounds: int = 0
    pretraining_disjoint: bool = False
    voided: str = ""
    apart_from: tuple[str, ...] = ()
    accountant: str = "rdp"

    def __post_init__(self):
        object.__setattr__(self, "apart_from", tuple(self.apart_from))  # JSON has lists.
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}, not one of {', '.join(KINDS)}.")
        if self.sampling not in cohorts.SAMPLINGS:
            raise ValueError(f"sampling is {self.sampling!r}, not one of {', '.join(cohorts.SAMPLINGS)}.")
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier >= 0):
            raise ValueError(f"noise_multiplier is {self.noise_multiplier}, not a finite number of at least 0.")
        if self.kind == "none" and self.noise_multiplier:
            raise ValueError(f"noise_multiplier is {self.noise_multiplier}, but kind is none.")
        if not 1 <= self.cohort <= self.population:
            raise ValueError(f"cohort is {self.cohort}, not between 1 and the population of {self.population}.")
        if self.delta is None:
            object.__setattr__(self, "delta", min(self.population**-1.1, 0.5))  # Below 1 even for a population of one.
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is {self.delta}, not between 0 and 1.")
        if self.restart_frequency < 0 or self.bands < 1 or self.dimension < 1 or self.clip_norm <= 0:
            raise ValueError("restart_frequency must be at least 0, bands and dimension at least 1, clip_norm above 0.")
        if self.kind == "ddp" and self.sampling == "poisson":
            raise ValueError("ddp cannot use Poisson sampling: a smaller cohort would add too little noise.")
        if self.accountant not in ACCOUNTANTS:
            raise ValueError(f"accountant is {self.accountant!r}, not one of {', '.join(ACCOUNTANTS)}.")
        if self.kind == "ddp" and self.accountant == "pld":
            raise ValueError("accountant is 'pld', but the privacy loss distribution of ddp is not known: use rdp.")
        if self.pretraining_rounds and not self.pretraining:
            raise ValueError(f"pretraining_rounds is {self.pretraining_rounds}, but there is no pretraining.")

    @property
    def min_separation(self) -> int:
        """Rounds after which a client can take part again."""
        return self.population // self.cohort if self.sampling == "cyclic" else 1

    @functools.cached_property
    def analyses(self) -> "tuple[Analysis, ...]":
        """Returns the ways to account this mechanism, the headline first; none if it guarantees nothing."""
        if self.reason:
            return ()
        own = _ANALYSES[self.kind](self)
        if not self.pretraining_rounds:
            return own
        before = {one.replaces: one for one in reversed(self.pretraining.analyses)}
        return tuple(
            one.after(before[one.replaces], self.pretraining_rounds, disjoint=self.pretraining_disjoint)
            for one in own
            if one.replaces in before
        )

    @property
    def reason(self) -> str:
        """Why nothing is guaranteed, as the words after "because"; empty if something is."""
        own = self.voided or ("" if self.noise_multiplier else "there is no noise")
        if own or not self.pretraining_rounds or not self.pretraining.reason:
            return own
        return f"in the earlier training on private clients {self.pretraining.reason}"

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the guarantee leaves out, here and in the earlier training."""
        earlier = self.pretraining.left_out if self.pretraining_rounds else ()
        return tuple(dict.fromkeys((*self.apart_from, *earlier)))

    def dp_event(self, rounds: int) -> dp_accounting.DpEvent:
        """Returns the headline's event after some rounds."""
        if not rounds and not self.pretraining_rounds:
            return dp_accounting.NoOpDpEvent()
        return self.analyses[0].dp_event(rounds) if self.analyses else dp_accounting.NonPrivateDpEvent()

    def epsilon(self, rounds: int) -> float:
        """Returns the headline's epsilon; infinity if there is no guarantee. By RDP, quick enough for every round."""
        if not self.analyses:
            return math.inf
        by_pld = self.analyses[0].pld_epsilon(rounds, self.delta) if self.accountant == "pld" else None
        return self.analyses[0].epsilon(rounds, self.delta)[0] if by_pld is None else by_pld

    def report(self, rounds: int) -> dict[str, Any]:
        """Returns what a run's `privacy.json` says after some rounds; None stands for no guarantee."""
        guarantees = [analysis.report(rounds, self.delta) for analysis in self.analyses]
        return {
            "epsilon": self.epsilon(rounds) if guarantees else None,
            "epsilon_assumes": self._assumptions(guarantees),
            "delta": self.delta,
            "rounds": rounds,
            "unit": "client",
            "mechanism": dataclasses.asdict(self),
            "guarantees": guarantees,
            "summary": self._summary(rounds, guarantees),
        }

    def _assumptions(self, guarantees: list[Mapping[str, Any]]) -> list[str]:
        """Returns what the headline rests on, each in words."""
        assumed = ["Poisson sampling, though the cohort's size is fixed"] * any(
            one["sampling_assumed"] for one in guarantees[:1]
        )
        return [*assumed, *(f"that nothing is learnt from {one}" for one in self.left_out)] if guarantees else []

    def _summary(self, rounds: int, guarantees: list[Mapping[str, Any]]) -> str:
        """Returns the sentence of a run's summary."""
        if not guarantees:
            return f"Privacy: no guarantee, because {self.reason}."
        first, *others = guarantees
        by_pld = "" if first["epsilon_pld"] is None else f", {first['epsilon_pld']:.3g} by PLD"
        text = (
            f"Privacy: epsilon {first['epsilon_rdp']:.3g} by RDP (order {first['rdp_order']:g}){by_pld}, "
            f"at delta {self.delta:.3g} after {rounds:,} rounds ({first['neighbours']})"
        )
        text += f", apart from {'; '.join(self.left_out)}." if self.left_out else "."
        if first["sampling_assumed"]:
            text += " This assumes Poisson sampling, but the cohort's size is fixed"
            if others:
                text += f"; without that, {others[0]['epsilon_rdp']:.3g} ({others[0]['neighbours']})"
            text += "."
        if self.pretraining_rounds and self.pretraining_disjoint:
            text += (
                " No client is in both trainings: this is the larger of their epsilons, where a client's absence sets "
                "its updates to zero and moves no other client from one training to the other."
            )
        return text


@dataclasses.dataclass(frozen=True)
class Analysis:
    """One way to account a mechanism.

    Attributes:
      relation: Which data sets are neighbours. REPLACE_SPECIAL replaces a client by one whose updates are zero, which
        is adding or removing it where the others' turns stay as they are.
      sampling: Which randomness of the cohorts amplifies privacy, in words.
      assumed: Whether the run only resembles that sampling.
      release: What is released.
      amount: Rounds -> how often; need not be whole for a Gaussian release.
      has_pld: Whether the privacy loss distribution of the release is known to dp-accounting.
      note: What a reader of the figures should know besides.
      earlier: Analysis and rounds of a pre-training.
      disjoint: Whether no client is in both, so that the larger epsilon counts, not both.
    """

    relation: Relation
    sampling: str
    assumed: bool
    release: dp_accounting.DpEvent
    amount: Callable[[int], float]
    has_pld: bool = True
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
            has_pld=self.has_pld and earlier.has_pld,
            earlier=(earlier, rounds),
            disjoint=disjoint,
        )

    @functools.cached_property
    def _release_rdp(self) -> np.ndarray:
        # dp-accounting knows Poisson sampling by this name only; a Gaussian release is the same under all.
        relation = Relation.REPLACE_ONE if self.replaces else Relation.ADD_OR_REMOVE_ONE
        accountant = rdp.RdpAccountant(neighboring_relation=relation).compose(self.release)
        return np.maximum(accountant.rdp, _RDP_FLOOR)

    def divergences(self, rounds: int) -> np.ndarray:
        """Returns the Renyi divergences, float64 [orders]; they add up over rounds."""
        total = self.amount(rounds) * self._release_rdp
        return total + self.earlier[0].divergences(self.earlier[1]) if self.earlier and not self.disjoint else total

    def epsilon(self, rounds: int, delta: float) -> tuple[float, float]:
        """Returns the RDP epsilon and the order that it comes from, among dp-accounting's default orders."""
        epsilon, order = map(float, rdp.compute_epsilon(_ORDERS, self.divergences(rounds), delta))
        if not self.disjoint:
            return epsilon, order
        earlier, earlier_rounds = self.earlier
        return max((epsilon, order), earlier.epsilon(earlier_rounds, delta))

    def pld_epsilon(self, rounds: int, delta: float) -> float | None:
        """Returns the PLD epsilon, rounded up to a fine grid of the privacy loss; None where there is none."""
        if self.disjoint:
            earlier, earlier_rounds = self.earlier
            both = (
                dataclasses.replace(self, earlier=None, disjoint=False).pld_epsilon(rounds, delta),
                earlier.pld_epsilon(earlier_rounds, delta),
            )
            return None if None in both else max(both)
        scale = self.epsilon(rounds, delta)[0]
        if not self.has_pld or scale > _PLD_LIMIT:
            return None
        if not scale:
            return 0.0
        accountant = pld.PLDAccountant(value_discretization_interval=scale * _PLD_GRID)
        return float(accountant.compose(self.dp_event(rounds)).get_epsilon(delta))

    def dp_event(self, rounds: int) -> dp_accounting.DpEvent:
        """Returns the event of some rounds, pre-training first; valid for RDP only if `has_pld` is false."""
        amount = self.amount(rounds)
        if not amount:
            event = dp_accounting.NoOpDpEvent()
        elif isinstance(self.release, dp_accounting.GaussianDpEvent):
            event = dp_accounting.GaussianDpEvent(self.release.noise_multiplier / math.sqrt(amount))
        else:
            event = dp_accounting.SelfComposedDpEvent(self.release, int(amount))
        if not self.earlier:
            return event
        analysis, earlier_rounds = self.earlier
        return dp_accounting.ComposedDpEvent([analysis.dp_event(earlier_rounds), event])

    def report(self, rounds: int, delta: float) -> dict[str, Any]:
        """Returns this analysis' part of `privacy.json`."""
        epsilon, order = self.epsilon(rounds, delta)
        pld_epsilon = self.pld_epsilon(rounds, delta)
        return {
            "neighbours": self.neighbours,
            "sampling": self.sampling,
            "sampling_assumed": self.assumed,
            "epsilon_rdp": epsilon,
            "rdp_order": order,
            "epsilon_pld": pld_epsilon,
            "note": "epsilon is too large for PLD" if self.has_pld and pld_epsilon is None else self.note,
        }


def _gaussian_pair(
    noise_multiplier: float, amount: Callable[[int], float], sampling: str, *, has_pld: bool = True, note: str = ""
) -> tuple[Analysis, ...]:
    """Returns the analyses of Gaussian noise without amplification; replacing a client moves the sum twice as far."""
    zeroed, replaced = (dp_accounting.GaussianDpEvent(noise_multiplier / moved) for moved in (1, 2))
    return (
        Analysis(Relation.REPLACE_SPECIAL, sampling, False, zeroed, amount, has_pld=has_pld, note=note),
        Analysis(Relation.REPLACE_ONE, sampling, False, replaced, amount, has_pld=has_pld, note=note),
    )


def _poisson(
    mechanism: Mechanism, noise_multiplier: float, *, assumed: bool, has_pld: bool = True, note: str = ""
) -> Analysis:
    rate = mechanism.cohort / mechanism.population
    return Analysis(
        Relation.ADD_OR_REMOVE_ONE,
        "Poisson",
        assumed,
        dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise_multiplier)),
        amount=lambda rounds: rounds,
        has_pld=has_pld,
        note=note,
    )


def _dpsgd(mechanism: Mechanism) -> tuple[Analysis, ...]:
    noise = mechanism.noise_multiplier
    if mechanism.sampling == "poisson":
        return (_poisson(mechanism, noise, assumed=False),)
    if mechanism.sampling == "cyclic":
        return _gaussian_pair(
            noise, lambda rounds: sensitivities.participations(rounds, mechanism.min_separation), _CYCLIC
        )
    without_replacement = Analysis(
        Relation.REPLACE_ONE,
        "fixed size, without replacement",
        False,
        dp_accounting.SampledWithoutReplacementDpEvent(
            mechanism.population, mechanism.cohort, dp_accounting.GaussianDpEvent(noise / 2)
        ),
        amount=lambda rounds: rounds,
        has_pld=False,
        note="dp-accounting has no PLD of this sampling",
    )
    return _poisson(mechanism, noise, assumed=mechanism.cohort < mechanism.population), without_replacement


def _dpftrl(mechanism: Mechanism) -> tuple[Analysis, ...]:
    def amount(rounds):
        return sensitivities.tree_sensitivity(rounds, mechanism.restart_frequency, mechanism.min_separation)

    return _gaussian_pair(mechanism.noise_multiplier, amount, _turns(mechanism))


def _mf_dpftrl(mechanism: Mechanism) -> tuple[Analysis, ...]:
    def amount(rounds):
        return sensitivities.banded_sensitivity(rounds, mechanism.bands, mechanism.min_separation)

    return _gaussian_pair(mechanism.noise_multiplier, amount, _turns(mechanism))


def _ddp(mechanism: Mechanism) -> tuple[Analysis, ...]:
    noise = sensitivities.distributed_noise_multiplier(
        mechanism.noise_multiplier, mechanism.clip_norm, mechanism.cohort, mechanism.dimension, mechanism.bits
    )
    note = "discrete noise: its concentrated differential privacy bounds RDP; there is no PLD"
    exact = _gaussian_pair(
        noise,
        lambda rounds: sensitivities.participations(rounds, mechanism.min_separation),
        _turns(mechanism),
        has_pld=False,
        note=note,
    )
    if mechanism.sampling == "cyclic" or mechanism.cohort == mechanism.population:
        return exact
    assumption = "discrete noise is taken as Gaussian of the same concentrated differential privacy"
    return _poisson(mechanism, noise, assumed=True, has_pld=False, note=assumption), *exact


_ANALYSES = {"dpsgd": _dpsgd, "dpftrl": _dpftrl, "mf_dpftrl": _mf_dpftrl, "ddp": _ddp}
_CYCLIC = "none: clients take turns"


def _turns(mechanism: Mechanism) -> str:
    return _CYCLIC if mechanism.sampling == "cyclic" else "none: a client may be in every cohort"


def load(path: pathlib.Path) -> tuple[Mechanism, int]:
    """Returns the mechanism and the rounds of a run from its `privacy.json`; without one, nothing is guaranteed."""
    try:
        found = json.loads(path.read_text())
        return _mechanism(found["mechanism"]), int(found["rounds"])
    except (OSError, ValueError, KeyError, TypeError):
        return Mechanism("none", 0.0, population=1, cohort=1), 1


def _mechanism(values: Mapping[str, Any]) -> Mechanism:
    earlier = values.get("pretraining")
    return Mechanism(**{**values, "pretraining": _mechanism(earlier) if earlier else None})


def split_noise(noise_multiplier: float, clipped_count_stddev: float) -> float:
    """Returns the noise multiplier of the updates that leaves the rest of the total to the clipped count.

    Andrew et al. 2021, Theorem 1: z_delta = (z^-2 - (2 sigma_b)^-2)^(-1/2). The count of clients below the clip norm,
    centred to +-1/2, is released beside the sum; both together cost what `noise_multiplier` alone would.

    Args:
      noise_multiplier: The total z, which is the one that is accounted; 0 stays 0.
      clipped_count_stddev: sigma_b, the standard deviation of the noise on the count, in clients.

    Raises:
      ValueError: If the count's noise alone is not enough.
    """
    if not noise_multiplier:
        return 0.0
    if noise_multiplier >= 2 * clipped_count_stddev:
        raise ValueError(
            f"A noise multiplier of {noise_multiplier:g} needs noise of more than {noise_multiplier / 2:g} on the "
            f"clipped count, not {clipped_count_stddev:g}: use less noise, larger cohorts, or a fixed clip norm."
        )
    return (noise_multiplier**-2 - (2 * clipped_count_stddev) ** -2) ** -0.5
