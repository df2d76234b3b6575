"""Tests of bandits.results.configurations."""

import dataclasses
import pathlib

import pandas as pd
import pytest

from bandits import metrics, studies
from bandits.results import configurations, runs
from bandits.results.configuration import Baseline
from optimization.study.metrics import Metric
from tests.bandits.results.tables import rewards_table


def _run(name, rewards=(0.5,), seed=0, **flags):
    flags = {"task_type": "digits", "seed": seed, **flags}
    return runs.Run(pathlib.Path(name), rewards_table(rewards), flags, "run", {})


def _seeds(bandit, rewards, **flags):
    """Runs of one round, with these rewards by seed."""
    flags = {"bandits_type": bandit, **flags}
    name = "".join(map(str, flags.values()))
    return [_run(f"{name}/seed_{seed}", [reward], seed, **flags) for seed, reward in enumerate(rewards)]


def test_the_interval_of_a_share_stays_within_0_and_1():
    found = _seeds("softmax", [0.5, 0.5])
    for run, accuracy in zip(found, (0.9, 1.0), strict=True):
        run.metrics[metrics.ACCURACY] = accuracy
    (part,) = configurations.comparable(found)
    (configuration,) = part.configurations
    assert configuration.estimate(metrics.ACCURACY).high == 1.0


def test_metrics_of_the_users_are_in_tables_unless_they_are_hidden():
    own = [Metric("own/rare", "Rare actions", in_summary=True), Metric("own/hidden", "Hidden", in_summary=False)]
    some = [_run(f"a/seed_{seed}", seed=seed, metrics=["own"] * seed) for seed in (0, 1)]
    some = [dataclasses.replace(run, columns=[*metrics.COLUMNS, *own]) for run in some]
    for run in some:
        run.metrics[own[0]], run.metrics[own[1]] = 0.25, 0.75
    (part,) = configurations.comparable(some)
    (configuration,) = part.configurations  # Runs with other metrics are seeds of one configuration.
    assert configuration.estimate("own/rare").mean == 0.25
    assert ("own/rare" in part.columns, "own/hidden" in part.columns) == (True, False)


def test_configurations_have_roles_and_places_between_their_baselines():
    rewards = {"uniform": [0.11, 0.12], "softmax": [0.50, 0.53], "falcon": [0.7], "supervised_mse": [0.90, 0.92]}
    (part,) = configurations.comparable([run for bandit, some in rewards.items() for run in _seeds(bandit, some)])
    assert {one.name: (one.role, part.baseline_summary(one)) for one in part.configurations} == {
        "uniform": (Baseline.uniform_policy, ""),
        "softmax": (None, "at a normalized score of 0.50"),
        "falcon": (None, "one seed: not judged"),
        "supervised_mse": (Baseline.full_feedback, ""),
    }
    assert [one.name for one in part.ranked()] == ["supervised_mse", "falcon", "softmax", "uniform"]


def test_configurations_are_compared_with_greedy_and_baselines_of_the_most_equal_flags():
    (part,) = configurations.comparable(
        run
        for freq in (1, 5)
        for bandit, reward in (("softmax", 0.5), ("greedy", 0.2), ("uniform", 0.1))
        for run in _seeds(bandit, [reward, reward + 0.01], bandits_deploy_freq=freq)
    )
    pairs = [(one.name, other.name) for one, other, _ in part.compared()]
    assert pairs == [("softmax, deploy 1", "greedy, deploy 1"), ("softmax, deploy 5", "greedy, deploy 5")]
    named = [(one.name, other.name) for one, other, _ in part.compared("softmax, deploy 5")]
    assert {other for _, other in named} == {"softmax, deploy 5"}
    assert len(named) == 3
    assert part.compared("falcon") == []
    nearest = [part.reference(one, Baseline.uniform_policy).name for one in part.configurations if not one.role]
    assert nearest == ["uniform, deploy 1"] * 2 + ["uniform, deploy 5"] * 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("total_rounds", 150), ("cohort_sampling", "poisson"), ("partition_alpha", 0.1), ("scenario", "init_shift")],
)
def test_configurations_with_other_data_rewards_rounds_or_cohorts_are_no_baseline(name, value):
    found = [_run(bandit, bandits_type=bandit, total_rounds=20) for bandit in ("uniform", "softmax")]
    other = _run("other", bandits_type="softmax", **({"total_rounds": 20} | {name: value}))
    (part,) = configurations.comparable([*found, other])
    nearest = [part.reference(configuration, Baseline.uniform_policy) for configuration in part.configurations[1:]]
    assert nearest == [part.configurations[0], None]


def _names(*found) -> list[str]:
    (part,) = configurations.comparable(found)
    return [configuration.name for configuration in part.configurations]


def test_runs_that_differ_in_their_seed_are_a_configuration_wherever_they_lie():
    grid = [_run(f"runs/lr=1-0123456789ab/seed_{seed}", seed=seed, clip_norm=1.0) for seed in (2, 10)]
    other = _run("elsewhere", seed=3, clip_norm=1.0, experiment_name="elsewhere", preset="x", bandits_mu=None)
    third = _run("third", seed=3, clip_norm=2.0)
    (part,) = configurations.comparable([*grid, other, third])
    seeds = [[run.flags["seed"] for run in configuration.runs] for configuration in part.configurations]
    assert seeds == [[2, 3, 10], [3]]
    # A seed that was run twice does not count twice.
    assert _names(*(_run(f"{name}/seed_{seed}", seed=seed) for name in ("a", "b") for seed in (0, 1))) == ["a", "b"]


def test_simulated_and_logged_rewards_of_a_log_are_never_in_one_table():
    found = [_run(f"runs/{kind}", task_type="logged", learn_from=kind) for kind in ("simulator", "ips")]
    titles = [part.title for part in configurations.comparable(found)]
    assert titles == ["run_federated: logged from simulator", "run_federated: logged from ips"]
    digits = [_run(f"runs/{kind}", learn_from=kind) for kind in ("simulator", "ips")]
    assert len(configurations.comparable(digits)) == 1


def test_a_table_is_one_task_whether_it_was_a_file_or_a_frame():
    tables = {"softmax": ("/data/wine.csv", "a"), "falcon": ("dataframe:9ef2", "a"), "greedy": ("dataframe:1234", "b")}
    found = []
    for bandit, (name, content) in tables.items():
        run = _run(bandit, bandits_type=bandit, task_type="tabular", data_file=name)
        found.append(dataclasses.replace(run, data_report={"content": content}))
    one, other = configurations.comparable(found)
    assert [configuration.name for configuration in one.configurations] == ["softmax", "falcon"]
    titles = ["run_federated: tabular wine.csv", "run_federated: tabular DataFrame"]
    assert [one.title, other.title] == titles


def test_studies_and_tasks_are_parts_of_their_own():
    posterior = studies.load(studies.STUDIES["run_posterior"]).ranked_by
    table = pd.DataFrame({"round_num": [1], posterior: [0.5]})
    other = runs.Run(pathlib.Path("p"), table, {"task_type": "digits"}, "run", {})
    wine = _run("wine", task_type="tabular", data_file="/data/wine.csv")
    unknown = runs.Run(pathlib.Path("u"), pd.DataFrame({"round_num": [1]}), {}, "run", {})
    titles = [part.title for part in configurations.comparable([_run("a"), other, wine, unknown])]
    assert titles == ["run_federated: digits", "run_posterior: digits", "run_federated: tabular wine.csv", "Runs"]


SOFTMAX, GREEDY = {"bandits_type": "softmax"}, {"bandits_type": "greedy"}


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ([SOFTMAX | {"bandits_temperature": 0.1}, GREEDY | {"bandits_mu": 2.0}], ["softmax", "greedy"]),
        (
            [SOFTMAX | {"scenario": "scratch"}, GREEDY | {"scenario": "scratch"}, SOFTMAX | {"scenario": "init"}],
            ["softmax, scratch", "greedy, scratch", "softmax, init"],
        ),
        (
            [
                {"client_learning_rate": rate, "total_rounds": rounds}
                for rate, rounds in ((0.1, 2), (0.1, 9), (1e20, 9))
            ],
            ["client lr 0.1, rounds 2", "client lr 0.1, rounds 9", "client lr 1e+20, rounds 9"],
        ),
        ([{"adaptive_clipping": True}, {"adaptive_clipping": False}], ["adaptive clipping", "no adaptive clipping"]),
        ([{"noise_multiplier": 0.5}, {}], ["noise multiplier 0.5", "default"]),
        ([{"model": "/far/away/net"}, {"model": "mlp"}], ["model net", "model mlp"]),
    ],
)
def test_names_have_the_fewest_flags_that_differ(flags, names):
    assert _names(*(_run(f"runs/point-{index:012x}", **one) for index, one in enumerate(flags))) == names


def test_folders_name_what_flags_do_not():
    assert _names(_run("runs/mine")) == ["mine"]
    assert _names(_run("runs/my_grid/runs/run-0123456789ab/seed_0")) == ["my_grid"]
    long = "a table whose name is so long that no reader would know it again"
    assert _names(_run("first", model=long + "1"), _run("second", model=long + "2")) == ["first", "second"]
    twice = [_run(name, clip_norm=2.0) for name in ("a/x", "b/x")]
    assert _names(_run("y", clip_norm=1.0), *twice) == ["clip norm 1", "clip norm 2 (a/x)", "clip norm 2 (b/x)"]
