"""The input of a client in a federated bandit, and how the client acts (Agarwal et al. 2023, Algorithms 1 and 2).

`optimization.fed_avg` implements the whole round, Algorithm 4. In Algorithm 1, a client keeps its cache, the log of its
actions, for a whole deployment period. The cache is not stored: a client that gets the same cache key in all rounds of
a period samples the same cache each time (see `ClientKeys`).
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits import losses, policies
from data import clients
from data.action_sets import ActionSets
from data.objects import UserObject
from data.reward_bounds import RewardBounds
from optimization import fed_avg, models

_POLICY = -3  # Folded into a client's key for actions, to get the key for what a policy samples.


class ClientKeys(NamedTuple):
    """A client's random keys in one round, int32 [2] each. Equal keys give equal samples.

    Attributes:
      cache: Key for sampling actions. New every round in Algorithm 4; the same for a deployment period in Algorithm 1.
      training: Key for sampling mini-batches.
    """

    cache: np.ndarray
    training: np.ndarray


class ClientInput(NamedTuple):
    """The input of one client to a round.

    Attributes:
      features: Contexts, [examples, ...], bags of words, or sets of actions.
      labels: int32 [examples] or float32 [examples, labels]. The environment uses them; the policy never sees them.
      keys: The client's keys.
      delay: int32, staleness of the client's model, in deployments.
      position: int32, the client's position in the cohort, from 0.
      scheduled: float32, value of the policy's scheduled parameter in the deployment that the client acts with.
      environment_position: float32, the client's position among the environments when it acted; see `mixture`.
      observed: bool [examples], whether each reward is observed; empty without delays.
      half: bool [examples], whether each example is in half B of the client's examples; empty without halves.
      counted: bool [examples], whether the policy's statistics count each example's interaction in this round; empty
        for a policy without sums.
      policy_state: What the policy depends on: int32 `round_num`, the deployed float32 sum `interactions` and the
        deployed statistics, by name. Empty if the policy depends on none of them. Statistics with noise come with the
        noise's standard deviation, float32 `noise`, instead of `interactions`.
    """

    features: clients.Features
    labels: np.ndarray
    keys: ClientKeys
    delay: np.int32 = np.int32(0)
    position: np.int32 = np.int32(0)
    scheduled: np.float32 = np.float32(0)
    environment_position: np.float32 = np.float32(0)
    observed: np.ndarray = np.zeros(0, bool)
    half: np.ndarray = np.zeros(0, bool)
    counted: np.ndarray = np.zeros(0, bool)
    policy_state: Any = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class BanditProcess(fed_avg.Process):
    """Rounds in which each client acts with the deployed model and trains the current one on the resulting log.

    Attributes:
      loss: The loss, which also defines how the model's outputs predict rewards.
      policy: Exploration policy of the deployed model.
      reward_matrix: float32 [labels, actions], see `reward_vectors`, or [environments, labels, actions].
      feedback: Which log a client trains on: the deployed policy's own actions (`acting`); the recorded log in the last
        columns of the labels (`logged`); or the policy's actions wherever they match the recorded ones (`replay`).
      scheduled: Name of the policy's scheduled parameter, whose value is part of a client's input; empty if all
        parameters are constant.
      is_delayed: Whether a client's log is limited to rewards that are `observed`.
      reward_bounds: Bounds that map rewards to [0, 1] for the loss; None to use the rewards as they are.
      clips_rewards: Whether mapped rewards are clipped. Doubly robust rewards, which can exceed any bounds, are not.
      halves: Number of positions to which rewards of halves A and B are added: 1 for sums over the cohort, the largest
        possible cohort size for sums per client, 0 for no sums.
      own_metrics: The user's metrics.
    """

    loss: losses.Loss
    policy: policies.Policy
    reward_matrix: np.ndarray
    feedback: str = "acting"
    scheduled: str = ""
    is_delayed: bool = False
    halves: int = 0
    reward_bounds: RewardBounds | None = None
    clips_rewards: bool = True
    own_metrics: tuple[UserObject, ...] = ()

    @property
    def client_type(self) -> tff.Type:
        """TFF type of a `ClientInput`."""
        key = tff.TensorType(np.int32, (2,))
        state: Any = {policies.ROUND: tf.TensorSpec((), tf.int32), **self.sums_spec} if self.policy.has_state else ()
        if self.joint_clip_norm is not None:
            state[policies.NOISE] = tf.TensorSpec(())
        return tff.StructWithPythonType(
            [
                ("features", tff.types.tensorflow_to_type(self.feature_spec)),
                ("labels", tff.types.tensorflow_to_type(self.label_spec)),
                ("keys", tff.StructWithPythonType([("cache", key), ("training", key)], ClientKeys)),
                ("delay", tff.TensorType(np.int32)),
                ("position", tff.TensorType(np.int32)),
                ("scheduled", tff.TensorType(np.float32)),
                ("environment_position", tff.TensorType(np.float32)),
                ("observed", tff.TensorType(np.bool_, (None if self.is_delayed else 0,))),
                ("half", tff.TensorType(np.bool_, (None if self.halves else 0,))),
                ("counted", tff.TensorType(np.bool_, (None if self.policy.sums else 0,))),
                ("policy_state", tff.types.tensorflow_to_type(state)),
            ],
            ClientInput,
        )

    @functools.cached_property
    def sums_spec(self) -> dict[str, tf.TensorSpec]:
        """Shapes and dtypes of the results of `policy_sums`, by name; empty for a policy without sums."""
        if not self.policy.sums:
            return {}
        specs = [self.model.specs, self.feature_spec, tf.TensorSpec((None, 3))]

        @tf.function(input_signature=specs, autograph=False)
        def sums(weights, features, labels):
            cache = {**logged(labels), "counted": labels[:, -1] > 0}
            return self.policy_sums(weights, models.dense(features), cache)

        outputs = sums.get_concrete_function().structured_outputs
        return {name: tf.TensorSpec(each.shape, each.dtype) for name, each in outputs.items()}

    def policy_sums(self, weights, features, cache: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Number of a client's interactions that are `counted`, and their statistics; see `Policy.statistics`.

        If the statistics get noise, the number is left out, because it would get none.
        """
        log = {**cache, "contexts": features}
        if "representation" in self.policy.reads:
            log["representation"] = self.model.body(weights, features)
        if "predicted_rewards" in self.policy.reads:
            log["predicted_rewards"] = predicted_rewards(self.model, self.loss, self.model.forward(weights, features))
        if "target" in self.policy.reads:
            log["target"] = self.mapped({"reward": cache["reward"]})["reward"]
        rows = masked({name: log[name] for name in self.policy.reads}, cache["counted"])
        count = {policies.COUNT: tf.reduce_sum(tf.cast(cache["counted"], tf.float32))}
        return {**(count if self.joint_clip_norm is None else {}), **self.policy.statistics(**rows)}

    def log(self, deployed: tuple, client: ClientInput) -> fed_avg.Log:
        cache, examples = self.act(deployed, client)
        count = tf.shape(cache["action"])[0]
        sums = {"reward_sum": tf.reduce_sum(cache["reward"]), "propensity_sum": tf.reduce_sum(cache["propensity"])}
        if "usable" in cache:
            sums["unusable_rows"] = tf.math.count_nonzero(tf.logical_not(cache["usable"]), dtype=tf.int32)
        if self.halves:
            sums |= self.half_sums(cache, client.position)
        if self.own_metrics:
            sums["own"] = metric_sums(self.own_metrics, cache, examples["features"])
        trained = self.only_chosen(examples)
        log = fed_avg.Log(trained, count, tf.cast(count, tf.float32), client.keys.training, sums=sums)
        if not self.policy.sums:
            return log
        return log._replace(statistics=self.policy_sums(deployed[0], examples["features"], cache))

    def only_chosen(self, examples: Mapping[str, Any]) -> Mapping[str, Any]:
        """Reduces sets of actions that have features to the chosen action, if the loss depends on no other action."""
        sets = examples["features"]
        has_features = isinstance(sets, ActionSets) and sets.actions.shape[-1]
        if not has_features or not self.loss.needs_only_chosen_output:
            return examples
        action = examples["action"][:, tf.newaxis]
        entries, actions = (tf.gather(part, action, axis=1, batch_dims=1) for part in sets[1:])
        first = tf.zeros_like(examples["action"])
        return {**examples, "features": ActionSets(sets.contexts, entries, actions), "action": first}

    def half_sums(self, cache: Mapping[str, tf.Tensor], position: tf.Tensor) -> dict[str, tf.Tensor]:
        """Expected rewards and numbers of examples of a client's halves, [2, positions] each; 0 at other positions."""
        place = tf.minimum(position, self.halves - 1)
        sums: dict[str, list] = {"half_rewards": [], "half_examples": []}
        for mask in (tf.logical_not(cache["half"]), cache["half"]):
            expected = tf.boolean_mask(cache["expected"], mask)
            for name, value in zip(sums, (tf.reduce_sum(expected), tf.size(expected)), strict=True):
                sums[name].append(fed_avg.at_position(value, place, self.halves))
        return {name: tf.stack(parts) for name, parts in sums.items()}

    def act(self, deployed, client: ClientInput):
        """Acts with the deployed model (Algorithm 2), or takes the recorded log; returns log and training examples."""
        if self.feedback == "logged":
            cache, features = self.weighted(logged(client.labels), client.keys.cache), models.dense(client.features)
            if self.policy.sums:
                cache["counted"] = client.counted
            if self.is_delayed:
                cache, features = masked((cache, features), client.observed)
            return cache, {"features": features, **self.mapped(cache)}
        weights = deployed[0]
        if self.max_delay:
            weights = tf.switch_case(
                tf.convert_to_tensor(client.delay), [lambda model=model: model for model in deployed]
            )
        features = models.dense(client.features)
        rewards = self.rewards(client.labels, features, client.environment_position)
        policy = self.policy
        if self.scheduled:  # All policies with parameters are dataclasses.
            policy = dataclasses.replace(policy, **{self.scheduled: client.scheduled})  # type: ignore[type-var]
        key = client.keys.cache
        acts_by, usable = self.acts_by(policy, weights, features, rewards, client)
        cache = self.weighted({**bandit_inference(acts_by, rewards, key), "usable": usable}, key)
        if self.halves:
            cache |= {"expected": tf.reduce_sum(acts_by * rewards, axis=1), "half": client.half}
        if self.policy.sums:
            cache["counted"] = client.counted
        if self.feedback == "replay":
            cache, features = replay(cache, client.labels, features)
        if self.is_delayed:
            cache, features, rewards = masked((cache, features, rewards), client.observed)
        return cache, {"features": features, **self.trained_on(cache, rewards, features)}

    def rewards(self, labels: tf.Tensor, features: Any, environment_position: tf.Tensor) -> tf.Tensor:
        """Returns the rewards of all actions of a client's examples, float32 [examples, actions].

        Args:
          labels: See `ClientInput`.
          features: The contexts, in the form that the model takes.
          environment_position: See `mixture`.
        """
        if isinstance(features, ActionSets) and features.actions.shape[-1]:  # Labels are the rewards of slots.
            return labels[:, : tf.shape(features.entries)[1]]
        return reward_vectors(labels, mixture(self.reward_matrix, environment_position))

    def acts_by(
        self,
        policy: policies.Policy,
        weights: Sequence[tf.Tensor],
        features: tf.Tensor | Mapping[str, tf.Tensor],
        rewards: tf.Tensor,
        client: ClientInput,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the probabilities of a client's actions, and whether predictions are finite; see `probabilities`.

        Args:
          policy: Exploration policy.
          weights: The deployed model.
          features: The contexts, in the form that the model takes.
          rewards: float32 [examples, actions]. Only subclasses use them.
          client: The client's input.
        """
        del rewards
        return probabilities(policy, self.model, weights, self.loss, features, client.keys.cache, client.policy_state)

    def trained_on(self, cache: Mapping[str, tf.Tensor], rewards: tf.Tensor, features: Any) -> dict[str, tf.Tensor]:
        """Returns the parts of a client's log that the loss uses in addition to the features."""
        if self.loss.full_feedback:
            log = {losses.FULL_FEEDBACK: rewards}
        else:
            log = {name: cache[name] for name in ("action", "reward", "propensity")}
        if isinstance(features, ActionSets) and (self.loss.full_feedback or not self.loss.needs_only_chosen_output):
            log[losses.OFFERED] = features.entries >= 0
        if self.model.heads > 1:
            log[losses.BOOTSTRAP] = cache[losses.BOOTSTRAP]
        return self.mapped(log)

    def mapped(self, log: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Maps the rewards of a log for the loss; see `reward_bounds` and `clips_rewards`."""
        if (bounds := self.reward_bounds) is None:
            return dict(log)
        name = losses.FULL_FEEDBACK if losses.FULL_FEEDBACK in log else "reward"
        rewards = (log[name] - bounds.low) / (bounds.high - bounds.low)
        return {**log, name: tf.clip_by_value(rewards, 0.0, 1.0) if self.clips_rewards else rewards}

    def weighted(self, cache: dict[str, tf.Tensor], key: tf.Tensor) -> dict[str, tf.Tensor]:
        """Adds bootstrap weights for each example and head to the log, if the model has several heads."""
        if self.model.heads == 1:
            return cache
        return {**cache, losses.BOOTSTRAP: losses.bootstrap(key, tf.size(cache["action"]), self.model.heads)}


def metric_sums(given: Sequence[UserObject], log: Mapping[str, tf.Tensor], features: Any) -> tf.Tensor:
    """Returns the values of the user's metrics for a client.

    Args:
      given: The metrics.
      log: Columns of the client's log. Metrics get `action` (int32), `reward` and `propensity` (float32), each
        [interactions].
      features: The contexts of the interactions, in the form that the model takes. Metrics get them, too.

    Returns:
      float32 [metrics, 2], numerators and denominators. The denominator of a plain sum is NaN.
    """
    shown = {name: log[name] for name in ("action", "reward", "propensity")} | {"features": features}
    values = [metric.value(dict(shown)) for metric in given]
    pairs = [value if isinstance(value, tuple) else (value, np.nan) for value in values]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("a metric must return a number or a pair of numbers")
    return tf.stack([[tf.ensure_shape(tf.cast(part, tf.float32), ()) for part in pair] for pair in pairs])


def mixture(matrices: np.ndarray, environment_position: tf.Tensor) -> np.ndarray | tf.Tensor:
    """Returns the reward matrix of a mixture of environments (`bandits.environments`).

    Args:
      matrices: float32 [environments, labels, actions]. A single matrix, [labels, actions], is returned unchanged.
      environment_position: float32. For example, 1.25 means three quarters of the second environment and one quarter of
        the third.
    """
    if matrices.ndim == 2:
        return matrices
    low = tf.floor(environment_position)
    share, place = environment_position - low, tf.cast(low, tf.int32)
    of_environments = tf.constant(matrices)
    after = tf.minimum(place + 1, len(matrices) - 1)
    return (1 - share) * of_environments[place] + share * of_environments[after]


def reward_vectors(labels: tf.Tensor, reward_matrix: np.ndarray | tf.Tensor) -> tf.Tensor:
    """Returns the rewards of all actions.

    Args:
      labels: int32 [batch] label indices, or float32 [batch, labels] with several labels per example.
      reward_matrix: float32 [labels, actions], the reward of an action given one label.

    Returns:
      float32 [batch, actions]. If an example has several labels, their rewards are summed.
    """
    labels = tf.convert_to_tensor(labels)
    if labels.dtype.is_integer:
        return tf.gather(tf.convert_to_tensor(reward_matrix), labels)
    return labels @ tf.convert_to_tensor(reward_matrix)


def predicted_rewards(model: models.Model, loss: losses.Loss, outputs: tf.Tensor) -> tf.Tensor:
    """Converts model outputs to predicted rewards, float32 [batch, actions], averaged over the heads."""
    predicted = loss.predicted_rewards(outputs)
    return tf.reduce_mean(predicted, axis=1) if model.heads > 1 else predicted


def probabilities(
    policy: policies.Policy,
    model: models.Model,
    weights: Sequence[tf.Tensor],
    loss: losses.Loss,
    contexts: tf.Tensor | Mapping[str, tf.Tensor] | ActionSets,
    key: tf.Tensor,
    state: Any = (),
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a policy's probabilities, float32 [batch, actions], and which rows' predictions are finite, bool [batch].

    All other rows are uniform; see `policies.Policy.__call__`.

    Args:
      policy: Exploration policy.
      model: The model whose predictions the policy uses.
      weights: Weights of the model.
      loss: The loss that the model is trained with, which defines how outputs predict rewards.
      contexts: The contexts, in the form that the model takes.
      key: int32 [2], key for sampling the actions.
      state: See `ClientInput.policy_state`.
    """
    outputs = model.forward(weights, contexts)
    predicted, offered = predicted_rewards(model, loss, outputs), None
    if isinstance(contexts, ActionSets):
        offered = contexts.entries >= 0
        predicted = tf.where(offered, predicted, -np.inf)

    def head_rewards():
        each = tf.reshape(loss.predicted_rewards(outputs), [tf.shape(outputs)[0], model.heads, outputs.shape[-1]])
        return each if offered is None else tf.where(offered[:, tf.newaxis], each, -np.inf)

    made = {
        "head_rewards": head_rewards,
        "representation": lambda: model.body(weights, contexts),
        "contexts": lambda: contexts,
        "key": lambda: tf.random.experimental.stateless_fold_in(key, _POLICY),
        policies.ROUND: lambda: state[policies.ROUND],
        policies.COUNT: lambda: state[policies.COUNT],
        "statistics": lambda: {name: state[name] for name in state if name not in (policies.ROUND, policies.COUNT)},
    }
    rows = policy(predicted, offered, **{name: made[name]() for name in policy.asks})
    return rows, policies.is_usable(predicted, offered)


def bandit_inference(probabilities: tf.Tensor, rewards: tf.Tensor, key: tf.Tensor) -> dict[str, tf.Tensor]:
    """Samples one action for each context.

    Args:
      probabilities: float32 [batch, actions], the policy's probabilities.
      rewards: float32 [batch, actions]. Only the chosen action's reward is observed.
      key: int32 [2], key for sampling.

    Returns:
      `action` int32, `reward` and `propensity` float32, each [batch].
    """
    action = _draw(probabilities, key)
    return {
        "action": action,
        "reward": tf.gather(rewards, action, axis=1, batch_dims=1),
        "propensity": tf.gather(probabilities, action, axis=1, batch_dims=1),
    }


def _draw(probabilities: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """Samples one action per row, int32 [batch], from probabilities float32 [batch, actions].

    Up to rounding, the samples equal those of `tf.random.stateless_categorical` in one thread. With several threads,
    that function splits the rows among them, so its samples depend on the number of threads.
    """
    upper = tf.cumsum(tf.cast(probabilities, tf.float64), axis=1)
    threshold = tf.random.stateless_uniform([tf.shape(upper)[0], 1], key, dtype=tf.float64) * upper[:, -1:]
    return tf.argmax(upper > threshold, axis=1, output_type=tf.int32)


def logged(labels: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the log in the last three columns of the labels, in the form of `bandit_inference`'s result."""
    return {"action": tf.cast(labels[:, -3], tf.int32), "reward": labels[:, -2], "propensity": labels[:, -1]}


def replay(
    acted: Mapping[str, tf.Tensor], labels: tf.Tensor, features: tf.Tensor | Mapping[str, tf.Tensor]
) -> tuple[dict[str, tf.Tensor], tf.Tensor | Mapping[str, tf.Tensor]]:
    """Keeps the rows for which the policy chooses the logged action (Li, Chu, Langford and Wang 2011, Algorithm 2).

    Args:
      acted: Result of `bandit_inference` for all rows.
      labels: float32 [batch, columns]. The last three columns are the log.
      features: Contexts of the rows, in the form that models take.

    Returns:
      The log of these rows (action, logged reward, and the policy's own propensity), and their features.
    """
    was = logged(labels)
    return masked(({**acted, "reward": was["reward"]}, features), tf.equal(acted["action"], was["action"]))


def masked(rows: Any, mask: tf.Tensor) -> Any:
    """Selects rows of every tensor, [batch, ...], of a structure by a mask, bool [batch]."""
    return tf.nest.map_structure(lambda part: tf.boolean_mask(part, mask), rows)
