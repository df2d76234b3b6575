"""Tests of bandits.event_triggered."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from bandits import event_triggered, policies
from bandits.event_triggered import FedLinUcb, Sums
from optimization import client_states
from tests.bandits import process_test

FEATURES, ACTIONS, CLIENTS = 4, 6, 5
LEARNER = FedLinUcb(regularization=0.5, width=0.7, threshold=0.4)
INPUTS_TYPE = ((np.float64, (None, ACTIONS, FEATURES)), (np.float64, (None, ACTIONS)))


def tff_rounds(folder, learner, inputs_type, num_features, num_clients, resumable=range(10_000)):
    """Rounds of a learner without shared values."""
    states = client_states.ClientStates(folder, lambda: resumable)
    zeros, types = event_triggered.empty_sums(num_features), ((), inputs_type)
    return event_triggered.Rounds(learner.act, learner.uploads, zeros, types, states, num_clients)


class InNumpy:
    """FedLinUCB with inverses and determinants in NumPy."""

    def __init__(self, learner, num_features, num_clients):
        self.learner, self.prior = learner, learner.regularization * np.eye(num_features)
        zeros = np.zeros((num_features, num_features)), np.zeros(num_features)
        self.totals, self.downloaded, self.local = zeros, [zeros] * num_clients, [zeros] * num_clients

    def act(self, client, actions, rewards):
        """Acts on rows, and returns the actions and whether the client would upload."""
        inverse = np.linalg.inv(self.prior + self.downloaded[client][0])
        bounds = actions @ inverse @ self.downloaded[client][1]
        bounds += self.learner.width * np.sqrt(np.einsum("nki,ij,nkj->nk", actions, inverse, actions))
        choices = bounds.argmax(axis=1)
        for row, choice in enumerate(choices):
            x, (outer, reward) = actions[row, choice], self.local[client]
            self.local[client] = outer + np.outer(x, x), reward + x * rewards[row, choice]
        return choices, self.determinant(client, self.local[client][0]) > self.limit(client)

    def determinant(self, client, more=0.0):
        return np.linalg.det(self.prior + self.downloaded[client][0] + more)

    def limit(self, client):
        return (1 + self.learner.threshold) * self.determinant(client)

    def exchange(self, clients):
        for client in clients:
            self.totals = tuple(map(np.add, self.totals, self.local[client]))
        for client in clients:
            self.downloaded[client], self.local[client] = self.totals, tuple(map(np.zeros_like, self.totals))


@pytest.mark.parametrize("shape", [(), (4,)])
def test_the_trigger_compares_determinants(shape):
    draw, answers = np.random.default_rng(1), []
    for _ in range(40):
        roots, threshold = draw.normal(size=(2, *shape, 3, 3)), draw.uniform(0, 2)
        downloaded, local = roots @ roots.swapaxes(-1, -2)
        local *= 0.05 if shape else 0.4
        before, after = (np.prod(np.linalg.det(0.7 * np.eye(3) + sums)) for sums in (downloaded, downloaded + local))
        answers.append(bool(event_triggered.triggers(tf.constant(downloaded), tf.constant(local), 0.7, threshold)))
        assert answers[-1] == (after > (1 + threshold) * before)
    assert set(answers) == {False, True}


def test_with_threshold_zero_every_interaction_triggers_an_upload_and_nothing_new_does_not():
    downloaded, new = tf.constant(1e4 * np.eye(3)), tf.constant(np.diag([0.01, 0, 0]))
    assert event_triggered.triggers(downloaded, new, 1.0, 0.0)
    assert not event_triggered.triggers(downloaded, 0 * new, 1.0, 0.0)


def test_determinants_may_exceed_floating_point():
    downloaded = 1e4 * tf.eye(200, dtype=tf.float64)
    assert not event_triggered.triggers(downloaded, 0.001 * downloaded, 1.0, 1.0)
    assert event_triggered.triggers(downloaded, 0.01 * downloaded, 1.0, 1.0)


def test_upper_bounds_equal_those_with_an_inverse():
    draw = np.random.default_rng(2)
    seen, actions = draw.normal(size=(9, FEATURES)), draw.normal(size=(3, ACTIONS, FEATURES))
    sums = event_triggered.sums_of(tf.constant(seen), tf.constant(draw.normal(size=9)))
    inverse = np.linalg.inv(seen.T @ seen + 0.5 * np.eye(FEATURES))
    expected = actions @ inverse @ sums.reward.numpy()
    expected += 0.7 * np.sqrt(np.einsum("nki,ij,nkj->nk", actions, inverse, actions))
    np.testing.assert_allclose(LEARNER.upper_bounds(sums, tf.constant(actions)), expected, rtol=1e-12)


COHORTS = ((0, 1, 2), (1, 2, 4), (), (3, 0, 4), (2, 1, 0), (4, 1, 3), (0, 1, 2, 3, 4), (2,))


def _inputs(round_num, client):
    draw = np.random.default_rng([round_num, client])
    rows = draw.integers(0, 4)  # A client may have no row in a round.
    return draw.uniform(-1, 1, (rows, ACTIONS, FEATURES)), draw.normal(size=(rows, ACTIONS))


def test_rounds_with_several_clients_and_rows_are_those_in_numpy(tff_worker, tmp_path):
    rounds, expected = (tff_rounds(tmp_path, LEARNER, INPUTS_TYPE, FEATURES, CLIENTS), InNumpy(LEARNER, 4, CLIENTS))
    state, most = rounds.initialize(), 0
    for round_num, cohort in enumerate(COHORTS, 1):
        inputs = [(_inputs(round_num, client), client) for client in cohort]
        acted = [expected.act(client, *one) for one, client in inputs]
        uploading = [client for client, (_, uploads) in zip(cohort, acted, strict=True) if uploads]
        expected.exchange(uploading)
        if round_num % 2:  # Nothing but the state and the files is needed to continue.
            rounds = tff_rounds(tmp_path, LEARNER, INPUTS_TYPE, FEATURES, CLIENTS)
        state, reports, messages = rounds.next(state, (), inputs, round_num)
        for choices, (expected_choices, _) in zip(reports, acted, strict=True):
            np.testing.assert_array_equal(choices, expected_choices)
        assert messages == 2 * len(uploading)
        most = max(most, len(uploading))
        for total, expected_total in zip(state.totals, expected.totals, strict=True):
            np.testing.assert_allclose(total, expected_total, atol=1e-12)
    assert most > 1
    assert state.last_rounds.tolist() == [7, 7, 8, 7, 7]
    states = client_states.ClientStates(tmp_path, list)
    zeros = event_triggered.ClientState(*[event_triggered.empty_sums(FEATURES)] * 2)
    for client, last in enumerate(state.last_rounds):
        loaded = states.load(client, last, zeros)
        assert isinstance(loaded.local, Sums)
        for one, other in zip(loaded, (expected.downloaded[client], expected.local[client]), strict=True):
            for part, expected_part in zip(one, other, strict=True):
                np.testing.assert_allclose(part, expected_part, atol=1e-12)


class LeastCounted(policies.Policy):
    """Chooses the action with the smallest count; clients upload counts above five."""

    at_deployment = policies.ACCUMULATE

    def statistics(self, action):
        return {"counts": tf.reduce_sum(tf.one_hot(action, process_test.NUM_ACTIONS), axis=0)}

    def probabilities(self, predicted_rewards, statistics):
        best = tf.fill(tf.shape(predicted_rewards)[:1], tf.argmin(statistics["counts"]))
        return tf.one_hot(best, process_test.NUM_ACTIONS)

    def uploads(self, downloaded, local):
        return tf.reduce_sum(local["counts"]) > 5


def test_clients_of_a_federated_bandit_act_with_their_own_downloads(tff_worker, tmp_path):
    policy = LeastCounted()
    definition = process_test.make(policy=policy)
    zeros = {name: np.zeros(spec.shape) for name, spec in definition.sums_spec.items()}
    models_type = tff.to_type(((definition.weights_type,), definition.weights_type))
    states = client_states.ClientStates(tmp_path, list)
    act, types = event_triggered.of_process(definition), (models_type, definition.client_type)
    rounds = event_triggered.Rounds(act, policy.uploads, zeros, types, states, 3)
    state, shared = rounds.initialize(), ((process_test.INITIAL,), process_test.INITIAL)
    totals, downloaded, local, sent = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3)), []
    for round_num in range(1, 9):
        cohort = [client for client in range(3) if client != round_num % 3]
        for client in cohort:
            local[client, downloaded[client].argmin()] += client + 2
        uploading = [client for client in cohort if local[client].sum() > 5]
        totals = totals + local[uploading].sum(axis=0)
        downloaded[uploading], local[uploading] = totals, 0
        policy_state = {policies.ROUND: np.int32(round_num)}
        policy_state |= {name: zero.astype(np.float32) for name, zero in zeros.items()}
        given = [
            process_test.make_client(client + 2, client)._replace(
                policy_state=policy_state, counted=np.ones(client + 2, bool)
            )
            for client in cohort
        ]
        state, reports, messages = rounds.next(state, shared, list(zip(given, cohort, strict=True)), round_num)
        assert messages == 2 * len(uploading)
        assert [sums["examples"] for _, sums in reports] == [client + 2 for client in cohort]
        np.testing.assert_array_equal(state.totals["counts"], totals)
        assert state.totals[policies.COUNT] == totals.sum()
        sent.append(len(uploading))
    assert 0 < sum(sent) < 16
    assert (totals > 0).sum() == 2
