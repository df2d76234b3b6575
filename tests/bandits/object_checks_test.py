"""Tests of bandits.object_checks: what a user's policy and metrics must be like."""

import pytest
import tensorflow as tf

from bandits import object_checks, policies
from data.errors import UsageError
from data.tasks import options, registry


class Counts(policies.Policy):
    """Counts how often each action was chosen."""

    at_deployment = policies.RESTART

    def statistics(self, action, reward, representation):
        del reward, representation
        return {"counts": tf.reduce_sum(tf.one_hot(action, 10), axis=0)}

    def probabilities(self, predicted_rewards, statistics, round_num, interactions):
        del round_num, interactions
        return tf.nn.softmax(predicted_rewards - statistics["counts"])


class Undeclared(Counts):
    at_deployment = ""


class Accumulating(Counts):
    at_deployment = policies.ACCUMULATE


class Mean(Counts):
    def statistics(self, reward):
        return {"counts": tf.reduce_mean(reward)}


class Reserved(Counts):
    def statistics(self, reward):
        return {"round_num": tf.reduce_sum(reward)}


class InvalidWithStatistics(Counts):
    def probabilities(self, predicted_rewards, statistics):
        return tf.nn.softmax(predicted_rewards) * (1 + tf.reduce_sum(statistics["counts"]))


def sampled(predicted_rewards, key):
    return tf.one_hot(tf.random.stateless_categorical(predicted_rewards, 1, key)[:, 0], 10)


def by_contexts(predicted_rewards, contexts, representation, head_rewards):
    return tf.nn.softmax(predicted_rewards + contexts[:, :1] + representation[:, :1] + head_rewards[:, 0])


@pytest.fixture(scope="module")
def digits():
    return registry.load(options.TaskOptions(task_type="digits", model="mlp", hidden=(8,)))


@pytest.mark.parametrize(
    "policy",
    [
        Counts(),
        policies.of(by_contexts),
        policies.from_samples(lambda key, predicted_rewards: sampled(predicted_rewards, key), floor=0.01),
    ],
)
def test_policies_that_are_checked(policy, digits):
    object_checks.check_policy(policy, digits, heads=1)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (policies.of(lambda predicted_rewards, key: predicted_rewards), "policy <lambda> returned the invalid row"),
        (policies.of(lambda predicted_rewards, contexts: contexts["ids"]), "policy <lambda> fails"),
        (policies.of(sampled), "policy sampled samples actions with its key"),
        (Undeclared(), "policy Undeclared: its statistics need"),
        (Accumulating(), "policy Accumulating: at_deployment must be restart"),
        (Mean(), "'counts' is not a float32 sum"),
        (Reserved(), "reserved name"),
        (InvalidWithStatistics(), "policy InvalidWithStatistics returned the invalid row"),
    ],
)
def test_policies_that_are_refused(policy, message, digits):
    with pytest.raises(UsageError, match=message):
        object_checks.check_policy(policy, digits, heads=1)
