"""Runs on the log of a bandit: what is refused, and what they learn."""

import json

import numpy as np
import pandas as pd
import pytest

from bandits import metrics, run_federated
from data import interaction_log
from optimization.study import frame, run_folder
from tests.bandits import whole_runs

CLIENTS, ROWS = 40, 60
QUICK = ("--server_learning_rate=0.1",)


@pytest.mark.parametrize(
    ("learn_from", "bandit", "weighs"),
    [("regression", "greedy", False), ("ips", "greedy", True), ("dr", "supervised_mse", False)],
)
def test_offline_training_is_that_of_a_bandit(learn_from, bandit, weighs):
    settings = whole_runs.resolve("--task_type=logged", "--data_file=log.parquet", f"--learn_from={learn_from}")
    assert (settings.bandits_type, settings.importance_weighting) == (bandit, weighs)
    assert settings.experiment_name == f"logged_scratch_{learn_from}"


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A folder with `skewed.parquet` and `uniform.parquet`, where action k earns by feature k."""
    folder, count = tmp_path_factory.mktemp("logs"), CLIENTS * ROWS
    for name, shares in (("skewed", [0.6, 0.3, 0.1]), ("uniform", [1 / 3] * 3)):
        draw, each = np.random.default_rng(5), np.arange(count)
        contexts = draw.normal(size=(count, 3)).astype(np.float32)
        means = np.clip(0.5 + 0.3 * contexts, 0.02, 0.98)
        actions = draw.choice(3, count, p=shares)
        rewards = (draw.random(count) < means[each, actions]) * 1.0
        columns = {"actions": actions, "rewards": rewards, "propensities": np.array(shares)[actions]}
        names = [f"c{number:02d}" for number in range(CLIENTS)]
        log = interaction_log.ordered(names, np.repeat(np.arange(CLIENTS), ROWS), contexts, list("abc"), columns)
        interaction_log.write(log, folder / f"{name}.parquet")
    return folder


def _play(logs, out, *arguments: str, log: str = "skewed", name: str = "run") -> pd.DataFrame:
    flags = ["--task_type=logged", f"--data_file={logs}/{log}.parquet", f"--root_output_dir={out}"]
    argv = ["run_federated", *flags, f"--experiment_name={name}", "--rounds_per_eval=0", *arguments]
    assert frame.program(run_federated.STUDY, frame.flag_set(run_federated.STUDY).parse(argv)) == 0
    return pd.read_csv(out / name / "metrics.csv")


@pytest.mark.slow
@pytest.mark.parametrize("learn_from", ["regression", "ips", "dr"])
def test_offline_training_finds_what_each_action_likes_and_a_run_starts_from_it(logs, tmp_path, learn_from):
    rows = _play(logs, tmp_path, f"--learn_from={learn_from}", "--total_rounds=60", *QUICK, name="offline")
    with np.load(tmp_path / "offline" / "model" / "weights.npz") as archive:
        kernel, bias = archive.values()
    contexts = np.random.default_rng(9).normal(size=(1000, 3)).astype(np.float32)
    assert (np.argmax(contexts @ kernel + bias, axis=1) == np.argmax(contexts, axis=1)).mean() > 0.8
    assert rows[metrics.HELD_OUT_REWARD].iloc[-1] > 0.6  # Uniform actions earn 0.5, the best 0.74.
    started = f"--initial_model_path={tmp_path}/offline"
    first = _play(logs, tmp_path, "--bandits_type=greedy", started, "--total_rounds=1")
    assert first[metrics.ROUND_REWARD].iloc[0] > 0.6


@pytest.mark.slow
def test_offline_rounds_report_what_was_logged(logs, tmp_path):
    rows = _play(logs, tmp_path, "--learn_from=regression", "--total_rounds=1", "--clients_per_round=32")
    log = interaction_log.read(logs / "skewed.parquet")
    assert rows[metrics.EXAMPLES].iloc[0] == 32 * ROWS
    assert rows[metrics.ROUND_REWARD].iloc[0] == pytest.approx(log.rewards.mean(), abs=0.03)
    assert rows[metrics.ROUND_PROBABILITY].iloc[0] == pytest.approx(log.propensities.mean(), abs=0.03)
    assert rows[metrics.HELD_OUT_REWARD].notna().all()
    assert rows[metrics.ACCURACY].isna().all()  # No action is right or wrong.


@pytest.mark.slow
def test_offline_training_takes_noise_and_its_guarantee_is_composed(logs, tmp_path):
    noise = ("--aggregator_type=dpsgd", "--noise_multiplier=1", "--clip_norm=0.1", "--total_rounds=2")
    _play(logs, tmp_path, "--learn_from=ips", *noise, name="offline")
    _play(logs, tmp_path, f"--initial_model_path={tmp_path}/offline", *noise)
    before, after = (json.loads((tmp_path / name / "privacy.json").read_text()) for name in ("offline", "run"))
    assert 0 < before["epsilon"] < after["epsilon"]


@pytest.mark.slow
def test_the_simulator_is_scored_on_held_out_data(logs, tmp_path, capfd):
    _play(logs, tmp_path, "--bandits_type=falcon", "--total_rounds=1")
    assert "On held-out data, with 95% intervals over clients:\n  logging policy: simulator" in capfd.readouterr().err
    found = json.loads((tmp_path / "run" / "simulator.json").read_text())["uniformly random actions"]
    assert found["logged"]["mean"] == pytest.approx(0.5, abs=0.08)


@pytest.mark.slow
def test_replay_of_uniform_actions_keeps_a_row_in_k_and_their_logged_rewards(logs, tmp_path, capfd):
    all_clients = ("--learn_from=replay", "--total_rounds=6", "--clients_per_round=32")
    rows = _play(logs, tmp_path, *all_clients, "--bandits_type=uniform", log="uniform")
    kept, there = rows[metrics.EXAMPLES].sum(), 32 * ROWS
    assert kept == pytest.approx(there / 3, abs=4 * np.sqrt(there * 2 / 9))
    earned = (rows[metrics.ROUND_REWARD] * rows[metrics.EXAMPLES]).sum() / kept
    log = interaction_log.read(logs / "uniform.parquet")
    assert earned == pytest.approx(log.rewards.mean(), abs=4 * 0.5 / np.sqrt(kept))
    assert f"Replay kept {kept:,.0f} of the {there:,} rows" in capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("learn_from", ["simulator", "ips"])
def test_later_rows_are_those_of_clients_seen_in_training_and_the_run_says_so(tmp_path, capfd, learn_from):
    draw, count = np.random.default_rng(0), 20 * 30
    table = pd.DataFrame(
        {"who": np.repeat(np.arange(20), 30), "age": draw.normal(size=count), "day": draw.random(count)}
    )
    table["shown"], table["paid"], table["p"] = draw.integers(2, size=count), draw.integers(2, size=count), 0.5
    table.to_csv(tmp_path / "log.csv", index=False)
    columns = ("--client_column=who", "--action_column=shown", "--reward_column=paid", "--propensity_column=p")
    time = ("--time_column=day", "--reward_window=0.05", "--hold_out=time")
    noise = ("--aggregator_type=dpsgd", "--noise_multiplier=1", "--clip_norm=0.1", "--total_rounds=2")
    argv = [f"--data_file={tmp_path}/log.csv", *columns, *time, *noise, f"--learn_from={learn_from}"]
    _play(tmp_path, tmp_path, *argv)
    assert "of 20 clients, 20 of them seen in training" in capfd.readouterr().out
    folder = tmp_path / "run"
    assert not (folder / run_folder.CLIENT_REWARDS_FILE).exists()
    revealed = " ".join(json.loads((folder / "privacy.json").read_text())["epsilon_assumes"])
    assert "the time that separates training from evaluation" in revealed
    assert "the latest time in the log" in revealed
