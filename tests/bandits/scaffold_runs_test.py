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


@pytest.fixture
def play(tff_worker, monkeypatch):
    from optimization.runtime import worker

    monkeypatch.setattr(worker, "start", lambda *_: tff_worker)
    return whole_runs.player(*SMALL)


def _variates(run):
    return {path.name: path.read_bytes() for path in (run / run_folder.CLIENT_VARIATES).iterdir()}


@pytest.mark.parametrize("flags", [(), ("--bandits_deploy_delay=2", "--server_optimizer=yogi"), ("--drop_out=0.6",)])
def test_a_stopped_run_goes_on_as_if_it_had_not(play, tmp_path, flags):
    whole = play(tmp_path / "whole", SCAFFOLD, *flags, "--rounds_per_checkpoint=2")
    parts = tmp_path / "parts"
    play(parts, SCAFFOLD, *flags, "--total_rounds=4", "--rounds_per_checkpoint=2")
    for checkpoint in sorted((parts / "run" / "checkpoints").glob("round_*.npz"))[1:]:
        checkpoint.unlink()  # It continues after round 2.
    again = play(parts, SCAFFOLD, *flags, "--rounds_per_checkpoint=2")
    whole_runs.assert_same(whole, again)
    last = {max(name for name in _variates(whole) if name.startswith(client)) for client in _clients(whole)}
    assert {name: _variates(again)[name] for name in last} == {name: _variates(whole)[name] for name in last}


def _clients(run):
    return {name[: len("client_00000000")] for name in _variates(run)}


def test_the_first_round_is_that_of_fedavg_and_later_ones_are_not(play, tmp_path):
    mean, corrected = (whole_runs.table(play(tmp_path / name, flag)) for name, flag in (("a", *PLAIN), ("b", SCAFFOLD)))
    np.testing.assert_allclose(corrected[metrics.LOSS][0], mean[metrics.LOSS][0], rtol=1e-5)
    np.testing.assert_allclose(corrected[metrics.UPDATE_NORM][0], mean[metrics.UPDATE_NORM][0], rtol=1e-5)
    assert not np.allclose(corrected[metrics.LOSS][1:], mean[metrics.LOSS][1:], rtol=1e-3)


def test_messages_have_a_variate_beside_the_model_each_way(play, tmp_path):
    mean, corrected = (whole_runs.table(play(tmp_path / name, flag)) for name, flag in (("a", *PLAIN), ("b", SCAFFOLD)))
    assert (corrected[metrics.BYTES_UP] == 2 * mean[metrics.BYTES_UP]).all()
    assert (2 * corrected[metrics.BYTES_DOWN] == 3 * mean[metrics.BYTES_DOWN]).all()  # The deployed model, too.


@pytest.mark.usefixtures("play")  # This scenario does not allow client selection.
def test_an_initial_training_has_variates_of_its_own(tmp_path):
    flags = ("--scenario=init", "--init_clients=4", "--init_rounds=3")
    run = whole_runs.player(*SMALL[:3])(tmp_path, SCAFFOLD, *flags)
    assert _clients(run / "init") <= {f"client_{number:08d}" for number in range(4)}
    assert _clients(run)
    assert _clients(run).isdisjoint(_clients(run / "init"))


def test_variates_are_private(play, tmp_path, capsys):
    run = play(tmp_path, SCAFFOLD, "--bandits_type=supervised_ce")
    folder = run / run_folder.CLIENT_VARIATES
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    patterns = whole_runs.spent(run)["files"][str(run_folder.Disclosure.PRIVATE)]
    assert any(next(folder.iterdir()).relative_to(run).match(pattern) for pattern in patterns)
    assert f"Keep {folder} and the checkpoints private" in capsys.readouterr().out


def test_more_clients_than_can_keep_variates_are_refused():
    training_flags.check_states(10_000, client_algorithm="scaffold")
    training_flags.check_states(10_001, client_algorithm=None)
    with pytest.raises(UsageError, match=r"--client_algorithm=scaffold .* at most 10,000 clients on disk, but 10,001"):
        training_flags.check_states(10_001, client_algorithm="scaffold")


@pytest.mark.parametrize("kind", ["median", "trimmed_mean"])
@pytest.mark.parametrize("sampling", ["fixed", "poisson"])
def test_robust_runs_report_coordinates_that_do_not_change(play, tmp_path, capsys, kind, sampling):
    run = play(tmp_path, f"--aggregator_type={kind}", f"--cohort_sampling={sampling}")
    table = whole_runs.table(run)
    shares = table[metrics.ZERO_SHARE].dropna()
    assert shares.between(0, 1).all()
    assert f"The aggregate was 0 in {shares.mean():.1%} of the coordinates" in capsys.readouterr().out
    assert table.columns[-1] == metrics.ZERO_SHARE


def test_other_runs_have_no_column_of_robust_aggregations(play, tmp_path):
    assert metrics.ZERO_SHARE not in whole_runs.table(play(tmp_path))


def test_a_policy_receives_sums_over_the_clients(play, tmp_path):
    """Before the first deployment, clients act alike however they train."""
    sums = []
    for name, flag in (("a", *PLAIN), ("b", SCAFFOLD)):
        run = play(
            tmp_path / name, flag, f"--policy={run_own_policies_test.__name__}:LinearThompson", "--total_rounds=2"
        )
        with np.load(run / "model" / "policy_sums.npz") as file:
            sums.append(dict(file))
    assert sums[0].keys() == sums[1].keys()
    for name, expected in sums[0].items():
        assert np.abs(expected).sum() > 0
        np.testing.assert_allclose(sums[1][name], expected, rtol=1e-5)
