"""The reward model of DM and DR: its flags, and its federated training, cross-fitted over two folds of clients.

Each fold's clients are predicted by a model that was trained on the other fold's, so that no prediction has seen its
own client's rewards (Chernozhukov et al., "Double/debiased machine learning", 2018, with clients as units). TensorFlow
is imported when a model is trained.
"""

import dataclasses
import itertools
import secrets
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from data import clients, interaction_log, keys, text
from data.settings import setting
from optimization import options
from optimization.privacy import ledger, mechanisms
from optimization.study import cli

if TYPE_CHECKING:
    import tensorflow as tf

    from optimization import client_work, models


class RewardModel:
    """Reward model of DM, DR, SWITCH-DR and DRos.

    Attributes:
      model: Train a reward model; without it, only weighted estimators are available.
      model_rounds: Rounds of each of the two folds' federated training.
      model_clients_per_round: Clients of a round; at most those of a fold.
      model_epochs: Passes of a client over its rows in a round.
      model_batch_size: Rows of a mini-batch.
      model_client_learning_rate: Learning rate of the clients' SGD.
      model_server_learning_rate: Learning rate of the server's Adam.
      model_noise_multiplier: Standard deviation of the noise on a round's sum, in clip norms: trains the model with
        differential privacy, by DP-FedAvg on secret Poisson samples of a fold's clients.
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


def folds(client_ids: Sequence[str], seed: int) -> np.ndarray:
    """Each client's fold, 0 or 1 [clients], from its name alone, so that it depends on no other client."""
    return np.array([keys.integer_key(seed, keys.Purpose.FOLD, keys.number_of(name)) & 1 for name in client_ids])


def mechanism(client_ids: Sequence[str], settings: cli.Settings) -> tuple[mechanisms.Mechanism, int]:
    """Accounting of the private training of both folds' models, and its rounds.

    No client is in both folds, and a client's fold depends on its name alone: the larger of their epsilons counts.

    Raises:
      ValueError: If the training is not private.
    """
    if settings.model_noise_multiplier is None:
        raise ValueError("A reward model without privacy has no mechanism.")
    sizes = [size for size in np.bincount(folds(client_ids, settings.seed), minlength=2).tolist() if size]
    first, *others = (_of_fold(size, settings) for size in sizes)
    for other in others:
        rounds = settings.model_rounds
        first = dataclasses.replace(first, pretraining=other, pretraining_rounds=rounds, pretraining_disjoint=True)
    return first, settings.model_rounds


def spent(settings: cli.Settings, log: interaction_log.InteractionLog) -> ledger.Spent:
    """Privacy spent by one training with `--model_noise_multiplier`; call once per training and reuse."""
    trained, rounds = mechanism(log.client_ids, settings)
    left_out = (interaction_log.LEARNED,) if log.report.get("learned_statistics") else ()
    # A digest of the model's predictions would depend on the contexts that they are for: the name is random.
    name = f"the reward model {secrets.token_hex(6)}"
    return ledger.Spent(name, dataclasses.replace(trained, apart_from=left_out), rounds)


def _of_fold(size: int, settings: cli.Settings) -> mechanisms.Mechanism:
    cohort = min(settings.model_clients_per_round, size)
    noise = settings.model_noise_multiplier or 0.0
    return mechanisms.Mechanism("dpsgd", noise, population=size, cohort=cohort, sampling="poisson")


def predictions(settings: cli.Settings, log: interaction_log.InteractionLog) -> np.ndarray:
    """Predictions of cross-fitted reward models, float64 [rows, actions]."""
    from optimization.runtime import worker_process

    with worker_process.importing():
        from optimization.runtime import worker

    worker.start()
    total, rounds = 2 * settings.model_rounds, itertools.count(1)

    def tell() -> None:
        done = next(rounds)
        if sys.stderr.isatty():
            print(f"\rReward model: round {done} of {total}", end="\n" if done == total else "", file=sys.stderr)

    return cross_fitted(settings, log, on_round=tell)


def cross_fitted(
    settings: cli.Settings, log: interaction_log.InteractionLog, *, on_round: Callable[[], None] = lambda: None
) -> np.ndarray:
    """Predictions of the other fold's model for all actions, float64 [rows, actions].

    Each model's rewards are centered and divided by their range for its training, so that neither their unit nor their
    direction matters, and its predictions stay in their range. With privacy rewards must lie in [0, 1], and neither
    center nor range depends on them; what `mechanism` returns is spent then.

    Args:
      settings: Flags of `RewardModel`, and the seed.
      log: The log. Without contexts, the model depends on the action alone.
      on_round: Called after each round of a fold.

    Raises:
      ValueError: If rewards of a private training are not in [0, 1].
    """
    from bandits.evaluation import target_policies

    is_private, rewards = settings.model_noise_multiplier is not None, log.rewards
    contexts = np.zeros((len(log), 1), np.float32) if log.contexts is None else log.contexts
    if is_private and not (rewards.min() >= 0 and rewards.max() <= 1):
        raise ValueError("Rewards of a private training must be in [0, 1]: see `bounds.apply`.")
    half, predicted = folds(log.client_ids, settings.seed), np.zeros((len(log), len(log.action_names)))
    model = _model(contexts, len(log.action_names))
    for fold in (0, 1):
        seen, held = rewards[half[log.clients] != fold], np.flatnonzero(half[log.clients] == fold)
        low, high, center = 0.0, 1.0, 0.0
        if len(seen) and not is_private:
            low, high, center = seen.min(), seen.max(), seen.mean()
        scale = (high - low) or 1.0
        labels = np.stack([log.actions, (rewards - center) / scale], axis=1).astype(np.float32)
        rows = clients.ArrayClients(clients.Examples(contexts, labels), log.clients, log.client_ids, checksum="log")
        weights = _trained(model, contexts, rows, np.flatnonzero(half != fold), settings, on_round)
        own = contexts.take(held) if isinstance(contexts, text.Bags) else contexts[held]
        outputs = target_policies.outputs(model, weights, own, len(held)).astype(float)
        predicted[held] = np.clip(center + scale * outputs, low, high)
    return predicted


def _model(contexts: clients.Features, num_actions: int) -> "models.Model":
    from optimization import models

    if isinstance(contexts, text.Bags):
        return models.bag_of_words(int(contexts.ids.max(initial=0)) + 1, num_actions)
    return models.mlp(int(np.prod(contexts.shape[1:])), (), num_actions)


@dataclasses.dataclass(frozen=True)
class _LoggedLoss:
    """Squared error of the logged action's predicted reward; labels are its number and its reward."""

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
    on_round: Callable[[], None],
) -> "models.Weights":
    """Model trained on the clients of a fold; untrained if the fold has no clients."""
    # Zeros: without a hidden layer they learn as well as any. The unseen is predicted as the mean, or privately 0.
    start = tuple(np.zeros(shape, np.float32) for shape in model.shapes.values())
    if not len(fold):
        return start
    import tensorflow as tf
    import tensorflow_federated as tff

    from optimization import aggregators, client_work, cohorts, fed_avg, supervised

    if isinstance(contexts, text.Bags):
        spec = text.Bags(tf.TensorSpec((None,), tf.int32), tf.TensorSpec((None,)), tf.TensorSpec((None,), tf.int64))
    else:
        spec = tf.TensorSpec((None, *contexts.shape[1:]), contexts.dtype)
    size = min(settings.model_clients_per_round, len(fold))
    cohort, cohort_seed = options.Cohorts(size), settings.seed
    aggregator: tff.aggregators.WeightedAggregationFactory = tff.aggregators.MeanFactory(no_nan_division=True)
    if settings.model_noise_multiplier:
        cohort, cohort_seed = options.Cohorts(size, "poisson"), cohorts.as_integer(cohorts.secret_seed())
        own = dataclasses.replace(_of_fold(len(fold), settings), clip_norm=settings.model_clip_norm)
        aggregation = options.Aggregation("dpsgd", clip_norm=settings.model_clip_norm)
        aggregator = aggregators.build(aggregation, own, tuple(model.shapes.values()))
    learning_rate = settings.model_client_learning_rate
    server_optimizer = options.ServerOptimizer("adam", settings.model_server_learning_rate)
    process = supervised.SupervisedProcess(
        model=model,
        local_work=client_work.LocalSgd(learning_rate, settings.model_batch_size, settings.model_epochs),
        aggregator=aggregator,
        server_optimizer=fed_avg.server_optimizer(server_optimizer),
        feature_spec=spec,
        label_spec=tf.TensorSpec((None, 2)),
        loss=_LoggedLoss(),
    ).build(start)
    state = process.initialize()
    for round_num in range(1, settings.model_rounds + 1):
        ids = fold[cohorts.draw(cohort, len(fold), cohort_seed, round_num)]
        examples = [rows.load(int(client)) for client in ids]
        inputs = supervised.inputs(examples, ids, settings.seed, round_num, learning_rate)
        state, _ = process.next(state, inputs)
        on_round()
    return tuple(np.asarray(weight) for weight in state.weights)
