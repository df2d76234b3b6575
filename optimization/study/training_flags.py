"""Flags of the server optimizer and of supervised training by cohorts. Nothing here imports TFF."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from optimization import corrections
from optimization.options import ServerOptimizer, named
from optimization.study import cli, selector_flags, task_flags
from optimization.study.settings import Parameter, Setting, declared, parameters, setting

_Options = TypeVar("_Options")
# Hyperparameters of each optimizer, with their exclusive upper bounds: `--server_<optimizer>_<name>`.
# Left out, they have Keras' defaults, which are also TFF's.
HYPERPARAMETERS: Mapping[str, Mapping[str, float | None]] = {
    "sgd": {"momentum": 1.0},
    "adam": {"beta_1": 1.0, "beta_2": 1.0, "epsilon": None},
    "yogi": {"beta_1": 1.0, "beta_2": 1.0, "epsilon": None, "initial_preconditioner_value": None},
    "adagrad": {"initial_preconditioner_value": None, "epsilon": None},
}
_LEFT_OUT = "left out, Keras' default"


_PARAMETERS = {
    owner: {f"{owner}_{name}": Parameter(None, _LEFT_OUT, high=high, below=True) for name, high in bounds.items()}
    for owner, bounds in HYPERPARAMETERS.items()
}
_SPELLED = {"server_adagrad_initial_preconditioner_value": "server_adagrad_initial_accumulator_value"}


class _Server:
    """Server.

    Attributes:
      server_optimizer: Optimizer on the server.
      server_learning_rate: Learning rate on the server.
    """

    server_optimizer: str = setting(words=list(HYPERPARAMETERS))
    server_learning_rate: float = setting(basic=True)


class _Evaluations:
    """Evaluation.

    Attributes:
      eval_batch_size: Examples of an evaluation batch.
      max_validation_samples: Maximum number of held-out examples; 0 for all.
    """

    eval_batch_size: int = setting(512, low=1)
    max_validation_samples: int = setting(10000)


# None where they are off: names of runs without them stay as they were before there was such a correction.
CORRECTIONS = [Setting(name, float, about) for name, (_, about) in corrections.CORRECTIONS.items()]
EVALUATIONS = declared(_Evaluations)


def server(optimizer: Mapping[str, Any], learning_rate: Mapping[str, Any]) -> list[Setting]:
    """Settings of the server optimizer; arguments set a program's own defaults."""
    return [
        *declared(_Server, server_optimizer=optimizer, server_learning_rate=learning_rate),
        *(
            dataclasses.replace(one, spelled=_SPELLED.get(one.name, ""))
            for one in parameters("server_", "server_optimizer", _PARAMETERS)
        ),
    ]


def server_optimizer(settings: Mapping[str, Any]) -> ServerOptimizer:
    """Server optimizer with the hyperparameters that the user set."""
    name = settings["server_optimizer"]
    values = {key: settings[f"server_{name}_{key}"] for key in HYPERPARAMETERS[name]}
    hyperparameters = tuple((key, value) for key, value in values.items() if value is not None)
    return ServerOptimizer(name, settings["server_learning_rate"], hyperparameters)


def options(settings: cli.Settings, kind: Callable[..., _Options], **others: Any) -> _Options:
    """Options of resolved flags, of a subclass of `Training`; its own fields are settings or `others`."""
    return named(
        kind,
        settings,
        task=task_flags.options(settings),
        cohort_size=settings.clients_per_round,
        selection=selector_flags.options(settings),
        batch_size=settings.client_batch_size,
        learning_rate=settings.client_learning_rate,
        corrections=corrections.chosen(settings),
        server_optimizer=server_optimizer(settings),
        **others,
    )
