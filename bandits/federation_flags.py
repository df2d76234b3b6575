"""Flags for who trains a model (the federation, each client alone, or the server), and for personalization."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bandits import registry
from bandits.options import (
    ALONE,
    EVENT_TRIGGERED,
    FINE_TUNE,
    LOCAL_HEAD,
    POOLED,
    BanditOptions,
    ClientReports,
    Federation,
    Personalization,
)
from data import tasks
from data.errors import UsageError
from data.settings import make_options, names
from data.tasks import options as task_options
from optimization.options import Aggregation
from optimization.study import aggregation_flags, cli

REPORT_IN_WORDS = "what each client earned"
MOST_ALONE = 1000  # Each client that trains alone stores a model on disk.
NAMES = names(Federation, Personalization, ClientReports)


def define(flags: cli.FlagSet) -> None:
    """Defines the flags."""
    flags.group("Federation", Federation)
    flags.group("Personalization", Personalization, ClientReports)


_NO_LOG = ((None, False), "the log of interactions records neither clients' own models nor halves of the examples")
_SHARED = {
    "client_selection": (("uniform",), "a selector reads losses of a shared model"),
    "model_aggregation": (("mean",), "it combines the clients' whole models"),
}
_PERSONALIZED = {
    "federation": (("federated",), "there is no shared model to adapt"),
    "log_interactions": _NO_LOG,
    "reward_delay": ((None,), "adaptation needs rewards that are observed in the same round"),
}
_SUMS = "clients act with sums over the log of one shared model, in which each interaction counts once"
_OF_SUMS = {
    "federation": (("federated",), _SUMS),
    "personalization": (("none",), _SUMS),
    "client_algorithm": ((None,), _SUMS),
    "bandits_deploy_delay": ((0,), _SUMS),
    "client_selection": (("uniform",), _SUMS),
    "model_aggregation": (("mean",), "the server adds up the clients' sums"),
    "aggregator": ((None,), "the server adds up the clients' sums"),
    "aggregator_type": (("mean", "secure_sum", "dpsgd", "dpftrl", "mf_dpftrl"), "the server adds up the sums"),
}
_OWN_SUMS = "each client acts with the sums of its own last download, which can change in any round"
# For each setting and value: which values of other settings are allowed, and why.
_GOES_WITH: Mapping[tuple[str, Any], Mapping[str, tuple[tuple, str]]] = {
    ("communication", EVENT_TRIGGERED): {
        "aggregator_type": (("mean",), "whether a client sends its sums depends on the client's data"),
        "cache": (("round",), _OWN_SUMS),
        "log_interactions": ((None, False), _OWN_SUMS),
    },
    **{("bandits_type", name): _OF_SUMS for name, entry in registry.BANDITS.items() if entry.sums},
    ("statistics", "restart"): {"cache": (("round",), "a client's sums change while it keeps its log")},
    ("federation", ALONE): {
        "aggregator_type": (("mean", "none"), "nothing leaves a client, so there is no update to protect or sum"),
        "reset": ((None,), "a reset restarts the shared model"),
        "export": ((None, False), "there is no shared model"),
        "log_interactions": _NO_LOG,
        **_SHARED,
    },
    ("federation", POOLED): {
        "aggregator_type": (("mean", "none"), "the server sees every log, so no mechanism can protect a client"),
        "client_weighting": (("uniform",), "every example in a log has the same weight"),
        "log_interactions": _NO_LOG,
        "reward_delay": ((None,), "each log is collected only once"),
        **_SHARED,
    },
    ("personalization", FINE_TUNE): _PERSONALIZED,
    ("personalization", LOCAL_HEAD): {
        "export": ((None, False), "each client has its own last layer"),
        **_PERSONALIZED,
        **_SHARED,
    },
    ("report_clients", True): {"log_interactions": _NO_LOG},
}


def check(settings: cli.Settings) -> None:
    """Refuses settings that conflict with the federation, personalization, client reports, or a linear bandit's sums.

    Raises:
      UsageError: If flags conflict or have no effect.
    """
    for (name, value), allowed in _GOES_WITH.items():
        if settings[name] != value:
            continue
        flag = f"--{name}" if value is True else f"--{name}={value}"
        if name in NAMES and value is not True and not registry.chosen(settings).trains:
            raise UsageError(f"{flag} has no effect with --bandits_type={settings.bandits_type}, which never trains.")
        online = ((None, task_options.SIMULATOR), "only the rewards of chosen actions are known")
        for other, (values, reason) in {**allowed, "learn_from": online}.items():
            if settings[other] not in values:
                raise UsageError(f"--{other}={settings[other]} conflicts with {flag}: {reason}.")
    clipping = sorted({"clip_norm", "adaptive_clipping", "unclip_quantile"} & settings.set_by_user)
    if settings.federation == POOLED and clipping:
        raise UsageError(f"--{clipping[0]} conflicts with --federation={POOLED}: no client sends an update.")


def options(settings: cli.Settings) -> Personalization | None:
    """Returns the options of the personalization; None without personalization."""
    return None if settings.personalization == "none" else make_options(Personalization, settings)


def aggregation(settings: cli.Settings) -> Aggregation:
    """Returns the options of the aggregation. The server's update on pooled logs is not clipped."""
    chosen = aggregation_flags.options(settings)
    if settings.federation != POOLED:
        return chosen
    return dataclasses.replace(chosen, clip_norm=None, unclip_quantile=None)


def check_layers(options: BanditOptions, task: tasks.Task) -> None:
    """Refuses models whose layers do not suit the personalization or the linear bandit.

    A local head needs a model with several layers. Training only the last layer is impossible for a Keras model, and
    linear bandits are impossible for Keras and bilinear models. `linucb` and `lints` need a model without hidden
    layers; `neural_linucb` and `neural_lints` need one with hidden layers.

    Raises:
      UsageError: If the model does not suit.
    """
    if options.personalization and options.personalization.layers == "last" and task.model == "keras":
        kind = options.personalization.kind
        raise UsageError(f"--personalization={kind} needs the last layer, which a Keras model does not expose.")
    has_one = task.model in ("linear", "linear_l2", "bag_of_words") or task.model_arguments.get("hidden") == ()
    if options.bandit.sums:
        if task.model in ("keras", "bilinear"):
            raise UsageError(f"--bandits_type={options.name} needs the inputs of a last layer: give another --model.")
        if has_one == options.name.startswith("neural"):
            layers = (
                "no hidden layer: give linucb, lints" if has_one else "hidden layers: give neural_linucb, neural_lints"
            )
            raise UsageError(f"--bandits_type={options.name}: the model has {layers} or another --model.")
    if options.personalization and options.personalization.kind == LOCAL_HEAD and has_one:
        raise UsageError(f"--personalization={LOCAL_HEAD} needs a model with several layers, such as --model=mlp.")


def warnings(options: BanditOptions, population: int) -> list[str]:
    """Returns a warning if clients train alone but participate less than twice on average.

    Args:
      options: The run's options.
      population: Number of clients.

    Raises:
      UsageError: If too many clients train alone to store a model for each on disk.
    """
    if options.federation != ALONE:
        return []
    rounds = 1 if options.alone_budget == "equal" else options.total_rounds
    count = min(population, rounds * options.cohorts.size)
    if count > MOST_ALONE:
        raise UsageError(
            f"--federation={ALONE} would store up to {count:,} clients' models on disk, but the maximum is "
            f"{MOST_ALONE:,}: lower --total_rounds or --clients_per_round, or give --population_client_selection or "
            "--alone_budget=equal."
        )
    times = options.total_rounds * options.cohorts.size / population
    if times >= 2 or options.alone_budget == "equal":
        return []
    return [
        f"--federation={ALONE}: a client participates {times:.2g} times on average, and in its first participation it "
        "acts with the initial model. With --alone_budget=equal, the same cohort trains in every round."
    ]
