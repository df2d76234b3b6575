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
from optimization.study import availability_flags, cli, task_flags
from optimization.study.settings import Parameter

USAGE = """
Federated multi-armed bandit over ads: clients pull locally, the server averages their value differentials. Beside it
runs a centralised bandit on the same impressions.

  run_ads --data_file=Ads_CTR_Optimisation.csv
  run_ads --preset=gradient_epsilon --repeat=20           # one of the text's remedies
  run_ads --rates=0.05,0.1,0.2 --clients=1000 --decision_rule=federated_ucb
"""

_OWN_RULES = {
    "gradient_epsilon": PolicyEntry(
        "bandits.ads.process:GradientEpsilon",
        dict(registry.RULES["epsilon_greedy"].parameters)
        | {"epsilon_step": Parameter(0.02, "step of epsilon down the gap between the best and the mean value")},
        "epsilon-greedy whose epsilon is learned, which can only fall, and averaged too",
    ),
    "federated_ucb": PolicyEntry(
        "bandits.ads.process:FederatedUcb",
        registry.RULES["ucb"].parameters,
        "upper confidence bound whose interval is averaged too",
    ),
}
# An impression shows one ad, so rules that execute every action each time have no place here.
RULES: Mapping[str, PolicyEntry] = {
    name: entry for name, entry in registry.RULES.items() if name not in registry.EXTREME
} | _OWN_RULES
# What a client knows of its executions starts anew with each round, and these rules with it.
_TRIES_ALL_FIRST = frozenset({"ucb", "discounted_ucb"})
_IMPRESSIONS = 100
PRESETS = pathlib.Path(__file__).parent / "presets"


@dataclasses.dataclass(frozen=True)
class AdsOptions:
    """What the flags mean.

    Attributes:
      seed: Of every draw.
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
      rates: Click rates of made impressions instead; empty for a table.
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


def define(flags: cli.FlagSet) -> None:
    """Defines the study's own flags."""
    registry.define_rules(flags, RULES, "epsilon_greedy")
    flags.choice(
        "client_weighting",
        "uniform",
        {"uniform": "all the same", "exploration": "1, and more for pulls of an action that was not its best"},
        "weight of a client in the mean of differentials",
    )
    flags.number("exploration_weight", None, "weight of such a pull, added to the client's 1 (default: 1)", above=True)
    flags.belong("exploration_weight", client_weighting=("exploration",))

    flags.group("Rounds and clients")
    flags.integer("total_rounds", 10, "communication rounds", low=1)
    flags.integer("local_pulls", 10, "pulls of a client in a round", low=1)
    flags.integer("pulls_per_impression", 1, "how many of them in a row are of the same impression", low=1)
    flags.integer("clients", 100, "clients, to whom the impressions are dealt", low=1)
    flags.integer("clients_per_round", None, "clients that a round asks (default: all)", low=1)
    flags.choice("cohort_sampling", "fixed", mechanisms.SAMPLINGS, "how a round's clients are drawn")

    flags.group("Devices that are not always connected")
    availability_flags.define(flags, has_labels=False)
    flags.integer("world_seed", None, "seed of clients' time zones, the same for runs of all seeds (default: 0)")
    flags.belong("world_seed", availability=list(availability.KINDS))

    flags.group("Privacy")
    flags.number("clip_norm", None, "L2 norm to clip a client's differential to (default: none)", above=True)
    flags.number(
        "noise_multiplier", None, "standard deviation of the noise on the clipped sum, in clip norms (default: none)"
    )
    flags.switch(
        "insecure_seeded_noise",
        False,
        "draw that noise from --seed, for runs that can be repeated: they guarantee nothing, as who knows the seed can "
        "remove it",
    )
    flags.belong("insecure_seeded_noise", noise_multiplier=True)

    flags.group("Data")
    flags.path("data_file", None, f"table of clicks, 0 or 1 (default: {ads.TABLE} in FEDBANDITS_DATA_DIR)")
    flags.text("rates", None, "instead: click rates of made impressions, separated by commas")
    flags.integer("impressions_per_client", None, f"made for each client (default: {_IMPRESSIONS})", low=1)
    flags.belong("data_file", rates=False)
    flags.belong("impressions_per_client", rates=True)


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in defaults and checks flags against each other.

    Raises:
      UsageError: On a flag without effect, or values that do not go together.
    """
    settings = task_flags.with_found_table(settings.settled())
    if settings.rates is not None:
        ads.parse_rates(settings.rates)
        settings = settings.filled({"impressions_per_client": _IMPRESSIONS})
    if settings.local_pulls % settings.pulls_per_impression:
        raise UsageError(
            f"--local_pulls={settings.local_pulls} must be a multiple of --pulls_per_impression="
            f"{settings.pulls_per_impression}."
        )
    settings = availability_flags.resolve(settings).filled({"clients_per_round": settings.clients})
    if settings.clients_per_round > settings.clients:
        raise UsageError(
            f"--clients_per_round={settings.clients_per_round} is more than --clients={settings.clients}: give at most "
            "as many."
        )
    if settings.client_weighting == "exploration":
        settings = settings.filled({"exploration_weight": 1.0})
    if settings.noise_multiplier is not None and settings.clip_norm is None:
        raise UsageError("--noise_multiplier needs --clip_norm, the unit of the noise.")
    if settings.clip_norm is not None and settings.client_weighting != "uniform":
        raise UsageError(
            f"--clip_norm bounds what one client adds to a mean of equals: --client_weighting="
            f"{settings.client_weighting} cannot be given with it."
        )
    return settings.filled({"experiment_name": f"ads_{settings.preset or settings.decision_rule}"})


def options(settings: cli.Settings) -> AdsOptions:
    """Returns what resolved flags mean."""
    return named(
        AdsOptions,
        settings,
        rule=RULES[settings.decision_rule].chosen(registry.rule_values(settings, RULES)),
        tries_all_first=settings.decision_rule in _TRIES_ALL_FIRST,
        exploration_weight=settings.exploration_weight or 0.0,
        num_clients=settings.clients,
        cohorts=Cohorts(settings.clients_per_round, settings.cohort_sampling, availability_flags.options(settings)),
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
