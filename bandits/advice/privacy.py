"""Noise of a recommendation, and its guarantee in deployment. Imports no TensorFlow.

A table is often a sample of the clients in deployment. A run with m clients a round has a noise multiplier of z m / M.
Its mean update is then as noisy as in deployment with M clients a round. The accountant uses z, M and the population.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from data.errors import UsageError
from optimization.privacy import calibration, mechanisms
from optimization.study import cli
from optimization.study.settings import numbers, setting

_MAX_DELTA = 1e-3
_SHARE, _MAX_COHORT = 100, 1000  # By default one of 100 clients participates in a round, and at most 1,000 do.


@dataclasses.dataclass(frozen=True)
class Deployment:
    """Where the model would be trained.

    Attributes:
      population: Clients.
      cohort: Expected clients of a round, which is a Poisson sample.
      is_table: Whether these are the clients of the data.
      delta: Delta of the guarantee; None for 1 / population^1.1.
      accountant: Accountant of epsilon.
      apart_from: Statistics that are computed without noise, in words: no guarantee covers them.
    """

    population: int
    cohort: int
    is_table: bool
    delta: float | None = None
    accountant: str = "rdp"
    apart_from: tuple[str, ...] = ()

    def protected(self, clients: int) -> str:
        """Clients whom epsilon protects, in words, beside the number of clients in the data."""
        if self.is_table:
            return f"Epsilon protects the {self.population:,} training clients of your data."
        return f"Epsilon protects {self.population:,} clients; your data has {clients:,} of them."

    @property
    def words(self) -> str:
        """Clients and cohorts of the guarantees, in sentences."""
        if self.is_table:
            return (
                f"Guarantees hold for training on the {self.population:,} training clients, about {self.cohort:,} a "
                "round."
            )
        return (
            f"Guarantees hold for training on {self.population:,} clients, about {self.cohort:,} a round. The data "
            "counts as a sample of them, and the runs' mean updates are as noisy as with such cohorts."
        )

    def mechanism(self, noise_multiplier: float) -> mechanisms.Mechanism:
        """Accounted mechanism: Gaussian noise on the sum of the clipped updates of a Poisson sample."""
        return mechanisms.Mechanism(
            kind="dpsgd",
            noise_multiplier=noise_multiplier,
            population=self.population,
            cohort=self.cohort,
            sampling="poisson",
            delta=self.delta,  # type: ignore[arg-type]
            accountant=self.accountant,
            apart_from=self.apart_from,
        )


class Privacy:
    """Privacy.

    Attributes:
      population: Clients in deployment, if the data is a sample of them (default: the clients of the data that train).
      population_clients_per_round: Clients of a round in deployment (default: one of 100, at most 1,000, at least the
        runs' cohort).
      target_delta: Delta of the guarantees (default: 1 / population^1.1).
      accountant: Accountant of the epsilons.
      target_epsilons: Epsilons to try, separated by commas, the most important first.
    """

    population: int = setting(low=1)
    population_clients_per_round: int = setting(low=1, only={"population": True})
    target_delta: float = setting(high=1.0, above=True, below=True)
    accountant: str = setting("rdp", mechanisms.ACCOUNTANTS)
    target_epsilons: tuple = setting("3,10,1", numbers())


def check(settings: cli.Settings) -> None:
    """Checks the flags against each other.

    Raises:
      UsageError: If a round has more clients than the population.
    """
    cohort = settings.population_clients_per_round
    if cohort is not None and cohort > settings.population:
        raise UsageError(f"--population_clients_per_round={cohort} exceeds --population={settings.population}.")


def deployment(settings: cli.Settings, clients: int, cohort: int, apart_from: Sequence[str]) -> Deployment:
    """Where the model would be trained.

    Args:
      settings: Flags of the recommendation.
      clients: Clients of the data.
      cohort: Clients of a round of the runs.
      apart_from: Statistics that are computed without noise, in words.

    Raises:
      UsageError: If the population or its cohort is smaller than that of the data.
    """
    others = (settings.target_delta, settings.accountant, tuple(apart_from))
    if settings.population is None:
        return Deployment(clients, cohort, True, *others)
    if settings.population < clients:
        raise UsageError(
            f"--population={settings.population} is less than the {clients} clients of the data, its sample."
        )
    population_cohort = settings.population_clients_per_round
    if population_cohort is not None and population_cohort < cohort:
        raise UsageError(
            f"--population_clients_per_round={population_cohort} is less than the {cohort} clients of a round of the "
            f"runs, its sample: give at least {cohort}, or fewer to the runs with --clients_per_round."
        )
    default = max(cohort, min(settings.population // _SHARE, _MAX_COHORT))
    return Deployment(settings.population, population_cohort or default, False, *others)


def no_guarantee(deployment: Deployment) -> str:
    """Why no epsilon is a guarantee for so few clients, in sentences; empty otherwise."""
    delta = deployment.mechanism(1.0).delta
    if delta <= _MAX_DELTA:
        return ""
    return (
        f"with {deployment.population:,} clients to protect, delta is {delta:.2g}, above {_MAX_DELTA:g}, so no epsilon "
        "is a meaningful guarantee. If the data is a sample of more clients, give --population"
    )


def noise(deployment: Deployment, rounds: int, cohort: int, epsilon: float, dimension: int = 1) -> dict[str, Any]:
    """The mechanism with the least noise for an epsilon in deployment, its noise in a run, and its guarantee.

    Args:
      deployment: Where the model would be trained.
      rounds: Rounds.
      cohort: Clients of a round of the run.
      epsilon: The epsilon.
      dimension: Parameters of the model.

    Returns:
      `target_epsilon`; `mechanism`, in words; `noise_multiplier` in deployment; `run_noise_multiplier`; `bands`, 0 for
      independent noise; `guarantee`, as in privacy.json of a run. `target_epsilon` and `error` alone if no noise in a
      wide range reaches the epsilon.
    """
    plans = calibration.alternatives(deployment.mechanism(1.0), rounds, epsilon, dimension)
    # No tree: bands with the same cohorts have less noise.
    mechanisms = [one.mechanism for one in plans if one.mechanism.kind != "dpftrl"]
    if not mechanisms:
        return {"target_epsilon": epsilon, "error": f"no noise multiplier from 0.01 to 1e6 reaches epsilon {epsilon:g}"}
    chosen = mechanisms[0]
    return {
        "target_epsilon": epsilon,
        "mechanism": chosen.name,
        "noise_multiplier": chosen.noise_multiplier,
        "run_noise_multiplier": calibration.noise_of_sample(chosen.noise_multiplier, cohort, deployment.cohort),
        "bands": chosen.bands if chosen.kind == "mf_dpftrl" else 0,
        "guarantee": chosen.report(rounds),
    }


def flags_of(run_noise_multiplier: float, clip_norm: float, bands: int = 0) -> tuple[str, ...]:
    """Flags of a run with noise, which is seeded, so that runs of one seed differ in the noise alone.

    All runs have Poisson cohorts, whatever the deployment's sampling, so that all epsilons have the same cohorts.

    Args:
      run_noise_multiplier: Noise multiplier of the run.
      clip_norm: Clip norm.
      bands: Bands of correlated noise; 0 for independent noise.
    """
    seeded = ["--insecure_seeded_noise"] if run_noise_multiplier else []
    return (
        *(["--aggregator_type=mf_dpftrl", f"--mf_bands={bands}"] if bands else ["--aggregator_type=dpsgd"]),
        "--noadaptive_clipping",
        f"--clip_norm={clip_norm:.4g}",
        f"--noise_multiplier={run_noise_multiplier:.6g}",
        "--cohort_sampling=poisson",
        *seeded,
    )
