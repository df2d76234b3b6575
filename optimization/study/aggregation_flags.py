"""Flags of cohorts, aggregation and privacy, shared by the experiment binaries; their checks need no TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from data.errors import UsageError
from optimization import options as options_lib
from optimization.privacy import calibration, factorizations, mechanisms, sensitivities
from optimization.study import cli
from optimization.study.settings import names, number_or_word, setting

TYPES: Mapping[str, str] = {
    "mean": "mean of the updates, by default with adaptive clipping",
    "dpsgd": "DP-FedAvg: clipped updates, Gaussian noise on their sum",
    "dpftrl": "DP-FTRL: noise by tree aggregation, which needs no random cohorts",
    "mf_dpftrl": "DP-FTRL with the noise of a banded matrix factorization",
    "secure_sum": "mean of clipped updates by secure aggregation, which is simulated",
    "ddp": "distributed differential privacy: each client adds its share of the noise, under secure aggregation",
}
_NOISY = ("dpsgd", "dpftrl", "mf_dpftrl", "ddp")
_CAN_ADAPT = ("mean", "dpsgd", "secure_sum")
# Why such noise guarantees nothing, as the words after "because".
_SEEDED_NOISE = "its noise comes from --seed (--insecure_seeded_noise): who knows the seed can remove it"
_FIRST_CLIP_NORM = 0.1
_QUANTILE = 0.8


class Aggregation:
    """Aggregation and privacy.

    Attributes:
      aggregator_type: Aggregation of the cohort's updates.
      client_weighting: Weight of a client in the mean.
      adaptive_clipping: Let the clip norm follow a quantile of the updates' norms (default: yes for mean and
        secure_sum).
      unclip_quantile: That quantile, the part of updates left unclipped (default: 0.8).
      clip_norm: L2 clip norm of updates, at first if adaptive (default: 0.1 then, or with a target).
      noise_multiplier: Standard deviation of the noise on the sum, in clip norms.
      target_delta: Delta of the reported epsilon (default: 1 / population^1.1).
      accountant: Whose epsilon is the reported one; privacy.json and the end of a run have both.
      cohort_sampling: How a round's clients are drawn; with --aggregator_type=dpsgd, epsilon assumes poisson, and with
        dpftrl and mf_dpftrl cyclic makes it small. Where a guarantee rests on them (dpsgd, ddp, cyclic_poisson; not
        cyclic), they are secret: not sampled from --seed, so runs of the same seed have different cohorts.
      dpftrl_restart_rounds: Rounds of one tree (default: population / cohort, so that by turns a client is in each tree
        once).
      mf_bands: Bands of the factor, rounds over which noise cancels: a number, or auto for the one with the
        least noise on the prefix sums in the planned rounds, within 0.5 GiB of earlier noise.
      insecure_seeded_noise: Draw the privacy noise, and the cohorts, from --seed, for runs that can be repeated: they
        guarantee nothing, as who knows the seed can remove the noise.
    """

    aggregator_type: str = setting("mean", TYPES, spellings={"none": "mean"}, basic=True)
    client_weighting: str = setting("uniform", ["uniform", "num_examples"])
    adaptive_clipping: bool = setting()
    unclip_quantile: float = setting(high=1.0)
    clip_norm: float = setting(basic=True, above=True)
    noise_multiplier: float = setting(basic=True, only={"aggregator_type": _NOISY})
    target_delta: float = setting(high=1.0, above=True, below=True, only={"aggregator_type": _NOISY})
    accountant: str = setting("rdp", mechanisms.ACCOUNTANTS, only={"aggregator_type": _NOISY})
    cohort_sampling: str = setting("fixed", mechanisms.SAMPLINGS)
    dpftrl_restart_rounds: int = setting(low=1, only={"aggregator_type": ("dpftrl",)})
    mf_bands: str = setting(
        words=number_or_word("auto", factorizations.MOST_BANDS), only={"aggregator_type": ("mf_dpftrl",)}, filled="auto"
    )
    insecure_seeded_noise: bool = setting(False, only={"aggregator_type": ("dpsgd", "dpftrl", "mf_dpftrl")})


class Target:
    """A target epsilon.

    Attributes:
      target_epsilon: Epsilon of all planned rounds, in place of --noise_multiplier.
      population: Planned number of clients, to which epsilon belongs. Above the clients of the data, the run is a
        simulation with a sample of them, and guarantees these nothing (default: the clients of the data).
      population_clients_per_round: Clients of a round in the planned population (default: --clients_per_round).
    """

    target_epsilon: float = setting(basic=True, above=True, only={"aggregator_type": _NOISY})
    population: int = setting(low=1, only={"target_epsilon": True})
    population_clients_per_round: int = setting(low=1, only={"population": True})


# What has no effect where nothing is trained.
OF_TRAINING = {*names(Aggregation, Target)} - {"cohort_sampling"}


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in defaults that depend on other flags, and checks the flags against each other.

    Raises:
      UsageError: On a flag that is missing, has no effect, or does not go with the others.
    """
    kind = settings.aggregator_type
    settings = settings.filled({"adaptive_clipping": kind in ("mean", "secure_sum")})
    if settings.adaptive_clipping:
        if kind not in _CAN_ADAPT:
            raise UsageError(f"--adaptive_clipping does not go with --aggregator_type={kind}: its noise has one norm.")
        settings = settings.filled({"clip_norm": _FIRST_CLIP_NORM, "unclip_quantile": _QUANTILE})
    elif "unclip_quantile" in settings.set_by_user:
        raise UsageError("--unclip_quantile has an effect only with --adaptive_clipping.")
    if settings.client_weighting != "uniform" and kind != "mean":
        raise UsageError(f"--client_weighting has an effect only with --aggregator_type=mean, not {kind}.")
    _check_groups(settings)
    if kind not in _NOISY:
        return settings
    target = settings.get("target_epsilon")
    if target is not None and settings.noise_multiplier is not None:
        raise UsageError("Give one of --noise_multiplier and --target_epsilon, not both.")
    if target is None and settings.noise_multiplier is None:
        raise UsageError(
            f"--aggregator_type={kind} needs --noise_multiplier or --target_epsilon; noise 0 clips only and guarantees "
            "nothing."
        )
    if target is not None:
        settings = settings.filled({"clip_norm": _FIRST_CLIP_NORM})
    if settings.clip_norm is None:
        alternative = ", or --adaptive_clipping" if kind in _CAN_ADAPT else ""
        raise UsageError(f"--aggregator_type={kind} needs --clip_norm{alternative}.")
    if kind == "ddp" and settings.cohort_sampling == "poisson":
        raise UsageError("--aggregator_type=ddp needs cohorts of a fixed size, or too little noise is added.")
    if kind == "ddp" and settings.accountant == "pld":
        raise UsageError("--accountant=pld does not know the losses of --aggregator_type=ddp: use rdp.")
    return settings


def _check_groups(settings: cli.Settings) -> None:
    """Refuses what does not go with groups that take turns."""
    if settings.cohort_sampling != "cyclic_poisson":
        return
    flag = "--cohort_sampling=cyclic_poisson"
    if settings.aggregator_type != "mf_dpftrl":
        raise UsageError(f"{flag} needs --aggregator_type=mf_dpftrl, not {settings.aggregator_type}.")
    if settings.get("availability") or settings.get("drop_out"):
        raise UsageError(f"{flag} does not go with --availability or --drop_out: all that are drawn must come.")
    if settings.mf_bands == "auto" and settings.get("target_epsilon") is None:
        raise UsageError(f"{flag} needs --target_epsilon, for which it chooses bands, or a number of --mf_bands.")


def options(settings: Mapping[str, Any]) -> options_lib.Aggregation:
    """Returns the aggregation of flags, resolved."""
    kind = settings["aggregator_type"]
    return options_lib.named(
        options_lib.Aggregation,
        settings,
        kind=kind,
        unclip_quantile=settings["unclip_quantile"] if settings["adaptive_clipping"] else None,
        noise_multiplier=(settings["noise_multiplier"] or 0.0) if kind in _NOISY else 0.0,
        noise_seed=settings.get("seed", 0) if settings["insecure_seeded_noise"] else None,
        restart_rounds=settings["dpftrl_restart_rounds"],
        bands=None if settings["mf_bands"] == "auto" else settings["mf_bands"],
        population_cohort=settings.get("population_clients_per_round"),
    )


def plan(
    aggregation: options_lib.Aggregation, cohort: options_lib.Cohorts, population: int, dimension: int, rounds: int
) -> calibration.Plan | None:
    """Planned privacy of a run; None if the flags determine it.

    Args:
      aggregation: How updates become one.
      cohort: How cohorts are drawn.
      population: Clients that they are drawn from.
      dimension: Parameters of the model.
      rounds: Planned rounds.

    Raises:
      UsageError: If nothing reaches the epsilon, or the flags do not fit the population.
    """
    target = aggregation.target_epsilon
    if target is None and aggregation.kind != "mf_dpftrl":
        return None
    clients, size = aggregation.population or population, aggregation.population_cohort or cohort.size
    if clients < population:
        raise UsageError(f"--population={clients} is less than the {population} clients of the data, its sample.")
    if not cohort.size <= size <= clients:
        raise UsageError(
            f"--population_clients_per_round={size} is not between --clients_per_round={cohort.size} and the "
            f"population of {clients}."
        )
    alone = dataclasses.replace(aggregation, bands=None, noise_seed=None, unclip_quantile=None)
    base = mechanism(alone, dataclasses.replace(cohort, size=size, groups=1), clients, dimension)
    try:
        return calibration.plan(
            base,
            rounds,
            target,
            bands=aggregation.bands or (None if target or aggregation.noise_multiplier else 1),
            dimension=dimension,
        )
    except ValueError as error:
        flags = {"target_epsilon": target, "mf_bands": aggregation.bands}
        flag = next((f"{name}={value:g}" for name, value in flags.items() if value), "mf_bands=auto")
        raise UsageError(f"--{flag} {error}.".replace("..", ".")) from error


def planned(
    aggregation: options_lib.Aggregation, cohort: options_lib.Cohorts, population: int, mechanism: mechanisms.Mechanism
) -> tuple[options_lib.Aggregation, options_lib.Cohorts]:
    """Aggregation and cohorts of a run with a plan.

    The groups of a simulation would be too small, so each of its cohorts is a Poisson sample of all clients.

    Args:
      aggregation: What the flags say.
      cohort: What they say of cohorts.
      population: Clients that these are drawn from.
      mechanism: The plan's.
    """
    is_simulated = (mechanism.population, mechanism.cohort) != (population, cohort.size)
    noise = mechanism.noise_multiplier
    restart = mechanism.restart_frequency or None
    if is_simulated:
        noise = calibration.noise_of_sample(noise, cohort.size, mechanism.cohort)
    aggregation = dataclasses.replace(
        aggregation, plan=mechanism, noise_multiplier=noise, bands=mechanism.bands, restart_rounds=restart
    )
    if is_simulated and cohort.sampling == "cyclic_poisson":
        return aggregation, dataclasses.replace(cohort, sampling="poisson")
    return aggregation, dataclasses.replace(cohort, groups=mechanism.groups)


def simulated(aggregation: options_lib.Aggregation, population: int, cohort: int) -> str:
    """Reason why a simulation guarantees nothing, as words after "because"; empty if the run is no simulation."""
    plan = aggregation.plan
    if plan is None or (plan.population, plan.cohort) == (population, cohort):
        return ""
    return (
        f"it simulates training on {plan.population:,} clients, about {plan.cohort:,} a round: "
        f"its noise is too little for the {population:,} clients of this run"
    )


def mechanism(
    aggregation: options_lib.Aggregation,
    cohort: options_lib.Cohorts,
    population: int,
    dimension: int,
    *,
    voided: str = "",
) -> mechanisms.Mechanism:
    """Returns what is accounted.

    Args:
      aggregation: How updates become one.
      cohort: How cohorts are drawn.
      population: Clients that they are drawn from.
      dimension: Parameters of the model.
      voided: Why nothing is guaranteed whatever these flags say, as the words after "because".

    Raises:
      UsageError: If the flags do not fit the population or each other.
    """
    kind, noise_multiplier = aggregation.kind, aggregation.noise_multiplier
    if cohort.size > population:
        raise UsageError(f"--clients_per_round={cohort.size} is more than the {population} clients that take part.")
    plan, seeded = aggregation.plan, "" if aggregation.noise_seed is None else _SEEDED_NOISE
    of_kind: Mapping[str, Mapping[str, Any]] = {
        "dpftrl": {"restart_frequency": aggregation.restart_rounds or population // cohort.size},
        "mf_dpftrl": {
            "bands": aggregation.bands or 1,
            "groups": cohort.groups,
            "optimized_rounds": plan.optimized_rounds if plan else 0,
        },
        "ddp": {"dimension": dimension},
    }
    reason = voided or seeded or simulated(aggregation, population, cohort.size)
    try:
        if kind == "dpsgd" and aggregation.unclip_quantile is not None:
            sensitivities.split_noise(noise_multiplier, sensitivities.COUNT_NOISE_SHARE * cohort.size)
        mechanism = mechanisms.Mechanism(
            kind=kind if kind in _NOISY else "none",
            noise_multiplier=noise_multiplier,
            population=population,
            cohort=cohort.size,
            sampling=cohort.sampling,
            delta=aggregation.target_delta,  # type: ignore[arg-type]
            accountant=aggregation.accountant,
            voided=reason if noise_multiplier else "",
            clip_norm=aggregation.clip_norm or 1.0,
            may_be_absent=cohort.availability.may_be_absent,
            **of_kind.get(kind, {}),
        )
        mechanism.epsilon(1)  # Some combinations turn out to be impossible only here.
    except ValueError as error:
        raise UsageError(f"--noise_multiplier={noise_multiplier:g} with --aggregator_type={kind}: {error}") from error
    return mechanism
