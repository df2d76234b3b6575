"""Whole runs: the same impressions for both learners, reproducible, resumable."""

import json
import pathlib
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from bandits.ads import experiment, metrics, run_ads
from data import ads
from optimization.privacy import mechanisms
from optimization.study import frame, run_folder
from tests.bandits import whole_runs

pytestmark = pytest.mark.slow

RATES = (0.1, 0.6, 0.3)
SMALL = ("--rates=0.1,0.6,0.3", "--clients=8", "--impressions_per_client=25", "--local_pulls=5", "--total_rounds=5")


def run(folder: pathlib.Path, *arguments: str) -> int:
    """Runs in this process, with its worker."""
    argv = ["run_ads", f"--root_output_dir={folder}", "--experiment_name=run", *SMALL, *arguments]
    return frame.program(run_ads.STUDY, frame.flag_set(run_ads.STUDY).parse(argv))


def table(folder: pathlib.Path, name: str = "run") -> pd.DataFrame:
    return whole_runs.table(folder / name)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of five rounds."""
    folder = tmp_path_factory.mktemp("finished")
    assert run(folder) == 0
    return folder


def test_central_and_federated_see_the_same_impressions():
    impressions = ads.bernoulli(RATES, 8, 25, 0)
    # Each impression gets a number of its own.
    numbered = impressions._replace(clicks=np.arange(8 * 25 * 3).reshape(8, 25, 3))
    seen = []
    for round_num in range(1, 6):
        shown = experiment.round_impressions(numbered, round_num, 5)
        federated = [shard.clicks[:, :, 0] for shard in experiment.shards(shown, np.arange(8), 0, round_num, 3)]
        central = experiment.central_stream(shown)[:, 0]
        np.testing.assert_array_equal(central, np.concatenate(federated).T.ravel())
        seen += central.tolist()
    assert len(set(seen)) == len(seen) == 8 * 25


def test_a_run_leaves_a_complete_folder(finished):
    assert all((finished / "run" / name).is_file() for name in ("config.json", "checkpoints/round_00000005.npz"))
    assert list(table(finished).columns) == ["round_num", *metrics.COLUMNS]
    assert whole_runs.spent(finished / "run")["epsilon"] is None
    assert np.isinf(table(finished)[metrics.EPSILON]).all()


def test_only_the_clients_of_a_round_show_their_impressions(tmp_path, monkeypatch):
    shards = mock.Mock(wraps=experiment.shards)
    stream = mock.Mock(wraps=experiment.central_stream)
    monkeypatch.setattr(experiment, "shards", shards)
    monkeypatch.setattr(experiment, "central_stream", stream)
    assert run(tmp_path, "--clients_per_round=3", "--total_rounds=3") == 0
    cohorts = [call.args[1] for call in shards.call_args_list]
    assert [len(set(cohort)) for cohort in cohorts] == table(tmp_path)[metrics.CLIENTS].tolist() == [3] * 3
    assert len({tuple(cohort) for cohort in cohorts}) > 1
    clicks = ads.bernoulli(RATES, 8, 25, 0).clicks
    for round_num, (cohort, call) in enumerate(zip(cohorts, stream.call_args_list, strict=True)):
        np.testing.assert_array_equal(call.args[0], clicks[cohort, 5 * round_num : 5 * round_num + 5])


def test_a_round_without_clients_changes_nothing(tmp_path, capfd):
    assert run(tmp_path, "--drop_out=0.9", "--seed=7", "--decision_rule=federated_ucb", "--total_rounds=3") == 0
    rows = table(tmp_path)
    assert (rows[metrics.CLIENTS] > 0).tolist() == [True, True, False]
    for learner in metrics.LEARNERS:
        assert np.isnan(rows.loc[2, metrics.column(learner, metrics.AVERAGE_CLICKS)])
        kept = [metrics.column(learner, name) for name in (metrics.TOTAL_REWARD, metrics.UPPER_INTERVAL)]
        np.testing.assert_array_equal(rows.loc[2, kept], rows.loc[1, kept])
    assert "nan" not in capfd.readouterr().out


def test_killed_in_a_checkpoint_then_resumed_equals_uninterrupted(kill_in_a_checkpoint, finished, tmp_path):
    folder = (f"--root_output_dir={tmp_path}", "--experiment_name=run")
    kill_in_a_checkpoint("bandits.ads.run_ads", 4, *folder, *SMALL, "--rounds_per_checkpoint=2")
    assert len(table(tmp_path)) >= 3
    run(tmp_path, "--rounds_per_checkpoint=2")
    pd.testing.assert_frame_equal(table(tmp_path), table(finished), check_exact=True)


def test_seeded_noise_is_reproducible_and_changes_the_run(finished, tmp_path):
    noise = ("--clip_norm=0.5", "--noise_multiplier=5", "--insecure_seeded_noise")
    for name in ("a", "b"):
        run(tmp_path, *noise, f"--experiment_name={name}")
    pd.testing.assert_frame_equal(table(tmp_path, "a"), table(tmp_path, "b"), check_exact=True)
    assert not table(tmp_path, "a").equals(table(finished))
    assert whole_runs.spent(tmp_path / "a")["epsilon"] is None


def test_a_noisy_run_accounts_its_privacy(tmp_path, capfd):
    run(tmp_path, "--clip_norm=0.5", "--noise_multiplier=5")
    spent = whole_runs.spent(tmp_path / "run")
    assert spent["summary"] in capfd.readouterr().out
    mechanism = mechanisms.Mechanism("dpsgd", 5.0, population=8, cohort=8, clip_norm=0.5)
    assert spent == json.loads(json.dumps(run_folder.with_disclosures(mechanism.report(5))))
    expected = [mechanism.epsilon(round_num) for round_num in range(1, 6)]
    np.testing.assert_allclose(table(tmp_path)[metrics.EPSILON], expected)
