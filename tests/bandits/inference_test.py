import numpy as np
import tensorflow as tf

from bandits import policies, process

REWARDS = tf.constant([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]])


def draw(probabilities, key) -> np.ndarray:
    return process.bandit_inference(probabilities, tf.zeros_like(probabilities), tf.constant(key))["action"].numpy()


def test_the_log_holds_the_chosen_actions_reward_and_propensity():
    probabilities = tf.constant([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    cache = process.bandit_inference(probabilities, REWARDS, tf.constant([0, 1]))
    action = cache["action"].numpy()
    np.testing.assert_array_equal(cache["reward"], REWARDS.numpy()[[0, 1], action])
    np.testing.assert_array_equal(cache["propensity"], probabilities.numpy()[[0, 1], action])


def test_a_draw_depends_on_its_row_and_the_key_alone_however_many_threads_share_the_rows():
    predicted = np.random.default_rng(0).normal(size=(2000, 60)).astype(np.float32)
    probabilities, key = policies.Softmax(0.5)(predicted), np.array([3, 4], np.int32)
    whole = draw(probabilities, key)
    np.testing.assert_array_equal(whole[:1500], draw(probabilities[:1500], key))
    assert (whole != draw(probabilities, [3, 5])).mean() > 0.5
    # Of few rows, TensorFlow's own draws in one thread.
    drawn = tf.random.stateless_categorical(tf.math.log(probabilities[:20]), 1, key, tf.int32)[:, 0]
    np.testing.assert_array_equal(whole[:20], drawn)


def test_an_action_of_probability_zero_is_never_played():
    assert set(draw(tf.tile([[0.0, 1.0, 0.0]], [5000, 1]), [5, 6])) == {1}
    assert draw(tf.zeros([0, 3]), [5, 6]).shape == (0,)


def test_between_two_environments_rewards_are_a_mixture():
    environments = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.2]]], np.float32)
    points = {0.0: [1, 0], 1.0: [0, 1], 2.0: [0.5, 0.2], 0.25: [0.75, 0.25], 1.5: [0.25, 0.6]}
    for point, expected in points.items():
        found = process.mixture(environments, tf.constant(point))
        np.testing.assert_allclose(found, [expected], rtol=1e-6)
        if not point % 1:  # In an environment, its very numbers.
            np.testing.assert_array_equal(found, environments[int(point)])
    one = environments[0]
    assert process.mixture(one, tf.constant(0.0)) is one


def test_rewards_of_a_label_are_its_row_and_those_of_several_add_up():
    matrix = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 5.0]], np.float32)
    np.testing.assert_array_equal(process.reward_vectors(tf.constant([1, 0]), matrix), [[0, 2, 0], [1, 0.5, 0]])
    several = process.reward_vectors(tf.constant([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), matrix)
    np.testing.assert_array_equal(several, [[1, 0.5, 5], [0, 0, 0]])


LOGGED = np.array([[9, 9, 9, 2, 0.7, 0.25], [9, 9, 9, 0, 0.1, 0.5]], np.float32)


def test_replay_keeps_rows_where_actions_agree_and_the_policys_propensity():
    played = {"action": tf.constant([2, 1]), "reward": tf.zeros(2), "propensity": tf.constant([0.4, 0.6])}
    features = {"ids": tf.constant([[1, 2], [3, 4]])}
    log, kept = process.replay(played, tf.constant(LOGGED), features)
    np.testing.assert_array_equal(log["action"], [2])
    np.testing.assert_allclose(log["reward"], [0.7])
    np.testing.assert_allclose(log["propensity"], [0.4])
    np.testing.assert_array_equal(kept["ids"], [[1, 2]])
