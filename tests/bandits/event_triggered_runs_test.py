"""Runs of linear bandits with event-triggered communication."""

import numpy as np
import pytest

from bandits import metrics, run_federated
from data.errors import UsageError
from optimization.study import run_folder, training_flags
from tests.bandits import whole_runs
from tests.bandits.whole_runs import policy_sums

CLIENTS, ROUNDS = 4, 6
SETS = ("--task_type=linear_synthetic", "--partition_examples=30", "--context_features=2", "--action_features=3")
TRIGGERED = "--communication=event_triggered"
OFTEN, RARELY, NEVER = (f"--communication_threshold={alpha}" for alpha in (0, 20, 1e30))
SMALL = ("--total_rounds=6", "--clients_per_round=4", "--population_client_selection=0-4", "--bandits_deploy_freq=1")
play = whole_runs.player("--bandits_type=linucb", "--model=linear", "--rounds_per_eval=0", *SMALL)


def _files(run):
    return {path.name: path.read_bytes() for path in (run / run_folder.CLIENT_SUMS).iterdir()}


@pytest.mark.slow
def test_rounds_of_all_clients_who_always_send_are_those_of_a_plain_run(tmp_path):
    plain, triggered = play(tmp_path / "a", *SETS), play(tmp_path / "b", *SETS, TRIGGERED, OFTEN)
    for name, expected in policy_sums(plain).items():
        np.testing.assert_allclose(policy_sums(triggered)[name], expected, rtol=1e-6, atol=1e-5)
    one, other = whole_runs.table(plain), whole_runs.table(triggered)
    for column in (metrics.ROUND_REWARD, metrics.ROUND_PROBABILITY, metrics.EXAMPLES, metrics.BYTES_UP):
        np.testing.assert_allclose(other[column], one[column], rtol=1e-5)
    assert (other[metrics.MESSAGES] == 2 * CLIENTS).all()
    for one, other in zip(*(whole_runs.weights(run).values() for run in (plain, triggered)), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_clients_send_less_with_a_larger_threshold(tmp_path):
    runs = [play(tmp_path / threshold, *SETS, TRIGGERED, threshold) for threshold in (OFTEN, RARELY, NEVER)]
    tables = [whole_runs.table(run) for run in runs]
    often, rarely, never = (table[metrics.MESSAGES].sum() for table in tables)
    assert often == 2 * CLIENTS * ROUNDS
    assert 0 < rarely < often
    assert never == 0
    for table in tables:  # A gram matrix of 12 units, a moment and a count.
        for column in (metrics.BYTES_UP, metrics.BYTES_DOWN):
            np.testing.assert_array_equal(table[column], table[metrics.MESSAGES] / 2 * 4 * (12 * 12 + 12 + 1))
    examples = [table[metrics.EXAMPLES].sum() for table in tables]
    assert policy_sums(runs[0])["gram"][0, -1, -1] == examples[0]
    assert 0 < policy_sums(runs[1])["gram"][0, -1, -1] <= examples[1]
    assert not any(weight.any() for weight in whole_runs.weights(runs[2]).values())


@pytest.mark.slow
def test_a_stopped_run_continues_as_if_it_had_not_been_stopped(tmp_path):
    sampled = ("--bandits_type=lints", "--bandits_num_draws=5", "--clients_per_round=2", "--rounds_per_checkpoint=2")
    given = (*SETS, *sampled, TRIGGERED, RARELY)
    whole, continued = whole_runs.stopped(play, tmp_path, *given, after=4, last_checkpoint=2)
    assert 0 < whole_runs.table(whole)[metrics.MESSAGES].sum() < 4 * ROUNDS
    for name, total in policy_sums(whole).items():
        np.testing.assert_array_equal(policy_sums(continued)[name], total)
    newest = {name[: len("client_00000000")]: name for name in sorted(_files(whole))}
    assert len(newest) == CLIENTS
    for name in newest.values():
        assert _files(continued)[name] == _files(whole)[name]


@pytest.mark.slow
def test_sums_of_clients_are_private(tmp_path, capsys):
    run = play(tmp_path, *SETS, TRIGGERED)
    folder = run / run_folder.CLIENT_SUMS
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.iterdir()))
    patterns = whole_runs.spent(run)["files"][str(run_folder.Disclosure.PRIVATE)]
    assert any(next(folder.iterdir()).relative_to(run).match(pattern) for pattern in patterns)
    assert f"Keep {folder} and the checkpoints private: they hold sums" in capsys.readouterr().out


@pytest.mark.slow
def test_an_initial_training_has_no_triggers(tmp_path):
    play = whole_runs.player("--bandits_type=linucb", "--model=linear", "--scenario=init", "--init_rounds=2")
    run = play(tmp_path, TRIGGERED, "--total_rounds=2", "--clients_per_round=3", "--rounds_per_eval=0")
    assert metrics.MESSAGES in whole_runs.table(run)
    assert metrics.MESSAGES not in whole_runs.table(run / "init")
    assert not (run / "init" / run_folder.CLIENT_SUMS).exists()


def test_a_policy_of_the_users_conflicts_with_triggers():
    with pytest.raises(UsageError, match="conflicts with your policy"):
        whole_runs.opened(
            "--bandits_type=linucb", TRIGGERED, "--policy=tests.bandits.run_own_policies_test:LinearThompson"
        )


def test_more_clients_than_can_store_sums_are_refused(monkeypatch):
    monkeypatch.setattr(training_flags, "MOST_STATES", 3)
    linucb = ("--bandits_type=linucb", "--model=linear", "--clients_per_round=2")
    three, four = (f"--population_client_selection=0-{count}" for count in (3, 4))
    for given in ((TRIGGERED, three), ("--seed=1", four)):
        run_federated.STUDY.check(*whole_runs.opened(*linucb, *given))
    with pytest.raises(UsageError, match="event_triggered stores the states of at most 3"):
        run_federated.STUDY.check(*whole_runs.opened(*linucb, TRIGGERED, four))
