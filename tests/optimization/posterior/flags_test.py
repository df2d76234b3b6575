"""Tests of run_posterior's flags and presets."""

import pytest

from data.errors import UsageError
from optimization import presets
from optimization.posterior import flags


def resolve(*arguments: str):
    return flags.resolve(flags.define().parse(["run_posterior", *arguments]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithm=fedbayes"], "algorithm"),
        (["--algorithm=fedavg", "--bandwidth=scott"], "--bandwidth belongs to --algorithm=fedkp or"),
        (["--algorithm=fedkp", "--shrinkage=0.2"], "--shrinkage belongs to --algorithm=fedpa or fedkppa"),
        (["--algorithm=sgld", "--burn_in_rounds=51"], "--burn_in_rounds=51 must be at most --total_rounds=50"),
        (["--algorithm=fedbe"], "--algorithm=fedbe needs --server_data"),
        (["--algorithm=fedbe", "--server_data=clients:0"], "--server_data=clients:0 must be"),
        (["--server_optimizer=adam", "--server_sgd_momentum=0.5"], "--server_sgd_momentum belongs to"),
        (["--diagnose_round=51"], "--diagnose_round=51 must be at most"),
        (["--diagnose_round=1", "--clients_per_round=1"], "--clients_per_round=2 or more"),
        (["--thresholds=80"], "--thresholds=80 must be"),
        (["--client_selection=rand", "--client_sampling_alpha=1"], "--client_sampling_alpha draws cohorts itself"),
        (
            ["--client_selection=rand", "--selection_gamma=0.5"],
            "--selection_gamma belongs to --client_selection=ucb_cs",
        ),
        (["--model=cnn"], "--model belongs to --task_type="),
        (["--task_type=mnist", "--norm=batch"], "--norm belongs to --model=resnet18"),
        (["--partition_alpha=1"], "--partition_alpha belongs to --task_type="),
    ],
)
def test_bad_usage_names_the_flag(arguments, message):
    with pytest.raises(UsageError) as error:
        resolve(*arguments)
    assert message in str(error.value)


def test_defaults_follow_the_algorithm():
    assert resolve("--algorithm=fedpa").burn_in_rounds == 25
    assert resolve("--algorithm=fedavg").burn_in_rounds == 0
    fedavg, fedopt = resolve("--algorithm=fedavg"), resolve("--algorithm=fedopt")
    assert (fedavg.server_optimizer, fedavg.server_learning_rate) == ("sgd", 1.0)
    assert (fedopt.server_optimizer, fedopt.server_learning_rate) == ("adam", 0.01)


# Table 4.1, once more by hand: clients, batch size, epochs, client learning rate, burn-in, shrinkage, rounds.
@pytest.mark.parametrize(
    ("names", "values"),
    [
        ([f"mnist_alpha_{alpha}" for alpha in ("0.01", "0.1", "1", "10")], (20, 16, 5, 0.001, 25, 0.1, 50)),
        ([f"emnist62_alpha_{alpha}" for alpha in ("0.01", "0.1", "1", "10")], (100, 20, 5, 0.01, 500, 0.1, 1000)),
        ([f"cifar100_alpha_{alpha}" for alpha in ("0.01", "0.1", "1", "10")], (20, 20, 20, 0.01, 400, 0.01, 800)),
    ],
)
def test_presets_hold_the_published_settings(names, values):
    for name in names:
        settings = resolve(f"--preset={name}", "--algorithm=fedkppa")
        found = tuple(
            settings[flag]
            for flag in (
                "clients_per_round",
                "client_batch_size",
                "client_epochs_per_round",
                "client_learning_rate",
                "burn_in_rounds",
                "shrinkage",
                "total_rounds",
            )
        )
        assert found == values
        assert (settings.client_momentum, settings.server_learning_rate, settings.server_optimizer) == (0.9, 0.5, "sgd")
        assert (
            settings.model
            == {"mnist": "cnn_small", "emnist62": "cnn_dropout", "cifar100": "resnet18"}[name.split("_")[0]]
        )
        assert settings.partition_beta == (10 if name.startswith("cifar100") else None)
        alpha = settings.client_sampling_alpha if name.startswith("emnist") else settings.partition_alpha
        assert alpha == float(name.rpartition("_")[2])


@pytest.mark.parametrize("name", presets.load(flags.PRESETS))
@pytest.mark.parametrize("algorithm", ["fedavg", "fedkppa"])
def test_every_preset_can_be_resolved(name, algorithm):
    assert resolve(f"--preset={name}", f"--algorithm={algorithm}").experiment_name == f"{name}_{algorithm}"


def test_fedopt_does_not_take_the_presets_sgd():
    fedopt = resolve("--preset=mnist_alpha_1", "--algorithm=fedopt")
    assert (fedopt.server_optimizer, fedopt.server_learning_rate) == ("adam", 0.01)
    given = resolve("--preset=mnist_alpha_1", "--algorithm=fedopt", "--server_optimizer=yogi")
    assert (given.server_optimizer, given.server_learning_rate) == ("yogi", 0.01)
