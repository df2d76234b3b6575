import pytest

from data.errors import UsageError
from optimization.posterior import flags
from optimization.posterior.run_posterior import STUDY
from optimization.study import frame, presets


def resolve(*arguments: str):
    (settings,) = frame.plan(STUDY, frame.flag_set(STUDY).parse(["run_posterior", *arguments]))
    return settings


def test_defaults_follow_the_algorithm():
    assert resolve("--algorithm=fedpa").burn_in_rounds == 25
    assert resolve("--algorithm=fedavg").burn_in_rounds == 0
    assert resolve("--algorithm=sgld").burn_in_rounds == 25
    assert resolve("--algorithm=sgld").langevin_deviation == "sqrt_2_rate"
    fedavg, fedopt = resolve("--algorithm=fedavg"), resolve("--algorithm=fedopt")
    assert (fedavg.server_optimizer, fedavg.server_learning_rate) == ("sgd", 1.0)
    for settings in (fedopt, resolve("--preset=mnist_alpha_1", "--algorithm=fedopt")):  # Not the preset's SGD.
        assert (settings.server_optimizer, settings.server_learning_rate) == ("adam", 0.01)


@pytest.mark.parametrize(
    ("arguments", "burn_in"),
    [(("--total_rounds=3",), 1), (("--total_rounds=100",), 25), (("--total_rounds=3", "--burn_in_rounds=2"), 2)],
)
@pytest.mark.parametrize("algorithm", ["fedpa", "fedkppa", "sgld"])
def test_a_preset_s_burn_in_is_shortened_with_its_rounds(algorithm, arguments, burn_in):
    settings = resolve("--preset=mnist_alpha_1", f"--algorithm={algorithm}", *arguments)
    assert settings.burn_in_rounds == burn_in
    assert STUDY.resolve(settings).burn_in_rounds == burn_in


def test_a_shortened_burn_in_is_announced_and_the_user_s_own_is_not_shortened():
    assert list(STUDY.notes(resolve("--preset=mnist_alpha_1", "--algorithm=fedpa", "--total_rounds=3"))) == [
        "--burn_in_rounds is 1, not 25 as in --preset=mnist_alpha_1: it is shortened in proportion to --total_rounds=3."
    ]
    for others in (("--algorithm=fedpa",), ("--algorithm=fedavg", "--total_rounds=3")):
        assert not STUDY.notes(resolve("--preset=mnist_alpha_1", *others))
    with pytest.raises(UsageError, match="--burn_in_rounds=4 must be at most --total_rounds=3"):
        resolve("--preset=mnist_alpha_1", "--algorithm=fedpa", "--total_rounds=3", "--burn_in_rounds=4")


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
    flags_of_table = "clients_per_round client_batch_size client_epochs_per_round client_learning_rate burn_in_rounds"
    model = {"mnist": "cnn_small", "emnist62": "cnn_dropout", "cifar100": "resnet18"}[names[0].split("_")[0]]
    for name in names:
        settings = resolve(f"--preset={name}", "--algorithm=fedkppa")
        assert tuple(settings[flag] for flag in (*flags_of_table.split(), "shrinkage", "total_rounds")) == values
        assert (settings.client_momentum, settings.server_learning_rate, settings.server_optimizer) == (0.9, 0.5, "sgd")
        assert settings.model == model
        assert settings.partition_beta == (10 if name.startswith("cifar100") else None)
        alpha = settings.client_sampling_alpha if name.startswith("emnist") else settings.partition_alpha
        assert alpha == float(name.rpartition("_")[2])


@pytest.mark.parametrize("name", presets.load(flags.PRESETS))
@pytest.mark.parametrize("algorithm", ["fedavg", "fedkppa"])
def test_every_preset_can_be_resolved(name, algorithm):
    assert resolve(f"--preset={name}", f"--algorithm={algorithm}").experiment_name == f"{name}_{algorithm}"


@pytest.mark.parametrize("task", ["mnist", "emnist62", "cifar100", "learns"])
def test_fedkp_as_published_differs_in_the_servers_rate_alone(task):
    published = resolve(f"--preset={task}_fedkp_published_alpha_0.1")
    equal = resolve(f"--preset={task}_alpha_0.1", "--algorithm=fedkp_cluster_mean")
    differing = {name for name in equal if published[name] != equal[name]}
    assert differing == {"preset", "experiment_name", "server_learning_rate"}
    assert (published.server_learning_rate, equal.server_learning_rate) == (1.0, 0.5)
