"""Evaluation of a phase's model on held-out examples: rewards of its greedy policy, overall and for each client."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bandits import metrics, personalization, process, references
from bandits.options import Phase
from data import clients, tasks
from data.action_sets import ActionSets
from optimization import fed_avg, models
from optimization.study import run_folder

_FEW_CLIENTS = 10  # The worst tenth of at most this many clients is a single client.
_MOST_COMPARED = 2000  # Maximum number of examples for comparing participating clients, or for adapting models.


class _Evaluated(NamedTuple):
    """Examples of some clients, for evaluation.

    Attributes:
      examples: Examples of all clients.
      names: Names of the clients with examples.
      sizes: Number of examples of each client, in the order of `names`.
    """

    examples: clients.Examples
    names: list[str]
    sizes: list[int]

    @classmethod
    def of(cls, population: clients.ClientData, indices: Sequence[int], most: int, seed: int) -> "_Evaluated":
        """Examples of randomly chosen clients: at most `most` examples in total, or every example if `most` is 0."""
        parts = clients.chosen(population, indices, most, seed)
        names = [population.client_ids[index] for index, part in parts if len(part.labels)]
        sizes = [len(part.labels) for _, part in parts if len(part.labels)]
        return cls(clients.joined([part for _, part in parts]), names, sizes)

    def sums(self, rewards: np.ndarray) -> np.ndarray:
        """Sum of each client's rewards, float64 [clients], from float [examples]."""
        return np.add.reduceat(rewards.astype(float), np.cumsum([0, *self.sizes[:-1]]))

    def means(self, rewards: np.ndarray) -> dict[str, list]:
        """Name, number of examples and mean reward of each client, given the rewards, float [examples]."""
        return {"clients": self.names, "examples": self.sizes, "rewards": (self.sums(rewards) / self.sizes).tolist()}


class Evaluation:
    """Evaluates the models of a phase.

    Attributes:
      client_rewards: Mean reward of each client in the latest evaluation.
      adapted_rewards: Rewards of each client before and after its adaptation in the latest evaluation.
      is_evaluated: Whether an evaluation has run.
    """

    def __init__(
        self,
        task: tasks.Task,
        phase: Phase,
        population: clients.ClientData,
        definition: process.BanditProcess,
        is_private: bool,
    ):
        """Stores the inputs of the evaluations.

        Args:
          task: The task.
          phase: The phase.
          population: Clients that train, with capped examples.
          definition: Definition of the rounds.
          is_private: Whether a mechanism protects the clients.
        """
        self._task, self._phase, self._clients, self._definition = task, phase, population, definition
        self._is_private = is_private
        self._adapted = None
        if isinstance(definition, personalization.PersonalizedProcess):
            self._adapted = personalization.AdaptedRewards(definition, phase.seed)
        self.client_rewards: dict[str, Any] = {}
        self.adapted_rewards: dict[str, Any] = {}
        self._earned = np.zeros(0)  # Rewards of the held-out examples in the latest evaluation.
        self.is_evaluated = False

    def evaluate(self, server: fed_avg.State) -> dict[str, float]:
        """Metrics of the trained model's greedy policy on held-out examples, and its fairness across clients.

        With personalization, adapted models are evaluated, too; with a local head, only these. Empty if clients train
        alone, because no held-out client has a model.
        """
        self.is_evaluated = True
        if self._phase.is_alone:
            return {}
        if self._phase.has_local_head:  # The server's last layer is untrained.
            return self._evaluate_adapted(server)
        held_out, compared = self._held_out, self._compared
        right, reward, each = self._greedy(server, held_out.examples)
        self._earned = each
        count = len(held_out.examples.labels)
        if compared is not held_out:
            _, _, each = self._greedy(server, compared.examples)
        is_apart = compared is held_out and self._take_no_part(compared.names)
        self.client_rewards = {"held_out": is_apart, **compared.means(each)}
        rewards = np.array(self.client_rewards["rewards"])
        # With few clients, the worst tenth is a single client, whose reward a private run must not show.
        is_hidden = not is_apart and self._is_private and len(rewards) <= _FEW_CLIENTS
        return {
            metrics.ACCURACY: np.nan if self._task.has_reward_labels else right / count,
            metrics.HELD_OUT_REWARD: reward / count,
            metrics.WORST_TENTH: np.nan if is_hidden else metrics.worst_tenth(rewards),
            metrics.JAIN_INDEX: metrics.jain_index(rewards),
        } | self._evaluate_adapted(server)

    def files(self) -> dict[str, Mapping[str, Any]]:
        """Contents of the files with rewards of single clients, by file name; a file without content is not written."""
        is_held_out = bool(self.client_rewards.get("held_out"))
        return {
            run_folder.CLIENT_REWARDS_FILE: self.client_rewards if is_held_out else {},
            run_folder.EVALUATED_CLIENTS_FILE: {} if is_held_out else self.client_rewards,
            run_folder.ADAPTED_FILE: self.adapted_rewards,
        }

    def compared_with_references(
        self, server: fed_avg.State, action: int, name: str
    ) -> tuple[list[str], dict[str, float]]:
        """Compares the latest evaluation with the uniform policy and with the best fixed action.

        Args:
          server: Final state of the server.
          action: Index of the best fixed action. For sets of actions, neither `action` nor `name` is used.
          name: Name of that action.

        Returns:
          The comparison as lines of text, and as content of `bounds.json` for `references.notice`.
        """
        held_out = self._held_out
        if isinstance(held_out.examples.features, ActionSets):
            ranking = references.set_values(self._task, self._phase.population)
            uniform, fixed = references.of_sets(self._task, held_out.examples, ranking).values()
            by_reference = {references.UNIFORM: uniform, "the best fixed available action": fixed}
        else:
            matrix = process.mixture(self._definition.reward_matrix, self._environment(server))
            rewards = np.asarray(process.reward_vectors(held_out.examples.labels, matrix))
            by_reference = {
                references.UNIFORM: rewards.mean(axis=1, dtype=float),
                f"{references.FIXED}, {name}": rewards[:, action],
            }
        sums = {reference: held_out.sums(each) for reference, each in by_reference.items()}
        lines, is_above = references.compared(held_out.sums(self._earned), sums, np.array(held_out.sizes))
        return lines, {"reward": float(self._earned.mean()), **dict(zip(references.KEYS, is_above, strict=True))}

    def _evaluate_adapted(self, server: fed_avg.State) -> dict[str, float]:
        """Metrics of the policy with adapted models; empty without personalization."""
        if self._adapted is None:
            return {}
        held_out, seed = self._task.held_out, self._phase.seed
        indices, population = range(len(held_out)), held_out
        if is_pooled := len(held_out) < 2:
            indices, population = self._phase.population, self._clients
        compared = clients.chosen(population, indices, _MOST_COMPARED, seed)
        names = [population.client_ids[index] for index, _ in compared]
        examples = [part._replace(features=self._task.normalize(part.features)) for _, part in compared]
        period = int(server.round_num) // self._phase.deploy_every
        scheduled = self._phase.scheduled_value(self._task.num_actions, period) or 0.0
        environment = float(self._environment(server))
        after, rewards = self._adapted.evaluate(server.weights, names, examples, scheduled, environment)
        self.adapted_rewards = {"held_out": not is_pooled and self._take_no_part(names), **rewards}
        return {metrics.PERSONALIZED_REWARD: after}

    def _take_no_part(self, names: Sequence[str]) -> bool:
        """Whether none of these clients can train. In some tasks, clients who train also have held-out examples."""
        return set(names).isdisjoint(self._task.clients.client_ids)

    def _environment(self, server: fed_avg.State) -> tf.Tensor:
        return tf.constant(self._phase.drift.at(max(1, int(server.round_num)), None), tf.float32)

    def _greedy(self, server: fed_avg.State, examples: clients.Examples) -> tuple[int, float, np.ndarray]:
        """Number of correct actions, sum of rewards, and rewards [examples] of the trained model's greedy policy."""
        right, reward, each = 0, 0.0, []
        environment = self._environment(server)
        for batch in self._task.batches(examples, self._phase.eval_batch_size):
            counts = self._greedy_sums(tuple(server.weights), environment, *batch)
            right += int(counts[0])
            reward += float(counts[1])
            each.append(counts[2].numpy())
        return right, reward, np.concatenate(each)

    @functools.cached_property
    def _held_out(self) -> _Evaluated:
        population = self._task.held_out
        most = self._phase.max_validation_samples
        return _Evaluated.of(population, range(len(population)), most, self._phase.seed)

    @functools.cached_property
    def _compared(self) -> _Evaluated:
        """The held-out clients or, if held-out examples do not belong to clients, the participating clients."""
        if len(self._task.held_out) > 1:
            return self._held_out
        return _Evaluated.of(self._clients, self._phase.population, _MOST_COMPARED, self._phase.seed)

    @functools.cached_property
    def _greedy_sums(self):
        """Function that evaluates the greedy policy.

        It maps (weights, environment, features, labels) to the number of correct actions, the sum of rewards, and the
        reward of each example.
        """
        definition, multi_label = self._definition, self._task.multi_label
        specs = [definition.model.specs, tf.TensorSpec(()), definition.feature_spec, definition.label_spec]

        @tf.function(input_signature=specs, autograph=False)  # Autograph takes half a second and changes nothing.
        def sums(weights, environment, features, labels):
            contexts = models.dense(features)
            outputs = definition.model.forward(weights, contexts)
            if definition.model.heads > 1:
                outputs = process.predicted_rewards(definition.model, definition.loss, outputs)
            action = tf.argmax(outputs, axis=1, output_type=tf.int32)
            rewards = definition.rewards(labels, contexts, environment)
            is_right = tf.gather(labels, action, axis=1, batch_dims=1) > 0 if multi_label else tf.equal(labels, action)
            earned = tf.gather(rewards, action, axis=1, batch_dims=1)
            return tf.reduce_sum(tf.cast(is_right, tf.int32)), tf.reduce_sum(earned), earned

        return sums
