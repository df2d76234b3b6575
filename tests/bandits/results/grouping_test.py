"""Tests of bandits.results.grouping."""

import dataclasses
import pathlib

import pandas as pd
import pytest

from bandits import metrics, studies
from bandits.results import grouping, runs


def _run(name, rewards=(0.5,), seed=0, **flags):
    table = pd.DataFrame({"round_num": range(1, len(rewards) + 1), metrics.ROUND_REWARD: rewards})
    table[metrics.AVERAGE_REWARD] = table[metrics.ROUND_REWARD].expanding().mean()
    return runs.Run(pathlib.Path(name), table, {"task_type": "digits", "seed": seed, **flags}, "run", {})


def _names(*found) -> list[str]:
    (part,) = grouping.parts(found)
    return [arm.name for arm in part.arms]


def test_runs_that_differ_in_their_seed_are_an_arm_wherever_they_lie():
    grid = [_run(f"runs/lr=1-0123456789ab/seed_{seed}", seed=seed, clip_norm=1.0) for seed in (2, 10)]
    other = _run("elsewhere", seed=3, clip_norm=1.0, experiment_name="elsewhere", preset="x", bandits_mu=None)
    third = _run("third", seed=3, clip_norm=2.0)
    (part,) = grouping.parts([*grid, other, third])
    assert [[run.flags["seed"] for run in arm.runs] for arm in part.arms] == [[2, 3, 10], [3]]


def test_a_seed_that_was_played_twice_does_not_count_twice():
    assert _names(*(_run(f"{name}/seed_{seed}", seed=seed) for name in ("a", "b") for seed in (0, 1))) == ["a", "b"]


def test_of_a_log_drawn_and_logged_rewards_are_never_in_one_table():
    found = [_run(f"runs/{kind}", task_type="logged", learn_from=kind) for kind in ("simulator", "ips")]
    titles = [part.title for part in grouping.parts(found)]
    assert titles == ["run_federated: logged from simulator", "run_federated: logged from ips"]
    digits = [_run(f"runs/{kind}", learn_from=kind) for kind in ("simulator", "ips")]
    assert len(grouping.parts(digits)) == 1  # Where there is no log it says nothing.


def test_a_table_is_one_task_whether_it_was_a_file_or_a_frame():
    found = [
        dataclasses.replace(_run(bandit, bandits_type=bandit, task_type="tabular", data_file=name), data_report=report)
        for bandit, name, report in (
            ("softmax", "/data/wine.csv", {"content": "a"}),
            ("falcon", "dataframe:9ef2", {"content": "a"}),
            ("greedy", "dataframe:1234", {"content": "b"}),
        )
    ]
    one, other = grouping.parts(found)
    assert (one.title, [arm.name for arm in one.arms]) == ("run_federated: tabular wine.csv", ["softmax", "falcon"])
    assert other.title == "run_federated: tabular DataFrame"


def test_resplit_clients_are_no_difference():
    found = [_run(f"x/seed_{seed}", seed=seed, resplit=True, partition_seed=seed) for seed in (0, 1)]
    assert _names(*found) == ["x"]


def test_studies_and_tasks_are_parts_of_their_own():
    posterior = studies.load(studies.STUDIES["run_posterior"]).ranked_by
    table = pd.DataFrame({"round_num": [1], posterior: [0.5]})
    other = runs.Run(pathlib.Path("p"), table, {"task_type": "digits"}, "run", {})
    wine = _run("wine", task_type="tabular", data_file="/data/wine.csv")
    unknown = runs.Run(pathlib.Path("u"), pd.DataFrame({"round_num": [1]}), {}, "run", {})
    titles = [part.title for part in grouping.parts([_run("a"), other, wine, unknown])]
    assert titles == ["run_federated: digits", "run_posterior: digits", "run_federated: tabular wine.csv", "Runs"]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (
            [{"bandits_type": "softmax", "bandits_temperature": 0.1}, {"bandits_type": "falcon", "bandits_mu": 2.0}],
            ["softmax", "falcon"],
        ),
        (
            [{"bandits_type": kind, "bandits_deploy_freq": 5} for kind in ("softmax", "greedy")]
            + [{"bandits_type": "softmax", "bandits_deploy_freq": 1}],
            ["softmax, deploy 5", "greedy, deploy 5", "softmax, deploy 1"],
        ),
        (
            [{"bandits_type": kind, "scenario": "scratch"} for kind in ("softmax", "greedy")]
            + [{"bandits_type": "softmax", "scenario": "init"}],
            ["softmax", "greedy", "softmax, init"],
        ),
        (
            [
                {"bandits_type": "softmax", "client_learning_rate": rate, "total_rounds": rounds}
                for rate, rounds in ((0.1, 20), (0.1, 150), (1e20, 10))
            ],
            ["client lr 0.1, rounds 20", "client lr 0.1, rounds 150", "client lr 1e+20, rounds 10"],
        ),
        (
            [
                {"server_learning_rate": rate, "server_optimizer": optimizer, "total_rounds": rounds}
                for rate, optimizer, rounds in ((0.1, "adam", 20), (0.1, "adam", 150), (1e20, "sgd", 10))
            ],
            ["adam, rounds 20", "adam, rounds 150", "sgd, rounds 10"],
        ),
        ([{"server_learning_rate": 0.5}, {"server_learning_rate": 0.05}], ["server lr 0.5", "server lr 0.05"]),
        ([{"adaptive_clipping": True}, {"adaptive_clipping": False}], ["adaptive clipping", "no adaptive clipping"]),
        ([{"noise_multiplier": 0.5}, {}], ["noise multiplier 0.5", "default"]),
        ([{"model": "/far/away/net"}, {"model": "mlp"}], ["model net", "model mlp"]),
    ],
)
def test_an_arm_is_named_by_the_fewest_flags_in_which_arms_differ(flags, names):
    assert _names(*(_run(f"runs/point-{index:012x}", **one) for index, one in enumerate(flags))) == names


def test_folders_name_what_flags_do_not():
    assert _names(_run("runs/mine")) == ["mine"]
    assert _names(_run("runs/my_grid/runs/run-0123456789ab/seed_0")) == ["my_grid"]
    long = "a table whose name is so long that no reader would know it again"
    assert _names(_run("first", model=long + "1"), _run("second", model=long + "2")) == ["first", "second"]
    twice = [_run(name, clip_norm=2.0) for name in ("a/x", "b/x")]
    assert _names(_run("y", clip_norm=1.0), *twice) == ["clip norm 1", "clip norm 2 (a/x)", "clip norm 2 (b/x)"]
