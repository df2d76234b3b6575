"""Flags of the ad study, and every check that needs no data and no TensorFlow."""

import pathlib
from collections.abc import Mapping

from bandits import rule_flags
from bandits.registry import Parameter, PolicyEntry
from data import ads
from data.errors import UsageError
from optimization.study import cli, presets, run_folder, worker_flags

_USAGE = """
Federated multi-armed bandit over ads: clients pull locally, the server averages their value differentials. Beside it
runs a centralised bandit on the same impressions.

  run_ads --data_file=Ads_CTR_Optimisation.csv
  run_ads --preset=gradient_epsilon --repeat=20           # one of the text's remedies
  run_ads --rates=0.05,0.1,0.2 --clients=1000 --decision_rule=federated_ucb
"""

_OWN_RULES = {
    "gradient_epsilon": PolicyEntry(
        "bandits.ads.rules:GradientEpsilon",
        dict(rule_flags.RULES["epsilon_greedy"].parameters)
        | {"epsilon_step": Parameter(0.02, "step of epsilon along the gradient of the expected reward")},
    ),
    "federated_ucb": PolicyEntry("bandits.ads.rules:FederatedUcb", rule_flags.RULES["ucb"].parameters),
}
# An impression shows one ad, so rules that execute every action each time have no place here.
RULES: Mapping[str, PolicyEntry] = {
    name: entry for name, entry in rule_flags.RULES.items() if name not in rule_flags.EXTREME
} | _OWN_RULES
# What a client knows of its executions starts anew with each round, and these rules with it.
TRIES_ALL_FIRST = frozenset({"ucb", "discounted_ucb"})
_HELP = rule_flags.HELP | {
    "gradient_epsilon": "epsilon-greedy whose epsilon is learned and averaged too",
    "federated_ucb": "upper confidence bound whose interval is averaged too",
}
_IMPRESSIONS = 100
PRESETS = pathlib.Path(__file__).parent / "presets"


def define() -> cli.FlagSet:
    """Returns the flags of `run_ads`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("What is studied")
    presets.define(flags)
    rule_flags.define(flags, RULES, "epsilon_greedy", _HELP)
    flags.choice(
        "client_weighting",
        "uniform",
        {"uniform": "all the same", "exploration": "1 plus the client's pulls of an action that was not its best"},
        "weight of a client in the mean of differentials",
    )
    flags.integer("seed", 0, "seed of every draw", high=2**32 - 1)

    flags.group("Rounds and clients")
    flags.integer("total_rounds", 10, "communication rounds", low=1)
    flags.integer("local_pulls", 10, "pulls of a client in a round, each on an impression of its own", low=1)
    flags.integer("clients", 100, "clients; all take part in every round", low=1)

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

    flags.group("Data")
    flags.path("data_file", None, f"table of clicks, 0 or 1 (default: {ads.TABLE} in FEDBANDITS_DATA_DIR)")
    flags.text("rates", None, "instead: click rates of made impressions, separated by commas")
    flags.integer("impressions_per_client", None, f"of --rates: made for each client (default: {_IMPRESSIONS})", low=1)

    flags.group("Output")
    flags.path("root_output_dir", "runs", "folder of all runs")
    flags.folder("experiment_name", "name of this run's folder (default: ads_PRESET or ads_RULE)")
    flags.integer("repeat", 1, "runs with consecutive seeds, in folders NAME/seed_N", low=1)
    flags.integer("rounds_per_checkpoint", 10, "rounds between checkpoints; 0 for only the last")
    run_folder.define(flags)
    worker_flags.define(flags)
    return flags


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in defaults and checks flags against each other.

    Raises:
      UsageError: On a flag without effect, or values that do not go together.
    """
    settings = settings.with_defaults(presets.values(settings.preset, PRESETS))
    rule_values(settings)
    worker_flags.addresses(settings)
    if settings.rates is not None:
        if settings.data_file:
            raise UsageError("--data_file has no effect with --rates, which makes impressions: leave one out.")
        ads.parse_rates(settings.rates)
        settings = settings.with_defaults({"impressions_per_client": _IMPRESSIONS})
    elif settings.impressions_per_client is not None:
        raise UsageError("--impressions_per_client belongs to --rates; a table is divided equally.")
    if settings.noise_multiplier is not None and settings.clip_norm is None:
        raise UsageError("--noise_multiplier needs --clip_norm, the unit of the noise.")
    if settings.insecure_seeded_noise and settings.noise_multiplier is None:
        raise UsageError("--insecure_seeded_noise has an effect only with --noise_multiplier.")
    if settings.clip_norm is not None and settings.client_weighting != "uniform":
        raise UsageError(
            f"--clip_norm bounds what one client adds to a mean of equals: --client_weighting="
            f"{settings.client_weighting} cannot be given with it."
        )
    if settings.experiment_name is None:
        settings = settings.replace(experiment_name=f"ads_{settings.preset or settings.decision_rule}")
    return settings


def rule_values(settings: cli.Settings) -> dict[str, float]:
    """Returns the parameters of the chosen rule.

    Raises:
      UsageError: If one is given that the rule does not read.
    """
    return rule_flags.values(settings, RULES)
