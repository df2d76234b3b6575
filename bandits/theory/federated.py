"""Federated averaging as a regression oracle: what local steps cost where clients differ.

Plain NumPy, all runs and clients at once: a client's full-batch step of least squares is a product with its moments.
It equals `optimization.client_work.LocalSgd` and `optimization.fed_avg.server_step` with mini-batches of all examples;
`Trained` is those two themselves.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from bandits import losses
from bandits.theory import oracles, worlds
from data import keys
from optimization import client_work, fed_avg, models, options


@dataclasses.dataclass(frozen=True)
class Averaging:
    """FedAvg with full-batch local steps on the mean squared error of the chosen action.

    Attributes:
      rounds: T; all clients take part in each.
      local_steps: Steps of a client in a round.
      learning_rate: Of a client's step; the server takes the mean, weighed by samples, as it is.
    """

    rounds: int
    local_steps: int
    learning_rate: float

    def __call__(self, moments: oracles.Moments, start: np.ndarray) -> np.ndarray:
        """Returns the coefficients after all rounds, float64 [runs, 1 + d, actions].

        Args:
          moments: Of each client, [runs, clients].
          start: float64 [runs, 1 + d, actions].
        """
        scale = (2 * self.learning_rate / moments.samples)[..., None, None]
        # One step is w -> w - scale (squares w - products); some of them are one affine map.
        contraction = np.eye(moments.squares.shape[-1]) - scale[..., None] * moments.squares
        constant = (scale * moments.products)[..., None]
        power, moved = np.broadcast_to(np.eye(contraction.shape[-1]), contraction.shape), np.zeros_like(constant)
        for _ in range(self.local_steps):
            power, moved = contraction @ power, contraction @ moved + constant
        shares = (moments.samples / moments.samples.sum(axis=1, keepdims=True))[..., None, None, None]
        power, moved = (shares * power).sum(axis=1), (shares * moved).sum(axis=1)
        found = np.swapaxes(start, 1, 2)[..., None]
        for _ in range(self.rounds):
            found = power @ found + moved
        return np.swapaxes(found[..., 0], 1, 2)


def fed_opt(moments: oracles.Moments, coefficients: np.ndarray) -> np.ndarray:
    """Returns epsilon_fed-opt, float64 [runs]: the pooled mean squared loss above the least one there is.

    Args:
      moments: Of each client, [runs, clients].
      coefficients: float64 [runs, 1 + d, actions].
    """
    pooled = moments.pooled()
    return pooled.loss(coefficients) - pooled.loss(oracles.least_squares(pooled))


def clients_samples(
    world: worlds.LinearWorld, samples: int, runs: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns each client's samples, acted on uniformly at random: features, actions and rewards.

    Float64 [runs, clients, samples, 1 + d]; int64 and float64 [runs, clients, samples].
    """
    clients = np.broadcast_to(np.arange(world.num_clients)[:, None], (runs, world.num_clients, samples))
    features = world.features(clients, generator)
    actions = generator.integers(world.num_actions, size=clients.shape)
    return features, actions, world.rewards(features, actions, generator)


@dataclasses.dataclass(frozen=True)
class Trained:
    """The training that studies play, as the oracle: `LocalSgd` at each client, and the server's step.

    Attributes:
      rounds: After how many rounds there is a result, rising.
      local: A client's training.
      server_learning_rate: Of the server's plain step; 1 takes the clients' mean.
    """

    rounds: tuple[int, ...]
    local: client_work.LocalSgd
    server_learning_rate: float = 1.0

    def build(self, num_features: int, num_actions: int) -> Callable[..., np.ndarray]:
        """Returns the oracle of linear rewards; build it once, since that compiles.

        Args:
          num_features: 1 + d.
          num_actions: K.

        Returns:
          A function of one run's samples: float [clients, samples, 1 + d] features, a 1 first; int and float
          [clients, samples] actions and rewards; and the seed of the mini-batches. It starts at zeros and returns
          float64 [len(rounds), 1 + d, actions].
        """
        model = models.mlp(num_features - 1, (), num_actions)
        train = self.local.build(model, losses.BanditLoss())
        optimizer = fed_avg.server_optimizer(options.ServerOptimizer("sgd", self.server_learning_rate))

        @tf.function(autograph=False)
        def step(state, weights, deltas):
            mean = tuple(tf.add_n(parts) / len(deltas) for parts in zip(*deltas, strict=True))
            return fed_avg.server_step(optimizer, state, weights, mean)

        def fit(features: np.ndarray, actions: np.ndarray, rewards: np.ndarray, seed: int) -> np.ndarray:
            weights = tuple(tf.zeros(shape) for shape in model.shapes.values())
            state = optimizer.initialize(model.specs)
            examples = [
                {
                    "features": tf.constant(features[client][:, 1:], tf.float32),
                    "action": tf.constant(actions[client], tf.int32),
                    "reward": tf.constant(rewards[client], tf.float32),
                }
                for client in range(len(features))
            ]
            found = []
            for round_num in range(1, self.rounds[-1] + 1):
                deltas = [
                    train(
                        weights, one, tf.constant(keys.tensorflow_key(seed, keys.Purpose.TRAINING, round_num, client))
                    ).delta
                    for client, one in enumerate(examples)
                ]
                state, weights, _ = step(state, weights, deltas)
                if round_num in self.rounds:
                    kernel, bias = (weight.numpy().astype(float) for weight in weights)
                    found.append(np.concatenate([bias[None], kernel]))
            return np.stack(found)

        return fit
