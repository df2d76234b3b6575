"""Tests of bandits.object_flags: objects of the user in place of settings."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import bandits
from bandits import federation_flags, object_flags, policies, run_federated
from data.errors import UsageError
from data.reward_bounds import RewardBounds
from optimization import client_work
from optimization.study import frame
from tests.bandits import whole_runs


@dataclasses.dataclass(frozen=True)
class Tempered(policies.Policy):
    temperature: float = 0.5

    def probabilities(self, predicted_rewards):
        return tf.nn.softmax(predicted_rewards / self.temperature)


def three_actions(predicted_rewards):
    return tf.nn.softmax(predicted_rewards[:, :3])


def rare(log):
    return tf.reduce_sum(tf.cast(log["propensity"] < 0.1, tf.int32)), tf.size(log["action"])


def mean_reward(log):
    return tf.reduce_mean(log["reward"])


def rewards_of_all(log):
    return log["reward"]


@dataclasses.dataclass(frozen=True)
class Above:
    limit: float
    about = "Propensities above a limit"
    better = "down"
    shown = False

    @property
    def name(self):
        return f"above_{self.limit}"

    def __call__(self, log):
        return tf.reduce_sum(tf.cast(log["propensity"] > self.limit, tf.float32))


def _opened(given, **flags):
    """Settings, options and task of a run with the user's objects."""
    study = run_federated.STUDY
    declared = frame.flag_set(study).declared
    own = {name: declared[name].of_objects(value, study.recorded_object) for name, value in given.items()}
    words = [f"--{name}={value}" for name, value in flags.items()]
    (settings,) = frame.plan(study, whole_runs.parse(*words).with_user_values(**own))
    options = study.options(settings)
    return settings, options, study.open(options)


def test_a_policy_takes_the_place_of_the_strategys():
    settings, options, _ = _opened({"policy": Tempered(0.25)})
    predicted = np.array([[0.5, 0.0, 0.25]], np.float32)
    expected = np.exp(predicted / 0.25) / np.exp(predicted / 0.25).sum()
    np.testing.assert_allclose(options.policy.build()(predicted), expected, rtol=1e-6)
    assert settings.experiment_name == "digits_scratch_Tempered"
    assert settings.policy.startswith(f"{__name__}:Tempered(temperature=0.25) ")
    assert object_flags.policy(str(settings.policy)).build() == Tempered(0.25)


def test_a_function_is_a_policy_and_may_ask_for_more():
    def first(predicted_rewards, key):
        del key
        return tf.one_hot(tf.zeros(tf.shape(predicted_rewards)[0], tf.int32), 10)

    settings, options, _ = _opened({"policy": first})
    assert settings.experiment_name == "digits_scratch_first"
    policy = options.policy.build()
    assert policy.asks == ("key",)
    np.testing.assert_array_equal(policy(np.zeros((2, 10), np.float32), key=[0, 1]), np.eye(10)[[0, 0]])


def test_rewards_are_a_matrix_of_labels_and_actions():
    *_, task = _opened({"rewards": lambda label, action: 1.0 if label == action else 0.25})
    np.testing.assert_array_equal(task.rewards["exact"], np.where(np.eye(10), 1, 0.25))
    assert list(task.rewards) == ["exact"]
    assert task.reward_bounds is None
    *_, task = _opened({"rewards": lambda label, action: 50 * (label == action) - 10})
    assert (task.reward_bounds, task.has_learned_bounds) == (RewardBounds(-10, 40), False)


def test_rewards_of_a_table_have_its_names():
    table = {"data_file": "data/examples/sklearn_wine.csv", "client_column": "cellar", "label_column": "cultivar"}
    seen = set()
    *_, task = _opened(
        {"rewards": lambda label, action: seen.add((label, action)) or 0.5}, task_type="tabular", **table
    )
    assert seen == {(label, action) for label in task.action_names for action in task.action_names}


def test_metrics_are_columns_with_the_attributes_of_their_objects():
    settings, options, _ = _opened({"metrics": [rare, Above(0.5), Above(0.75)]})
    first, second, third = object_flags.metric_columns(options.own_metrics)
    assert [first, second, third] == ["own/rare", "own/above_0.5", "own/above_0.75"]
    assert (first.about, first.better, first.in_summary) == ("rare", None, True)
    assert (second.about, second.better, second.in_summary) == ("Propensities above a limit", "down", False)
    assert settings.experiment_name == "digits_scratch_softmax"
    assert json.loads(json.dumps(settings.metrics))[1].startswith(f"{__name__}:Above(limit=0.5) ")


@pytest.mark.parametrize(
    ("given", "flags", "message"),
    [
        ({"policy": Tempered}, {}, "policy must be an object or a function"),
        ({"policy": Tempered()}, {"bandits_type": "greedy"}, "--bandits_type=greedy"),
        ({"policy": Tempered()}, {"bandits_temperature": 1}, "--bandits_temperature"),
        ({"policy": three_actions}, {}, r"returned float32 \[16, 3\]"),
        ({"rewards": lambda label, action: "high"}, {}, "rewards must give a number"),
        ({"rewards": lambda label, action: float("nan")}, {}, "must be finite, but the one for label"),
        ({"model": 3}, {}, "Keras model, not a int"),
        ({"metrics": [3]}, {}, "metrics must be an object or a function"),
        ({"metrics": [lambda log: 1]}, {}, "metrics need distinct names .*<lambda>"),
        ({"metrics": [rare, rare]}, {}, "metrics need distinct names .*rare"),
        ({"metrics": [mean_reward]}, {}, "mean_reward returns no sums for 0 .*: ValueError: the value is not finite"),
        ({"metrics": [rewards_of_all]}, {}, "rewards_of_all returns no sums for [1-9].* interactions"),
    ],
)
def test_what_does_not_fit_is_refused(given, flags, message):
    with pytest.raises(UsageError, match=message):
        _opened(given, **flags)


@pytest.mark.parametrize("flags", [{"personalization": "local_head"}, {"personalization_layers": "last"}])
def test_a_keras_model_has_no_last_layer_to_train_alone(flags):
    model = tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(64,))])
    *_, options, task = _opened({"model": model}, **{"personalization": "fine_tune"} | flags)
    with pytest.raises(UsageError, match="last layer, which a Keras model does not expose"):
        federation_flags.check_layers(options, task)


def keyed(predicted_rewards, key):
    return predicted_rewards


@pytest.mark.parametrize(
    ("policy", "message"),
    [(keyed, "draws random numbers from its key"), (lambda predicted_rewards: predicted_rewards, "cannot be saved")],
)
def test_a_policy_that_cannot_be_exported_is_refused(policy, message):
    flags = {"task_type": "tabular", "data_file": "x.csv", "client_column": "a", "label_column": "b", "export": True}
    with pytest.raises(UsageError, match=message):
        _opened({"policy": policy}, **flags)


class Counting(policies.Policy):
    at_deployment = policies.ACCUMULATE

    def statistics(self, action):
        return {"counts": tf.reduce_sum(tf.one_hot(action, 10), axis=0)}

    def probabilities(self, predicted_rewards, statistics):
        return tf.nn.softmax(predicted_rewards - statistics["counts"])


def by_round(predicted_rewards, round_num):
    return tf.nn.softmax(predicted_rewards * tf.cast(round_num, tf.float32))


@pytest.mark.parametrize("policy", [Counting(), by_round])
@pytest.mark.parametrize(
    "flags", [{"federation": "alone"}, {"personalization": "fine_tune"}, {"client_selection": "pow_d"}]
)
def test_settings_that_do_not_go_with_a_policys_state_are_refused(policy, flags):
    with pytest.raises(UsageError, match=f"--{next(iter(flags))}.* conflicts with policy"):
        _opened({"policy": policy}, **flags)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"aggregator_type": "dpsgd", "noise_multiplier": 1, "clip_norm": 1},
            "--aggregator_type=dpsgd conflicts with policy Counting",
        ),
        ({"aggregator_type": "secure_sum"}, "needs the attribute bound of policy Counting"),
        ({"bandits_deploy_delay": 1}, "--bandits_deploy_delay conflicts with policy Counting"),
    ],
)
def test_sums_over_clients_are_neither_noised_nor_stale(flags, message):
    with pytest.raises(UsageError, match=message):
        _opened({"policy": Counting()}, **flags)
    _opened({"policy": by_round}, **flags)  # The round depends on no client.


@dataclasses.dataclass(frozen=True)
class Constant:
    """Client work that adds a number to all weights."""

    by: float = 0.5
    missing: int = 0

    def examples_trained(self, num_examples):
        return num_examples

    def build(self, model, loss):
        def train(weights, examples, key, learning_rate=None):
            delta = tuple(tf.fill(weight.shape, self.by) for weight in weights[self.missing :])
            value = loss(model.forward(weights, examples["features"]), examples)
            return client_work.ClientUpdate(delta, value, tf.constant(True), tf.constant(0.0))

        return train


def three():
    return 3


def broken_work():
    raise OSError("no such file")


def mean():
    return tff.aggregators.MeanFactory(no_nan_division=True)


ADAM = tff.learning.optimizers.build_adam(0.01)


def _checked(given, **flags):
    settings, options, task = _opened(given, **flags)
    run_federated.STUDY.check(options, task)
    return settings


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"client_work": Constant()}, "Constant"),
        ({"client_optimizer": ADAM, "server_optimizer": tff.learning.optimizers.build_rmsprop(0.1)}, "Adam_RmsProp"),
        ({"aggregator": mean}, "mean"),
    ],
)
@pytest.mark.parametrize("flags", [{}, {"scenario": "init"}, {"task_type": "synthetic"}])
def test_training_of_the_users_names_the_run_and_passes_its_check(given, name, flags):
    settings = _checked(given, **flags)
    assert settings.experiment_name.endswith(f"_softmax_{name}")
    for part in given:
        assert settings[part].problem == ""


@pytest.mark.parametrize(
    ("given", "flags", "message"),
    [
        ({"client_work": 3}, {}, "client_work must be a client_work.ClientWork"),
        ({"client_work": broken_work}, {}, "client_work broken_work fails: OSError: no such file"),
        ({"client_work": Constant(missing=1)}, {}, "--client_work fails: ValueError: it must return ClientUpdate"),
        ({"client_work": Constant(by=float("inf"))}, {}, "--client_work fails: .*not finite"),
        ({"client_work": Constant()}, {"client_learning_rate": 1}, "--client_learning_rate conflicts with"),
        ({"client_work": Constant()}, {"federation": "pooled"}, "--client_work belongs to --federation=federated or"),
        ({"client_work": Constant()}, {"bandits_type": "init", "initial_model_path": "."}, "--client_work has no"),
        ({"client_optimizer": three}, {}, "client_optimizer must be a tff.learning.optimizers.Optimizer"),
        ({"client_optimizer": ADAM}, {"client_learning_rate": 1}, "--client_learning_rate belongs to"),
        ({}, {"client_sgd_momentum": 0.9, "client_optimizer": "yogi"}, "--client_sgd_momentum belongs to"),
        ({}, {"model_aggregation": "fedpa", "client_optimizer": "adam"}, "samples from SGD steps"),
        ({"aggregator": three}, {}, "aggregator must be a factory of tff.aggregators"),
        ({"aggregator": mean}, {"clip_norm": 1}, "--aggregator uses updates without clipping"),
        ({"aggregator": mean}, {"aggregator_type": "secure_sum"}, "--aggregator belongs to --aggregator_type=mean"),
        ({"aggregator": mean}, {"federation": "alone"}, "--aggregator belongs to --federation=federated"),
        (
            {"aggregator": mean},
            {"scenario": "init", "init_adaptive_clipping": True},
            "--init_adaptive_clipping conflicts with --aggregator",
        ),
    ],
)
def test_training_that_does_not_fit_is_refused(given, flags, message):
    with pytest.raises(UsageError, match=message):
        _checked(given, **flags)


LENGTH = {"total_rounds": 4, "rounds_per_eval": 2, "clients_per_round": 5, "bandits_deploy_freq": 2}
LENGTH |= {"client_epochs_per_round": 2, "scenario": "init", "init_rounds": 2}


def same_sgd():
    return client_work.LocalSgd(0.5, 8, epochs=2)


@pytest.mark.parametrize(
    ("flags", "own"),
    [
        (
            {"client_learning_rate": 0.5, "init_client_learning_rate": 0.5, "client_batch_size": 8},
            {"client_work": same_sgd, "client_epochs_per_round": None},
        ),
        (
            {"client_optimizer": "adam", "client_learning_rate": 0.01, "init_client_learning_rate": 0.01},
            {"client_optimizer": ADAM},
        ),
        ({"server_learning_rate": 0.01}, {"server_optimizer": ADAM}),
        (
            {"adaptive_clipping": False, "client_weighting": "num_examples"},
            {"aggregator": mean, "client_weighting": "num_examples"},
        ),
    ],
)
def test_the_users_training_equals_the_same_training_by_flags_and_continues(tff_worker, tmp_path, flags, own):
    expected = bandits.run(root_output_dir=tmp_path, experiment_name="flags", **(LENGTH | flags))
    for rounds in (2, 4, 4):  # Continued, and read again.
        given = LENGTH | own | {"total_rounds": rounds}
        run = bandits.run(root_output_dir=tmp_path, experiment_name="own", **given)
    whole_runs.assert_same(run.folder, expected.folder)
    reason = "the privacy of the aggregator mean is not known" if "aggregator" in own else "there is no noise"
    assert reason in whole_runs.spent(run.folder)["summary"]
