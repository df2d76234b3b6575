"""Flags of the ad study, and every check that needs no data and no TensorFlow."""

import dataclasses
import pathlib
from collections.abc import Mapping

from bandits import registry
from bandits.registry import Chosen, PolicyEntry
from data import ads
from data.errors import UsageError
from optimization.options import Aggregation, Cohorts, named
from optimization.privacy import mechanisms
from optimization.selection import availability
from optimization.study import cli, selector_flags, task_flags
from optimization.study.settings import Parameter, declared, setting

USAGE = """
Simulates a federated multi-armed bandit over ads: clients pull locally, and the server averages the changes of their
estimates. A centralised bandit runs beside it on the same impressions.

  run_ads --data_file=Ads_CTR_Optimisation.csv
  run_ads --preset=gradient_epsilon --repeat=20           # one of the slides' remedies
  run_ads --rates=0.05,0.1,0.2 --clients=1000 --decision_rule=federated_ucb
"""

_RULES_OF_STUDY = {
    "gradient_epsilon": PolicyEntry(
        "bandits.ads.experiment:GradientEpsilon",
        dict(registry.RULES["epsilon_greedy"].parameters)
        | {"epsilon_step": Parameter(0.02, "step of epsilon down the gap between the best and the mean value")},
        "epsilon-greedy whose epsilon is learned, which can only fall, and averaged too",
    ),
    "federated_ucb": PolicyEntry(
        "bandits.ads.experiment:FederatedUcb",
        registry.RULES["ucb"].parameters,
        "upper confidence bound whose interval is averaged too",
    ),
}
_SAMPLINGS = {name: words for name, words in mechanisms.SAMPLINGS.items() if name != "cyclic_poisson"}
# An impression shows one ad, so rules that execute every action each time have no place here.
RULES: Mapping[str, PolicyEntry] = {
    name: entry for name, entry in registry.RULES.items() if name not in registry.EXTREME
} | _RULES_OF_STUDY
# What a client knows of its executions starts again with each round, and these rules with it.
_TRIES_ALL_FIRST = frozenset({"ucb", "discounted_ucb"})
PRESETS = pathlib.Path(__file__).parent / "presets"


@dataclasses.dataclass(frozen=True)
class AdsOptions:
    """What the flags mean.

    Attributes:
      seed: Random seed.
      decision_rule: Name of the decision rule.
      rule: The decision rule of every client, and of the centralised bandit.
      tries_all_first: Whether it executes every ad once in a round before it chooses.
      exploration_weight: Weight of an exploring pull; a client weighs 1 plus those of its own in the mean.
      total_rounds: Rounds.
      local_pulls: Pulls of a client in a round.
      pulls_per_impression: How many of them, one after the other, are of the same impression.
      num_clients: Clients.
      cohorts: Which of them take part in a round.
      aggregation: A mean of differentials, of shards of clients or of clipped ones, with noise or without.
      data_file: Table of clicks, or None.
      rates: Click rates of synthetic impressions instead; empty for a table.
      impressions_per_client: Of these; 0 without.
      rounds_per_checkpoint: Rounds between checkpoints.
    """

    seed: int
    decision_rule: str
    rule: Chosen
    tries_all_first: bool
    exploration_weight: float
    total_rounds: int
    local_pulls: int
    pulls_per_impression: int
    num_clients: int
    cohorts: Cohorts
    aggregation: Aggregation
    data_file: str | None
    rates: tuple[float, ...]
    impressions_per_client: int
    rounds_per_checkpoint: int


class _Weights:
    """Weights of clients.

    Attributes:
      client_weighting: Weight of a client in the mean of differentials.
      exploration_weight: Weight of such a pull, added to the client's 1.
    """

    client_weighting: str = setting(
        "uniform",
        {"uniform": "all the same", "exploration": "1, and more for pulls of an action that was not its best"},
    )
    exploration_weight: float = setting(above=True, only={"client_weighting": ("exploration",)}, filled=1.0)


class _RoundsAndClients:
    """Rounds and clients.

    Attributes:
      total_rounds: Communication rounds.
      local_pulls: Pulls of a client in a round.
      pulls_per_impression: How many of them in a row are of the same impression.
      clients: Clients among whom the impressions are partitioned.
      clients_per_round: Clients that a round asks (default: all).
      cohort_sampling: How a round's clients are drawn.
    """

    total_rounds: int = setting(10, low=1, basic=True)
    local_pulls: int = setting(10, low=1, basic=True)
    pulls_per_impression: int = setting(1, low=1)
    clients: int = setting(100, low=1, basic=True)
    clients_per_round: int = setting(low=1)
    cohort_sampling: str = setting("fixed", _SAMPLINGS)


class _World:
    """Time zones.

    Attributes:
      world_seed: Seed of clients' time zones, the same for runs of all seeds (default: 0).
    """

    world_seed: int = setting(only={"availability": list(availability.KINDS)})


class _Privacy:
    """Privacy.

    Attributes:
      clip_norm: L2 norm to clip a client's changes to (default: none).
      noise_multiplier: Standard deviation of the noise on the clipped sum, in clip norms (default: none).
      insecure_seeded_noise: Draw that noise from --seed, for runs that can be repeated: they guarantee nothing, as who
        knows the seed can remove it.
    """

    clip_norm: float = setting(above=True, basic=True)
    noise_multiplier: float = setting(basic=True)
    insecure_seeded_noise: bool = setting(False, only={"noise_multiplier": True})


class _Data:
    """Data.

    Attributes:
      data_file: Table of clicks, 0 or 1 (default: Ads_CTR_Optimisation.csv in FEDBANDITS_DATA_DIR).
      rates: Instead of a table: click rates of synthetic impressions, separated by commas.
      impressions_per_client: Made for each client.
    """

    data_file: pathlib.Path = setting(only={"rates": False}, basic=True)
    rates: str = setting(basic=True)
    impressions_per_client: int = setting(low=1, only={"rates": True}, filled=100)


def define(flags: cli.FlagSet) -> None:
    """Defines the study's own flags."""
    flags.add(*registry.rule_settings(RULES, "epsilon_greedy"), _Weights)
    flags.group(_RoundsAndClients)
    # Clients here have no labels, by which they could share time zones.
    when = [one for one in declared(selector_flags.Availabilities) if one.name != "time_zones_by_label"]
    flags.group("Devices that are not always connected", *when, _World)
    flags.group(_Privacy)
    flags.group(_Data)


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in defaults and checks flags against each other.

    Raises:
      UsageError: On a flag without effect, or values that do not go together.
    """
    settings = task_flags.with_table_path(settings.settled())
    if settings.rates is not None:
        ads.parse_rates(settings.rates)
    if settings.local_pulls % settings.pulls_per_impression:
        raise UsageError("--local_pulls must be a multiple of --pulls_per_impression.")
    settings = selector_flags.resolve_availability(settings).filled({"clients_per_round": settings.clients})
    settings.check_order("clients_per_round", "clients")
    if settings.noise_multiplier is not None and settings.clip_norm is None:
        raise UsageError("--noise_multiplier needs --clip_norm, the unit of the noise.")
    if settings.clip_norm is not None and settings.client_weighting != "uniform":
        raise UsageError("--clip_norm bounds a client's part in a mean of equals: leave out --client_weighting.")
    return settings.filled({"experiment_name": f"ads_{settings.preset or settings.decision_rule}"})


def options(settings: cli.Settings) -> AdsOptions:
    """Options of resolved flags."""
    return named(
        AdsOptions,
        settings,
        rule=RULES[settings.decision_rule].chosen(registry.rule_values(settings, RULES)),
        tries_all_first=settings.decision_rule in _TRIES_ALL_FIRST,
        exploration_weight=settings.exploration_weight or 0.0,
        num_clients=settings.clients,
        cohorts=Cohorts(settings.clients_per_round, settings.cohort_sampling, selector_flags.availability(settings)),
        aggregation=Aggregation(
            kind="mean" if settings.noise_multiplier is None else "dpsgd",
            client_weighting="num_examples" if settings.clip_norm is None else "uniform",
            clip_norm=settings.clip_norm,
            noise_multiplier=settings.noise_multiplier or 0.0,
            noise_seed=settings.seed if settings.insecure_seeded_noise else None,
        ),
        rates=tuple(ads.parse_rates(settings.rates)) if settings.rates else (),
        impressions_per_client=settings.impressions_per_client or 0,
    )
