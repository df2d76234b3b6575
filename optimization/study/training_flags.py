"""Flags of the server optimizer and of supervised training by cohorts. Nothing here imports TFF."""

from collections.abc import Mapping
from typing import Any

from optimization import corrections
from optimization.options import ServerOptimizer, Training, named
from optimization.study import cli, selector_flags, task_flags

# Hyperparameters of each optimizer, with their exclusive upper bounds: `--server_<optimizer>_<name>`.
# Left out, they have Keras' defaults, which are also TFF's.
HYPERPARAMETERS: Mapping[str, Mapping[str, float | None]] = {
    "sgd": {"momentum": 1.0},
    "adam": {"beta_1": 1.0, "beta_2": 1.0, "epsilon": None},
    "yogi": {"beta_1": 1.0, "beta_2": 1.0, "epsilon": None, "initial_preconditioner_value": None},
    "adagrad": {"initial_preconditioner_value": None, "epsilon": None},
}
_LEFT_OUT = "left out, Keras' default"


def define_server(
    flags: cli.FlagSet,
    optimizer: str | None,
    optimizer_help: str = "optimizer on the server",
    learning_rate: float | None = None,
    learning_rate_help: str = "its learning rate",
    *,
    above: bool = False,
) -> None:
    """Defines the flags of the server optimizer.

    Args:
      flags: Where.
      optimizer: The default; None for one that depends on other flags.
      optimizer_help: Help.
      learning_rate: The default; None for one that depends on other flags.
      learning_rate_help: Help.
      above: Whether the learning rate must be above 0.
    """
    flags.choice("server_optimizer", optimizer, list(HYPERPARAMETERS), optimizer_help)
    flags.number("server_learning_rate", learning_rate, learning_rate_help, above=above)
    parameters = {
        owner: {f"{owner}_{name}": cli.Parameter(None, _LEFT_OUT, high=high, below=True) for name, high in own.items()}
        for owner, own in HYPERPARAMETERS.items()
    }
    flags.parameters("server_", "server_optimizer", parameters)
    flags.spelled("server_adagrad_initial_preconditioner_value", "server_adagrad_initial_accumulator_value")


def define_corrections(flags: cli.FlagSet) -> None:
    """Defines the flags of what corrects the gradients of a client's SGD."""
    for name, entry in corrections.CORRECTIONS.items():
        flags.number(name, 0.0, entry.help)


def server_optimizer(settings: Mapping[str, Any]) -> ServerOptimizer:
    """Returns the optimizer with the hyperparameters that were given for it."""
    name = settings["server_optimizer"]
    values = {key: settings[f"server_{name}_{key}"] for key in HYPERPARAMETERS[name]}
    given = tuple((key, value) for key, value in values.items() if value is not None)
    return ServerOptimizer(name, settings["server_learning_rate"], given)


def define_evaluation(flags: cli.FlagSet, batch_size: int) -> None:
    """Defines the flags of evaluations, whose batches have this size by default."""
    flags.integer("eval_batch_size", batch_size, "examples of an evaluation batch", low=1)
    flags.integer("max_validation_samples", 10000, "most held-out examples; 0 for all")


def options(settings: cli.Settings) -> Training:
    """Returns what resolved flags mean."""
    return named(
        Training,
        settings,
        task=task_flags.options(settings),
        cohort_size=settings.clients_per_round,
        selection=selector_flags.options(settings),
        batch_size=settings.client_batch_size,
        learning_rate=settings.client_learning_rate,
        corrections=corrections.chosen(settings),
        server_optimizer=server_optimizer(settings),
    )
