import numpy as np
import tensorflow as tf

from bandits import inference, policies

REWARDS = tf.constant([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]])
PREDICTED = tf.constant([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]])


def test_the_log_holds_the_chosen_actions_reward_and_propensity():
    policy = policies.Softmax(0.5)
    cache = inference.bandit_inference(PREDICTED, REWARDS, policy, tf.constant([0, 1]))
    action = cache["action"].numpy()
    np.testing.assert_array_equal(cache["reward"], REWARDS.numpy()[[0, 1], action])
    np.testing.assert_array_equal(cache["propensity"], policy(PREDICTED).numpy()[[0, 1], action])


def test_equal_keys_give_equal_actions_and_others_differ():
    predicted = tf.zeros([200, 3])
    draws = [
        inference.bandit_inference(predicted, predicted, policies.Uniform(), tf.constant(key))["action"].numpy()
        for key in ([1, 2], [1, 2], [1, 3])
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).mean() > 0.5


def test_a_draw_depends_on_its_row_and_the_key_alone_however_many_threads_share_the_rows():
    predicted = np.random.default_rng(0).normal(size=(2000, 60)).astype(np.float32)
    rewards, key = np.zeros_like(predicted), np.array([3, 4], np.int32)
    whole = inference.bandit_inference(predicted, rewards, policies.Softmax(0.5), key)["action"].numpy()
    few = inference.bandit_inference(predicted[:1500], rewards[:1500], policies.Softmax(0.5), key)["action"].numpy()
    np.testing.assert_array_equal(whole[:1500], few)
    likely = policies.Softmax(0.5)(predicted[:20])  # Too few for more threads than one.
    drawn = tf.random.stateless_categorical(tf.math.log(likely), 1, key, tf.int32)[:, 0]
    np.testing.assert_array_equal(whole[:20], drawn)


def test_an_action_of_probability_zero_is_never_played():
    predicted = tf.tile([[0.0, 1.0, 0.0]], [5000, 1])
    cache = inference.bandit_inference(predicted, predicted, policies.Greedy(), tf.constant([5, 6]))
    assert set(cache["action"].numpy()) == {1}


def test_no_context_gives_an_empty_log():
    empty = tf.zeros([0, 3])
    cache = inference.bandit_inference(empty, empty, policies.Greedy(), tf.constant([5, 6]))
    assert cache["action"].shape == (0,)


def test_between_two_worlds_rewards_are_a_mixture():
    worlds = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.2]]], np.float32)
    points = {0.0: [1, 0], 1.0: [0, 1], 2.0: [0.5, 0.2], 0.25: [0.75, 0.25], 1.5: [0.25, 0.6]}
    for point, expected in points.items():
        found = inference.mixture(worlds, tf.constant(point))
        np.testing.assert_allclose(found, [expected], rtol=1e-6)
        if not point % 1:  # In a world, its very numbers.
            np.testing.assert_array_equal(found, worlds[int(point)])
    one = worlds[0]
    assert inference.mixture(one, tf.constant(0.0)) is one


def test_rewards_of_one_label_are_its_row():
    matrix = np.array([[1.0, 0.5], [0.0, 2.0]], np.float32)
    np.testing.assert_array_equal(inference.reward_vectors(tf.constant([1, 0]), matrix), [[0, 2], [1, 0.5]])


def test_rewards_of_several_labels_add_up():
    matrix = np.diag([1.0, 3.0, 5.0]).astype(np.float32)
    labels = tf.constant([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(inference.reward_vectors(labels, matrix), [[1, 0, 5], [0, 0, 0]])


LOGGED = np.array([[9, 9, 9, 2, 0.7, 0.25], [9, 9, 9, 0, 0.1, 0.5]], np.float32)


def test_labels_of_a_log_end_in_action_reward_and_propensity():
    log = inference.logged(tf.constant(LOGGED))
    assert log["action"].dtype == tf.int32
    np.testing.assert_array_equal(log["action"], [2, 0])
    np.testing.assert_allclose(log["reward"], [0.7, 0.1])
    np.testing.assert_allclose(log["propensity"], [0.25, 0.5])


def test_replay_keeps_rows_where_actions_agree_and_the_policys_propensity():
    played = {"action": tf.constant([2, 1]), "reward": tf.zeros(2), "propensity": tf.constant([0.4, 0.6])}
    features = {"ids": tf.constant([[1, 2], [3, 4]])}
    log, kept = inference.replay(played, tf.constant(LOGGED), features)
    np.testing.assert_array_equal(log["action"], [2])
    np.testing.assert_allclose(log["reward"], [0.7])
    np.testing.assert_allclose(log["propensity"], [0.4])
    np.testing.assert_array_equal(kept["ids"], [[1, 2]])
