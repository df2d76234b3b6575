"""Tests that every binary's flags are resolved once and for all."""

import pytest

from bandits import studies
from optimization.study import frame


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("run_federated", []),
        ("run_federated", ["--preset=emnist_init_shift_falcon", "--bandits_mu=70"]),
        ("run_federated", ["--aggregator_type=dpsgd", "--noise_multiplier=1", "--adaptive_clipping"]),
        ("run_federated", ["--model_aggregation=sgld", "--total_rounds=7", "--client_selection=ucb_cs"]),
        ("run_federated", ["--task_type=stackexchange_tag", "--data_dir=posts", "--initial_model_path=../runs/a"]),
        ("run_posterior", ["--preset=mnist_alpha_1", "--algorithm=fedopt", "--server_optimizer=yogi"]),
        ("run_posterior", ["--algorithm=fedbe", "--server_data=clients:3"]),
        ("run_client_selection", ["--client_selection=rand,ucb_cs", "--clients_per_round=1,2", "--repeat=2"]),
        ("run_mab_fl", ["--decision_rule=discounted_thompson", "--rule_gamma=0.5"]),
        ("run_ads", ["--rates=0.1,0.2", "--noise_multiplier=1", "--clip_norm=1", "--insecure_seeded_noise"]),
    ],
)
def test_resolving_twice_changes_nothing(name, arguments):
    study = studies.load(studies.STUDIES[name])
    settings = frame.flag_set(study).parse([name, *arguments])
    for _, variant in study.variants(settings):
        once = study.resolve(variant)
        assert dict(study.resolve(once)) == dict(once)
        assert once.set_by_user == settings.set_by_user
