"""The direct method's model: federated regression of rewards, cross-fitted over two folds of clients.

Each fold's clients are predicted by a model that was trained on the other fold's, so that no prediction has seen its
own client's rewards (Chernozhukov et al., "Double/debiased machine learning", 2018, with clients as units).
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits import losses
from bandits.evaluation import run_policies
from data import clients, keys, text
from optimization import aggregators, client_work, cohorts, fed_avg, models, options, supervised
from optimization.privacy import mechanisms

_ADAM = options.ServerOptimizer("adam", 0.02)


@dataclasses.dataclass(frozen=True)
class Regression:
    """How a reward model is trained.

    Attributes:
      seed: Of folds, cohorts and mini-batches.
      rounds: Rounds of each fold's training.
      clients_per_round: Clients of a round; at most the fold's.
      epochs: Passes of a client over its rows in a round.
      batch_size: Rows of a mini-batch.
      learning_rate: The clients'.
      server_optimizer: The server's.
      noise_multiplier: Standard deviation of the noise on a round's sum, in clip norms, for differential privacy by
        DP-FedAvg on secret Poisson samples of a fold's clients; None for none.
      clip_norm: L2 norm that a client's update is clipped to where there is noise.
    """

    seed: int = 0
    rounds: int = 100
    clients_per_round: int = 50
    epochs: int = 1
    batch_size: int = 32
    learning_rate: float = 0.1
    server_optimizer: options.ServerOptimizer = _ADAM
    noise_multiplier: float | None = None
    clip_norm: float = 1.0


@dataclasses.dataclass(frozen=True)
class _LoggedLoss:
    """Squared error of the logged action's predicted reward; labels are its number and its reward."""

    def __call__(self, outputs: tf.Tensor, batch: client_work.Batch) -> tf.Tensor:
        logged = batch["labels"]
        return losses.BanditLoss()(outputs, {"action": tf.cast(logged[:, 0], tf.int32), "reward": logged[:, 1]})


def folds(client_ids: Sequence[str], seed: int) -> np.ndarray:
    """Each client's fold, 0 or 1 [clients], from its name alone, so that it depends on no other client."""
    return np.array([keys.integer_key(seed, keys.Purpose.FOLD, keys.number_of(name)) & 1 for name in client_ids])


def mechanism(client_ids: Sequence[str], regression: Regression) -> tuple[mechanisms.Mechanism, int]:
    """Accounting of the private training of both folds' models, and its rounds.

    No client is in both folds, and who is in one depends on names alone: the larger of their epsilons counts.

    Raises:
      ValueError: If the training is not private.
    """
    if regression.noise_multiplier is None:
        raise ValueError("A regression without privacy has no mechanism.")
    half = folds(client_ids, regression.seed)
    sizes = [size for size in np.bincount(half, minlength=2).tolist() if size]
    first, *others = (_of_fold(size, regression) for size in sizes)
    for other in others:
        first = dataclasses.replace(
            first, pretraining=other, pretraining_rounds=regression.rounds, pretraining_disjoint=True
        )
    return first, regression.rounds


def _of_fold(size: int, regression: Regression) -> mechanisms.Mechanism:
    cohort = min(regression.clients_per_round, size)
    noise = regression.noise_multiplier or 0.0
    return mechanisms.Mechanism("dpsgd", noise, population=size, cohort=cohort, sampling="poisson")


def cross_fitted(
    client_ids: Sequence[str],
    owners: np.ndarray,
    contexts: clients.Features | None,
    actions: np.ndarray,
    rewards: np.ndarray,
    num_actions: int,
    regression: Regression,
    *,
    on_round: Callable[[int], None] = lambda _: None,
) -> np.ndarray:
    """Predictions of the other fold's model for all actions, float64 [rows, actions].

    Each model's rewards are centered and divided by their range for its training, so that neither their unit nor their
    direction matters, and its predictions are kept in their range. With privacy rewards must lie in [0, 1], and neither
    center nor range follows from them; what `mechanism` says is spent then.

    Args:
      client_ids: Names of the clients.
      owners: int [rows], ascending, positions in `client_ids`.
      contexts: [rows, ...] or bags of words; None for a model that knows the action alone.
      actions: int [rows], the logged ones.
      rewards: float [rows].
      num_actions: How many actions there are.
      regression: How models are trained.
      on_round: Called with the rounds done so far, of both folds.

    Raises:
      ValueError: If rewards of a private training are not in [0, 1].
    """
    count = len(owners)
    if contexts is None:
        contexts = np.zeros((count, 1), np.float32)
    if regression.noise_multiplier and not (rewards.min() >= 0 and rewards.max() <= 1):
        raise ValueError("Rewards of a private training must be in [0, 1]: see `bounds.apply`.")
    half = folds(client_ids, regression.seed)
    model = _model(contexts, num_actions)
    spec = _spec(contexts)
    predictions = np.zeros((count, num_actions))
    for fold in (0, 1):
        others = np.flatnonzero(half != fold)
        seen = rewards[half[owners] != fold]
        low, high, center = 0.0, 1.0, 0.0
        if len(seen) and not regression.noise_multiplier:
            low, high, center = seen.min(), seen.max(), seen.mean()
        scale = (high - low) or 1.0
        labels = np.stack([actions, (rewards - center) / scale], axis=1).astype(np.float32)
        rows = clients.ArrayClients(clients.Examples(contexts, labels), owners, client_ids, checksum="log")
        tell = functools.partial(_tell, on_round, fold * regression.rounds)
        weights = _trained(model, spec, rows, others, regression, tell)
        held = np.flatnonzero(half[owners] == fold)
        own = contexts.take(held) if isinstance(contexts, text.Bags) else contexts[held]
        outputs = run_policies.outputs(model, weights, own, len(held)).astype(float)
        predictions[held] = np.clip(center + scale * outputs, low, high)
    return predictions


def _tell(on_round: Callable[[int], None], before: int, done: int) -> None:
    on_round(before + done)


def _model(contexts: clients.Features, num_actions: int) -> models.Model:
    if isinstance(contexts, text.Bags):
        return models.bag_of_words(int(contexts.ids.max(initial=0)) + 1, num_actions)
    return models.mlp(int(np.prod(contexts.shape[1:])), (), num_actions)


def _spec(contexts: clients.Features) -> models.FeatureSpec:
    if isinstance(contexts, text.Bags):
        return text.Bags(tf.TensorSpec((None,), tf.int32), tf.TensorSpec((None,)), tf.TensorSpec((None,), tf.int64))
    return tf.TensorSpec((None, *contexts.shape[1:]), contexts.dtype)


def _trained(
    model: models.Model,
    spec: models.FeatureSpec,
    rows: clients.ArrayClients,
    fold: np.ndarray,
    regression: Regression,
    on_round: Callable[[int], None],
) -> models.Weights:
    """Model trained on the clients of a fold; untrained if the fold has no clients."""
    # Zeros: without a hidden layer they learn as well as any. The unseen is predicted as the mean, or privately 0.
    start = tuple(np.zeros(shape, np.float32) for shape in model.shapes.values())
    if not len(fold):
        return start
    size = min(regression.clients_per_round, len(fold))
    cohort, cohort_seed = options.Cohorts(size), regression.seed
    aggregator: tff.aggregators.WeightedAggregationFactory = tff.aggregators.MeanFactory(no_nan_division=True)
    if regression.noise_multiplier:
        cohort, cohort_seed = options.Cohorts(size, "poisson"), cohorts.as_integer(cohorts.secret_seed())
        own = dataclasses.replace(_of_fold(len(fold), regression), clip_norm=regression.clip_norm)
        aggregation = options.Aggregation("dpsgd", clip_norm=regression.clip_norm)
        aggregator = aggregators.build(aggregation, own, tuple(model.shapes.values()))
    process = supervised.SupervisedProcess(
        model=model,
        local_work=client_work.LocalSgd(regression.learning_rate, regression.batch_size, regression.epochs),
        aggregator=aggregator,
        server_optimizer=fed_avg.server_optimizer(regression.server_optimizer),
        feature_spec=spec,
        label_spec=tf.TensorSpec((None, 2)),
        loss=_LoggedLoss(),
    ).build(start)
    state = process.initialize()
    for round_num in range(1, regression.rounds + 1):
        ids = fold[cohorts.draw(cohort, len(fold), cohort_seed, round_num)]
        examples = [rows.load(int(client)) for client in ids]
        inputs = supervised.inputs(examples, ids, regression.seed, round_num, regression.learning_rate)
        state, _ = process.next(state, inputs)
        on_round(round_num)
    return tuple(np.asarray(weight) for weight in state.weights)
