"""Checks the flags of cohorts, aggregation and privacy, and builds the privacy mechanism that they define.

Nothing here imports TensorFlow.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from data.errors import UsageError
from data.settings import make_options, names
from optimization import options as options_lib
from optimization.options import CAN_ADAPT, NOISY, ROBUST, Aggregation, Target
from optimization.privacy import calibration, mechanisms, sensitivities
from optimization.study import cli

# Why seeded noise gives no privacy guarantee, in words that follow "because".
_SEEDED_NOISE = "its noise comes from --seed (--insecure_seeded_noise): anyone who knows the seed can remove it"
OF_TRAINING = {*names(Aggregation, Target)}  # Flags that have no effect if nothing is trained.


def check(settings: cli.Settings) -> None:
    """Checks the flags against each other.

    Raises:
      UsageError: If a flag is missing, has no effect, or conflicts with others.
    """
    kind = settings.aggregator_type
    unclipped = "aggregator" if settings.aggregator else f"aggregator_type={kind}" * (kind in ROBUST)
    if unclipped and (settings.adaptive_clipping or settings.clip_norm is not None):
        raise UsageError(f"--{unclipped} uses updates without clipping: leave out --clip_norm and --adaptive_clipping.")
    if settings.adaptive_clipping and kind not in CAN_ADAPT:
        raise UsageError(f"--adaptive_clipping does not work with --aggregator_type={kind}: its clip norm is fixed.")
    if not settings.adaptive_clipping and "unclip_quantile" in settings.set_by_user:
        raise UsageError("--unclip_quantile has an effect only with --adaptive_clipping: give both, or neither.")
    if settings.client_weighting != "uniform" and kind != "mean":
        raise UsageError(f"--client_weighting has an effect only with --aggregator_type=mean, not {kind}.")
    _check_groups(settings)
    if kind not in NOISY:
        return
    target = settings.get("target_epsilon")
    if target is not None and settings.noise_multiplier is not None:
        raise UsageError("Give one of --noise_multiplier and --target_epsilon, not both.")
    if target is None and settings.noise_multiplier is None:
        raise UsageError(
            f"--aggregator_type={kind} needs --noise_multiplier or --target_epsilon; with a noise multiplier of 0, it "
            "only clips, and guarantees nothing."
        )
    if settings.clip_norm is None:
        alternative = ", or --adaptive_clipping" if kind in CAN_ADAPT else ""
        raise UsageError(f"--aggregator_type={kind} needs --clip_norm{alternative}.")
    if kind == "ddp" and settings.cohort_sampling == "poisson":
        raise UsageError("--aggregator_type=ddp needs cohorts of a fixed size: small ones add too little noise.")
    if kind == "ddp" and settings.accountant == "pld":
        raise UsageError("--accountant=pld does not support --aggregator_type=ddp: use --accountant=rdp.")


def _check_groups(settings: cli.Settings) -> None:
    """Refuses flags that are incompatible with `--cohort_sampling=cyclic_poisson`."""
    if settings.cohort_sampling != "cyclic_poisson":
        return
    flag = "--cohort_sampling=cyclic_poisson"
    if settings.aggregator_type != "mf_dpftrl":
        raise UsageError(f"{flag} needs --aggregator_type=mf_dpftrl, not {settings.aggregator_type}.")
    if settings.get("availability") or settings.get("drop_out"):
        raise UsageError(f"{flag} does not work with --availability or --drop_out: all sampled clients must take part.")
    if settings.mf_bands == "auto" and settings.get("target_epsilon") is None:
        raise UsageError(f"{flag} needs --target_epsilon to choose the number of bands, or a number in --mf_bands.")


def options(settings: Mapping[str, Any]) -> Aggregation:
    """Builds the options of the aggregation from flags."""
    return make_options(
        Aggregation,
        settings,
        noise_seed=settings.get("seed", 0) if settings["insecure_seeded_noise"] else None,
        bands=None if settings["mf_bands"] == "auto" else settings["mf_bands"],
    )


def plan(
    aggregation: Aggregation, cohort: options_lib.Cohorts, population: int, dimension: int, rounds: int
) -> calibration.Plan | None:
    """Plans the privacy mechanism of a run; None if the flags already determine it.

    Args:
      aggregation: How client updates are aggregated.
      cohort: How cohorts are sampled.
      population: Number of clients in the data, from which cohorts are sampled.
      dimension: Number of model parameters.
      rounds: Number of planned rounds.

    Raises:
      UsageError: If no mechanism reaches the target epsilon, or the flags do not fit the population.
    """
    target = aggregation.target_epsilon
    if target is None and aggregation.kind != "mf_dpftrl":
        return None
    clients, size = aggregation.population or population, aggregation.population_cohort or cohort.size
    if clients < population:
        raise UsageError(f"--population={clients} is less than the {population} clients in the data: raise it.")
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
    aggregation: Aggregation, cohort: options_lib.Cohorts, population: int, mechanism: mechanisms.Mechanism
) -> tuple[Aggregation, options_lib.Cohorts]:
    """Applies a plan to the aggregation and the cohorts of a run.

    If the run only simulates a larger population, `cyclic_poisson` groups would be too small. Each cohort is then a
    Poisson sample of all clients. For the arguments, see `plan`; `mechanism` is the mechanism of the plan.
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


def simulated(aggregation: Aggregation, population: int, cohort: int) -> str:
    """Why a simulated deployment guarantees nothing, in words that follow "because"; empty without a simulation."""
    plan = aggregation.plan
    if plan is None or (plan.population, plan.cohort) == (population, cohort):
        return ""
    return (
        f"it simulates training on {plan.population:,} clients, about {plan.cohort:,} per round: its noise is too "
        f"weak to protect the {population:,} clients of this run"
    )


def mechanism(
    aggregation: Aggregation, cohort: options_lib.Cohorts, population: int, dimension: int, *, voided: str = ""
) -> mechanisms.Mechanism:
    """Builds the mechanism whose privacy loss is accounted for.

    For the arguments, see `plan`. If there is no guarantee regardless of the flags, `voided` is the reason, in words
    that follow "because".

    Raises:
      UsageError: If the flags do not fit the population or each other.
    """
    kind, noise_multiplier = aggregation.kind, aggregation.noise_multiplier
    if cohort.size > population:
        raise UsageError(f"--clients_per_round={cohort.size} is more than the {population} clients who take part.")
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
    unknown = f"the privacy of the aggregator {aggregation.own.label} is not known" if aggregation.own else ""
    try:
        if kind == "dpsgd" and aggregation.unclip_quantile is not None:
            sensitivities.split_noise(noise_multiplier, sensitivities.COUNT_NOISE_SHARE * cohort.size)
        mechanism = mechanisms.Mechanism(
            kind=kind if kind in NOISY else "none",
            noise_multiplier=noise_multiplier,
            population=population,
            cohort=cohort.size,
            sampling=cohort.sampling,
            delta=aggregation.target_delta,  # type: ignore[arg-type]
            accountant=aggregation.accountant,
            voided=unknown or (reason if noise_multiplier else ""),
            clip_norm=aggregation.clip_norm or 1.0,
            may_be_absent=cohort.availability.may_be_absent,
            **of_kind.get(kind, {}),
        )
        mechanism.epsilon(1)  # Some invalid combinations are detected only here.
    except ValueError as error:
        raise UsageError(f"--noise_multiplier={noise_multiplier:g} with --aggregator_type={kind}: {error}") from error
    return mechanism
