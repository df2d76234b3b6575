"""Tests of bandits.results.runs."""

import json
import math
import pathlib

import numpy as np
import pandas as pd
import pytest

from bandits import metrics
from bandits.results import baselines, comparison, configuration, runs
from bandits.results.configuration import ReferenceValue
from data.errors import UsageError
from optimization.study import run_folder
from optimization.study.results import Run

CONFIG = json.dumps({"format": run_folder.FORMAT, "flags": {"seed": 3}, "command": "run 'a b'"})


def _write(folder, metrics="round_num,reward\n1,0.5\n2,inf\n", config=CONFIG):
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text(metrics)
    (folder / "config.json").write_text(config)
    return folder


def test_a_run_is_read(tmp_path):
    folder = _write(tmp_path / "run")
    (folder / "privacy.json").write_text(json.dumps({"epsilon": 1.5}))
    run = runs.read(folder)
    assert run.metrics.to_dict("list") == {"round_num": [1, 2], "reward": [0.5, float("inf")]}
    assert (run.flags, run.command, run.privacy) == ({"seed": 3}, "run 'a b'", {"epsilon": 1.5})


def test_the_command_is_that_of_the_last_start(tmp_path):
    starts = [{"command": "./scripts/python -m x --total_rounds=2"}, {"command": "./scripts/python -m x 'a b'"}]
    config = {"format": run_folder.FORMAT, "flags": {}, "command": "./scripts/python -m x", "continuations": starts}
    assert runs.read(_write(tmp_path / "run", config=json.dumps(config))).command == "./scripts/python -m x 'a b'"


def test_a_last_line_that_a_crash_left_half_written_is_dropped(tmp_path):
    folder = _write(tmp_path / "run", "round_num,reward\n11,0.5\n1")
    assert list(runs.read(folder).metrics["round_num"]) == [11]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("metrics.csv", None, "metrics.csv is not readable .No such file"),
        ("metrics.csv", "", "metrics.csv is not readable .No columns"),
        ("metrics.csv", "a,b\n1,2\n", "metrics.csv has no column round_num"),
        ("metrics.csv", "round_num,reward\n", "metrics.csv has no finished round"),
        ("metrics.csv", "round_num,reward\n1,much\n", "metrics.csv is damaged: see its column reward"),
        ("metrics.csv", "round_num,reward\n1,1\n1,2\n", "metrics.csv is damaged: see its column round_num"),
        ("metrics.csv", "round_num\n1,2,3\n4\n5,6,7,8\n", "metrics.csv is not readable"),
        ("config.json", "{", "config.json is not readable"),
        ("config.json", "[]", "config.json is damaged"),
        ("config.json", '{"name": "other"}', "config.json lacks a run's flags and command"),
        ("privacy.json", "nothing", "privacy.json is not readable"),
    ],
)
def test_a_folder_that_is_damaged_or_of_another_kind_is_named(tmp_path, file, content, message):
    folder = _write(tmp_path / "run")
    (folder / file).unlink(missing_ok=True)
    if content is not None:
        (folder / file).write_text(content)
    with pytest.raises(UsageError, match=f"run/{message}"):
        runs.read(folder)


def test_seeds_belong_together_in_the_order_of_their_numbers(tmp_path):
    seeds = [_write(tmp_path / "runs" / "many" / f"seed_{seed}") for seed in (2, 10)]
    one = _write(tmp_path / "runs" / "one")
    _write(one / "init")  # A run's first phase is no run of its own.
    assert runs.find(tmp_path / "runs") == {seeds[0].parent: seeds, one: [one]}
    assert runs.find(seeds[1]) == {seeds[1].parent: [seeds[1]]}


def test_runs_are_found_at_any_depth_but_not_below_runs(tmp_path):
    seeds = [_write(tmp_path / "grids" / "one" / "runs" / "lr=0.1-0123456789ab" / f"seed_{seed}") for seed in (0, 1)]
    deep = _write(tmp_path / "a" / "b" / "c" / "d" / "run")
    _write(deep / "before_restart_1")
    _write(tmp_path / "stopped" / "before_restart_1")
    _write(tmp_path / ".hidden" / "run")
    (tmp_path / "a" / "b" / "round").symlink_to(tmp_path / "a")
    assert runs.find(tmp_path) == {deep: [deep], seeds[0].parent: seeds}


def test_a_folder_without_runs_is_named(tmp_path):
    with pytest.raises(UsageError, match=f"{tmp_path} holds no metrics.csv"):
        runs.find(tmp_path)


def test_equal_names_are_distinguished_by_their_paths():
    assert runs.labels(map(pathlib.Path, ["/x/a", "/y/b"])) == ["a", "b"]
    assert runs.labels(map(pathlib.Path, ["/x/1/a", "/x/2/a"])) == ["1/a", "2/a"]


BOUNDS = {"participating": {"chance": 0.1, "constant": 0.2}, "held_out": {"chance": 0.3, "constant": math.nan}}


def _run(rewards=(0.5,), seed=0, bounds=BOUNDS, **more):
    table = pd.DataFrame({"round_num": range(1, len(rewards) + 1), metrics.ROUND_REWARD: rewards})
    table[metrics.AVERAGE_REWARD] = table[metrics.ROUND_REWARD].expanding().mean()
    privacy, clients = more.pop("privacy", {}), more.pop("clients", {})
    found = {"clients": list(clients), "rewards": list(clients.values())} if clients else {}
    return Run(
        pathlib.Path("r"),
        table,
        {"seed": seed, **more},
        "run",
        privacy,
        columns=metrics.COLUMNS,
        bounds=bounds,
        client_rewards=found,
    )


def test_an_outcome_is_the_last_value_or_the_mean_of_the_last_tenth():
    run = _run([0.0] * 18 + [0.5, 1.0])
    assert runs.final_value(run, metrics.ROUND_REWARD) == 0.75
    assert runs.final_value(run, metrics.AVERAGE_REWARD) == 1.5 / 20
    assert runs.final_value(run, "missing") is None
    run.metrics["eval/reward"] = [0.25] + [np.nan] * 19
    assert runs.final_value(run, metrics.HELD_OUT_REWARD) == 0.25


def test_a_run_whose_clients_diverged_has_no_result():
    sound, lost = _run(seed=3), _run(seed=4, clients_per_round=2)
    lost.metrics[metrics.NONFINITE_CLIENTS] = 2
    one = configuration.of_runs("a", [sound, lost], [metrics.ROUND_REWARD])
    assert one.by_seed(metrics.ROUND_REWARD) == pytest.approx({3: 0.5, 4: math.nan}, nan_ok=True)


@pytest.mark.parametrize(
    ("more", "unpaired"),
    [
        ({}, False),
        ({"noise_multiplier": 0.0}, False),
        ({"noise_multiplier": 0.5}, True),
        ({"noise_multiplier": 0.5, "insecure_seeded_noise": True}, False),
        ({"privacy": {"epsilon": None}}, False),
        ({"privacy": {"epsilon": 3.0}}, True),
    ],
)
def test_noise_that_is_not_seeded_makes_runs_unpaired(more, unpaired):
    assert runs.is_unpaired([_run(**more)]) is unpaired


UNIFORM, FIXED = baselines.RECORDED


def test_a_bound_is_that_of_the_clients_whose_reward_it_is():
    found = [_run(), _run(seed=1)]
    known = baselines.recorded(found, metrics.AVERAGE_REWARD)
    assert known == {UNIFORM: ReferenceValue(str(UNIFORM), 0.1), FIXED: ReferenceValue(str(FIXED), 0.2)}
    assert baselines.recorded(found, metrics.HELD_OUT_REWARD) == {UNIFORM: ReferenceValue(str(UNIFORM), 0.3)}
    assert baselines.recorded(found, metrics.LOSS) == {}
    assert baselines.recorded([*found, _run(seed=2, bounds={})], metrics.ROUND_REWARD) == {}


def test_baselines_that_differ_by_seed_are_paired_by_seed():
    found = [_run([0.3 + seed / 5], seed, {"participating": {"chance": 0.29 + seed / 5}}) for seed in range(3)]
    known = baselines.recorded(found, metrics.ROUND_REWARD)
    assert known[UNIFORM].by_seed(metrics.ROUND_REWARD) == pytest.approx({0: 0.29, 1: 0.49, 2: 0.69})
    one = configuration.of_runs("softmax", found, [metrics.ROUND_REWARD])
    stand = baselines.compare([(one, known)], metrics.ROUND_REWARD)["softmax"]
    assert stand.uniform.difference == pytest.approx(0.01)
    assert stand.uniform.kind == comparison.PAIRED


def test_a_bound_of_a_sample_has_an_error_and_is_unknown_without_one():
    sample = {"chance": 0.1, "chance_error": 0.02, "constant": 0.2, "clients": 2000, "population": 3000}
    found = [_run(bounds={"participating": sample}), _run(seed=1, bounds={"participating": sample})]
    known = baselines.recorded(found, metrics.ROUND_REWARD)
    assert known == {UNIFORM: ReferenceValue(str(UNIFORM), 0.1, 0.02, 2000)}
    exact = [_run(bounds={"participating": sample | {"chance_error": 1e-18}})]
    assert baselines.recorded(exact, metrics.ROUND_REWARD)[UNIFORM] == ReferenceValue(str(UNIFORM), 0.1)


@pytest.mark.parametrize(("clients", "is_reported"), [(19, False), (20, True)])
def test_few_clients_have_no_interval(clients, is_reported):
    found = runs.bootstrapped(np.arange(clients)[np.newaxis], np.mean)
    assert (found.mean, found.size) == ((clients - 1) / 2, clients)
    assert np.isfinite([found.low, found.high]).tolist() == [is_reported, is_reported]
