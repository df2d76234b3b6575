"""Tests of bandits.plans.plan."""

import itertools

import pytest

from bandits import studies
from bandits.plans import plan
from data.errors import UsageError

RATES = "server_learning_rate=0.001,0.002,0.005"


def _build(*rest, sweeps=(), **arguments):
    return plan.build(rest, sweeps=sweeps, **arguments)


def _points(grid):
    return [run.point for run in grid.runs()]


@pytest.mark.slow
def test_the_grid_is_the_cross_product_with_consecutive_seeds():
    grid = _build("--seed=7", sweeps=[RATES, "client_learning_rate=0.05,0.1", "bandits_type=greedy,softmax"], repeat=3)
    names = ("server_learning_rate", "client_learning_rate", "bandits_type", "seed")
    found = {tuple(run.settings[name] for name in names) for run in grid.runs()}
    assert found == set(itertools.product([0.001, 0.002, 0.005], [0.05, 0.1], ["greedy", "softmax"], [7, 8, 9]))
    assert len({run.name for run in grid.runs()}) == 36
    assert {run.configuration for run in grid.runs()} == {"bandits_type=greedy", "bandits_type=softmax"}


def test_seeds_of_a_point_share_its_folder_also_if_each_has_another_partition():
    first, second = _build("--seed=3", repeat=2).runs()
    assert (first.point, first.seed, second.seed) == (second.point, 3, 4)
    assert second.name == f"{second.point}/seed_4"
    assert len(set(_points(_build("--resplit", binary="run_client_selection", repeat=2)))) == 1


def test_equivalent_command_lines_have_the_same_key_and_others_other_keys():
    repeated, default = ["--noadaptive_clipping", "--adaptive_clipping"], ["--bandits_temperature=0.050"]
    for same in (repeated, default, ["--max_concurrent_threads=1", "--rounds_per_checkpoint=3"], ["--total_rounds=7"]):
        assert _points(_build("--clients_per_round=10", *same)) == _points(_build("--clients_per_round=10"))
    points = _points(_build()) + _points(_build("--clients_per_round=10")) + _points(_build("--cache=persistent"))
    points += _points(_build(sweeps=["total_rounds=5,10"]))  # Rounds belong to the key only where they are swept.
    assert len(set(points)) == 5
    grid = _build(binary="run_ads", sweeps=["rates=0.1,0.2;0.3,0.4"])  # Values that hold commas.
    assert [run.settings.rates for run in grid.runs()] == ["0.1,0.2", "0.3,0.4"]


def test_a_point_that_another_grid_has_named_keeps_its_folder(tmp_path):
    names = _points(_build("--cache=persistent", sweeps=["clients_per_round=5,10"]))
    for name in [*names, "notes"]:
        (tmp_path / name).mkdir()
    other = _build("--clients_per_round=10", sweeps=["cache=round,persistent"])
    assert _points(other.in_folder(tmp_path))[1:] == names[1:]
    assert _points(other)[1] != names[1]


# Appendix A.1 and A.2, copied here once more by hand.
SERVERS = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05}
APPENDIX = {
    "appendix_a2_emnist": (SERVERS, {0.01, 0.02, 0.05, 0.1, 0.2, 0.5}, {12, 124, 1240}),
    "appendix_a2_so": (SERVERS | {0.0002}, {0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5}, {10, 100, 1000}),
}


@pytest.mark.parametrize("name", APPENDIX)
def test_a_published_grid_holds_all_combinations_for_each_algorithm(name):
    servers, clients, mus = APPENDIX[name]
    parameters = {
        "greedy": {},
        "epsilon_greedy_unweight": {"bandits_epsilon": {0.05, 0.1}},
        "softmax": {"bandits_temperature": {0.02, 0.05, 0.1}},
        "falcon": {"bandits_mu": mus, "bandits_gamma": {1000, 5000}},
    }
    grid = _build(grid=name)
    found, wanted = set(), set()
    for block in grid.blocks:
        (bandit,) = block["bandits_type"]
        axes = [block[flag] for flag in ("server_learning_rate", "client_learning_rate", *parameters[bandit])]
        found |= {(bandit, *map(float, values)) for values in itertools.product(*axes)}
    for bandit, others in parameters.items():
        wanted |= set(itertools.product([bandit], servers, clients, *others.values()))
    assert found == wanted
    settings = studies.resolve(grid.binary, (*grid.base, "--bandits_type=greedy"))
    fixed = (64, 16, 1, "adam", 256 if name.endswith("so") else 0)
    names = ("clients_per_round", "client_batch_size", "client_epochs_per_round", "server_optimizer")
    assert (*(settings[flag] for flag in names), settings.max_examples_per_client) == fixed


def test_flags_given_beside_a_published_grid_win_and_a_preset_chooses_its_algorithm():
    grid = _build(
        *("--preset=emnist_init_shift_falcon", "--bandits_gamma=5000", "--clients_per_round=10"),
        sweeps=["client_learning_rate=0.3"],
        grid="appendix_a2_emnist",
    )
    runs = grid.runs()
    assert len(runs) == 7 * 3
    assert {run.settings.client_learning_rate for run in runs} == {0.3}
    assert {(run.settings.scenario, run.settings.clients_per_round) for run in runs} == {("init_shift", 10)}


# Rows "Init (supervised)" of Tables 2 to 4 and 6 to 8.
INITIAL_RATES = {
    "appendix_a2_emnist": {"scratch": (None, None), "init": (0.5, 0.5), "init_shift": (0.5, 0.5)},
    "appendix_a2_so": {"init": (0.05, 0.2), "init_shift": (0.05, 0.05)},
}


@pytest.mark.parametrize("name", INITIAL_RATES)
def test_a_published_grid_has_the_initial_rates_of_its_scenarios_table(name):
    for scenario, initial in INITIAL_RATES[name].items():
        grid = _build(f"--scenario={scenario}", grid=name)
        settings = studies.resolve(grid.binary, (*grid.base, "--bandits_type=greedy"))
        assert (settings.init_server_learning_rate, settings.init_client_learning_rate) == initial


def test_fewer_rounds_are_refused_where_they_would_not_be_the_first_of_the_whole_run():
    (run,) = _build("--algorithm=fedpa", "--total_rounds=40", binary="run_posterior").runs()
    with pytest.raises(UsageError, match="--early_stop needs --burn_in_rounds: its default depends on --total_rounds"):
        run.at_rounds(10)
    _, run = _build("--total_rounds=40", binary="run_posterior", sweeps=["client_learning_rate=0.1,0.2"]).runs()
    shorter = run.at_rounds(10)
    assert (shorter.name, shorter.settings.total_rounds) == (run.name, 10)


def test_a_swept_choice_leaves_out_what_belongs_to_the_configs(tmp_path):
    config = tmp_path / "my.toml"
    config.write_text("bandits_temperature = 0.25\n")
    softmax, greedy = _build(f"--config={config}", sweeps=["bandits_type=softmax,greedy"]).runs()
    assert softmax.arguments == ("--bandits_temperature=0.25", "--bandits_type=softmax", "--seed=0")
    assert greedy.arguments == ("--bandits_type=greedy", "--seed=0")
