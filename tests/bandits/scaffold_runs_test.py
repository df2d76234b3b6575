"""Runs of SCAFFOLD, and of robust aggregations."""

import numpy as np
import pytest

from bandits import metrics
from data.errors import UsageError
from optimization.study import run_folder, training_flags
from tests.bandits import run_own_policies_test, whole_runs

SMALL = ("--total_rounds=6", "--clients_per_round=3", "--bandits_deploy_freq=2", "--population_client_selection=0-8")
SCAFFOLD = "--client_algorithm=scaffold"
PLAIN = ("--noadaptive_clipping",)


pytestmark = pytest.mark.slow
play = whole_runs.player(*SMALL)


def _variates(run):
    return {path.name: path.read_bytes() for path in (run / run_folder.CLIENT_VARIATES).iterdir()}


def _clients(run):
    return {name[: len("client_00000000")] for name in _variates(run)}


@pytest.mark.parametrize("flags", [("--bandits_deploy_delay=2", "--server_optimizer=yogi"), ("--drop_out=0.6",)])
def test_a_stopped_run_goes_on_as_if_it_had_not(tmp_path, flags):
    given = (SCAFFOLD, *flags, "--rounds_per_checkpoint=2")
    whole, again = whole_runs.stopped(play, tmp_path, *given, after=4, last_checkpoint=2)
    last = {max(name for name in _variates(whole) if name.startswith(client)) for client in _clients(whole)}
    assert {name: _variates(again)[name] for name in last} == {name: _variates(whole)[name] for name in last}


@pytest.fixture(scope="module")
def fedavg(tmp_path_factory):
    return play(tmp_path_factory.mktemp("fedavg"), *PLAIN)


@pytest.fixture(scope="module")
def corrected(tmp_path_factory):
    return play(tmp_path_factory.mktemp("scaffold"), SCAFFOLD)


def test_messages_have_a_variate_beside_the_model_each_way(fedavg, corrected):
    expected, found = whole_runs.table(fedavg), whole_runs.table(corrected)
    assert (found[metrics.BYTES_UP] == 2 * expected[metrics.BYTES_UP]).all()
    assert (2 * found[metrics.BYTES_DOWN] == 3 * expected[metrics.BYTES_DOWN]).all()  # The deployed model, too.


def test_an_initial_training_has_variates_of_its_own(tmp_path):
    flags = ("--scenario=init", "--init_clients=4", "--init_rounds=3")  # They do not allow client selection.
    run = whole_runs.player(*SMALL[:3])(tmp_path, SCAFFOLD, *flags)
    assert _clients(run / "init") <= {f"client_{number:08d}" for number in range(4)}
    assert _clients(run)
    assert _clients(run).isdisjoint(_clients(run / "init"))


def test_variates_are_private(corrected):
    folder = corrected / run_folder.CLIENT_VARIATES
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.iterdir()))
    patterns = whole_runs.spent(corrected)["files"][str(run_folder.Disclosure.PRIVATE)]
    assert any(next(folder.iterdir()).relative_to(corrected).match(pattern) for pattern in patterns)


def test_more_clients_than_can_keep_variates_are_refused():
    training_flags.check_states(10_000, client_algorithm="scaffold")
    training_flags.check_states(10_001, client_algorithm=None)
    with pytest.raises(UsageError, match=r"--client_algorithm=scaffold .* at most 10,000 clients on disk, but 10,001"):
        training_flags.check_states(10_001, client_algorithm="scaffold")


def test_robust_runs_report_coordinates_that_do_not_change(fedavg, tmp_path, capsys):
    table = whole_runs.table(play(tmp_path, "--aggregator_type=trimmed_mean", "--cohort_sampling=poisson"))
    shares = table[metrics.ZERO_SHARE].dropna()
    assert shares.between(0, 1).all()
    assert f"The aggregate was 0 in {shares.mean():.1%} of the coordinates" in capsys.readouterr().out
    assert table.columns[-1] == metrics.ZERO_SHARE
    assert metrics.ZERO_SHARE not in whole_runs.table(fedavg)


def test_a_policy_receives_sums_over_the_clients(tmp_path):
    """Before the first deployment, clients act alike however they train."""
    policy = f"--policy={run_own_policies_test.__name__}:LinearThompson"
    runs = [play(tmp_path / name, flag, policy, "--total_rounds=2") for name, flag in (("a", *PLAIN), ("b", SCAFFOLD))]
    expected, found = map(whole_runs.policy_sums, runs)
    assert expected.keys() == found.keys()
    for name, total in expected.items():
        assert np.abs(total).sum() > 0
        np.testing.assert_allclose(found[name], total, rtol=1e-5)
