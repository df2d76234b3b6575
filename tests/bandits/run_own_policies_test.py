"""Whole runs of a user's policy: its sums over clients, its round, and what is reported if it fails."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import bandits
from bandits import interactions, policies
from data.errors import Failure
from tests.bandits import whole_runs

pytestmark = pytest.mark.slow

SMALL = ("--total_rounds=7", "--clients_per_round=10", "--bandits_deploy_freq=3", "--rounds_per_eval=5")
play = whole_runs.player(*SMALL)


@dataclasses.dataclass(frozen=True)
class LinearThompson(policies.Policy):
    scale: float = 0.1
    at_deployment = policies.ACCUMULATE
    bound = 1e4

    def statistics(self, contexts, action, reward):
        chosen = tf.one_hot(action, 10)
        return {
            "xx": tf.einsum("nk,ni,nj->kij", chosen, contexts, contexts),
            "xr": tf.einsum("nk,ni,n->ki", chosen, contexts, reward),
        }

    def probabilities(self, predicted_rewards, contexts, statistics, interactions, round_num, key):
        factor = tf.linalg.cholesky(statistics["xx"] + tf.eye(64))
        mean = tf.linalg.cholesky_solve(factor, statistics["xr"][..., tf.newaxis])
        share = tf.cast(round_num > 1, tf.float32) * tf.cast(interactions > 0, tf.float32)

        def draw(one, predicted_rewards):
            noise = tf.random.stateless_normal(tf.shape(mean), one)
            drawn = mean + self.scale * tf.linalg.triangular_solve(factor, noise, adjoint=True)
            return tf.argmax(share * tf.einsum("ni,kio->nk", contexts, drawn) + predicted_rewards, axis=1)

        return policies.from_samples(draw, 0.001, 5).probabilities(predicted_rewards, key)


class Restarting(LinearThompson):
    at_deployment = policies.RESTART


def breaks_later(predicted_rewards, round_num):
    return tf.nn.softmax(predicted_rewards) * (1 + tf.cast(tf.equal(round_num, 3), tf.float32))


def asserts_later(predicted_rewards, round_num):
    with tf.control_dependencies([tf.debugging.Assert((round_num < 3) | (round_num > 7), ["too late"])]):
        return tf.nn.softmax(predicted_rewards)


class Recorder:
    """A callback that records its calls."""

    def __init__(self):
        self.seen = []

    def on_start(self, run):
        self.seen.append((run.label, run.folder.name, run.total_rounds, run.first_round))

    def on_round(self, row):
        self.seen.append(row["round_num"])

    def on_end(self, run):
        self.seen.append((run.status, len(run.results().metrics)))


def _policy(name: str) -> str:
    return f"--policy={__name__}:{name}"


def test_sums_restart_at_a_deployment_and_have_each_kept_interaction_once(tmp_path):
    run = play(tmp_path, _policy("Restarting"), "--log_interactions", "--cache=persistent")
    log = interactions.read_run(run).with_contexts().log
    # Deployments are after rounds 3 and 6.
    _, once = np.unique(np.stack([log.clients, log.periods, log.rows])[:, log.rounds <= 6], axis=1, return_index=True)
    once = np.flatnonzero(log.rounds <= 6)[once]
    sums = whole_runs.policy_sums(run)
    assert sums["interactions"] == pytest.approx(len(once), rel=1e-5)
    once = once[log.rounds[once] > 3]
    contexts, rewards, chosen = log.contexts[once].astype(float), log.rewards[once], np.eye(10)[log.actions[once]]
    tolerance = {"rtol": 1e-5, "atol": 1e-4}
    np.testing.assert_allclose(sums["xx"], np.einsum("nk,ni,nj->kij", chosen, contexts, contexts), **tolerance)
    np.testing.assert_allclose(sums["xr"], np.einsum("nk,ni,n->ki", chosen, contexts, rewards), **tolerance)


def test_sums_are_part_of_both_payloads(tmp_path):
    plain = whole_runs.table(play(tmp_path / "plain", "--bandits_type=greedy"))
    own = whole_runs.table(play(tmp_path, _policy("LinearThompson")))
    size = 4 * (1 + 10 * 64 * 64 + 10 * 64)
    for column in ("communication/bytes_down", "communication/bytes_up"):
        np.testing.assert_array_equal(own[column] - plain[column], np.full(7, 10 * size))


def test_an_invalid_row_stops_the_run_before_its_round_is_written(tmp_path):
    with pytest.raises(Failure, match=r"policy breaks_later returned the invalid row \[0\.\d+ .*sum to 1"):
        play(tmp_path, _policy("breaks_later"))
    assert len(whole_runs.table(tmp_path / "run")) == 2


def test_a_failed_assertion_of_a_policy_is_a_single_line_with_the_round(tmp_path):
    with pytest.raises(Failure) as caught:
        play(tmp_path, _policy("asserts_later"))
    reason = "TFF's worker reports an error: assertion failed: [too late]."
    assert str(caught.value) == f"Round 3 failed: {reason} The run is in {tmp_path}/run."
    assert len(whole_runs.table(tmp_path / "run")) == 2


def test_callbacks_see_the_initial_training_as_a_run_of_its_own(tff_worker, tmp_path, capsys):
    first, again = Recorder(), Recorder()
    settings = {"scenario": "init", "init_rounds": 1, "total_rounds": 2, "clients_per_round": 5}
    for recorder in (first, again):
        bandits.run(callbacks=[recorder], root_output_dir=tmp_path, experiment_name="run", **settings)
    initial, rest = ("Initial training", "init", 1), ("softmax", "run", 2)
    assert first.seen == [(*initial, 0), 1, ("finished", 1), (*rest, 0), 1, 2, ("finished", 2)]
    assert again.seen == [(*initial, 1), ("finished", 1), (*rest, 2), ("finished", 2)]
    assert "Initial training: 1 round, before 2 rounds of softmax." in capsys.readouterr().err
