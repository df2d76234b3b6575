"""Generated sets of actions whose rewards are linear in their features, plus noise.

The default follows He, Wang, Min and Gu, "A Simple and Provably Efficient Algorithm for Asynchronous Federated
Contextual Linear Bandits", 2022, section 6: each row offers 25 new actions with features uniform in [-1, 1]^d / sqrt(d)
for d = 15, and the expected reward is their inner product with theta = (1, ..., 1) / sqrt(d). The noise is normal with
standard deviation 0.3. With contexts c, uniform in [-1, 1]^m, the expected reward is (theta + W c)' x, where the
entries of W are normal with variance 1 / (d m).
"""

import functools
import hashlib

import numpy as np

from data import clients, keys, reward_bounds, tasks
from data.action_sets import ActionSets
from data.errors import UsageError
from data.tasks.options import TaskOptions

NOISE = 0.3  # Standard deviation of a reward.
LARGEST_SET = 25
_HELD_OUT_EXAMPLES = 2000
_KEPT = 64


class LinearClients(clients.ClientData):
    """Clients whose examples are generated when they are loaded; memory holds those of the last 64 clients."""

    def __init__(self, options: TaskOptions, client_ids: list[str], sizes: list[int], first: int = 0):
        """Stores the options, and samples W.

        Args:
          options: The task's options.
          client_ids: Names of the clients.
          sizes: Number of examples of each client.
          first: Number of clients in earlier parts of the population.
        """
        self.client_ids, self._options, self._sizes, self._first = client_ids, options, sizes, first
        self._largest = options.largest_set or LARGEST_SET
        self._generated = functools.lru_cache(_KEPT)(self._generate)
        self.checksum = hashlib.sha256(repr((options, client_ids, sizes)).encode()).hexdigest()[:16]
        features, contexts = options.action_features, options.context_features
        draw = keys.generator(options.partition_seed, keys.Purpose.PARTITION)
        self._products = draw.normal(0, 1 / np.sqrt(features * max(contexts, 1)), (contexts, features))

    def load(self, index: int) -> clients.Examples:
        return self._generated(index)

    def _generate(self, index: int) -> clients.Examples:
        options, rows = self._options, self._sizes[index]
        draw = keys.generator(options.partition_seed, keys.Purpose.ARMS, self._first + index)
        scale, largest = np.float32(1 / np.sqrt(options.action_features)), self._largest
        contexts = draw.uniform(-1, 1, (rows, options.context_features)).astype(np.float32)
        actions = draw.random((rows, largest, options.action_features), np.float32)
        actions *= 2 * scale
        actions -= scale
        weights = (scale + contexts @ self._products).astype(np.float32)
        rewards = np.matmul(actions, weights[..., np.newaxis])[..., 0]
        rewards += np.float32(NOISE) * draw.standard_normal((rows, largest), np.float32)
        entries = np.broadcast_to(np.arange(largest, dtype=np.int32), rewards.shape)
        if options.smallest_set:
            sizes = draw.integers(options.smallest_set, largest, (rows, 1), endpoint=True)
            entries = np.where(entries < sizes, entries, np.int32(-1))
            actions[entries < 0] = 0
            rewards[entries < 0] = 0
        return clients.Examples(ActionSets(contexts, entries, actions), rewards)


def load(options: TaskOptions) -> tasks.Task:
    """Opens the task.

    Raises:
      UsageError: If the smallest set is larger than the largest one, or the model does not score actions.
    """
    largest = options.largest_set or LARGEST_SET
    if (options.smallest_set or 1) > largest:
        raise UsageError(f"--smallest_set={options.smallest_set} is above --largest_set={largest}.")
    names = [f"client_{client:03d}" for client in range(options.partition_clients)]
    sizes = [options.partition_examples] * len(names)
    shape = ((options.context_features,), "float32")
    return tasks.Task(
        clients=LinearClients(options, names, sizes),
        held_out=LinearClients(options, ["held_out"], [_HELD_OUT_EXAMPLES], len(names)),
        num_actions=largest,
        rewards={"exact": tasks.exact(largest)},
        multi_label=True,
        has_reward_labels=True,
        label_range=(-2.0, 2.0),
        reward_bounds=reward_bounds.parse(options.reward_bounds) if options.reward_bounds else None,
        **tasks.sets_model(options, shape, options.context_features, options.action_features),
    )
