"""The reward model of the direct method and what builds on it: its flags, and its training at the log's clients."""

import dataclasses
import sys
from typing import TYPE_CHECKING

import numpy as np

from data import interaction_log
from optimization.privacy import ledger
from optimization.study import cli
from optimization.study.settings import setting

if TYPE_CHECKING:
    from bandits.evaluation.reward_models import Regression


class RewardModel:
    """Reward model of DM, DR, SWITCH-DR and DRos.

    Attributes:
      model: Train one; without it, only weighted estimators are told.
      model_rounds: Rounds of each of the two folds' federated training.
      model_clients_per_round: Clients of a round.
      model_epochs: Passes of a client over its rows in a round.
      model_batch_size: Rows of a mini-batch.
      model_client_learning_rate: Of the clients' SGD.
      model_server_learning_rate: Of the server's Adam.
      model_noise_multiplier: Standard deviation of the noise on a round's sum, in clip norms: trains the model with
        differential privacy.
      model_clip_norm: L2 norm that a client's update is clipped to.
    """

    model: bool = setting(True)
    model_rounds: int = setting(100, low=1)
    model_clients_per_round: int = setting(50, low=1)
    model_epochs: int = setting(1, low=1)
    model_batch_size: int = setting(32, low=1)
    model_client_learning_rate: float = setting(0.1, above=True)
    model_server_learning_rate: float = setting(0.02, above=True)
    model_noise_multiplier: float = setting(above=True)
    model_clip_norm: float = setting(1.0, above=True, only={"model_noise_multiplier": True})


def regression(settings: cli.Settings) -> "Regression":
    """Returns how the flags train a model; imports TensorFlow Federated."""
    from optimization.runtime import worker_process

    with worker_process.importing():
        from bandits.evaluation import reward_models
        from optimization import options

    return reward_models.Regression(
        seed=settings.seed,
        rounds=settings.model_rounds,
        clients_per_round=settings.model_clients_per_round,
        epochs=settings.model_epochs,
        batch_size=settings.model_batch_size,
        learning_rate=settings.model_client_learning_rate,
        server_optimizer=options.ServerOptimizer("adam", settings.model_server_learning_rate),
        noise_multiplier=settings.model_noise_multiplier,
        clip_norm=settings.model_clip_norm,
    )


def spent(settings: cli.Settings, log: interaction_log.InteractionLog) -> ledger.Spent:
    """Returns what one training with `--model_noise_multiplier` spends, under a name of its own."""
    chosen = regression(settings)

    from bandits.evaluation import private, reward_models

    trained, rounds = reward_models.mechanism(log.client_ids, chosen)
    return private.fitted(dataclasses.replace(trained, apart_from=left_out(log)), rounds)


def left_out(log: interaction_log.InteractionLog) -> tuple[str, ...]:
    """Returns what whoever reads a log's contexts learns of its clients without noise, in words."""
    return (interaction_log.LEARNED,) if log.report.get("learned_statistics") else ()


def predictions(settings: cli.Settings, log: interaction_log.InteractionLog) -> np.ndarray:
    """Returns what cross-fitted reward models predict, float64 [rows, actions]."""
    chosen = regression(settings)

    from bandits.evaluation import reward_models
    from optimization.runtime import worker

    worker.start()
    total = 2 * settings.model_rounds

    def tell(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\rReward model: round {done} of {total}", end="\n" if done == total else "", file=sys.stderr)

    return reward_models.cross_fitted(
        log.client_ids,
        log.clients,
        log.contexts,
        log.actions,
        log.rewards,
        len(log.action_names),
        chosen,
        on_round=tell,
    )
