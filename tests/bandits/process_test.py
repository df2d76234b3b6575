"""One round against a calculation in NumPy: a linear model, gradients by hand, Adam by hand."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from bandits import losses, policies, process
from data import objects, text
from data.reward_bounds import RewardBounds
from data.settings import Setting
from optimization import aggregators, client_work, models, options
from optimization.study import aggregation_flags, cli

NUM_FEATURES, NUM_ACTIONS, BATCH = 4, 3, 4
MODEL = models.mlp(NUM_FEATURES, (), NUM_ACTIONS)
RNG = np.random.default_rng(7)
INITIAL = (
    RNG.normal(size=(NUM_FEATURES, NUM_ACTIONS)).astype(np.float32),
    RNG.normal(size=NUM_ACTIONS).astype(np.float32),
)
REWARDS = np.array([[1, 0.5, 0], [0, 1, 0], [0, 0, 1]], np.float32)
LOSSES = {
    "regression": losses.BanditLoss(),
    "importance_weighted": losses.BanditLoss(importance_weighted=True),
    "supervised": losses.SupervisedLoss(),
}


def make_client(size: int, number: int) -> process.ClientInput:
    draw = np.random.default_rng(100 + number)
    return process.ClientInput(
        draw.normal(size=(size, NUM_FEATURES)).astype(np.float32),
        draw.integers(0, len(REWARDS), size).astype(np.int32),
        process.ClientKeys(np.array([number, 1], np.int32), np.array([number, 2], np.int32)),
    )


def aggregator(**values):
    arguments = ["test", *(f"--{name}={value}" for name, value in values.items())]
    flags = cli.FlagSet("")
    flags.group("Aggregation and privacy", options.Aggregation, options.Cohorts, Setting("seed", int, "", 0))
    aggregation = aggregation_flags.options(flags.parse(arguments).checked(aggregation_flags.check))
    mechanism = aggregation_flags.mechanism(aggregation, options.Cohorts(2), 100, 15)
    return aggregators.build(aggregation, mechanism, tuple(MODEL.shapes.values()))


def make(
    loss=LOSSES["regression"],
    *,
    epochs=1,
    deploy_every=100,
    policy=None,
    learning_rate=0.1,
    adaptive_clipping=False,
    max_delay=0,
    **aggregation,
):
    return process.BanditProcess(
        model=MODEL,
        policy=policy or policies.Softmax(0.5),
        loss=loss,
        reward_matrix=REWARDS,
        local_work=client_work.LocalSgd(learning_rate, BATCH, epochs),
        aggregator=aggregator(adaptive_clipping=adaptive_clipping, **aggregation),
        server_optimizer=tff.learning.optimizers.build_adam(0.05),
        deploy_every=deploy_every,
        feature_spec=tf.TensorSpec((None, NUM_FEATURES)),
        label_spec=tf.TensorSpec((None,), tf.int32),
        max_delay=max_delay,
    )


def fields(definition: process.BanditProcess) -> dict:
    return {field.name: getattr(definition, field.name) for field in dataclasses.fields(definition)}


def log_by_hand(client: process.ClientInput, deployed, policy):
    """Algorithm 2 in NumPy; only the draw itself is TensorFlow's, from the client's key."""
    predicted = client.features @ deployed[0] + deployed[1]
    probabilities = policy(tf.constant(predicted)).numpy()
    draw = tf.random.stateless_categorical(np.log(probabilities), 1, client.keys.cache, tf.int32)
    action = draw.numpy()[:, 0]
    return action, REWARDS[client.labels, action], probabilities[np.arange(len(action)), action]


def batches_of(count, key, epochs):
    """Rows of each mini-batch, in the order of the client's key."""
    for epoch in range(epochs):
        order_key = tf.random.experimental.stateless_fold_in(key, epoch)
        order = tf.random.experimental.stateless_shuffle(tf.range(count), order_key).numpy()
        for start in range(0, count, BATCH):
            yield order[start : start + BATCH]


def sgd_by_hand(weights, features, gradient_of, key, epochs, learning_rate=0.1):
    """SGD of a linear model; `gradient_of` returns the loss's gradient by the outputs of some rows."""
    kernel, bias = (weight.astype(np.float64) for weight in weights)
    for rows in batches_of(len(features), key, epochs):
        gradient = gradient_of(features[rows] @ kernel + bias, rows)
        kernel = kernel - learning_rate * features[rows].T @ gradient
        bias = bias - learning_rate * gradient.sum(axis=0)
    return kernel, bias


def chosen_gradient(action, reward, weights=None):
    """Gradient of the weighted squared error of the chosen actions, for `sgd_by_hand`."""

    def gradient_of(outputs, rows):
        gradient, chosen = np.zeros_like(outputs), (np.arange(len(rows)), action[rows])
        weight = 1.0 if weights is None else weights[rows]
        gradient[chosen] = 2 * weight * (outputs[chosen] - reward[rows]) / len(rows)
        return gradient

    return gradient_of


def delta_by_hand(client, loss_name, epochs, weights=INITIAL, deployed=INITIAL, observed=...):
    """Algorithm 3's ClientUpdate with gradients of a linear model written out, on observed rewards."""
    action, reward, propensity = (part[observed] for part in log_by_hand(client, deployed, policies.Softmax(0.5)))
    labels = client.labels[observed]
    gradients = {
        "regression": chosen_gradient(action, reward),
        "importance_weighted": chosen_gradient(action, reward, 1 / propensity),
        "supervised": lambda outputs, rows: 2 * (outputs - REWARDS[labels[rows]]) / outputs.size,
    }
    trained = sgd_by_hand(weights, client.features[observed], gradients[loss_name], client.keys.training, epochs)
    return tuple(new - old for new, old in zip(trained, weights, strict=True))


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_client_delta_equals_the_calculation_by_hand(loss_name, epochs):
    client = make_client(10, 1)  # Batches of 4, 4 and 2.
    output = make(LOSSES[loss_name], epochs=epochs).client_round()((INITIAL,), INITIAL, client)
    for found, expected in zip(output.delta, delta_by_hand(client, loss_name, epochs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss_name", LOSSES)
def test_a_client_trains_on_the_rewards_that_have_arrived_alone(loss_name):
    """The chosen actions do not depend on which rewards were observed."""
    client, observed = make_client(11, 1), np.arange(11) % 3 > 0
    late = dataclasses.replace(make(LOSSES[loss_name], epochs=2), is_delayed=True).client_round()
    output = late((INITIAL,), INITIAL, client._replace(observed=observed))
    _, reward, propensity = log_by_hand(client, INITIAL, policies.Softmax(0.5))
    assert (output.sums["examples"], output.sums["trained_examples"], output.sums["empty_clients"]) == (7, 7, 0)
    np.testing.assert_allclose(output.sums["reward_sum"], reward[observed].sum(), rtol=1e-6)
    np.testing.assert_allclose(output.sums["propensity_sum"], propensity[observed].sum(), rtol=1e-5)
    for found, expected in zip(output.delta, delta_by_hand(client, loss_name, 2, observed=observed), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    nothing = late((INITIAL,), INITIAL, client._replace(observed=np.zeros(11, bool)))
    names = ("examples", "reward_sum", "empty_clients", "nonfinite_clients")
    assert [nothing.sums[name] for name in names] == [0, 0, 1, 0]
    assert all((part.numpy() == 0).all() for part in nothing.delta)


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize(("weighting", "weights"), [("uniform", [1, 1, 1]), ("num_examples", [10, 5, 1])])
def test_one_round_is_the_mean_of_deltas_then_an_adam_step(tff_worker, loss_name, weighting, weights):
    clients = [make_client(size, number) for number, size in enumerate([10, 5, 1])]
    rounds = make(LOSSES[loss_name], client_weighting=weighting).build(INITIAL)
    state, metrics = rounds.next(rounds.initialize(), clients)
    deltas = [delta_by_hand(client, loss_name, 1) for client in clients]
    mean = [np.average(parts, axis=0, weights=weights) for parts in zip(*deltas, strict=True)]
    for found, weight, part in zip(state.weights, INITIAL, mean, strict=True):
        gradient = -part
        # Adam's first step: both moments, corrected for their start at zero, are the gradient and its square.
        expected = weight - 0.05 * gradient / (np.abs(gradient) + 1e-7 / np.sqrt(1 - 0.999))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(metrics.update_norm, np.sqrt(sum(np.square(part).sum() for part in mean)), rtol=1e-4)
    logs = [log_by_hand(client, INITIAL, policies.Softmax(0.5)) for client in clients]
    assert metrics.examples == 16
    np.testing.assert_allclose(metrics.reward_sum, sum(reward.sum() for _, reward, _ in logs), rtol=1e-6)
    np.testing.assert_allclose(metrics.propensity_sum, sum(propensity.sum() for *_, propensity in logs), rtol=1e-5)


@pytest.mark.parametrize(("every", "most"), [(1, 2), (3, 0)])
def test_models_are_deployed_exactly_every_t_rounds_and_the_last_ones_kept(tff_worker, every, most):
    rounds = make(deploy_every=every, max_delay=most).build(INITIAL)
    state, deployed = rounds.initialize(), [INITIAL] * (1 + most)
    for round_num in range(1, 8):
        state, metrics = rounds.next(state, [make_client(6, round_num)])
        if round_num % every == 0:
            deployed = [state.weights, *deployed[:-1]]
        assert bool(metrics.deployed) == (round_num % every == 0)
        for found, expected in zip(tf.nest.flatten(state.deployed), tf.nest.flatten(deployed), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert state.round_num == 7


def test_a_fixed_policy_in_a_known_drift_earns_the_sum_by_hand():
    """Four rounds from one environment to another and back; the actions are those of one environment."""
    environments = np.stack([REWARDS, REWARDS[:, [1, 2, 0]]])
    rounds = dataclasses.replace(make(policy=policies.Uniform()), reward_matrix=environments).client_round()
    client = make_client(50, 1)
    action, *_ = log_by_hand(client, INITIAL, policies.Uniform())
    earned, elsewhere = REWARDS[client.labels, action].sum(), environments[1][client.labels, action].sum()
    for environment, expected in ((0, earned), (0.25, 0.75 * earned + 0.25 * elsewhere), (1, elsewhere), (0, earned)):
        output = rounds((INITIAL,), INITIAL, client._replace(environment_position=np.float32(environment)))
        assert output.sums["reward_sum"].numpy() == expected  # Halves and quarters: exact.


@pytest.mark.parametrize("delay", [0, 1])
def test_clients_act_with_the_model_deployed_before_their_delay_and_train_the_current_one(delay):
    client, current = make_client(10, 3), tuple(weight + 0.3 for weight in INITIAL)
    deployed = INITIAL, tuple(weight - 0.3 for weight in INITIAL)
    output = make(max_delay=1).client_round()(deployed, current, client._replace(delay=np.int32(delay)))
    expected = delta_by_hand(client, "regression", 1, weights=current, deployed=deployed[delay])
    for found, part in zip(output.delta, expected, strict=True):
        np.testing.assert_allclose(found, part, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "aggregation", [{}, {"clip_norm": 0.1, "adaptive_clipping": True}, {"client_weighting": "num_examples"}]
)
def test_a_client_with_data_that_is_not_finite_poisons_nothing(tff_worker, aggregation):
    good, bad = make_client(6, 1), make_client(6, 2)
    bad.features[3, 0] = np.nan
    rounds = make(**aggregation).build(INITIAL)
    state, metrics = rounds.next(rounds.initialize(), [good, bad])
    assert metrics.nonfinite_clients == 1
    assert metrics.trained_examples == 6
    assert all(np.isfinite(leaf).all() for leaf in tf.nest.flatten((state, metrics)))


@pytest.mark.parametrize(
    "aggregation", [{"client_weighting": "num_examples"}, {"aggregator_type": "dpsgd", "noise_multiplier": 0}]
)
def test_a_round_without_clients_changes_nothing(tff_worker, aggregation):
    rounds = make(clip_norm=0.1, adaptive_clipping=True, **aggregation).build(INITIAL)
    before, _ = rounds.next(rounds.initialize(), [make_client(6, 1), make_client(6, 2)])  # Adam is moving.
    after, metrics = rounds.next(before, [])
    assert (metrics.examples, metrics.update_norm, after.round_num) == (0, 0, 2)
    for found, expected in zip(tf.nest.flatten(after[1:]), tf.nest.flatten(before[1:]), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("loss", [losses.BanditLoss(), losses.SupervisedLoss()])
def test_a_bag_acts_by_its_heads_votes_and_each_head_weighs_what_has_arrived_by_the_clients_key(loss):
    heads, client, observed = 5, make_client(40, 1), np.arange(40) % 3 > 0
    model = models.with_heads(models.mlp(NUM_FEATURES, (), heads * NUM_ACTIONS), heads)
    weights = model.initial_weights(0)
    definition = dataclasses.replace(
        make(losses.Bootstrapped(loss), policy=policies.Bag()), model=model, is_delayed=True
    )
    log, batches = definition.act((weights,), client._replace(observed=observed))
    votes = model.forward(weights, client.features).numpy().argmax(axis=2)[observed]
    np.testing.assert_allclose(
        log["propensity"], (votes == log["action"].numpy()[:, np.newaxis]).mean(axis=1), rtol=1e-6
    )
    expected = losses.bootstrap(client.keys.cache, tf.constant(40), heads).numpy()[observed]
    np.testing.assert_array_equal(batches["bootstrap"], expected)
    output = definition.client_round()((weights,), weights, client._replace(observed=observed))
    assert (output.sums["examples"], output.sums["trained_examples"], output.sums["nonfinite_clients"]) == (26, 26, 0)
    assert all(np.any(part) for part in output.delta)


@pytest.mark.slow
@pytest.mark.parametrize("examples", [3, 0])
def test_bags_of_words_are_acted_on_and_trained_on_as_padded_posts(examples):
    bags = text.Bags(np.int32([1, 4, 4, 2, 3]), np.float32([0.5, 0.5, 1, 0.2, 0.3]), np.array([0, 2, 5, 5]))
    posts = {
        "ids": np.array([[1, 4, 0], [4, 2, 3], [0, 0, 0]], np.int32)[:examples],
        "values": np.array([[0.5, 0.5, 0], [1, 0.2, 0.3], [0, 0, 0]], np.float32)[:examples],
    }
    weights = (np.random.default_rng(3).normal(size=(5, NUM_ACTIONS)).astype(np.float32), np.zeros(3, np.float32))
    definition = dataclasses.replace(make(epochs=2), model=models.bag_of_words(5, NUM_ACTIONS))
    labels, client_keys = tf.constant([0, 1, 2][:examples], tf.int32), make_client(1, 5).keys
    outputs = []
    for features in (posts, bags.take(np.arange(examples))):
        client = process.ClientInput(tf.nest.map_structure(tf.constant, features), labels, client_keys)
        outputs.append(definition.client_round()((weights,), weights, client))
    for found, expected in zip(*map(tf.nest.flatten, outputs), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_poll_gives_the_loss_on_the_log_that_would_be_trained_on(tff_worker):
    client = make_client(10, 1)
    action, reward, _ = log_by_hand(client, INITIAL, policies.Softmax(0.5))
    current = tuple(weight + 0.3 for weight in INITIAL)
    found = make().build_loss_poll(1)((INITIAL,), current, [client])
    predicted = (client.features @ current[0] + current[1])[np.arange(10), action]
    np.testing.assert_allclose(found, [np.square(predicted - reward).mean()], rtol=1e-5)


@pytest.mark.parametrize(("clips", "expected"), [(True, [0, 0.5, 1]), (False, [-0.5, 0.5, 2])])
def test_training_takes_rewards_mapped_to_the_unit_interval(clips, expected):
    mapping = dataclasses.replace(make(), reward_bounds=RewardBounds(-10, 10), clips_rewards=clips)
    log = {"reward": tf.constant([-20.0, 0, 30]), "propensity": tf.constant([0.5, 0.5, 1])}
    mapped = mapping.mapped(log)
    np.testing.assert_allclose(mapped["reward"], expected)
    np.testing.assert_array_equal(mapped["propensity"], log["propensity"])
    every = {losses.FULL_FEEDBACK: tf.constant([[-20.0, 0, 30]])}
    np.testing.assert_allclose(mapping.mapped(every)[losses.FULL_FEEDBACK], [expected])
    assert make().mapped(log)["reward"] is log["reward"]


def _above_half(log):
    return tf.reduce_sum(tf.cast(log["propensity"] > 0.5, tf.float32)), tf.size(log["action"])


def _weighed(log):
    return tf.reduce_sum(log["reward"] * log["features"][:, 0] * tf.cast(log["action"], tf.float32))


def test_metrics_of_the_users_are_sums_over_the_cohorts_logs(tff_worker):
    own = tuple(map(objects.of, (_above_half, _weighed)))
    cohort = [make_client(size, number) for number, size in enumerate((7, 0, 4))]
    plain, measured = (dataclasses.replace(make(), own_metrics=one).build(INITIAL) for one in ((), own))
    (state, metrics), (other, more) = (rounds.next(rounds.initialize(), cohort) for rounds in (plain, measured))
    logs = [log_by_hand(client, INITIAL, policies.Softmax(0.5)) for client in cohort]
    above = sum(int((propensity > 0.5).sum()) for _, _, propensity in logs)
    weighed = sum(
        float((reward * client.features[:, 0] * action).sum())
        for client, (action, reward, _) in zip(cohort, logs, strict=True)
    )
    np.testing.assert_allclose(more.own, [[above, 11], [weighed, np.nan]], rtol=1e-5)
    assert metrics.own == ()
    tf.nest.map_structure(np.testing.assert_array_equal, (state, metrics), (other, more._replace(own=())))
