"""Whole runs on sets of actions that log interactions, and evaluations of their logs."""

import numpy as np
import pytest

from bandits import interactions
from data import interaction_log
from tests.bandits import deployed_policies, whole_runs
from tests.bandits.evaluation.tables_of_logs import by_estimator, evaluated
from tests.bandits.run_action_sets_test import SMALL

pytestmark = pytest.mark.slow

play = whole_runs.player("--log_interactions", *SMALL, "--bandits_type=softmax")


@pytest.fixture(scope="module")
def run(tff_worker, tmp_path_factory):
    return play(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def log(run):
    return interactions.read_run(run).with_contexts()


def test_the_logged_action_is_a_slot_and_its_propensity_that_of_the_deployed_model(log):
    target = deployed_policies.probabilities(log)
    np.testing.assert_allclose(target.sum(axis=1), 1, atol=1e-6)
    assert (target[log.log.slot_actions < 0] == 0).all()
    played = target[np.arange(len(log.log)), log.log.actions]
    np.testing.assert_allclose(played, log.log.propensities, rtol=2e-4)


def test_contexts_and_features_are_those_of_the_clients(log):
    task, sets = log.task, log.log.contexts
    for row in (0, len(log.log) - 1):
        name, position = log.log.client_ids[log.log.clients[row]], log.log.rows[row]
        examples = task.clients.load(task.clients.client_ids.index(name)).take(np.array([position]))
        np.testing.assert_array_equal(sets.contexts[row], examples.features.contexts[0])
        size = log.log.set_sizes[row]
        np.testing.assert_array_equal(log.log.catalogue[sets.entries[row, :size]], examples.features.actions[0, :size])
        assert log.log.rewards[row] == pytest.approx(examples.labels[0, log.log.actions[row]])


def test_a_runs_log_and_its_saved_copy_give_the_same_estimates(run, log, tmp_path):
    sizes, propensities = log.log.set_sizes, log.log.propensities
    saved = tmp_path / "saved.parquet"
    flags = ("--policy=uniform", "--nomodel", "--draws=0")
    first = evaluated(tmp_path / "first", f"--log={run}", f"--save_log={saved}", *flags)
    assert by_estimator(first)["ips"] == pytest.approx((log.log.rewards / sizes / propensities).mean(), abs=1e-10)
    copy = interaction_log.read(saved)
    np.testing.assert_array_equal(copy.contexts.entries, log.log.contexts.entries)
    np.testing.assert_array_equal(copy.catalogue, log.log.catalogue)
    for name, policy in (("second", "--policy=uniform"), ("third", f"--policy=run:{run}")):
        of_run = evaluated(tmp_path / f"{name}_run", f"--log={run}", policy, *flags[1:])
        of_file = evaluated(tmp_path / f"{name}_file", f"--log={saved}", policy, *flags[1:])
        assert by_estimator(of_run) == by_estimator(of_file)
        assert of_run["actions"] == 5
