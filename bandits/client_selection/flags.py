"""Flags of `run_client_selection`, and all checks that need neither data nor TensorFlow."""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Sequence

from data.errors import UsageError
from data.settings import Count, Positive, PositiveFraction, Setting, setting
from data.tasks import registry
from optimization.options import Training
from optimization.study import cli, presets, selector_flags, task_flags, training_flags

USAGE = """
Which clients should train? Compares federated training in which clients are chosen at random or by their losses.

  run_client_selection                                    # Synthetic(1,1), UCB-CS
  run_client_selection --client_selection=rand,pow_d,ucb_cs --clients_per_round=1,2 --repeat=3
  run_client_selection --preset=figure_1                  # a published study, with its table

Several selectors or cohort sizes, separated by commas, are compared: each runs in a folder of its own, and all are
plotted together. Defaults that are missing here depend on the task; config.json in a run's folder records all values.
"""

PRESETS = pathlib.Path(__file__).parent / "presets"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Training:
    """Training."""

    total_rounds: Count = setting(800, "Rounds", basic=True)
    batch_size: Count = setting(50, "Examples per mini-batch, b", name="client_batch_size")
    steps: Count = setting(30, "Mini-batch steps per client and round, tau", name="client_steps_per_round")
    learning_rate: Positive = setting(0.05, "Client learning rate, eta", name="client_learning_rate", basic=True)
    learning_rate_drops: tuple[int, ...] = setting(
        None, "Rounds, separated by commas, after which the client learning rate drops", str, unset=()
    )
    learning_rate_factor: PositiveFraction = setting(
        0.5, "Factor by which each drop multiplies the learning rate", only={"learning_rate_drops": True}
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Clients:
    """Clients."""

    client_weighting: str = setting("uniform", "Weight of each client in the mean", ["uniform", "num_examples"])
    max_examples_per_client: int = setting(
        functools.partial(registry.default, "max_examples_per_client"),
        "Maximum number of examples per client; larger clients use a seeded sample; 0 for no limit",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Evaluation:
    """Evaluation."""

    rounds_per_eval: int = setting(5, "Rounds between evaluations; 0 to evaluate only after the last round")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectionOptions(_Training, _Clients, _Evaluation, Training):
    """Options of a run."""


def define(flags: cli.FlagSet) -> None:
    """Defines the study's own flags."""
    flags.add(dataclasses.replace(task_flags.TASK_TYPE, default="synthetic"), task_flags.VARIANT)

    selectors = "; ".join(f"{name} ({entry.help})" for name, entry in selector_flags.SELECTORS.items())
    text = f"How each round's clients are chosen, by one selector or several to compare: {selectors}"
    flags.group("Client selection", Setting("client_selection", str, text, "ucb_cs", basic=True))
    text = "Number of clients per cohort, m, or several numbers to compare; the default is capped at the population"
    flags.add(Setting("clients_per_round", str, text, "3", basic=True))
    flags.add(selector_flags.SelectorSettings)

    optimizer = {"default": "sgd"}
    rate = {"default": 1.0, "help": "Server learning rate; with sgd, 1 adopts the clients' mean model", "above": True}
    # The defaults follow Cho et al. 2020, section IV: logistic regression on Synthetic(1,1).
    flags.group("Training", _Training, *training_flags.CORRECTIONS, _Clients, *training_flags.server(optimizer, rate))

    batch_size, most = training_flags.EVALUATIONS
    flags.group("Evaluation", _Evaluation, dataclasses.replace(batch_size, default=4096), most)

    seed = {"only": {"resplit": False}, "convert": lambda seed, settings: settings.seed if settings.resplit else seed}
    task_flags.define_data(flags, partition_seed=seed)
    text = "Make new clients for each seed: --seed then replaces --partition_seed"
    flags.add(Setting("resplit", bool, text, False))


def default_name(settings: cli.Settings) -> str:
    """Default of `--experiment_name`."""
    return settings.preset or f"client_selection_{settings.task_type}_{settings.client_selection.replace(',', '_')}"


def variants(settings: cli.Settings) -> list[tuple[str, cli.Settings]]:
    """Settings for each cohort size and selector, with the names of their folders.

    Raises:
      UsageError: If a name or number is invalid, or a flag belongs to none of the compared selectors.
    """
    settings = presets.applied(settings, PRESETS)
    names = _words("client_selection", settings.client_selection)
    for name in names:
        if name not in selector_flags.SELECTORS:
            raise UsageError(f"--client_selection={name} must be one of: {', '.join(selector_flags.SELECTORS)}.")
    cohorts = _numbers("clients_per_round", settings.clients_per_round)
    top = settings.checked().experiment_name
    compared = []
    for cohort, name in itertools.product(cohorts, names):
        folders = [f"m_{cohort}"] * (len(cohorts) > 1) + [name] * (len(names) > 1)
        variant = settings.replace(client_selection=name, clients_per_round=cohort, experiment_name=top)
        compared.append(("/".join(folders), variant))
    return compared


def check(settings: cli.Settings) -> None:
    """Checks the learning-rate drops, the partition and the task of one run; `variants` checks the selectors.

    Raises:
      UsageError: If `--learning_rate_drops` are not rounds, `--resplit` has no effect, or flags of the task conflict.
    """
    _numbers("learning_rate_drops", settings.learning_rate_drops)
    if settings.resplit and "partition_seed" not in registry.TASKS[settings.task_type].options:
        raise UsageError(f"--resplit has no effect with --task_type={settings.task_type}, whose clients are fixed.")
    task_flags.check(settings)


def options(settings: cli.Settings) -> SelectionOptions:
    """Options of a run from its flags."""
    drops = tuple(_numbers("learning_rate_drops", settings.learning_rate_drops))
    return training_flags.options(
        settings, SelectionOptions, cohort_size=settings.clients_per_round, learning_rate_drops=drops
    )


def _numbers(flag: str, text: str | None) -> list[int]:
    """Distinct integers of a comma-separated flag; empty for None.

    Raises:
      UsageError: If a value is repeated, is not an integer, or is below 1.
    """
    return cli.whole_numbers(flag, ",".join(_words(flag, text))) if text is not None else []


def _words(flag: str, text: str) -> Sequence[str]:
    words = [word.strip() for word in text.split(",")]
    if len(set(words)) < len(words) or "" in words:
        raise UsageError(f"--{flag}={text} must be distinct values, separated by commas.")
    return words
