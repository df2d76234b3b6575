"""One TFF process for runs that differ in nothing but their state: seed, initial model, server learning rate.

A program that plays many runs builds a round once for all such runs, and finds it where an earlier program kept it;
their numbers are those of a process of their own.
"""

import dataclasses
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
import tensorflow_federated as tff

from bandits import process
from data import download, tasks
from optimization import models
from optimization.runtime import kept_rounds
from optimization.study import compiled

_RATE = "learning_rate"  # Where TFF's optimizers keep it in their states.


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
    cache_dir: str | None,
    task: tasks.Task,
    phase: Any,
    definition: process.BanditProcess,
    initial_weights: models.Weights,
) -> tff.templates.IterativeProcess | SharedProcess:
    """Returns the process of a phase, built before if possible.

    Args:
      cache_dir: Folder of what programs keep for later ones; None for `download.cache_folder`'s own.
      task: The task.
      phase: The `experiment.Phase`.
      definition: What defines its rounds.
      initial_weights: theta_0.
    """
    if phase.aggregation.kind != "mean":  # Two runs never share their noise.
        return definition.build(initial_weights)
    own_key = ("rounds", key(task, phase, definition))
    folder = download.cache_folder(cache_dir) / "rounds"

    def find() -> tff.templates.IterativeProcess:
        if not kept_rounds.is_versioned(*_parts(definition)):
            return definition.build()
        return kept_rounds.process(folder, repr(own_key), definition.build)

    shared = compiled.kept(own_key, find)
    return SharedProcess(shared, definition, initial_weights, phase.server_optimizer.learning_rate)


def _parts(definition: process.BanditProcess) -> tuple:
    return definition.policy, definition.loss, definition.local_sgd


def key(task: tasks.Task, phase: Any, definition: process.BanditProcess) -> Hashable:
    """Returns a key of the rounds that differ from these in nothing but their state; arguments as of `build`."""
    parts = {field.name: getattr(definition, field.name) for field in dataclasses.fields(definition)}
    parts |= {
        "types": tuple(map(type, _parts(definition))),  # Two modules may have a class of one name.
        "model": (task.model, repr(task.model_arguments)),
        "reward_matrix": (definition.reward_matrix.shape, definition.reward_matrix.tobytes()),
        "aggregator": phase.aggregation,
        "server_optimizer": dataclasses.replace(phase.server_optimizer, learning_rate=0.0),
        "feature_spec": repr(definition.feature_spec),
        "label_spec": repr(definition.label_spec),
    }
    return tuple(parts.items())
