"""Flags of who trains which model: the federation, each client alone, or the server on pooled logs."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bandits import registry
from bandits.options import BanditOptions, Personalization
from data import tasks
from data.errors import UsageError
from data.tasks import options as task_options
from optimization.options import Aggregation, named
from optimization.study import aggregation_flags, cli
from optimization.study.settings import names, setting

ALONE, POOLED = "alone", "pooled"
FINE_TUNE, LOCAL_HEAD = "fine_tune", "local_head"
REPORT_IN_WORDS = "what each client earned"
_PERSONAL = (FINE_TUNE, LOCAL_HEAD)
MOST_ALONE = 1000  # Models on disk.


class Federations:
    """Federation.

    Attributes:
      federation: Who trains a model on which data.
      alone_budget: Clients that take part alone.
      pooled_steps: Steps of the server on the cohort's logs, in a round.
    """

    federation: str = setting(
        "federated",
        words={
            "federated": "clients train one model together",
            ALONE: "each client trains a model by itself, in the rounds of the federated run; nothing leaves it",
            POOLED: "the server trains on the collected logs of each cohort",
        },
    )
    alone_budget: str = setting(
        words={
            "drawn": "the cohorts of the federated run",
            "equal": "the first round's cohort in every round, so as often as the federated model trains",
        },
        only={"federation": (ALONE,)},
        filled="drawn",
    )
    pooled_steps: str = setting(
        words={
            "client": "as many as a client takes, with mini-batches as large as those of all clients together",
            "cohort": "as many as all clients together, with the mini-batches of one",
        },
        only={"federation": (POOLED,)},
        filled="client",
    )


class Personalizations:
    """Personalization.

    Attributes:
      personalization: How a client adapts the deployed model, on the log of half of its examples, before it acts on the
        other half; see docs/federating.md.
      personalization_epochs: Passes over that log; 0 for no adaptation.
      personalization_learning_rate: Learning rate of the adaptation (default: --client_learning_rate).
      personalization_layers: Layers that it trains.
      report_clients: Write what each client earned to private_client_rewards.json, which no privacy guarantee covers;
        see docs/federating.md.
    """

    personalization: str = setting(
        "none",
        words={
            "none": "the deployed model acts on all examples",
            FINE_TUNE: "the client trains the deployed model",
            LOCAL_HEAD: "the last layer never leaves the client, which trains it again in each round",
        },
    )
    personalization_epochs: int = setting(high=20, only={"personalization": _PERSONAL}, filled=1)
    personalization_learning_rate: float = setting(above=True, only={"personalization": _PERSONAL})
    personalization_layers: str = setting(
        words={"all": "all layers", "last": "the last layer"}, only={"personalization": (FINE_TUNE,)}, filled="all"
    )
    report_clients: bool = setting(False)


NAMES = names(Federations, Personalizations)


def define(flags: cli.FlagSet) -> None:
    """Defines the flags."""
    flags.group(Federations)
    flags.group(Personalizations)


_NO_LOG = ((None, False), "the log of interactions knows one shared model and no halves")
_SHARED = {
    "client_selection": (("uniform",), "a selector reads losses of a shared model"),
    "model_aggregation": (("mean",), "it combines whole models of clients"),
}
_PERSONALIZED = {
    "federation": (("federated",), "there is no shared model to adapt"),
    "log_interactions": _NO_LOG,
    "reward_delay": ((None,), "the adaptation needs the rewards of its round"),
}
# By setting and value: by other setting, the values that go with it, and why no others.
_GOES_WITH: Mapping[tuple[str, Any], Mapping[str, tuple[tuple, str]]] = {
    ("federation", ALONE): {
        "aggregator_type": (("mean", "none"), "nothing leaves a client, so no update is protected or summed"),
        "reset": ((None,), "a reset restarts the shared model"),
        "export": ((None, False), "there is no shared model"),
        "log_interactions": _NO_LOG,
        **_SHARED,
    },
    ("federation", POOLED): {
        "aggregator_type": (("mean", "none"), "the server has every log, so no mechanism protects a client"),
        "client_weighting": (("uniform",), "every example of a log has the same weight"),
        "log_interactions": _NO_LOG,
        "reward_delay": ((None,), "logs are collected once"),
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


def resolve(settings: cli.Settings) -> cli.Settings:
    """Refuses settings that do not go with the federation or the personalization, and fills in defaults.

    Raises:
      UsageError: On a flag that does not go with it.
    """
    for (name, value), allowed in _GOES_WITH.items():
        if settings[name] != value:
            continue
        flag = f"--{name}" if value is True else f"--{name}={value}"
        if value is not True and not registry.BANDITS[settings.bandits_type].trains:
            raise UsageError(f"{flag} has no effect with --bandits_type={settings.bandits_type}, which never trains.")
        online = ((None, task_options.SIMULATOR), "the rewards of other actions are not known")
        for other, (values, reason) in {**allowed, "learn_from": online}.items():
            if settings[other] not in values:
                raise UsageError(f"--{other}={settings[other]} does not go with {flag}: {reason}.")
    clipping = sorted({"clip_norm", "adaptive_clipping", "unclip_quantile"} & settings.set_by_user)
    if settings.federation == POOLED and clipping:
        raise UsageError(f"--{clipping[0]} does not go with --federation={POOLED}: no client sends an update.")
    if settings.personalization == "none":
        return settings
    return settings.filled({"personalization_learning_rate": settings.client_learning_rate})


def options(settings: cli.Settings) -> Personalization | None:
    """Personalization of resolved flags; None for none."""
    if settings.personalization == "none":
        return None
    return named(Personalization, settings, "personalization_", kind=settings.personalization)


def aggregation(settings: cli.Settings) -> Aggregation:
    """Aggregation of resolved flags: the server's update on pooled logs is not clipped."""
    chosen = aggregation_flags.options(settings)
    if settings.federation != POOLED:
        return chosen
    return dataclasses.replace(chosen, clip_norm=None, unclip_quantile=None)


def check_layers(options: BanditOptions, task: tasks.Task) -> None:
    """Refuses a local head of a model of one layer.

    Raises:
      UsageError: If it is one.
    """
    has_one = task.model in ("linear_l2", "bag_of_words") or task.model_arguments.get("hidden") == ()
    if options.personalization and options.personalization.kind == LOCAL_HEAD and has_one:
        raise UsageError(f"--personalization={LOCAL_HEAD} needs a model of several layers, such as --model=mlp.")


def warnings(options: BanditOptions, population: int) -> list[str]:
    """Warnings of clients that hardly train.

    Args:
      options: The run's options.
      population: Number of clients.

    Raises:
      UsageError: If more clients train alone than may have a model on disk.
    """
    if options.federation != ALONE:
        return []
    rounds = 1 if options.alone_budget == "equal" else options.total_rounds
    count = min(population, rounds * options.cohorts.size)
    if count > MOST_ALONE:
        raise UsageError(
            f"--federation={ALONE} would keep the models of up to {count:,} clients on disk; the maximum is "
            f"{MOST_ALONE:,}: give fewer --total_rounds or --clients_per_round, a --population_client_selection, or "
            "--alone_budget=equal."
        )
    times = options.total_rounds * options.cohorts.size / population
    if times >= 2 or options.alone_budget == "equal":
        return []
    return [
        f"--federation={ALONE}: a client takes part {times:.2g} times on average, and one that takes part once acts "
        "with the first model. --alone_budget=equal trains a cohort in every round."
    ]
