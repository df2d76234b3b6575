"""Tests of the bandits' presets: Tables 1 to 9 of Agarwal et al. 2023 and federations, copied once more by hand."""

import pytest

from bandits import flags
from optimization.study import presets
from tests.bandits.whole_runs import resolve

STRATEGIES = ("softmax", "falcon", "greedy", "epsilon_greedy")
# A table's server and client learning rates of each strategy, the temperature, and FALCON's mu and gamma.
TABLES = {
    "emnist_scratch": ([(0.002, 0.1), (0.002, 0.1), (0.001, 0.2), (0.01, 0.1)], 0.05, (12, 1000)),
    "emnist_init": ([(0.005, 0.1), (0.002, 0.2), (0.002, 0.1), (0.002, 0.1)], 0.05, (12, 5000)),
    "emnist_init_shift": ([(0.005, 0.1), (0.005, 0.2), (0.001, 0.1), (0.01, 0.1)], 0.05, (12, 5000)),
    "emnist_init_shift_deploy40": ([(0.005, 0.2), (0.005, 0.1), (0.002, 0.1), (0.005, 0.2)], 0.05, (12, 5000)),
    "so_scratch": ([(0.01, 1), (0.01, 0.05), (0.01, 0.1), (0.01, 0.2)], 0.05, (10, 5000)),
    "so_init": ([(0.005, 0.05), (0.0005, 0.1), (0.001, 0.02), (0.005, 0.1)], 0.05, (10, 5000)),
    "so_init_shift": ([(0.02, 2), (0.05, 0.2), (0.05, 1), (0.05, 0.2)], 0.1, (100, 1000)),
    "so_init_shift_deploy40": ([(0.05, 1), (0.05, 0.05), (0.05, 0.1), (0.05, 0.05)], 0.1, (10, 1000)),
}
# The tables' rows `Init (supervised)`: server and client learning rate.
INIT_ROWS = {
    "emnist_init": (0.5, 0.5),
    "emnist_init_shift": (0.5, 0.5),
    "emnist_init_shift_deploy40": (0.5, 0.5),
    "so_init": (0.05, 0.2),
    "so_init_shift": (0.05, 0.05),
    "so_init_shift_deploy40": (0.05, 0.05),
}
# Table 9: clip norm, noise multiplier, server learning rate, client learning rate.
DP_ROWS = {
    "emnist_dp_clip_only": (0.1, 0, 0.002, 0.2),
    "emnist_dp_small_noise": (0.1, 0.01, 0.002, 0.1),
    "emnist_dp_large_noise": (0.1, 0.1, 0.002, 0.2),
    "so_dp_clip_only": (0.8, 0, 0.02, 0.5),
    "so_dp_small_noise": (0.8, 0.3, 0.01, 2),
    "so_dp_large_noise": (0.8, 0.7, 0.01, 2),
}
FEDERATIONS = {"digits_federated", "digits_alone", "digits_pooled", "digits_fine_tuned", "digits_local_head"}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_preset_has_the_numbers_of_its_table(table, strategy):
    settings = resolve(f"--preset={table}_{strategy}")
    rates, temperature, (mu, gamma) = TABLES[table]
    assert settings.bandits_type.removesuffix("_unweight") == strategy
    assert (settings.server_learning_rate, settings.client_learning_rate) == rates[STRATEGIES.index(strategy)]
    of_softmax, of_falcon = {"temperature": temperature}, {"mu": mu, "gamma": gamma}
    exploration = {"softmax": of_softmax, "falcon": of_falcon, "greedy": {}, "epsilon_greedy": {"epsilon": 0.05}}
    for name, value in exploration[strategy].items():
        assert settings[f"bandits_{name}"] == value


@pytest.mark.parametrize("scenario", INIT_ROWS)
@pytest.mark.parametrize("bandit", [*STRATEGIES, "init"])
def test_initial_training_has_the_tables_numbers(scenario, bandit):
    settings = resolve(f"--preset={scenario}_{bandit}")
    assert (settings.init_server_learning_rate, settings.init_client_learning_rate) == INIT_ROWS[scenario]
    assert (settings.init_clients, settings.init_rounds) == (100, 100)
    assert settings.scenario == ("init_shift" if "shift" in scenario else "init")
    assert settings.total_rounds == (700 if scenario.startswith("emnist") else 1500)
    assert settings.bandits_deploy_freq == (40 if "deploy40" in scenario else 200)


@pytest.mark.parametrize("name", DP_ROWS)
def test_private_rows_have_the_tables_numbers(name):
    settings = resolve(f"--preset={name}")
    rates = (settings.server_learning_rate, settings.client_learning_rate)
    assert (settings.clip_norm, settings.noise_multiplier, *rates) == DP_ROWS[name]
    assert (settings.aggregator_type, settings.adaptive_clipping, settings.target_delta) == ("dpsgd", False, 1e-6)
    assert (settings.bandits_type, settings.bandits_temperature, settings.scenario) == ("softmax", 0.05, "scratch")


@pytest.mark.parametrize("prefix", ["emnist", "so"])
def test_no_privacy_is_the_best_softmax(prefix):
    own, best = resolve(f"--preset={prefix}_dp_none"), resolve(f"--preset={prefix}_scratch_softmax")
    assert {**own, "preset": None, "experiment_name": None} == {**best, "preset": None, "experiment_name": None}


def test_every_preset_is_a_row_or_a_federation_of_digits():
    names = (
        {f"{table}_{strategy}" for table in TABLES for strategy in STRATEGIES}
        | {f"{scenario}_init" for scenario in INIT_ROWS}
        | set(DP_ROWS)
    )
    assert set(presets.load(flags.PRESETS)) == names | {"emnist_dp_none", "so_dp_none"} | FEDERATIONS


@pytest.mark.parametrize(("prefix", "rounds", "cap"), [("emnist", 800, 0), ("so", 1600, 256)])
def test_settings_common_to_the_study(prefix, rounds, cap):
    settings = resolve(f"--preset={prefix}_scratch_greedy")
    assert (settings.total_rounds, settings.max_examples_per_client) == (rounds, cap)
    assert (settings.clients_per_round, settings.client_batch_size, settings.client_epochs_per_round) == (64, 16, 1)
    assert (settings.server_optimizer, settings.adaptive_clipping, settings.unclip_quantile) == ("adam", True, 0.8)
    assert settings.bandits_deploy_freq == 200


@pytest.mark.parametrize("name", [name for name in presets.load(flags.PRESETS) if name.startswith("so_")])
def test_stack_overflows_posts_are_those_of_the_published_program(name):
    settings = resolve(f"--preset={name}")
    assert (settings.text_normalisation, settings.keep_untagged, settings.variant) == ("l2", True, "paper")
