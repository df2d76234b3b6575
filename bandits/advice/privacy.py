"""Which noise a recommendation tries, and what it guarantees in deployment. Nothing here imports TensorFlow.

A table is often a sample of the clients that there will be. A run with m of its clients a round adds the noise that M
clients a round would leave on the mean, z m / M of its clip norm; what is accounted is z, M and the population.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from data.errors import UsageError
from optimization.privacy import calibration, mechanisms
from optimization.study import cli
from optimization.study.settings import Numbers, setting

_MOST_DELTA = 1e-3
_SHARE, _MOST = 100, 1000  # By default one client of so many takes part in a round, at most so many.


@dataclasses.dataclass(frozen=True)
class Deployment:
    """Where the model would be trained.

    Attributes:
      population: Clients.
      cohort: Clients of a round, as the expected number of a Poisson sample.
      is_table: Whether these are the clients of the data at hand.
      delta: Of the guarantee; None for 1 / population^1.1.
      accountant: Whose epsilon it is.
      apart_from: What is learned of the clients without noise, in words: no guarantee covers it.
    """

    population: int
    cohort: int
    is_table: bool
    delta: float | None = None
    accountant: str = "rdp"
    apart_from: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Where the guarantees hold, in sentences."""
        if self.is_table:
            return (
                f"Guarantees hold for training on the {self.population:,} training clients, about {self.cohort:,} a "
                "round."
            )
        return (
            f"Guarantees hold for training on {self.population:,} clients, about {self.cohort:,} a round. The data is "
            "taken for a sample of them, and the runs' noise on the mean is that of such cohorts."
        )

    def mechanism(self, noise_multiplier: float) -> mechanisms.Mechanism:
        """Returns what is accounted: Gaussian noise on the sum of the clipped updates of a Poisson sample."""
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
    target_epsilons: tuple = setting("3,10,1", Numbers())


def check(settings: cli.Settings) -> None:
    """Checks the flags against each other.

    Raises:
      UsageError: If more clients take part in a round than there are.
    """
    cohort = settings.population_clients_per_round
    if cohort is not None and cohort > settings.population:
        raise UsageError(
            f"--population_clients_per_round={cohort} is more than the clients of --population={settings.population}."
        )


def deployment(settings: cli.Settings, clients: int, cohort: int, apart_from: Sequence[str]) -> Deployment:
    """Returns where the model would be trained.

    Args:
      settings: Flags of the advice.
      clients: Clients of the data.
      cohort: Clients of a round of the runs.
      apart_from: What is learned of the clients without noise, in words.

    Raises:
      UsageError: If the population, or a round's cohort there, is smaller than its sample.
    """
    others = (settings.target_delta, settings.accountant, tuple(apart_from))
    if settings.population is None:
        return Deployment(clients, cohort, True, *others)
    if settings.population < clients:
        raise UsageError(
            f"--population={settings.population} is less than the {clients} clients of the data, its sample."
        )
    given = settings.population_clients_per_round
    if given is not None and given < cohort:
        raise UsageError(
            f"--population_clients_per_round={given} is less than the {cohort} clients of a round of the runs, its "
            f"sample: give at least {cohort}, or fewer to the runs with --clients_per_round."
        )
    default = max(cohort, min(settings.population // _SHARE, _MOST))
    return Deployment(settings.population, given or default, False, *others)


def no_guarantee(where: Deployment) -> str:
    """Returns why no epsilon is a guarantee for so few clients, in sentences; empty where one is."""
    delta = where.mechanism(1.0).delta
    if delta <= _MOST_DELTA:
        return ""
    return (
        f"with {where.population:,} clients delta is {delta:.2g}, above {_MOST_DELTA:g}. No epsilon is a meaningful "
        "guarantee then, so no cost is reported. If the data is a sample of more clients, give their number by "
        "--population"
    )


def noise(where: Deployment, rounds: int, cohort: int, epsilon: float, dimension: int = 1) -> dict[str, Any]:
    """Returns the cheapest noise for an epsilon, what a run with fewer clients adds for it, and its guarantee.

    It is that of the mechanism with the least noise on the prefix sums, without buffers: theirs are of the deployment's
    population, and a run finds its own.

    Args:
      where: Where the model would be trained.
      rounds: Rounds.
      cohort: Clients of a round of the run.
      epsilon: The epsilon.
      dimension: Parameters of the model.

    Returns:
      `target_epsilon`; `mechanism`, in words; `noise_multiplier` there; `run_noise_multiplier`; `bands`, 0 where it is
      not correlated; `guarantee`, as a run's privacy.json has it; `error`, instead of all but the first, where no noise
      in a wide range does that.
    """
    plain = where.mechanism(1.0)
    plans = calibration.alternatives(plain, rounds, epsilon, dimension)
    # A tree is no option: bands of the same cohorts have less noise.
    found = [one.mechanism for one in plans if one.mechanism.kind != "dpftrl" and not one.mechanism.buffers]
    if not found:
        try:
            calibration.calibrate(plain, rounds, epsilon)
        except ValueError as error:
            return {"target_epsilon": epsilon, "error": f"Epsilon {epsilon:g} {error}."}
    chosen = found[0]
    is_banded = chosen.kind == "mf_dpftrl"
    return {
        "target_epsilon": epsilon,
        "mechanism": f"{chosen.kind}{f' with {chosen.bands} bands' if is_banded else ''}, {chosen.sampling} cohorts",
        "noise_multiplier": chosen.noise_multiplier,
        "run_noise_multiplier": calibration.noise_of_sample(chosen.noise_multiplier, cohort, where.cohort),
        "bands": chosen.bands if is_banded else 0,
        "guarantee": chosen.report(rounds),
    }


def flags_of(run_noise_multiplier: float, clip_norm: float, bands: int = 0) -> tuple[str, ...]:
    """Returns the flags of a run under noise: seeded, so that runs of a seed differ in the noise alone.

    Every run has Poisson cohorts of its clients, whatever the deployment's sampling: they are the same at all epsilons.

    Args:
      run_noise_multiplier: The noise multiplier.
      clip_norm: The clip norm.
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
