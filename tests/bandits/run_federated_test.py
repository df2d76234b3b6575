"""Whole runs on the digits: reproducible, resumable, interruptible."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import psutil
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from bandits import interactions, metrics, run_federated
from data.errors import UsageError
from optimization.study import panels, results
from tests.bandits import whole_runs
from tests.bandits.whole_runs import assert_same, definitions, table

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL = ("--total_rounds=5", "--clients_per_round=4", "--bandits_deploy_freq=2", "--rounds_per_eval=2")
play = whole_runs.player(*SMALL)
MODEL = 4 * (64 * 64 + 64 + 64 * 10 + 10)  # Bytes of the digits' model.


def check(*arguments: str, **changes) -> str:
    """Checks flags against their task, of which something may be changed; returns the messages."""
    chosen, task = whole_runs.opened(*SMALL, *arguments)
    return "\n".join(run_federated.STUDY.check(chosen, dataclasses.replace(task, **changes)))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of five rounds with a checkpoint each round."""
    return play(tmp_path_factory.mktemp("finished"), "--rounds_per_checkpoint=1", draws=True)


def test_a_run_leaves_a_complete_folder(finished):
    files = {str(path.relative_to(finished)) for path in finished.rglob("*") if path.is_file()}
    assert {"config.json", "metrics.csv", "privacy.json", "reward.png", "model/weights.npz"} <= files
    assert any(name.startswith("events.") for name in files)
    rows = table(finished)
    assert list(rows["round_num"]) == [1, 2, 3, 4, 5]
    assert list(rows.columns) == ["round_num", *metrics.COLUMNS]
    assert list(rows[metrics.DEPLOYED]) == [0, 1, 0, 1, 0]
    assert list(rows[metrics.ACCURACY].notna()) == [False, True, False, True, True]
    np.testing.assert_allclose(rows[metrics.AVERAGE_REWARD], rows[metrics.ROUND_REWARD].expanding().mean())
    # Four clients download two models, and send an update back.
    assert set(rows[metrics.BYTES_DOWN]) == {4 * 2 * MODEL}
    assert set(rows[metrics.BYTES_UP]) == {4 * MODEL}
    bounds = results.read(finished, [metrics.COLUMNS]).bounds
    assert bounds["participating"]["chance"] == pytest.approx(0.1)
    assert bounds.keys() == {"participating", "held_out", "rewards", "greedy"}
    reward, known = rows[metrics.HELD_OUT_REWARD].iloc[-1], bounds["held_out"]
    expected = {"reward": reward, "chance": reward > known["chance"], "constant": reward > known["constant"]}
    assert bounds["greedy"] == pytest.approx(expected)


def test_a_run_that_deploys_no_trained_model_warns_in_its_closing_lines_and_its_picture(tmp_path, capsys, monkeypatch):
    titles = []
    draw = panels.draw
    monkeypatch.setattr(panels, "draw", lambda *args, **how: titles.append(how["title"]) or draw(*args, **how))
    play(tmp_path, "--bandits_deploy_freq=9")
    (notice,) = [line for line in capsys.readouterr().out.splitlines() if "no more than" in line]
    assert notice.startswith("Earned no more than a simple policy: its average reward over all rounds (0.")
    assert "its trained model is better, so deploy models more often" in notice
    assert titles == [f"digits: softmax\n{notice}"]


def test_repeats_are_consecutive_seeds_and_equal_seeds_equal_runs(finished, tmp_path):
    run = play(tmp_path, "--repeat=2", "--rounds_per_checkpoint=0")
    assert_same(run / "seed_0", finished)
    assert (table(run / "seed_1")[metrics.ROUND_REWARD] != table(finished)[metrics.ROUND_REWARD]).any()


def test_killed_in_a_checkpoint_then_resumed_equals_uninterrupted(kill_in_a_checkpoint, finished, tmp_path):
    folder = (f"--root_output_dir={tmp_path}", "--experiment_name=run")
    kill_in_a_checkpoint("bandits.run_federated", 3, *folder, *SMALL, "--rounds_per_checkpoint=1")
    assert list((tmp_path / "run" / "checkpoints").glob("*.part*"))
    assert_same(play(tmp_path, "--rounds_per_checkpoint=1"), finished)


def reward_of_own(log):
    return tf.reduce_sum(log["reward"]), tf.size(log["reward"])


def interactions_of_own(log):
    return tf.shape(log["features"])[0]


OWN = (f"--metrics={__name__}:reward_of_own", f"--metrics={__name__}:interactions_of_own")


@pytest.mark.parametrize(
    "flags",
    [
        "--federation=pooled",
        "--federation=alone",
        "--cache=persistent --reward_delay=geometric --delay_rounds=1",
        "--personalization=local_head",
        "--model_aggregation=fedpa",
    ],
)
def test_metrics_of_ones_own_have_the_log_of_every_kind_of_round(tmp_path, flags):
    rows = table(play(tmp_path, *OWN, *flags.split()))
    np.testing.assert_allclose(rows["own/reward_of_own"], rows[metrics.ROUND_REWARD], rtol=1e-6)
    np.testing.assert_array_equal(rows["own/interactions_of_own"], rows[metrics.EXAMPLES])


def test_metrics_of_ones_own_change_nothing_and_are_continued(finished, tmp_path):
    play(tmp_path, *OWN, "--total_rounds=2")
    run = play(tmp_path, *OWN)
    plain = table(run).drop(columns=["own/reward_of_own", "own/interactions_of_own"])
    pd.testing.assert_frame_equal(plain, table(finished), check_exact=True)
    read = results.read(run, [metrics.COLUMNS])
    assert [column for column in read.columns if column not in metrics.COLUMNS] == list(read.metrics)[-3:-1]
    with pytest.raises(UsageError, match=r"--metrics was \[.*reward_of_own.*\], is None"):
        play(tmp_path)


def test_a_private_run_says_that_metrics_of_ones_own_have_no_noise(tmp_path, capfd):
    run = play(tmp_path, *OWN, "--aggregator_type=dpftrl", "--noise_multiplier=1", "--clip_norm=1")
    assert "the sums of your own metrics" in whole_runs.spent(run)["summary"]
    assert "the sums of your own metrics" in capfd.readouterr().out


def _start(folder: pathlib.Path) -> tuple[subprocess.Popen, list[psutil.Process]]:
    """Starts a long run, and returns it with its worker and what isolates that, once it is past its first rounds."""
    command = [sys.executable, "-m", "bandits.run_federated", f"--root_output_dir={folder}", "--experiment_name=run"]
    process = subprocess.Popen(
        [*command, "--total_rounds=100000", "--clients_per_round=4"],
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    path = folder / "run" / "metrics.csv"
    while process.poll() is None and not (path.exists() and len(path.read_text().splitlines()) > 3):
        time.sleep(0.1)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert workers[-1].name() == "worker_binary"
    return process, workers


@pytest.mark.parametrize(("signum", "status"), [(None, 1), (signal.SIGINT, 130), (signal.SIGTERM, 143), ("KILL", -9)])
def test_a_run_that_is_ended_saves_if_it_can_and_leaves_no_worker(tmp_path, signum, status):
    """By its worker's death, by signals, by a kill."""
    process, workers = _start(tmp_path)
    if signum is None:
        workers[-1].kill()
    else:
        process.send_signal(signal.SIGKILL if signum == "KILL" else signum)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == status
    _, alive = psutil.wait_procs(workers, timeout=300)
    assert not alive
    if signum is None:
        assert "TFF's worker died (exit status 137)" in errors
        assert str(tmp_path) in errors
    if status > 1:
        newest = max((tmp_path / "run" / "checkpoints").glob("round_*.npz"))
        assert int(newest.stem[-8:]) == len(table(tmp_path / "run"))


def test_init_pretrains_on_the_first_clients_and_in_two_steps_gives_the_same(tmp_path):
    shared = ("--client_learning_rate=0.1", "--server_learning_rate=0.01")
    initial = ("--init_clients=10", "--init_rounds=3", "--init_server_optimizer=adam")
    one = play(tmp_path / "one", "--scenario=init", *initial, "--init_server_learning_rate=0.02", *shared)
    by_hand = ("--bandits_type=supervised_mse", "--population_client_selection=0-10", "--bandits_deploy_freq=1")
    rates = ("--client_learning_rate=0.1", "--server_learning_rate=0.02")
    first = play(tmp_path / "first", *by_hand, "--total_rounds=3", *rates)
    start = ("--population_client_selection=10-60", f"--initial_model_path={first}")
    assert_same(play(tmp_path / "second", *start, *shared), one)
    assert_same(one / "init", first)


def test_a_stopped_run_of_selected_clients_continues_as_if_it_had_not_been_stopped(tmp_path):
    whole_runs.stopped(play, tmp_path, "--client_selection=ucb_cs", after=2)


def test_a_stopped_run_continues_its_schedule(tmp_path):
    """The exploration rate is 1 in the first deployment and 1/1024 in the next, with ten actions."""
    decay = ("--bandits_type=epsilon_decay", "--bandits_epsilon=1", "--bandits_schedule_exponent=-10")
    whole, _ = whole_runs.stopped(play, tmp_path, *decay, after=2)
    probability = table(whole)[metrics.ROUND_PROBABILITY]
    assert probability[:2].tolist() == pytest.approx([0.1, 0.1], rel=1e-5)
    assert probability[2:].min() > 0.98


RARE = {"multi_label": True, "rewards": {"exact": np.diag(np.linspace(1, 7.25, 10))}}
BELOW_0 = {"multi_label": True, "label_range": (-0.5, 1.0)}


@pytest.mark.parametrize(
    ("bandit", "other", "rewards"),
    [("greedy_ce", "greedy", RARE), ("supervised_ce", "supervised_mse", RARE), ("softmax_ce", "softmax", BELOW_0)],
)
def test_cross_entropy_takes_rewards_from_0_to_1(bandit, other, rewards):
    check(f"--bandits_type={bandit}")
    with pytest.raises(UsageError, match=f"--bandits_type={bandit} .* {other}\\b"):
        check(f"--bandits_type={bandit}", **rewards)
    check(f"--bandits_type={other}", **rewards)


@pytest.mark.parametrize(("selector", "expected"), [("rand", 0.5), ("uniform", 0.1)])
def test_who_is_drawn_in_proportion_to_its_examples_is_not_weighted_by_them_again(tff_worker, selector, expected):
    weighted = ("--client_weighting=num_examples", "--noadaptive_clipping")
    (process,) = definitions(f"--client_selection={selector}", *weighted)
    mean = process.aggregator.create(tff.TensorType(np.float32), tff.TensorType(np.float32))
    assert mean.next(mean.initialize(), [0.0, 1.0], [9.0, 1.0]).result == pytest.approx(expected)


def _rewards_table(folder, low: float, width: float) -> tuple[str, ...]:
    """Flags of a table whose rewards are low + width * r, where r is about 0.5 and sometimes outside [0, 1]."""
    draw = np.random.default_rng(0)
    contexts = draw.normal(size=(240, 2))
    rewards = 0.5 + 0.4 * contexts[:, :1] * [1, -1] + 0.1 * draw.normal(size=(240, 2))
    rows = pd.DataFrame(np.column_stack([contexts, low + width * rewards]), columns=["x", "y", "left", "right"])
    path = folder / f"rewards_{low:g}.csv"
    rows.assign(site=np.arange(240) % 8).to_csv(path, index=False)
    return "--task_type=tabular", f"--data_file={path}", "--client_column=site", "--reward_columns=left,right"


@pytest.mark.parametrize("more", [(), ("--bandits_type=epsilon_greedy", "--importance_weighting")])
def test_actions_do_not_depend_on_the_unit_of_rewards_and_their_bounds(tmp_path, more):
    runs = []
    for low, width in ((0, 1), (1000, 250)):
        flags = (*_rewards_table(tmp_path, low, width), f"--reward_bounds={low},{low + width}", "--log_interactions")
        runs.append(play(tmp_path / f"{low}", *flags, *more, "--bandits_deploy_freq=1"))
    logs = [interactions.read_run(run).log for run in runs]
    np.testing.assert_array_equal(logs[0].actions, logs[1].actions)
    np.testing.assert_allclose(logs[0].propensities, logs[1].propensities, rtol=1e-4)
    np.testing.assert_allclose(1000 + 250 * logs[0].rewards, logs[1].rewards, rtol=1e-6)
    for metric in (metrics.AVERAGE_REWARD, metrics.HELD_OUT_REWARD):  # In the user's unit.
        first, second = (table(run)[metric].iloc[-1] for run in runs)
        assert 1000 + 250 * first == pytest.approx(second, rel=1e-5)


def test_learned_bounds_are_the_same_in_all_starts_and_are_recorded(tmp_path, capsys):
    flags = _rewards_table(tmp_path, 1000, 250)
    run = play(tmp_path, *flags, "--total_rounds=2")
    (announced,) = [line for line in capsys.readouterr().err.splitlines() if "learned from observed rewards" in line]
    low, high = map(float, json.loads((run / "config.json").read_text())["flags"]["reward_bounds"].split(","))
    assert f"rewards of {low:g} to {high:g} (learned" in announced
    assert 1000 - 250 < low < 1000 < 1250 < high < 1250 + 250
    assert play(tmp_path, *flags, "--total_rounds=4") == run  # Other bounds would be refused.
    whole_runs.assert_same(run, play(tmp_path / "whole", *flags, "--total_rounds=4"))


def test_noise_needs_declared_bounds_of_rewards(tmp_path):
    private = ("--aggregator_type=dpsgd", "--clip_norm=1", "--noise_multiplier=1", "--target_delta=1e-5")
    flags = (*_rewards_table(tmp_path, 1000, 250), *private, "--clients_per_round=2")
    with pytest.raises(UsageError, match=r"--reward_bounds=LOW,HIGH: bounds learned .* a single outlier"):
        check(*flags)
    check(*flags, "--reward_bounds=1000,1250")


def test_an_initial_model_that_learned_other_bounds_is_warned_of(tmp_path, finished):
    table_flags = _rewards_table(tmp_path, 1000, 250)
    messages = check(*table_flags, "--reward_bounds=1000,1250", f"--initial_model_path={finished}")
    assert "learned rewards with --reward_bounds=None, and this run has 1000.0,1250.0" in messages
    assert "--reward_bounds" not in check(f"--initial_model_path={finished}")
