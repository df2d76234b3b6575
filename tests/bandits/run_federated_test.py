"""Whole runs on the digits: reproducible, resumable, interruptible."""

import dataclasses
import gc
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import weakref

import numpy as np
import pandas as pd
import psutil
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from bandits import experiment, flags, losses, metrics, phase_process, policies, run_federated
from bandits import options as bandit_options
from data.errors import UsageError
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization import models, options
from optimization.study import aggregation_flags, frame, results

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL = ("--total_rounds=5", "--clients_per_round=4", "--bandits_deploy_freq=2", "--rounds_per_eval=2")


def play(folder: pathlib.Path, *arguments: str) -> int:
    """Runs in this process, with its worker."""
    argv = ["run_federated", f"--root_output_dir={folder}", "--experiment_name=run", *SMALL, *arguments]
    return frame.program(run_federated.STUDY, frame.flag_set(run_federated.STUDY).parse(argv))


def table(folder: pathlib.Path, name: str = "run") -> pd.DataFrame:
    return pd.read_csv(folder / name / "metrics.csv").drop(columns="seconds")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of five rounds with a checkpoint each round."""
    folder = tmp_path_factory.mktemp("finished")
    assert play(folder, "--rounds_per_checkpoint=1") == 0
    return folder


def test_a_run_leaves_a_complete_folder(finished):
    files = {str(path.relative_to(finished / "run")) for path in (finished / "run").rglob("*") if path.is_file()}
    assert {"config.json", "metrics.csv", "privacy.json", "reward.png", "model/weights.npz"} <= files
    assert any(name.startswith("events.") for name in files)
    rows = table(finished)
    assert list(rows["round_num"]) == [1, 2, 3, 4, 5]
    assert list(rows.columns) == ["round_num", *metrics.COLUMNS]
    assert list(rows[metrics.DEPLOYED]) == [0, 1, 0, 1, 0]
    assert list(rows[metrics.ACCURACY].notna()) == [False, True, False, True, True]
    np.testing.assert_allclose(rows[metrics.AVERAGE_REWARD], rows[metrics.ROUND_REWARD].expanding().mean())


def test_an_evaluation_compares_clients_by_the_reward_of_the_greedy_policy(finished):
    """Of those who take part: nobody owns the held-out digits."""
    run = results.read(finished / "run", [metrics.COLUMNS])
    found, task = run.client_rewards, registry.load(TaskOptions("digits"))
    weights = list(run.weights.values())
    model = models.of_task(task)
    expected = []
    for name in found["clients"]:
        examples = task.clients.load(task.clients.client_ids.index(name))
        outputs = model.forward(weights, task.normalise(examples.features))
        expected.append(float(np.mean(np.argmax(outputs, axis=1) == examples.labels)))
    np.testing.assert_allclose(found["rewards"], expected, atol=1e-12)
    assert not found["held_out"]
    assert sorted(found["clients"]) == sorted(task.clients.client_ids)
    last = run.metrics.iloc[-1]
    assert last[metrics.WORST_TENTH] == pytest.approx(np.sort(expected)[:6].mean())
    assert last[metrics.JAIN_INDEX] == pytest.approx(np.sum(expected) ** 2 / (60 * np.sum(np.square(expected))))


def test_a_run_says_what_chance_and_a_constant_action_earn(finished):
    bounds = results.read(finished / "run", [metrics.COLUMNS]).bounds
    assert bounds["participating"]["chance"] == pytest.approx(0.1)
    assert bounds.keys() == {"participating", "held_out"}


def test_the_same_seed_gives_the_same_run(finished, tmp_path):
    play(tmp_path, "--rounds_per_checkpoint=0")
    pd.testing.assert_frame_equal(table(tmp_path), table(finished), check_exact=True)


def test_another_seed_gives_another_run(finished, tmp_path):
    play(tmp_path, "--seed=1")
    assert (table(tmp_path)[metrics.ROUND_REWARD] != table(finished)[metrics.ROUND_REWARD]).any()


def test_a_truncated_newest_checkpoint_is_passed_over_with_a_warning(finished, tmp_path, capfd):
    play(tmp_path, "--rounds_per_checkpoint=1", "--total_rounds=4")
    newest = tmp_path / "run" / "checkpoints" / "round_00000004.npz"
    newest.write_bytes(newest.read_bytes()[:1000])
    play(tmp_path, "--rounds_per_checkpoint=1")
    warning = capfd.readouterr().err
    assert "round_00000004.npz is not readable" in warning
    assert "Continuing after round 3 of 5" in warning
    # The shorter run's last round, 4, was evaluated too, and so it is in the longer one.
    pd.testing.assert_frame_equal(table(tmp_path), table(finished), check_exact=True)


def test_killed_in_a_checkpoint_then_resumed_equals_uninterrupted(kill_in_a_checkpoint, finished, tmp_path):
    folder = (f"--root_output_dir={tmp_path}", "--experiment_name=run")
    kill_in_a_checkpoint("bandits.run_federated", 3, *folder, *SMALL, "--rounds_per_checkpoint=1")
    assert list((tmp_path / "run" / "checkpoints").glob("*.part*"))
    play(tmp_path, "--rounds_per_checkpoint=1")
    pd.testing.assert_frame_equal(table(tmp_path), table(finished), check_exact=True)


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


def test_a_worker_that_dies_ends_the_run_with_a_clear_error(tmp_path):
    process, workers = _start(tmp_path)
    workers[-1].kill()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "TFF's worker died (exit status -9)" in errors
    assert f"The run is in {tmp_path}" in errors


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_saves_and_leaves_no_worker(tmp_path, signum, status):
    process, workers = _start(tmp_path)
    process.send_signal(signum)
    _, message = process.communicate(timeout=300)
    assert process.returncode == status
    assert "The same command continues" in message
    _, alive = psutil.wait_procs(workers, timeout=300)
    assert not alive
    newest = max((tmp_path / "run" / "checkpoints").glob("round_*.npz"))
    assert int(newest.stem[-8:]) == len(table(tmp_path))


def test_a_killed_run_leaves_no_worker(tmp_path):
    process, workers = _start(tmp_path)
    process.kill()
    process.communicate(timeout=300)
    _, alive = psutil.wait_procs(workers, timeout=300)
    assert not alive


def test_init_pretrains_on_the_first_clients_and_in_two_steps_gives_the_same(tmp_path):
    shared = ("--client_learning_rate=0.1", "--server_learning_rate=0.01")
    initial = (
        "--init_clients=10",
        "--init_rounds=3",
        "--init_server_optimizer=adam",
        "--init_server_learning_rate=0.02",
    )
    assert play(tmp_path / "one", "--scenario=init", *initial, *shared) == 0
    play(
        tmp_path / "two_a",
        "--bandits_type=supervised_mse",
        "--population_client_selection=0-10",
        "--total_rounds=3",
        "--bandits_deploy_freq=1",
        "--client_learning_rate=0.1",
        "--server_learning_rate=0.02",
    )
    play(
        tmp_path / "two_b",
        "--population_client_selection=10-60",
        f"--initial_model_path={tmp_path / 'two_a' / 'run'}",
        *shared,
    )
    pd.testing.assert_frame_equal(table(tmp_path / "one"), table(tmp_path / "two_b"), check_exact=True)
    pd.testing.assert_frame_equal(table(tmp_path / "one", "run/init"), table(tmp_path / "two_a"), check_exact=True)


@pytest.mark.parametrize(("rounds", "rate", "is_weak"), [(1, 1e-6, True), (30, 0.01, False)])
def test_an_initial_model_that_does_not_beat_the_best_fixed_action_is_warned_of_once(
    tmp_path, capsys, rounds, rate, is_weak
):
    _, task = opened()
    held_out = np.concatenate([task.held_out.load(client).labels for client in range(len(task.held_out))])
    fixed = np.bincount(held_out).max() / len(held_out)
    initial = ("--scenario=init", "--init_clients=10", f"--init_rounds={rounds}", f"--init_server_learning_rate={rate}")
    for bandit in ("softmax", "init"):
        play(tmp_path / bandit, f"--bandits_type={bandit}", "--total_rounds=2", *initial)
        warnings = [line for line in capsys.readouterr().err.splitlines() if "initial model" in line]
        earned = table(tmp_path / bandit, "run/init")[metrics.HELD_OUT_REWARD].iloc[-1]
        assert (earned <= fixed) == is_weak
        assert [
            f"{earned:.4g}, does not exceed that of the best fixed action, {fixed:.4g}." in line for line in warnings
        ] == ([True] * is_weak)


@pytest.mark.parametrize("rounds", [3, 4])
def test_a_deployment_period_that_no_round_comes_after_is_warned_of(rounds, capsys):
    run_federated.STUDY.check(*opened(f"--total_rounds={rounds}", "--bandits_deploy_freq=4"))
    assert capsys.readouterr().err == (
        f"Warning: --bandits_deploy_freq=4 deploys no trained model before the last of {rounds} rounds: clients act "
        "with the first model in all of them.\n"
    )
    run_federated.STUDY.check(*opened("--total_rounds=5", "--bandits_deploy_freq=4"))
    assert capsys.readouterr().err == ""


def test_the_init_baseline_never_trains(finished, tmp_path):
    model = finished / "run"
    play(tmp_path, "--bandits_type=init", f"--initial_model_path={model}")
    with np.load(model / "model" / "weights.npz") as before, np.load(tmp_path / "run/model/weights.npz") as after:
        for name in before.files:
            np.testing.assert_array_equal(before[name], after[name])
    assert (table(tmp_path)[metrics.UPDATE_NORM] == 0).all()


def test_a_persistent_cache_is_the_same_within_a_deployment_period(tmp_path):
    """With all clients in every round, the same logs give the same reward until the next deployment."""
    play(tmp_path, "--cache=persistent", "--clients_per_round=60")
    rewards = table(tmp_path)[metrics.ROUND_REWARD]
    assert rewards[0] == rewards[1] != rewards[2] == rewards[3] != rewards[4]


@pytest.mark.parametrize("selector", ["ucb_cs", "pow_d"])
def test_a_run_with_client_selection_resumed_equals_an_uninterrupted_one(tmp_path, selector):
    flag = f"--client_selection={selector}"
    play(tmp_path / "whole", flag)
    play(tmp_path / "resumed", flag, "--total_rounds=2")
    play(tmp_path / "resumed", flag)
    # The shorter run's last round was evaluated, as every second one is in the longer.
    pd.testing.assert_frame_equal(table(tmp_path / "resumed"), table(tmp_path / "whole"), check_exact=True)


def test_a_run_whose_exploration_falls_resumed_across_a_deployment_equals_an_uninterrupted_one(tmp_path):
    given = ("--bandits_type=epsilon_decay", "--bandits_epsilon=1", "--bandits_schedule_exponent=-10")
    play(tmp_path / "whole", *given)
    play(tmp_path / "resumed", *given, "--total_rounds=2")
    play(tmp_path / "resumed", *given)
    whole = table(tmp_path / "whole")
    pd.testing.assert_frame_equal(table(tmp_path / "resumed"), whole, check_exact=True)
    # Of ten actions: epsilon is 1 in the first deployment, 1/1024 in the second.
    probability = whole[metrics.ROUND_PROBABILITY]
    assert probability[:2].tolist() == pytest.approx([0.1, 0.1], rel=1e-5)
    assert probability[2:].min() > 0.98


def test_a_run_cannot_be_made_longer_with_a_schedule_that_ends_with_it(tmp_path):
    given = ("--bandits_schedule=linear", "--bandits_schedule_end=0.01")
    play(tmp_path, *given)
    with pytest.raises(UsageError, match="--bandits_schedule_deployments was 3, is 5"):
        play(tmp_path, *given, "--total_rounds=10")
    assert play(tmp_path, *given, "--total_rounds=6", "--bandits_schedule_deployments=3") == 0


def test_runs_that_differ_in_their_schedule_alone_share_their_rounds(tmp_path):
    task = registry.load(TaskOptions("digits"))

    def key(*arguments: str):
        (settings,) = frame.plan(run_federated.STUDY, frame.flag_set(run_federated.STUDY).parse(["test", *arguments]))
        chosen = flags.options(settings)
        phase = bandit_options.phases(chosen, task)[-1]
        mechanism = aggregation_flags.mechanism(phase.aggregation, phase.cohorts, len(phase.population), 1)
        return phase_process.key(task, phase, experiment.build_process(task, phase, mechanism))

    scales = [key("--bandits_type=squarecb", f"--bandits_gamma={scale}") for scale in (1, 10)]
    assert scales[0] == scales[1] != key("--bandits_type=falcon", "--bandits_mu=10")


def test_repeat_runs_consecutive_seeds(finished, tmp_path):
    play(tmp_path, "--repeat=2")
    pd.testing.assert_frame_equal(table(tmp_path, "run/seed_0"), table(finished), check_exact=True)
    assert len(table(tmp_path, "run/seed_1")) == 5


@pytest.mark.parametrize(
    "arguments",
    [
        ("--bandits_type=falcon", "--server_optimizer=yogi", "--client_weighting=num_examples"),
        (
            "--bandits_type=supervised_ce",
            "--server_optimizer=sgd",
            "--server_sgd_momentum=0.9",
            "--noadaptive_clipping",
        ),
        (
            "--bandits_type=softmax_ce",
            "--server_optimizer=adagrad",
            "--noadaptive_clipping",
            "--clip_norm=0.5",
            "--client_epochs_per_round=2",
        ),
        ("--bandits_type=epsilon_greedy", "--bandits_epsilon=0.2", "--variant=reference_code"),
    ],
    ids=lambda arguments: arguments[0].partition("=")[2],
)
def test_other_choices_run(tmp_path, arguments):
    assert play(tmp_path, "--total_rounds=2", *arguments) == 0
    assert table(tmp_path)[metrics.LOSS].notna().all()


@pytest.mark.parametrize("arguments", [(), ("--client_selection=pow_d", "--model_aggregation=fedkp")])
def test_a_second_run_frees_the_firsts_task(tmp_path, monkeypatch, arguments):
    gone, load = [], registry.load

    def load_and_watch(options):
        task = load(options)
        weakref.finalize(task.clients, gone.append, options)
        return task

    monkeypatch.setattr(registry, "load", load_and_watch)
    for count, rate in enumerate((0.1, 0.2), 1):
        name = f"--experiment_name=at_{rate}"
        assert play(tmp_path, "--total_rounds=1", name, f"--client_learning_rate={rate}", *arguments) == 0
        gc.collect()
        assert len(gone) == count


def opened(*arguments: str):
    """Returns what flags mean, and their task."""
    settings = flags.resolve(frame.flag_set(run_federated.STUDY).parse(["run_federated", *SMALL, *arguments]))
    chosen = flags.options(settings)
    return chosen, run_federated.STUDY.open(chosen)


def definitions(*arguments: str):
    """Returns what defines the rounds of each phase."""
    chosen, task = opened(*arguments)
    phases = bandit_options.phases(chosen, task)
    mechanism = aggregation_flags.mechanism(phases[0].aggregation, options.Cohorts(4), 60, 1)
    return [experiment.build_process(task, phase, mechanism) for phase in phases]


def test_the_initial_trainings_server_optimizer_takes_no_hyperparameter_of_the_bandits():
    moved = []
    initial = ("--scenario=init", "--init_server_optimizer=sgd", "--init_server_learning_rate=1")
    for process in definitions(*initial, "--server_optimizer=sgd", "--server_sgd_momentum=0.9"):
        state, weights = process.server_optimizer.initialize((tf.TensorSpec(()),)), (tf.constant(0.0),)
        for _ in range(2):
            state, weights = process.server_optimizer.next(state, weights, (tf.constant(1.0),))
        moved.append(float(weights[0]))
    # Initial training: two steps of rate 1. Bandits: rate 0.01, the second step is 1.9 times as long.
    assert moved == pytest.approx([-2, -0.029])


def test_readings_of_loss_and_ties_define_the_rounds():
    initial, bandits = definitions("--scenario=init", "--bandits_type=falcon", "--ties=first", "--loss=half_sum")
    assert (initial.loss, bandits.loss) == (losses.SupervisedLoss(half_sum=True), losses.BanditLoss(half_sum=True))
    assert (initial.policy, bandits.policy) == (
        policies.Greedy(),
        policies.InverseGapWeighting(100.0, 1000.0, first_of_ties=True),
    )
    (sigmoid,) = definitions("--bandits_type=epsilon_greedy_ce_unw", "--cross_entropy=sigmoid")
    assert sigmoid.loss == losses.BanditLoss(cross_entropy=True, sigmoid=True)
    (supervised,) = definitions("--bandits_type=supervised_ce", "--cross_entropy=sigmoid", "--ties=first")
    assert supervised.loss == losses.SupervisedLoss(cross_entropy=True, sigmoid=True)
    assert supervised.policy == policies.Greedy(first_of_ties=True)


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        ((), [False, False, False]),
        (("--cache=persistent",), [True, False, True]),
        (("--noredraw_examples",), [True, True, True]),
    ],
)
def test_examples_above_the_cap_are_drawn_anew_whenever_a_client_acts(tff_worker, arguments, same):
    chosen, task = opened("--max_examples_per_client=5", *arguments)
    (phase,) = bandit_options.phases(chosen, task)
    mechanism = aggregation_flags.mechanism(phase.aggregation, options.Cohorts(4), 60, 1)
    rounds = experiment.BanditRounds(task, phase, mechanism, None)
    seen = [rounds.inputs(np.array([3]), round_num)[0].features for round_num in (1, 2, 3, 4)]
    assert {len(features) for features in seen} == {5}
    # Deployed every two rounds.
    assert [np.array_equal(before, after) for before, after in itertools.pairwise(seen)] == same


@pytest.mark.parametrize(
    ("bandit", "other"),
    [
        ("greedy_ce", "greedy"),
        ("epsilon_greedy_ce", "epsilon_greedy"),
        ("epsilon_greedy_ce_unweight", "epsilon_greedy_unweight"),
        ("softmax_ce", "softmax"),
        ("falcon_ce", "falcon"),
        ("supervised_ce", "supervised_mse"),
    ],
)
def test_cross_entropy_takes_rewards_of_at_most_1(bandit, other):
    chosen, task = opened(f"--bandits_type={bandit}")
    run_federated.STUDY.check(chosen, task)
    rare = dataclasses.replace(task, multi_label=True, rewards={"exact": np.diag(np.linspace(1, 7.25, 10))})
    with pytest.raises(UsageError) as caught:
        run_federated.STUDY.check(chosen, rare)
    assert str(caught.value) == (
        f"--bandits_type={bandit} takes rewards for probabilities, but here they reach from 0 to 7.25: use {other}, "
        "which takes any."
    )
    run_federated.STUDY.check(opened(f"--bandits_type={other}")[0], rare)


def test_cross_entropy_takes_rewards_of_at_least_0():
    chosen, task = opened("--bandits_type=softmax_ce")
    task = dataclasses.replace(task, multi_label=True, label_range=(-0.5, 1.0))
    with pytest.raises(UsageError, match=r"they reach from -0\.5 to 1: use softmax"):
        run_federated.STUDY.check(chosen, task)


@pytest.mark.parametrize(("bandit", "population"), [("softmax", 58), ("init", 2)])
def test_warnings_of_privacy_are_about_what_trains(capsys, bandit, population):
    private = ("--aggregator_type=dpsgd", "--clip_norm=1", "--noise_multiplier=1", "--target_delta=1e-5")
    scenario = (f"--bandits_type={bandit}", "--scenario=init", "--init_clients=2", "--cohort_sampling=cyclic")
    run_federated.STUDY.check(*opened(*private, *scenario))
    warned = {int(line.split()[4]) for line in capsys.readouterr().err.splitlines() if "population" in line}
    assert warned == {2, population}


@pytest.mark.parametrize(("selector", "expected"), [("rand", 0.5), ("uniform", 0.1)])
def test_who_is_drawn_in_proportion_to_its_examples_is_not_weighted_by_them_again(tff_worker, selector, expected):
    weighted = ("--client_weighting=num_examples", "--noadaptive_clipping")
    (process,) = definitions(f"--client_selection={selector}", *weighted)
    mean = process.aggregator.create(tff.TensorType(np.float32), tff.TensorType(np.float32))
    assert mean.next(mean.initialize(), [0.0, 1.0], [9.0, 1.0]).result == pytest.approx(expected)


def test_a_run_without_noise_guarantees_nothing(finished):
    spent = json.loads((finished / "run" / "privacy.json").read_text())
    assert spent["epsilon"] is None
    assert "no guarantee" in spent["summary"]
    assert np.isinf(table(finished)[metrics.EPSILON]).all()


def test_rounds_without_a_client_change_nothing(tmp_path):
    assert play(tmp_path, "--cohort_sampling=poisson", "--clients_per_round=1", "--total_rounds=6") == 0
    rows = table(tmp_path)
    empty = rows[metrics.EXAMPLES] == 0
    assert 0 < empty.sum() < 6
    assert (rows.loc[empty, metrics.UPDATE_NORM] == 0).all()
    assert rows.loc[empty, metrics.ROUND_REWARD].isna().all()
    assert rows[metrics.AVERAGE_REWARD].iloc[-1] == pytest.approx(rows.loc[~empty, metrics.ROUND_REWARD].mean())
    norms = rows[metrics.CLIP_NORM].to_numpy()
    assert list(norms[1:] == norms[:-1]) == list(empty[:-1])


@pytest.mark.parametrize(("reward", "is_drowned"), [(700, True), (0.7, False)])
def test_a_table_of_rewards_has_no_accuracy_and_rewards_that_clipping_drowns_are_warned_of(
    tmp_path, capsys, reward, is_drowned
):
    path = tmp_path / "rewards.csv"
    rows = [f"site {row % 6},{row % 3},{reward},{reward}" for row in range(120)]
    path.write_text("\n".join(["site,age,left,right", *rows]) + "\n")
    task = ("--task_type=tabular", f"--data_file={path}", "--client_column=site", "--reward_columns=left,right")
    clipped = ("--noadaptive_clipping", "--clip_norm=0.1", "--total_rounds=12")
    assert play(tmp_path, *task, *clipped) == 0
    last = table(tmp_path).iloc[-1]
    assert np.isnan(last[metrics.ACCURACY])
    assert last[metrics.HELD_OUT_REWARD] == pytest.approx(reward)
    printed = capsys.readouterr().out
    assert f"its greedy policy on held-out data: reward {reward:.4f}." in printed
    words = f"Warning: rewards of up to {reward:g} are large beside the clip norm of 0.1, and the training loss"
    assert (words in printed) == is_drowned
