"""Flags of the ad study, and all checks that need neither data nor TensorFlow."""

import dataclasses
import pathlib
from collections.abc import Mapping

from bandits import registry
from bandits.registry import PolicyEntry, PolicySpec
from data import ads
from data.errors import UsageError
from data.settings import Count, Parameter, Positive, Setting, declared, make_options, setting
from optimization.options import Aggregation, Cohorts
from optimization.privacy import mechanisms
from optimization.selection import availability
from optimization.study import cli, selector_flags, task_flags

USAGE = """
Simulates a federated multi-armed bandit over ads: clients pull locally, and the server averages the changes in their
estimates. A centralised bandit runs beside it on the same impressions.

  run_ads --data_file=Ads_CTR_Optimisation.csv
  run_ads --preset=gradient_epsilon --repeat=20           # a variant that the slides propose
  run_ads --rates=0.05,0.1,0.2 --clients=1000 --decision_rule=federated_ucb
"""

_RULES_OF_STUDY = {
    "gradient_epsilon": PolicyEntry(
        "bandits.ads.experiment:GradientEpsilon",
        dict(registry.RULES["epsilon_greedy"].parameters)
        | {"epsilon_step": Parameter(0.02, "step size: a reward lowers epsilon by step size * (best - mean estimate)")},
        "epsilon-greedy with a learned exploration rate, which the server averages, too; only privacy noise can raise "
        "the rate",
    ),
    "federated_ucb": PolicyEntry(
        "bandits.ads.experiment:FederatedUcb",
        registry.RULES["ucb"].parameters,
        "upper confidence bound with a learned interval, which the server averages, too",
    ),
}
_SAMPLINGS = {name: words for name, words in mechanisms.SAMPLINGS.items() if name != "cyclic_poisson"}
# An impression shows one ad, so rules that execute all actions at once do not apply.
RULES: Mapping[str, PolicyEntry] = {
    name: entry for name, entry in registry.RULES.items() if name not in registry.EXTREME
} | _RULES_OF_STUDY
# A client's execution counts are reset in each round, so these rules try all actions again in each round.
_TRIES_ALL_FIRST = frozenset({"ucb", "discounted_ucb"})
PRESETS = pathlib.Path(__file__).parent / "presets"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Weights:
    """Weights of clients."""

    client_weighting: str = setting(
        "uniform",
        "Weight of each client in the mean of differentials",
        {
            "uniform": "equal weights",
            "exploration": "1, plus a weight for each pull of an action whose estimate is not the client's highest",
        },
    )
    exploration_weight: Positive = setting(
        None,
        "Weight of each pull of an action whose estimate is not the client's highest",
        only={"client_weighting": ("exploration",)},
        applied_default=1.0,
        unset=0.0,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RoundsAndClients:
    """Rounds and clients."""

    total_rounds: Count = setting(10, "Communication rounds", basic=True)
    local_pulls: Count = setting(10, "Pulls per client and round", basic=True)
    pulls_per_impression: Count = setting(1, "Number of consecutive pulls that show the same impression")
    num_clients: Count = setting(100, "Clients among whom the impressions are partitioned", basic=True, name="clients")
    clients_per_round: Count = setting(
        lambda settings: settings.clients, "Clients invited to each round (default: all)"
    )
    cohort_sampling: str = setting("fixed", "How each round's clients are sampled", _SAMPLINGS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Privacy:
    """Privacy."""

    clip_norm: Positive = setting(None, "L2 norm to which a client's changes are clipped (default: none)", basic=True)
    noise_multiplier: float = setting(
        None, "Noise on the clipped sum: standard deviation / clip norm (default: none)", basic=True
    )
    insecure_seeded_noise: bool = setting(
        False,
        "Sample the noise with --seed, so that runs can be repeated. This gives no privacy guarantee, because anyone "
        "who knows the seed can remove the noise",
        only={"noise_multiplier": True},
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Data:
    """Data."""

    data_file: str | None = setting(
        None,
        "Table of clicks (0 or 1) with one column per ad (default: Ads_CTR_Optimisation.csv in FEDBANDITS_DATA_DIR)",
        pathlib.Path,
        only={"rates": False},
        basic=True,
        convert=task_flags.found_table,
    )
    rates: tuple[float, ...] = setting(
        None, "Instead of a table: click rates of synthetic impressions, separated by commas", str, unset=(), basic=True
    )
    impressions_per_client: Count = setting(
        None, "Synthetic impressions per client", only={"rates": True}, applied_default=100, unset=0
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdsOptions(_Weights, _RoundsAndClients, _Data):
    """Options of a run.

    Attributes:
      seed: Random seed.
      decision_rule: Name of the decision rule.
      rule: The decision rule of every client, and of the centralised bandit.
      tries_all_first: Whether the rule shows every ad once per round before it chooses.
      cohorts: Sampling of the clients that participate in a round.
      aggregation: Mean of the differentials of shards (batches of clients); with a clip norm, that of the clients'
        clipped differentials.
      rates: Click rates of synthetic impressions; empty for a table.
      rounds_per_checkpoint: Number of rounds between checkpoints.
    """

    seed: int
    decision_rule: str
    rule: PolicySpec
    tries_all_first: bool
    cohorts: Cohorts
    aggregation: Aggregation
    rounds_per_checkpoint: int


def define(flags: cli.FlagSet) -> None:
    """Defines the flags of this study."""
    flags.add(*registry.rule_settings(RULES, "epsilon_greedy"), _Weights)
    flags.group("Rounds and clients", _RoundsAndClients)
    # The clients of this study have no labels, so time zones cannot be assigned by label.
    when = [one for one in declared(availability.Availability) if one.name != "time_zones_by_label"]
    about = "Seed for the clients' time zones, the same for all values of --seed (default: 0)"
    only = {"availability": list(availability.KINDS)}
    seed = Setting("environment_seed", int, about, only=only, applied_default=0, alias="world_seed")
    flags.group("Devices that are not always online", *when, seed)
    flags.group("Privacy", _Privacy)
    flags.group("Data", _Data)


def default_name(settings: cli.Settings) -> str:
    """Default of `--experiment_name`."""
    return f"ads_{settings.preset or settings.decision_rule}"


def check(settings: cli.Settings) -> None:
    """Checks flags against each other.

    Raises:
      UsageError: If a click rate is invalid, or values are incompatible.
    """
    if settings.rates is not None:
        ads.parse_rates(settings.rates)
    if settings.local_pulls % settings.pulls_per_impression:
        raise UsageError("--local_pulls must be a multiple of --pulls_per_impression.")
    settings.check_order("clients_per_round", "clients")
    if settings.noise_multiplier is not None and settings.clip_norm is None:
        raise UsageError("--noise_multiplier needs --clip_norm, because noise is a multiple of the clip norm.")
    if settings.clip_norm is not None and settings.client_weighting != "uniform":
        raise UsageError("--clip_norm needs a mean with equal weights: leave out --client_weighting.")


def options(settings: cli.Settings) -> AdsOptions:
    """Builds the options from the flags."""
    return make_options(
        AdsOptions,
        settings,
        rule=RULES[settings.decision_rule].chosen(registry.rule_values(settings, RULES)),
        tries_all_first=settings.decision_rule in _TRIES_ALL_FIRST,
        cohorts=Cohorts(settings.clients_per_round, settings.cohort_sampling, selector_flags.availability(settings)),
        aggregation=Aggregation(
            kind="mean" if settings.noise_multiplier is None else "dpsgd",
            client_weighting="num_examples" if settings.clip_norm is None else "uniform",
            clip_norm=settings.clip_norm,
            noise_multiplier=settings.noise_multiplier or 0.0,
            noise_seed=settings.seed if settings.insecure_seeded_noise else None,
        ),
        rates=tuple(ads.parse_rates(settings.rates)) if settings.rates else (),
    )
