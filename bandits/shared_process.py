"""One TFF process for runs that differ in nothing but their state: seed, initial model, server learning rate.

A program that plays many runs builds a round once for all such runs, and finds it where an earlier program kept it;
their numbers are those of a process of their own.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow_federated as tff

from bandits import process
from data import download, tasks
from optimization import models
from optimization.runtime import kept_rounds
from optimization.study import compiled

_RATE = "learning_rate"  # Where TFF's optimizers keep it in their states.
_IN_STATE = {"seed", "server_learning_rate", "init_server_learning_rate", "total_rounds"}


class SharedProcess(NamedTuple):
    """A run's own view of it.

    Attributes:
      shared: The process.
      definition: What defines the run's rounds.
      initial_weights: Its theta_0.
      server_learning_rate: Its own.
    """

    shared: tff.templates.IterativeProcess
    definition: process.BanditProcess
    initial_weights: models.Weights
    server_learning_rate: float

    def initialize(self) -> process.BanditState:
        """Returns the run's first state."""
        state = self.shared.initialize()
        weights = tuple(np.asarray(weight) for weight in self.initial_weights)
        optimizer = self.definition.server_optimizer.set_hparams(
            state.optimizer, {_RATE: np.asarray(state.optimizer[_RATE]).dtype.type(self.server_learning_rate)}
        )
        return state._replace(weights=weights, deployed=(weights,) * len(state.deployed), optimizer=optimizer)

    @property
    def next(self) -> tff.Computation:
        """Plays a round: (state, clients) -> (state, metrics)."""
        return self.shared.next


def build(
    settings: Mapping[str, Any],
    task: tasks.Task,
    phase: Any,
    definition: process.BanditProcess,
    initial_weights: models.Weights,
) -> tff.templates.IterativeProcess | SharedProcess:
    """Returns the process of a phase, built before if possible.

    Args:
      settings: Flags.
      task: The task.
      phase: The `experiment.Phase`.
      definition: What defines its rounds.
      initial_weights: theta_0.
    """
    if settings["aggregator_type"] != "mean":  # Two runs never share their noise.
        return definition.build(initial_weights)
    own_key = ("rounds", *key(settings, task, phase))
    folder = download.cache_folder(settings["cache_dir"]) / "rounds"
    shared = compiled.kept(own_key, lambda: kept_rounds.process(folder, repr(own_key), definition.build))
    return SharedProcess(shared, definition, initial_weights, phase.server_learning_rate)


def key(settings: Mapping[str, Any], task: tasks.Task, phase: Any) -> tuple[str, str]:
    """Returns a key of the phases that differ from this one in nothing but their state; arguments as of `build`."""
    one = dataclasses.replace(phase, total_rounds=0, server_learning_rate=0.0)
    return compiled.run_key(settings, task.checksum, _IN_STATE), repr(one)
