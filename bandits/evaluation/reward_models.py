"""The reward model of DM and DR: its flags, and its federated training, cross-fitted over two folds of clients.

Predictions for each fold's clients come from a model that was trained on the other fold, so no prediction for a client
depends on its own rewards (Chernozhukov et al., "Double/debiased machine learning", 2018, with clients as units).
TensorFlow is imported when a model is trained.
"""

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from data import action_sets, clients, interaction_log, keys, text
from data.settings import setting
from optimization import options
from optimization.study import cli

if TYPE_CHECKING:
    import tensorflow as tf

    from optimization import client_work, models


@dataclasses.dataclass(frozen=True)
class RewardModel:
    """Reward model of DM, DR, SWITCH-DR and DRos."""

    model: bool = setting(True, "Train a reward model; without it, only weighted estimators are available")
    model_rounds: int = setting(100, "Rounds of federated training on each of the two folds", low=1)
    model_clients_per_round: int = setting(50, "Clients per round; at most the number in a fold", low=1)
    model_epochs: int = setting(1, "Passes over a client's rows per round", low=1)
    model_batch_size: int = setting(32, "Rows per mini-batch", low=1)
    model_client_learning_rate: float = setting(0.1, "Learning rate of the clients' SGD", above=True)
    model_server_learning_rate: float = setting(0.02, "Learning rate of the server's Adam", above=True)


def folds(client_ids: Sequence[str], seed: int) -> np.ndarray:
    """Each client's fold, 0 or 1 [clients]. It depends on the client's name, but not on the other clients."""
    return np.array([keys.integer_key(seed, keys.Purpose.FOLD, keys.number_of(name)) & 1 for name in client_ids])


def predictions(settings: cli.Settings, log: interaction_log.InteractionLog) -> np.ndarray:
    """Predictions for all actions from the other fold's model, float64 [rows, actions], or [rows, slots] for sets.

    The training rewards of each model are centered and divided by their range, so neither their unit nor their
    direction matters. Predictions stay within the range of the training rewards.

    Args:
      settings: The flags of `RewardModel` and the seed.
      log: The log. If actions have features, one linear model predicts all rewards from the features of the context and
        the action, and their products. Without contexts, the model depends on the action alone.
    """
    from optimization.runtime import worker_process

    with worker_process.importing():
        from optimization.runtime import worker

    from bandits.evaluation import target_policies

    worker.start()
    contexts = np.zeros((len(log), 1), np.float32) if log.contexts is None else log.encoded_contexts
    half, predicted = folds(log.client_ids, settings.seed), np.zeros((len(log), log.num_actions))
    model = _model(contexts, log.num_actions)
    for fold in (0, 1):
        seen, held = log.rewards[half[log.clients] != fold], np.flatnonzero(half[log.clients] == fold)
        low, high, center = (seen.min(), seen.max(), seen.mean()) if len(seen) else (0.0, 1.0, 0.0)
        scale = (high - low) or 1.0
        labels = np.stack([log.actions, (log.rewards - center) / scale], axis=1).astype(np.float32)
        rows = clients.ArrayClients(clients.Examples(contexts, labels), log.clients, log.client_ids, checksum="log")
        weights = _trained(model, contexts, rows, np.flatnonzero(half != fold), settings)
        outputs = target_policies.outputs(model, weights, text.take(contexts, held), len(held)).astype(float)
        predicted[held] = np.clip(center + scale * outputs, low, high)
    return predicted


def _model(contexts: clients.Features, num_actions: int) -> "models.Model":
    from optimization import models

    if isinstance(contexts, action_sets.ActionSets):
        if not (num_features := contexts.actions.shape[2]):
            return models.restricted(_model(contexts.contexts, num_actions))
        num_contexts = text.num_features(contexts.contexts, ())
        return models.of_sets("linear", {"num_contexts": num_contexts, "num_features": num_features})
    if isinstance(contexts, text.Bags):
        return models.bag_of_words(int(contexts.ids.max(initial=0)) + 1, num_actions)
    return models.mlp(int(np.prod(contexts.shape[1:])), (), num_actions)


def _form(contexts: clients.Features) -> Any:
    """Form of these contexts; see `tasks.Task.feature_spec`."""
    if isinstance(contexts, action_sets.ActionSets):
        return action_sets.Spec(_form(contexts.contexts), contexts.actions.shape[2])
    return text.Bags if isinstance(contexts, text.Bags) else (contexts.shape[1:], contexts.dtype.name)


@dataclasses.dataclass(frozen=True)
class _LoggedLoss:
    """Squared error of the predicted reward of the logged action; labels are the action's index and its reward."""

    def __call__(self, outputs: "tf.Tensor", batch: "client_work.Batch") -> "tf.Tensor":
        import tensorflow as tf

        from bandits import losses

        logged = batch["labels"]
        return losses.BanditLoss()(outputs, {"action": tf.cast(logged[:, 0], tf.int32), "reward": logged[:, 1]})


def _trained(
    model: "models.Model",
    contexts: clients.Features,
    rows: clients.ArrayClients,
    fold: np.ndarray,
    settings: cli.Settings,
) -> "models.Weights":
    """Weights of a model that is trained on the clients of a fold; zeros if the fold has no clients."""
    # A model without a hidden layer can learn from any initial weights. Zeros give unseen contexts the mean reward.
    start = tuple(np.zeros(shape, np.float32) for shape in model.shapes.values())
    if not len(fold):
        return start
    import tensorflow as tf
    import tensorflow_federated as tff

    from optimization import client_work, cohorts, fed_avg, models, supervised

    learning_rate = settings.model_client_learning_rate
    server_optimizer = options.ServerOptimizer("adam", settings.model_server_learning_rate)
    process = supervised.SupervisedProcess(
        model=model,
        local_work=client_work.LocalSgd(learning_rate, settings.model_batch_size, settings.model_epochs),
        aggregator=tff.aggregators.MeanFactory(no_nan_division=True),
        server_optimizer=fed_avg.server_optimizer(server_optimizer),
        feature_spec=models.spec(_form(contexts), model.specs[-1].shape[0]),
        label_spec=tf.TensorSpec((None, 2)),
        loss=_LoggedLoss(),
    ).build(start)
    state, cohort = process.initialize(), options.Cohorts(min(settings.model_clients_per_round, len(fold)))
    for round_num in range(1, settings.model_rounds + 1):
        ids = fold[cohorts.draw(cohort, len(fold), settings.seed, round_num)]
        examples = [rows.load(int(client)) for client in ids]
        inputs = supervised.inputs(examples, ids, settings.seed, round_num, learning_rate)
        state, _ = process.next(state, inputs)
        if sys.stderr.isatty():
            end = "\n" if round_num == settings.model_rounds else ""
            print(f"\rReward model: round {round_num} of {settings.model_rounds}", end=end, file=sys.stderr)
    return tuple(np.asarray(weight) for weight in state.weights)
