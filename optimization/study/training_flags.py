"""Flags of optimizers and of supervised training by cohorts. Nothing here imports TFF."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from data.errors import UsageError
from data.settings import Parameter, Setting, declared, make_options, parameters
from optimization import corrections
from optimization.options import OPTIMIZERS, Evaluations, ServerOptimizer
from optimization.study import cli, selector_flags, task_flags

_Options = TypeVar("_Options")
_PARAMETERS = {
    owner: {
        f"{owner}_{name}": Parameter(None, "argument of the optimizer (default: that of Keras)", high=high, below=True)
        for name, high in bounds.items()
    }
    for owner, bounds in OPTIMIZERS.items()
}
CLIENT_HYPERPARAMETERS = parameters("client_", "client_optimizer", _PARAMETERS)
_SPELLED = {"server_adagrad_initial_preconditioner_value": "server_adagrad_initial_accumulator_value"}
# The defaults are None, so that a new correction does not change the names of runs that do not use it.
CORRECTIONS = [Setting(name, float, about) for name, (_, about) in corrections.CORRECTIONS.items()]
EVALUATIONS = declared(Evaluations)
MOST_STATES = 10_000  # Maximum number of clients with a state on disk, which is about as large as the model.
_OFF = (
    *("proximal_strength", "client_momentum", "client_sgd_momentum", "aggregator", "adaptive_clipping", "clip_norm"),
    *("init_adaptive_clipping", "reset", "log_interactions", "diagnose_round"),
)
# The values of other settings that SCAFFOLD allows. False also allows the number 0.
_WITH_SCAFFOLD: Mapping[str, tuple] = {
    **dict.fromkeys(("aggregator_type", "model_aggregation"), ("mean",)),
    **dict.fromkeys(_OFF, (None, False)),
    **dict.fromkeys(("client_weighting", "client_selection"), ("uniform",)),
    "algorithm": ("fedavg", "fedopt"),
    "client_optimizer": ("sgd",),
    "federation": ("federated",),
    "personalization": ("none",),
}


def server(optimizer: Mapping[str, Any], learning_rate: Mapping[str, Any]) -> list[Setting]:
    """Settings of the server optimizer. The arguments change attributes of the first two, such as their defaults."""
    return [
        *declared(ServerOptimizer, server_optimizer=optimizer, server_learning_rate=learning_rate),
        *(
            dataclasses.replace(one, alias=_SPELLED.get(one.name, ""))
            for one in parameters("server_", "server_optimizer", _PARAMETERS)
        ),
    ]


def server_optimizer(settings: Mapping[str, Any]) -> ServerOptimizer:
    """Server optimizer with the hyperparameters that the user set."""
    return make_options(ServerOptimizer, settings, hyperparameters=hyperparameters("server", settings))


def hyperparameters(owner: str, settings: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """Names and values of the optimizer's hyperparameters that the user set. `owner` is `client` or `server`."""
    name = settings[f"{owner}_optimizer"]
    values = {key: settings[f"{owner}_{name}_{key}"] for key in OPTIMIZERS.get(name, ())}
    return tuple((key, value) for key, value in values.items() if value is not None)


def check_algorithm(settings: cli.Settings) -> None:
    """Refuses settings that conflict with `--client_algorithm`.

    Raises:
      UsageError: If a setting conflicts with it.
    """
    for name, values in _WITH_SCAFFOLD.items() if settings.client_algorithm else ():
        if (value := settings.get(name, values[0])) not in values:
            raise UsageError(
                f"--{name}={value} conflicts with --client_algorithm={settings.client_algorithm}, whose control "
                "variates need plain SGD, and unclipped updates of equally weighted clients."
            )


def check_states(population: int, **settings: str | None) -> None:
    """Refuses settings that need a state for each client, if there are too many clients to store the states.

    Args:
      population: Number of clients who can take part.
      **settings: Values of these settings; None for a setting without such states.

    Raises:
      UsageError: If there are too many clients.
    """
    for name, value in settings.items():
        if value and population > MOST_STATES:
            limit = f"stores the states of at most {MOST_STATES:,} clients on disk"
            raise UsageError(f"--{name}={value} {limit}, but {population:,} clients can take part.")


def options(settings: cli.Settings, kind: Callable[..., _Options], **others: Any) -> _Options:
    """Builds options of a subclass of `Training` from flags. Fields that are not settings must be in `others`."""
    return make_options(
        kind,
        settings,
        task=task_flags.options(settings),
        selection=selector_flags.options(settings),
        corrections=corrections.chosen(settings),
        server_optimizer=server_optimizer(settings),
        **others,
    )
