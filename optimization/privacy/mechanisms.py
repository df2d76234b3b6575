"""Mechanisms of differential privacy, and reports on their privacy loss.

A `Mechanism` describes what a round releases and how its clients are sampled. `accounting` analyses it by Renyi
differential privacy (RDP) and privacy loss distributions (PLD); the first analysis is the headline. `sensitivities`
computes how much one client can change the releases, and `calibration` computes the noise for an epsilon. The unit of
privacy is a client with all its data. Nothing here imports TensorFlow.
"""

import dataclasses
import functools
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from data.errors import counted
from optimization.privacy import factorizations

if TYPE_CHECKING:
    from optimization.privacy.accounting import Analysis

KINDS: Mapping[str, str] = {
    "none": "no noise",
    "dpsgd": "Gaussian noise in each round (DP-FedAvg)",
    "dpftrl": "tree aggregation with restarts (DP-FTRL)",
    "mf_dpftrl": "banded matrix factorization (DP-FTRL)",
    "ddp": "discrete Gaussian noise from each client, under secure aggregation",
}

# Sampling of cohorts, in `optimization.cohorts`.
SAMPLINGS: Mapping[str, str] = {
    "fixed": "a fixed number, uniformly without replacement",
    "poisson": "each client independently, as privacy accounting assumes; the size of cohorts is random",
    "cyclic": "a fixed number, in turns in one random order; a client's turns are population / cohort rounds apart",
    "cyclic_poisson": "Poisson samples of groups that take turns; a hash of a client's name determines its group",
}

ACCOUNTANTS: Mapping[str, str] = {
    "rdp": "Renyi differential privacy, as in the paper",
    "pld": "privacy loss distributions, which are tighter but slower to compute",
}

_COVERS = "only the models, not other files about clients, such as metrics.csv and TensorBoard's events"
# With a larger delta or a smaller population, epsilon means little.
_MOST_DELTA = 1e-3
_LEAST_POPULATION = 100
_UNIT = "epsilon protects one client with all its examples, not a person with examples in several clients."


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """What a run releases, and how its clients are sampled.

    Attributes:
      kind: One of `KINDS`.
      noise_multiplier: Standard deviation of the noise on the sum of a round's updates, in units of the clip norm. With
        adaptive clipping, this is the total that `split_noise` divides. For `dpftrl`, it is the noise of each tree
        node; for `mf_dpftrl`, the noise of each round before it is correlated.
      population: Number of clients.
      cohort: Number of clients in a round; the expected number under Poisson sampling.
      sampling: One of `SAMPLINGS`. See `rests_on_cohorts` for when the cohorts must stay secret.
      delta: The delta of the guarantee, between 0 and 1; None for 1 / population^1.1, but at most 0.5.
      restart_frequency: Number of rounds after which `dpftrl` starts a new tree; 0 for never.
      bands: Number of bands of `mf_dpftrl`; 1 is independent noise.
      optimized_rounds: Number of rounds for which the band coefficients are optimized; 0 for the closed form.
      groups: Number of groups of `cyclic_poisson` sampling. It must be at least the number of bands, so that no two
        participations of a client share the noise of a round.
      dimension: For `ddp`, the number of model parameters.
      bits: For `ddp`, the number of bits per coordinate of the sum.
      clip_norm: L2 clip norm of an update, or the initial one. Only the accounting of `ddp` depends on it.
      pretraining: Mechanism of an earlier training on private clients, whose model this run starts from.
      pretraining_rounds: Number of rounds of that training.
      pretraining_disjoint: Whether no client is in both trainings. If so, epsilon is the larger of the two epsilons at
        this mechanism's delta; otherwise the two are composed, because each client could have been in both.
      voided: Why there is no guarantee even with noise, in words that follow "because"; empty if there can be one.
      apart_from: Descriptions of private data that the guarantee does not cover.
      accountant: One of `ACCOUNTANTS`, which determines the headline epsilon.
      may_be_absent: Whether clients of a cohort may be unavailable or drop out. The remaining clients are then not a
        uniform sample, so privacy is not amplified, and every client is assumed to participate as often as it can. A
        client that misses its turn waits for the next one.

    Raises:
      ValueError: If a value is out of range, or the mechanism cannot be accounted for.
    """

    kind: str
    noise_multiplier: float
    population: int
    cohort: int
    sampling: str = "fixed"
    delta: float = None  # type: ignore[assignment]  # Never None after `__post_init__`.
    restart_frequency: int = 0
    bands: int = 1
    optimized_rounds: int = 0
    groups: int = 1
    dimension: int = 1
    bits: int = 20
    clip_norm: float = 1.0
    pretraining: "Mechanism | None" = None
    pretraining_rounds: int = 0
    pretraining_disjoint: bool = False
    voided: str = ""
    apart_from: tuple[str, ...] = ()
    accountant: str = "rdp"
    may_be_absent: bool = False

    def __post_init__(self):
        object.__setattr__(self, "apart_from", tuple(self.apart_from))  # JSON has lists.
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}, not one of {', '.join(KINDS)}.")
        if self.sampling not in SAMPLINGS:
            raise ValueError(f"sampling is {self.sampling!r}, not one of {', '.join(SAMPLINGS)}.")
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
            raise ValueError("ddp cannot use Poisson sampling: small cohorts would add too little noise.")
        if self.kind == "ddp" and self.may_be_absent:
            raise ValueError("ddp needs all sampled clients: without the absent ones, there is too little noise.")
        self._check_factorization()
        if self.accountant not in ACCOUNTANTS:
            raise ValueError(f"accountant is {self.accountant!r}, not one of {', '.join(ACCOUNTANTS)}.")
        if self.kind == "ddp" and self.accountant == "pld":
            raise ValueError("accountant is 'pld', but the privacy loss distribution of ddp is not known: use rdp.")
        if self.pretraining_rounds and not self.pretraining:
            raise ValueError(f"pretraining_rounds is {self.pretraining_rounds}, but there is no pretraining.")

    def _check_factorization(self) -> None:
        if self.sampling != "cyclic_poisson":
            return
        if self.kind != "mf_dpftrl":
            raise ValueError(f"kind is {self.kind!r}, but cyclic_poisson sampling needs mf_dpftrl.")
        if self.groups < self.bands:
            raise ValueError(f"groups is {self.groups}, below bands, {self.bands}: privacy would not be amplified.")
        if self.rate > 1:
            raise ValueError(
                f"{self.groups} groups have {self.population / self.groups:.3g} clients each, fewer than the cohort "
                f"of {self.cohort}: at most {self.population // self.cohort} groups and bands are possible."
            )
        if self.may_be_absent:
            raise ValueError("clients may be absent, but cyclic_poisson sampling needs all sampled clients.")

    @property
    def name(self) -> str:
        """Description of the kind, the bands and the sampling."""
        bands = counted(self.bands, "band")
        return ", ".join([self.kind, *[bands] * (self.kind == "mf_dpftrl"), f"{self.sampling} cohorts"])

    @property
    def min_separation(self) -> int:
        """Number of rounds after which a client can participate again."""
        if self.sampling == "cyclic_poisson":
            return self.groups
        return self.population // self.cohort if self.sampling == "cyclic" else 1

    @property
    def rate(self) -> float:
        """Probability that a client is sampled in its turn, under Poisson sampling."""
        return self.cohort * (self.groups if self.sampling == "cyclic_poisson" else 1) / self.population

    def column(self, rounds: int) -> np.ndarray:
        """First column of the strategy matrix of these rounds, float64; see `factorizations`."""
        if self.optimized_rounds:
            return factorizations.optimal_banded_column(self.bands, self.optimized_rounds)[:rounds]
        return factorizations.banded_column(self.bands)[:rounds]

    def prefix_noise(self, rounds: int) -> float:
        """Root mean square, over rounds, of the noise on the sum of all updates so far, in clip norms."""
        if not rounds or not self.noise_multiplier:
            return 0.0
        return self.noise_multiplier * _unit_prefix_noise(dataclasses.replace(self, noise_multiplier=1.0), rounds)

    def sum_noise(self, first: int, last: int) -> float:
        """Standard deviation of the noise on the sum of the updates of rounds first + 1 to last, in clip norms."""
        if self.kind == "dpftrl":
            size = self.restart_frequency or max(last, 1)
            return self.noise_multiplier * math.sqrt(factorizations.tree_nodes(first, last, size))
        column = self.column(last) if self.kind == "mf_dpftrl" else np.ones(1)
        return self.noise_multiplier * factorizations.interval_noise(column, first, last)

    @property
    def phase(self) -> int:
        """Number of earlier trainings on private clients. Each of them has its own noise."""
        return self.pretraining.phase + 1 if self.pretraining else 0

    @property
    def rests_on_cohorts(self) -> bool:
        """Whether the guarantee requires that cohorts are kept secret."""
        amplifies = self.kind in ("dpsgd", "ddp") and self.sampling != "cyclic" and self.cohort < self.population
        return (
            (amplifies or (self.sampling == "cyclic_poisson" and self.rate < 1))
            and not self.may_be_absent
            and not self.reason
        )

    @functools.cached_property
    def analyses(self) -> "tuple[Analysis, ...]":
        """Analyses of this mechanism, starting with the headline; empty if there is no guarantee."""
        if self.reason:
            return ()
        from optimization.privacy import accounting  # Imported here because it takes most of a second.

        ways = accounting.of(self)
        if not (self.pretraining and self.pretraining_rounds):
            return ways
        before = {one.replaces: one for one in reversed(self.pretraining.analyses)}
        return tuple(
            one.after(before[one.replaces], self.pretraining_rounds, disjoint=self.pretraining_disjoint)
            for one in ways
            if one.replaces in before
        )

    @property
    def reason(self) -> str:
        """Why there is no guarantee, in words that follow "because"; empty if there is one."""
        cause = self.voided or ("" if self.noise_multiplier else "there is no noise")
        if cause or not (self.pretraining and self.pretraining_rounds and self.pretraining.reason):
            return cause
        return f"in the earlier training on private clients, {self.pretraining.reason}"

    @property
    def left_out(self) -> tuple[str, ...]:
        """Data that the guarantee does not cover, in this training and in earlier ones."""
        earlier = self.pretraining.left_out if self.pretraining and self.pretraining_rounds else ()
        return tuple(dict.fromkeys((*self.apart_from, *earlier)))

    def epsilon(self, rounds: int, *, proven: bool = False) -> float:
        """Returns the headline epsilon, or the first proven one; infinity without a guarantee, 0 without a release.

        With the RDP accountant, this is fast enough to call in every round.
        """
        if not rounds and not self.pretraining_rounds:
            return 0.0  # Nothing was released.
        first = next((one for one in self.analyses if not (proven and one.assumed)), None)
        if first is None:
            return math.inf
        by_pld = first.pld_epsilon(rounds, self.delta) if self.accountant == "pld" else None
        return first.epsilon(rounds, self.delta)[0] if by_pld is None else by_pld

    def warnings(self, rounds: int) -> tuple[str, ...]:
        """Returns warnings if the guarantee after these rounds is weak; empty if there is no guarantee at all."""
        if not self.analyses:
            return ()
        warnings = []
        if self.delta > _MOST_DELTA:
            warnings.append(f"delta {self.delta:.3g} is above {_MOST_DELTA:g}, which is too large for a guarantee.")
        if self.population < _LEAST_POPULATION:
            warnings.append(f"a population of {self.population} is too small for a guarantee.")
        if warnings:
            warnings.append(_UNIT)
        if self.kind == "dpsgd" and self.analyses[0].assumed:
            warnings.append(
                'cohorts have a fixed size, so the epsilons after "If Poisson" are not proven: '
                "give --cohort_sampling=poisson."
            )
        may_be_in_all = self.kind in ("dpftrl", "mf_dpftrl") or (self.kind == "dpsgd" and self.may_be_absent)
        if may_be_in_all and "cyclic" not in self.sampling:
            from optimization.privacy import accounting

            change = math.sqrt(accounting.of(self)[0].amount(rounds))
            warnings.append(
                f"a client may be in every cohort, so its absence can change the releases of {rounds:,} rounds by "
                f"{change:.4g} clip norms: give --cohort_sampling=cyclic."
            )
        return tuple(warnings)

    def report(self, rounds: int) -> dict[str, Any]:
        """Returns the content of `privacy.json` after these rounds. Epsilon is None if there is no guarantee."""
        epsilon, guarantees, reason = self.epsilon(rounds), [], self.reason
        if not reason and not math.isfinite(epsilon):
            reason = "there is too little noise for a finite epsilon"
        if not reason:
            every = [analysis.report(rounds, self.delta) for analysis in self.analyses]
            guarantees = [one for one in every if math.isfinite(one["epsilon_rdp"])]
        summary = f"Privacy: no guarantee, because {reason}." if reason else self._summary(rounds, guarantees)
        if not rounds and not self.pretraining_rounds:
            summary = "Privacy: epsilon 0, because nothing that was trained on private clients was released."
        proven = [one for one in guarantees if not one["sampling_assumed"]][:1]
        both = [one[name] for one in proven for name in ("epsilon_rdp", "epsilon_pld") if one[name] is not None]
        return {
            "epsilon": epsilon if math.isfinite(epsilon) else None,
            "epsilon_assumes": self._assumptions(guarantees),
            "epsilon_proven": min(both, default=None),
            "delta": self.delta,
            "rounds": rounds,
            "prefix_noise": self.prefix_noise(rounds),
            "unit": "client",
            "covers": _COVERS,
            "mechanism": dataclasses.asdict(self),
            "guarantees": guarantees,
            "warnings": self.warnings(rounds),
            "summary": summary,
        }

    def _assumptions(self, guarantees: Sequence[Mapping[str, Any]]) -> list[str]:
        """Returns descriptions of the assumptions behind the headline epsilon."""
        sampling = ["Poisson sampling, though cohorts have a fixed size"]
        assumed = any(one["sampling_assumed"] for one in guarantees[:1])
        return [*sampling * assumed, *(f"that nothing is learnt from {one}" for one in self.left_out if guarantees)]

    def _summary(self, rounds: int, guarantees: Sequence[Mapping[str, Any]]) -> str:
        """Summary of a run's privacy, starting with the proven numbers."""
        first, *others = guarantees
        proven = next((one for one in guarantees if not one["sampling_assumed"]), None)
        spent = f"at delta {self.delta:.3g} after {rounds:,} rounds"
        apart = f", apart from {'; '.join(self.left_out)}" if self.left_out else ""
        if proven:
            text = [f"Privacy: epsilon {self._figures(proven)}, {spent} ({proven['neighbours']}){apart}."]
        else:
            text = [f"Privacy: no epsilon is proven for cohorts of a fixed size, {spent}{apart}."]
        if first["sampling_assumed"]:
            text.append(f"If Poisson: {self._figures(first)} ({first['neighbours']}).")
        elif others and others[-1]["sampling_assumed"]:
            text.append(f"Not proven: {self._figures(others[-1])}, {others[-1]['note']}.")
        if self.pretraining_rounds and self.pretraining_disjoint:
            text.append(
                "No client is in both trainings, so this is the larger of their two epsilons at this delta. It "
                "holds if the absence of a client does not move other clients from one training to the other."
            )
        return " ".join(text) + "".join(f"\nWarning: {one}" for one in self.warnings(rounds))

    def _figures(self, guarantee: Mapping[str, Any]) -> str:
        """Returns the epsilons of both accountants, starting with the chosen one."""
        by_rdp = f"{digits(guarantee['epsilon_rdp'])} by RDP (order {guarantee['rdp_order']:g})"
        if guarantee["epsilon_pld"] is None:
            return by_rdp
        figures = [by_rdp, f"{digits(guarantee['epsilon_pld'])} by PLD"]
        return ", ".join(reversed(figures) if self.accountant == "pld" else figures)


@functools.lru_cache(256)
def _unit_prefix_noise(mechanism: Mechanism, rounds: int) -> float:
    if mechanism.kind == "dpftrl":
        return factorizations.tree_prefix_noise(rounds, mechanism.restart_frequency)
    column = mechanism.column(rounds) if mechanism.kind == "mf_dpftrl" else np.ones(1)
    return factorizations.prefix_noise(column, rounds)


def digits(epsilon: float) -> str:
    """Formats an epsilon with three significant digits; between 1,000 and a million, without an exponent."""
    return f"{float(f'{epsilon:.3g}'):,.0f}" if 999.5 <= epsilon < 1e6 else f"{epsilon:.3g}"


def load(path: pathlib.Path) -> tuple[Mechanism, int]:
    """Returns the mechanism and the number of rounds of a run from its `privacy.json`.

    If the file is not readable, the returned mechanism has no guarantee.
    """
    try:
        report = json.loads(path.read_text())
        return of_values(report["mechanism"]), int(report["rounds"])
    except (OSError, ValueError, KeyError, TypeError):
        return Mechanism("none", 0.0, population=1, cohort=1, voided="the privacy that it spent is not known"), 1


def of_values(values: Mapping[str, Any]) -> Mechanism:
    """Restores a mechanism from the values to which `dataclasses.asdict` converted it.

    Raises:
      KeyError: If a value is missing.
      TypeError: If an unknown name has a value, or a value has the wrong type.
      ValueError: See `Mechanism`.
    """
    if missing := [field.name for field in dataclasses.fields(Mechanism) if field.name not in values]:
        raise KeyError(*missing)
    earlier = values["pretraining"]
    return Mechanism(**{**values, "pretraining": of_values(earlier) if earlier else None})
