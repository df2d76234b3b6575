"""Flags of the server optimizer, shared by the experiment binaries. Nothing here imports TFF."""

from collections.abc import Iterator, Mapping

from data.errors import UsageError
from optimization.study import cli

# Hyperparameters of each optimizer, with their exclusive upper bounds: `--server_<optimizer>_<name>`.
# Left out, they have Keras' defaults, which are also TFF's.
HYPERPARAMETERS: Mapping[str, Mapping[str, float | None]] = {
    "sgd": {"momentum": 1.0},
    "adam": {"beta_1": 1.0, "beta_2": 1.0, "epsilon": None},
    "yogi": {"beta_1": 1.0, "beta_2": 1.0, "epsilon": None, "initial_preconditioner_value": None},
    "adagrad": {"initial_preconditioner_value": None, "epsilon": None},
}


def define(
    flags: cli.FlagSet,
    optimizer: str | None,
    optimizer_help: str = "optimizer on the server",
    learning_rate: float | None = None,
    learning_rate_help: str = "its learning rate",
    *,
    above: bool = False,
) -> None:
    """Defines the flags.

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
    for name, owner, high in _flags():
        flags.number(name, None, f"of {owner}; left out, Keras' default", high=high, below=True)


def check(settings: cli.Settings) -> None:
    """Refuses hyperparameters of an optimizer that was not chosen.

    Raises:
      UsageError: If one is given.
    """
    for name, owner, _ in _flags():
        if owner != settings.server_optimizer and name in settings.given:
            raise UsageError(f"--{name} belongs to --server_optimizer={owner}; {settings.server_optimizer} was chosen.")


def _flags() -> Iterator[tuple[str, str, float | None]]:
    """Yields each hyperparameter's flag, optimizer and upper bound."""
    for optimizer, hyperparameters in HYPERPARAMETERS.items():
        for name, high in hyperparameters.items():
            yield f"server_{optimizer}_{name}", optimizer, high
