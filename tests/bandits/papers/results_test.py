import dataclasses
import json

import pandas as pd
import pytest

from bandits.papers import results
from bandits.papers.plan import Measure
from bandits.plans.plan import Configuration
from bandits.results import runs
from data.errors import UsageError
from optimization.study import run_folder
from tests.bandits.papers.toy_records import BASELINES, recorded, save, score_table, toy_figure, toy_run, toy_table


def test_records_are_a_row_a_run(tmp_path):
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        about = {"data_checksum": "d1", "git_commit": "0123456789abcdef"}
        (folder / "config.json").write_text(json.dumps(about))
    seed_runs = [toy_run(folders[0], 0, score=[0.0, 0.25]), toy_run(folders[1], 7, score=[0.0, 0.5])]
    table = recorded(toy_figure(), "far", seed_runs, {"rate": 0.1})
    assert list(table) == ["arm", "seed", "score", "picked:rate", "rounds", "data", "commit", "machine"]
    assert table.iloc[1, :7].tolist() == ["far", 7, 0.5, 0.1, 2, "d1", "0123456789ab"]
    pd.testing.assert_frame_equal(save(toy_figure(), table, tmp_path).table, table, check_dtype=False)


@pytest.mark.parametrize(("rate", "is_edge"), [(0.1, True), (0.2, False)])
def test_records_keep_whether_a_pick_was_on_an_edge_of_the_grid_that_ran(tmp_path, rate, is_edge):
    far = Configuration("far", ("far",), (), sweeps=("rate=0.1;0.2;0.5",))
    table = recorded(toy_figure(configurations=(far,)), "far", [toy_run(tmp_path, 0, score=[0.25])], {"rate": rate})
    wider = toy_figure(configurations=(dataclasses.replace(far, sweeps=("rate=0.01;0.1;0.2",)),))  # Declared later.
    found = save(wider, table, tmp_path)
    assert found.picked("far") == {"rate": rate}
    assert found.edges("far") == [f"rate {rate}"] * is_edge


def test_records_of_a_rehearsal_say_so(tmp_path):
    table = recorded(toy_figure().marked(5), "far", [toy_run(tmp_path, 0, score=[0.25])], {})
    assert save(toy_figure(), table, tmp_path).figure == toy_figure().marked(5)


def test_a_run_that_diverged_is_recorded_as_one(tmp_path):
    seed_runs = [toy_run(tmp_path, 0, score=[0.25]), toy_run(tmp_path, 7, score=[0.5])]
    table = recorded(toy_figure(), "far", seed_runs, {}, frozenset({7}))
    assert table["diverged"].tolist() == [0, 1]
    far = save(toy_figure(), table, tmp_path).configurations["far"]
    assert (far.diverged, far.estimate("score").mean) == (frozenset({7}), 0.375)


def test_records_hold_what_the_uniform_policy_and_the_best_fixed_action_earn(tmp_path):
    figure = toy_figure(measures=(Measure("reward", "bandits/average_rewards"),), published=())
    folders = [tmp_path / "seed_0", tmp_path / "seed_1"]
    for seed, folder in enumerate(folders):
        folder.mkdir()
        flags = {"seed": seed, "noise_multiplier": seed / 2}
        (folder / "config.json").write_text(json.dumps({"format": run_folder.FORMAT, "flags": flags, "command": "run"}))
        (folder / "metrics.csv").write_text(f"round_num,bandits/average_rewards\n1,{0.2 + seed / 100}\n")

    def records(**bounds: float) -> pd.DataFrame:
        for folder in folders:
            about = {"chance": 0.1, "constant": 0.3, "clients": 9, "population": 9} | bounds
            (folder / "bounds.json").write_text(json.dumps({"participating": about}))
        return recorded(figure, "far", list(map(runs.read, folders)), {})

    table = records()
    assert table[["chance", "constant"]].to_numpy().tolist() == [[0.1, 0.3]] * 2
    assert table["unpaired"].isna().tolist() == [True, False]
    found = results.Results(figure, table)
    assert found.configurations["far"].unpaired
    assert found.baselines["far"].summary == "above the uniform policy, below the best fixed action"
    table = records(chance_error=0.05, population=99)
    assert table[["chance_error", "sampled_clients"]].to_numpy().tolist() == [[0.05, 9]] * 2
    # 0.205 and 0.1, of nine clients.
    summary = results.Results(figure, table).baselines["far"].summary
    assert summary == "not significantly different from the uniform policy"


def test_an_infinite_number_and_none_are_kept_apart(tmp_path):
    table = toy_table(score=[float("inf"), None, 1.0, 1.0, 1.0, 1.0])
    near = save(toy_figure(), table, tmp_path).configurations["near"]
    assert near.values["score"].tolist() == pytest.approx([float("inf"), float("nan"), 1.0], nan_ok=True)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("arm,seed,rounds\nnear,0,9", ".*no column commit"),
        ("arm,seed,score,rounds,data,commit,machine", ".*no row"),
        ("arm,seed,score,rounds,data,commit,machine\nnear,,1,9,d,c,m", ".*NA"),
        ("arm,seed,score,rounds,data,commit,machine\nnear,0,abc,9,d,c,m", ".*abc"),
    ],
)
def test_damaged_records_are_named(tmp_path, lines, message):
    (tmp_path / "f1.csv").write_text(f"{lines}\n")
    with pytest.raises(UsageError, match=rf"f1\.csv holds no records \({message}"):
        results.read(toy_figure(), tmp_path / "f1.csv")


@pytest.mark.parametrize(
    ("flag", "word"),
    [
        ("--max_examples_per_client=9", ""),
        ("--bandits_deploy_freq=5", "above the uniform policy"),
        ("--reward_drift=abrupt", "above the uniform policy"),
        ("--server_learning_rate=0.02", "at a normalized score of 0.50"),
    ],
)
def test_baselines_have_the_configuration_s_clients_and_environment(flag, word):
    figure = toy_figure(configurations=(Configuration("near", ("near",), (flag,)), *BASELINES))
    scores = {"near": (4.9, 5.0, 5.1), "chance": (0.0,) * 3, "ceiling": (10.0,) * 3}
    against = results.Results(figure, score_table(scores)).baselines
    assert (against["near"].summary if "near" in against else "") == word


@pytest.mark.parametrize(
    ("flags", "rounds", "constant"),
    [
        ("--reward_drift=abrupt", 5, 2.0),
        ("", 6, 3.0),
        ("--reward_drift=abrupt", 6, None),
        ("--reward_drift=abrupt --drift_every=2", 5, None),
        ("--reward_drift=linear", 2, None),
        ("--max_examples_per_client=9", 5, 3.0),
        ("--reward_drift=abrupt --cache=persistent", 5, None),
        ("--reward_drift=abrupt --drift_environment=1", 6, 3.0),
    ],
)
def test_the_best_fixed_action_of_the_last_rounds_needs_one_environment(flags, rounds, constant):
    own = {"near": flags, "chance": ""}
    arms = [Configuration(name, (name,), ("--total_rounds=10", *some.split())) for name, some in own.items()]
    measures = (Measure("score", "bandits/round_rewards", f"last {rounds}"),)
    figure = toy_figure(configurations=tuple(arms), measures=measures)
    scores = {"near": (4.0, 4.5), "chance": (4.0, 4.5)}
    table = score_table(scores, chance=1.0, constant={"near": 3.0, "chance": 2.0})
    near = results.Results(figure, table).baselines["near"]
    assert (near.fixed.reference_mean if near.fixed else None) == constant
    assert near.uniform.reference_mean == 1.0  # What is computed counts before what was drawn, 4.25.
