"""Tests of models that clients adapt, of bandits.personalization."""

import collections
import functools
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from bandits import personalization, policies
from data import clients
from optimization import client_work, fed_avg, models
from tests.bandits import process_test, whole_runs

INITIAL, MODEL, BATCH, RATE = process_test.INITIAL, process_test.MODEL, process_test.BATCH, 0.3
ADAPTATION = -5
DEEP = models.mlp(process_test.NUM_FEATURES, (5,), 3)


def _with_halves(size, number):
    client = process_test.make_client(size, number)
    return client._replace(half=clients.second_half(3, number, np.arange(size)))


def _process(epochs=2, *, only_head=False, **changes):
    adaptation = client_work.LocalSgd(RATE, BATCH, epochs)
    fields = process_test.fields(process_test.make()) | {"halves": 1} | changes
    return personalization.PersonalizedProcess(**fields, adaptation=adaptation, only_head=only_head)


def _sgd(weights, features, action, reward, key, epochs, learning_rate=RATE):
    gradient_of = process_test.chosen_gradient(action, reward)
    return process_test.sgd_by_hand(weights, features, gradient_of, key, epochs, learning_rate)


_fold_in = tf.random.experimental.stateless_fold_in


@pytest.mark.parametrize(("epochs", "only_head"), [(1, True), (3, False)])  # A linear model is only a last layer.
def test_fine_tuning_equals_the_calculation_by_hand(epochs, only_head):
    client = _with_halves(11, 1)
    features, half = client.features, client.half
    action, reward, propensity = process_test.log_by_hand(client, INITIAL, policies.Softmax(0.5))
    key = _fold_in(client.keys.cache, ADAPTATION)
    adapted = _sgd(INITIAL, features[~half], action[~half], reward[~half], key, epochs)
    predicted = features @ adapted[0] + adapted[1]
    exponentials = np.exp(predicted / 0.5)
    after = exponentials / exponentials.sum(axis=1, keepdims=True)
    draw = tf.random.stateless_categorical(np.log(after), 1, client.keys.cache, tf.int32).numpy()[:, 0]
    rows = np.arange(len(half))
    action = np.where(half, draw, action)
    propensity = np.where(half, after[rows, draw], propensity)
    rewards = process_test.REWARDS[client.labels]
    definition = _process(epochs, only_head=only_head)
    cache, _ = definition.act((INITIAL,), client)
    np.testing.assert_array_equal(cache["action"], action)
    np.testing.assert_array_equal(cache["reward"], rewards[rows, action])
    np.testing.assert_allclose(cache["propensity"], propensity, rtol=1e-5)
    output = definition.client_round()((INITIAL,), INITIAL, client)
    expected = (after * rewards).sum(axis=1)
    np.testing.assert_allclose(output.sums["half_rewards"][1, 0], expected[half].sum(), rtol=1e-5)
    assert output.sums["half_examples"].numpy().ravel().tolist() == [np.sum(~half), np.sum(half)]
    # The shared model trains on both halves.
    delta = _sgd(INITIAL, features, action, rewards[rows, action], client.keys.training, 1, 0.1)
    for one, weight, first in zip(output.delta, delta, INITIAL, strict=True):
        np.testing.assert_allclose(one, weight - first, rtol=1e-4, atol=1e-6)


def _local_head(**changes):
    adaptation = client_work.LocalSgd(RATE, BATCH, 2)
    work = personalization.ReconstructedHead(adaptation, client_work.LocalSgd(0.1, BATCH, 1))
    federated = process_test.make(client_weighting="num_examples")
    optimizer = tff.learning.optimizers.build_sgdm(0.5)
    fields = process_test.fields(federated) | {
        "halves": 1,
        "model": DEEP,
        "local_work": work,
        "server_optimizer": optimizer,
    }
    return personalization.LocalHeadProcess(**fields | changes, adaptation=adaptation, only_head=True)


def _batches(features, action, reward, key, epochs):
    for rows in process_test.batches_of(len(action), key, epochs):
        targets = np.stack([action[rows], reward[rows]], axis=1).astype(np.float32)
        yield collections.OrderedDict(x=features[rows], y=targets)


def _as_dataset(client, cache, batches):
    """Mini-batches of half A in two epochs, then of half B in one, in the order of the client's keys."""
    key, log = client.keys.training, (client.features, cache["action"].numpy(), cache["reward"].numpy())
    of_a, of_b = ([part[mask] for part in log] for mask in (~client.half, client.half))
    elements = [*_batches(*of_a, _fold_in(key, ADAPTATION), 2), *_batches(*of_b, key, 1)]
    assert len(elements) == batches
    dataset, *others = map(tf.data.Dataset.from_tensors, elements)
    return functools.reduce(tf.data.Dataset.concatenate, others, dataset)


class _Squared(tf.keras.losses.Loss):
    def call(self, y_true, y_pred):
        chosen = tf.gather(y_pred, tf.cast(y_true[:, 0], tf.int32), axis=1, batch_dims=1)
        return tf.square(chosen - y_true[:, 1])


def test_a_local_head_is_federated_reconstruction(tff_worker):
    """Three rounds of `tff.learning.algorithms.build_fed_recon` on the same logs, from the same initial head."""
    initial, definition = DEEP.initial_weights(1), _local_head()
    cohort = [_with_halves(size, number) for number, size in enumerate((13, 14, 12))]
    cohort[0] = cohort[0]._replace(half=np.arange(13) >= 8)  # 8 and 5 examples: clients differ in weight.
    rounds = definition.build(initial)
    state = rounds.initialize()
    for _ in range(3):
        state, metrics = rounds.next(state, cohort)
    assert metrics.examples == 39
    assert metrics.trained_examples == sum(client.half.sum() for client in cohort)

    def model_fn():
        constant = tf.keras.initializers.Constant
        layers = [
            tf.keras.layers.Dense(5, "relu", kernel_initializer=constant(initial[0]), input_shape=(4,)),
            tf.keras.layers.Dense(3, kernel_initializer=constant(initial[2])),
        ]
        return tff.learning.models.ReconstructionModel.from_keras_model_and_layers(
            keras_model=tf.keras.Sequential(layers),
            global_layers=layers[:1],
            local_layers=layers[1:],
            input_spec=collections.OrderedDict(x=tf.TensorSpec([None, 4]), y=tf.TensorSpec([None, 2])),
        )

    datasets = [_as_dataset(client, definition.act((initial,), client)[0], 6) for client in cohort]
    with tff.framework.get_context_stack().install(tff.backends.native.create_sync_local_cpp_execution_context()):
        reconstruction = tff.learning.algorithms.build_fed_recon(
            model_fn,
            loss_fn=_Squared,
            server_optimizer_fn=tff.learning.optimizers.build_sgdm(0.5),
            client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.1),
            reconstruction_optimizer_fn=tff.learning.optimizers.build_sgdm(RATE),
            dataset_split_fn=lambda dataset: (dataset.take(4), dataset.skip(4)),
        )
        other = reconstruction.initialize()
        for _ in range(3):
            other = reconstruction.next(other, datasets).state
    trained = reconstruction.get_model_weights(other).trainable
    for one, weight, first in zip(state.weights[:2], trained, initial[:2], strict=True):
        np.testing.assert_allclose(one, weight, atol=1e-6)
        assert np.abs(one - first).max() > 1e-3


def test_the_last_layer_never_leaves_a_client():
    initial, client = DEEP.initial_weights(1), _with_halves(10, 1)
    definition = _local_head()
    output = definition.client_round()((initial,), initial, client)
    assert all(np.abs(part).max() > 0 for part in output.delta[:2])
    assert all((part.numpy() == 0).all() for part in output.delta[2:])
    # The noise of an aggregation does not move the server's.
    noisy, weights = (tuple(map(tf.constant, part)) for part in (DEEP.initial_weights(2), initial))
    optimizer = definition.server_optimizer.initialize(DEEP.specs)
    before = fed_avg.State(tf.constant(0), weights, (weights,), optimizer, ())
    _, weights, *_ = definition.server_round(before, noisy)
    for weight, first in zip(weights[2:], initial[2:], strict=True):
        np.testing.assert_array_equal(weight, first)


CLIP_NORM, DENOMINATOR = 0.05, 2  # The sum is divided by the expected cohort, that of `process_test.aggregator`.


def _private(kind, **noise):
    """Rounds of DP-FedAvg, whose server adds the mean to the model."""
    aggregator = process_test.make(aggregator_type="dpsgd", clip_norm=CLIP_NORM, **noise).aggregator
    changes = {"aggregator": aggregator, "server_optimizer": tff.learning.optimizers.build_sgdm(1.0), "model": DEEP}
    return _local_head(**changes) if kind == "local_head" else _process(**changes)


def _norm(parts):
    return np.sqrt(sum(np.square(part).sum() for part in parts))


@pytest.mark.parametrize("kind", ["fine_tune", "local_head"])
def test_another_log_of_a_client_changes_its_own_clipped_update_alone(tff_worker, kind):
    """Two rounds have the same seeded noise, so their difference is that of the sums before it."""
    definition, initial = _private(kind, noise_multiplier=1, insecure_seeded_noise=True), DEEP.initial_weights(1)
    cohort = [_with_halves(size, number) for number, size in enumerate((13, 14, 12))]
    log = _with_halves(14, 5)
    replaced = cohort[1]._replace(features=log.features, labels=log.labels)
    cohorts = cohort, [cohort[0], replaced, cohort[2]]
    client_round = definition.client_round()  # One for all clients: its variables must not carry over.
    outputs = [[client_round((initial,), initial, client) for client in clients] for clients in cohorts]
    for place in (0, 2):
        both = (tf.nest.flatten(clients[place]) for clients in outputs)
        for one, other in zip(*both, strict=True):
            np.testing.assert_array_equal(one, other)
    assert all(_norm(output.delta) > CLIP_NORM for clients in outputs for output in clients)
    before, after = (tf.clip_by_global_norm(clients[1].delta, CLIP_NORM)[0] for clients in outputs)
    rounds = definition.build(initial)
    released = [rounds.next(rounds.initialize(), clients)[0].weights for clients in cohorts]
    difference = [DENOMINATOR * (new - old) for old, new in zip(*released, strict=True)]
    for one, old, new in zip(difference, before, after, strict=True):
        np.testing.assert_allclose(one, new - old, atol=1e-6)
    assert 0 < _norm(difference) <= 2 * CLIP_NORM * (1 + 1e-5)


def test_halves_differ_by_one_at_most_and_an_example_stays_in_its_half():
    rows = np.arange(101)
    half = clients.second_half(1, 5, rows)
    assert abs(2 * half.sum() - 101) == 1
    some = np.array([3, 40, 7, 100])
    np.testing.assert_array_equal(clients.second_half(1, 5, some), half[some])
    assert len(clients.second_half(1, 5, rows[:0])) == 0
    assert not np.array_equal(clients.second_half(1, 6, rows), half)
    assert 0.4 < np.mean([clients.second_half(0, client, rows[:1])[0] for client in range(1000)]) < 0.6


SMALL = ("--total_rounds=4", "--clients_per_round=3", "--bandits_deploy_freq=2", "--rounds_per_checkpoint=2")
ADAPTED = "eval/personalized_reward"
play = whole_runs.player(*SMALL)


def _read(run, name):
    return json.loads((run / name).read_text())


@pytest.mark.slow
def test_runs_report_halves_and_no_epoch_changes_nothing(tmp_path):
    nothing = ("--personalization=fine_tune", "--personalization_epochs=0", "--report_clients")
    flags = {"plain": (), "nothing": nothing, "pooled": ("--federation=pooled", "--report_clients")}
    runs = {name: play(tmp_path / name, *some) for name, some in flags.items()}
    plain, adapted, pooled = map(whole_runs.table, runs.values())
    halves = ["bandits/half_a_rewards", "bandits/half_b_rewards"]
    assert adapted.drop(columns=[*halves, ADAPTED]).equals(plain.drop(columns=[*halves, ADAPTED]))
    whole_runs.assert_same_model(runs["plain"], runs["nothing"])
    # Before the first deployment all act with the same model.
    assert pooled[halves].head(2).equals(adapted[halves].head(2))
    earned, of_pooled = (_read(runs[name], "private_client_rewards.json") for name in ("nothing", "pooled"))
    for name in ("clients", "participations", "examples"):
        assert earned[name] == of_pooled[name]
    assert sum(earned["participations"]) == 12
    assert np.dot(earned["participations"], earned["examples"]) == adapted["train/examples"].sum()
    rewards = _read(runs["nothing"], "private_adapted_rewards.json")
    assert rewards["before"] == rewards["after"]
    assert adapted[ADAPTED].iloc[-1] == pytest.approx(np.average(rewards["after"], weights=rewards["examples"]))


@pytest.mark.slow
def test_a_stopped_run_goes_on_as_if_it_had_not(tmp_path):
    flags = ("--personalization=local_head", "--report_clients", "--rounds_per_eval=2")
    whole, parts = whole_runs.stopped(play, tmp_path, *flags, after=2)
    for file in ("private_adapted_rewards.json", "private_client_rewards.json"):
        assert _read(whole, file) == _read(parts, file)
