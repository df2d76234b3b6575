"""Tests of bandits.flags."""

import pytest

from bandits import flags
from data.errors import UsageError
from optimization.options import OPTIMIZERS
from tests.bandits.whole_runs import options_of, resolve


@pytest.fixture(autouse=True)
def _user_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("BUILD_WORKING_DIRECTORY", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in OPTIMIZERS.items() for name in names])
def test_an_optimizers_hyperparameter_is_taken_with_it_alone(owner, name):
    flag = f"server_{owner}_{name}"
    for chosen in OPTIMIZERS:
        if chosen == owner:
            assert resolve(f"--server_optimizer={chosen}", f"--{flag}=0.5")[flag] == 0.5
        else:
            with pytest.raises(UsageError, match=f"^--{flag} "):
                resolve(f"--server_optimizer={chosen}", f"--{flag}=0.5")


@pytest.mark.parametrize(
    ("arguments", "initial", "bandits"),
    [
        ((), (0.1, 0.8), (0.1, 0.8)),
        (("--init_adaptive_clipping=false", "--unclip_quantile=0.5"), (None, None), (0.1, 0.5)),
        (("--adaptive_clipping=false", "--init_adaptive_clipping"), (0.1, 0.8), (None, None)),
        (("--adaptive_clipping=false", "--clip_norm=0.3"), (0.3, None), (0.3, None)),
    ],
)
def test_updates_of_the_initial_training_are_clipped_as_the_bandits_unless_a_flag_differs(arguments, initial, bandits):
    options = options_of("--scenario=init", *arguments)
    found = [(one.clip_norm, one.unclip_quantile) for one in (options.initial.aggregation, options.aggregation)]
    assert found == [initial, bandits]


def test_an_initial_training_by_hand_pays_for_the_labels_that_were_asked_for():
    for how in ("--scenario=init_shift", "--dist_shift_type=init"):
        assert options_of(how, "--init_labels=3").task.init_labels == 3
    assert resolve("--dist_shift_type=init").init_labels is None


@pytest.mark.parametrize(
    ("arguments", "epsilon"),
    [
        ("--bandits_type=epsilon_greedy", None),
        ("--bandits_type=epsilon_greedy --importance_weights=published_code --bandits_epsilon=0.2", 0.2),
        ("--bandits_type=epsilon_greedy --variant=reference_code", 0.05),
        ("--bandits_type=epsilon_greedy --variant=reference_code --importance_weights=inverse_propensity", None),
        ("--bandits_type=softmax --variant=reference_code --importance_weighting", None),
    ],
)
def test_the_published_codes_importance_weights_can_be_chosen_alone(arguments, epsilon):
    options = options_of(*arguments.split())
    assert options.published_epsilon == epsilon
    assert options.rewards == "exact"


# The commands of the published program's README, without the shell's backslashes.
PUBLISHED_README = (
    "--task_type=emnist_chars --bandits_type=epsilon_greedy --bandits_epsilon=0.05 --bandits_deploy_freq=200 "
    "--total_rounds=800 --clients_per_round=64 --client_batch_size=16 --client_epochs_per_round=1 "
    "--client_optimizer=sgd --client_learning_rate=0.1 --server_optimizer=adam --server_learning_rate=0.002 "
    "--rounds_per_eval=50 --rounds_per_checkpoint=50 --max_validation_samples=1000 --experiment_name=emnist",
    "--task_type=emnist_chars --bandits_type=softmax --bandits_deploy_freq=200 --bandits_temperature=0.05 "
    "--server_optimizer=adam --client_optimizer=sgd --client_learning_rate=0.2 --server_learning_rate=0.002 "
    "--clients_per_round=64 --client_batch_size=16 --eval_batch_size=256 --max_concurrent_threads=16 "
    "--rounds_per_eval=40 --total_rounds=800 --aggregator_type=dpsgd --clip_norm=0.1 --noise_multiplier=0.1",
    "--task_type=stackoverflow_tag --bandits_type=supervised_mse --bandits_deploy_freq=1 --server_optimizer=adam "
    "--client_optimizer=sgd --client_learning_rate=0.2 --server_learning_rate=0.05 --clients_per_round=64 "
    "--client_batch_size=16 --eval_batch_size=256 --max_concurrent_threads=16 --max_validation_samples=10000 "
    "--rounds_per_eval=10 --total_rounds=100 --population_client_selection=0-100 --root_output_dir=/tmp/ "
    "--experiment_name=so_init --dist_shift_type=init",
    "--task_type=stackoverflow_tag --bandits_type=softmax --bandits_deploy_freq=200 --bandits_temperature=0.05 "
    "--server_optimizer=adam --client_optimizer=sgd --client_learning_rate=0.05 --server_learning_rate=0.005 "
    "--clients_per_round=64 --client_batch_size=16 --eval_batch_size=256 --max_concurrent_threads=16 "
    "--max_validation_samples=10000 --rounds_per_eval=100 --total_rounds=1500 --adaptive_clipping=True "
    "--population_client_selection=170000-342477 --initial_model_path=/tmp/models/so_init --dist_shift_type=bandits",
)


@pytest.mark.parametrize("command", PUBLISHED_README)
@pytest.mark.parametrize("variant", ["paper", "reference_code"])
def test_the_published_readmes_commands_are_understood(command, variant):
    settings = resolve(*command.split(), f"--variant={variant}")
    for word in command.split():
        name, _, value = word.removeprefix("--").partition("=")
        assert str(settings[name]).removesuffix(".0") == value.rstrip("/")


def test_published_spellings_are_understood():
    assert resolve("--bandits_type=epsilon_greedy_ce_unw").bandits_type == "epsilon_greedy_ce_unweight"
    settings = resolve(
        "--task_type=stackoverflow_tag", "--stackoverflow_vocab_size=5000", "--stackoverflow_tag_size", "20"
    )
    assert (settings.vocabulary_size, settings.num_tags) == (5000, 20)
    adagrad = resolve("--server_optimizer=adagrad", "--server_adagrad_initial_accumulator_value=0.2")
    assert adagrad.server_adagrad_initial_preconditioner_value == 0.2
    assert dict(resolve("--repeat=1")) == dict(resolve("--repeat=0"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--bandits_type=greedy"], {"ties": "first", "clip_norm": 1.0, "cross_entropy": None}),
        (["--bandits_type=greedy", "--ties=random", "--clip_norm=0.3"], {"ties": "random", "clip_norm": 0.3}),
        (["--bandits_type=epsilon_greedy_ce"], {"cross_entropy": "sigmoid"}),
        (["--bandits_type=epsilon_greedy_ce", "--cross_entropy=softmax"], {"cross_entropy": "softmax"}),
        (["--bandits_type=supervised_ce"], {"cross_entropy": "softmax"}),
        (["--bandits_type=supervised_ce", "--task_type=stackexchange_tag"], {"cross_entropy": "sigmoid"}),
        (["--aggregator_type=secure_sum"], {"clip_norm": 1.0}),
        (["--model_aggregation=fedkp"], {"clip_norm": None}),
    ],
)
def test_the_published_programs_readings_come_with_its_variant(arguments, expected):
    settings = resolve("--variant=reference_code", *arguments)
    assert {name: settings[name] for name in expected} == expected
    assert dict(settings.checked(flags.check)) == dict(settings)


@pytest.mark.parametrize("variant", ["paper", "reference_code"])
@pytest.mark.parametrize(
    ("arguments", "redraws"),
    [
        ([], None),  # Digits have no cap.
        (["--max_examples_per_client=5", "--noredraw_examples"], False),
        (["--task_type=unipen62"], True),  # It has one of its own.
    ],
)
def test_examples_above_a_cap_are_drawn_anew_unless_it_is_said_otherwise(variant, arguments, redraws):
    settings = resolve(f"--variant={variant}", *arguments)
    assert settings.redraw_examples is redraws
    assert flags.options(settings).redraws_examples == bool(redraws)
    assert dict(settings.checked(flags.check)) == dict(settings)


def test_readings_reach_the_options():
    assert [options_of(*some).heads for some in ((), ("--bandits_type=bag", "--bandits_heads=3"))] == [1, 3]
    chosen = options_of("--bandits_type=falcon", "--ties=first", "--loss=half_sum")
    assert dict(chosen.policy.parameters)["first_of_ties"] is True
    assert (chosen.loss, chosen.cross_entropy, chosen.redraws_examples) == ("half_sum", None, False)
    chosen = options_of("--bandits_type=greedy_ce", "--cross_entropy=sigmoid")
    assert (chosen.loss, chosen.cross_entropy) == (None, "sigmoid")


@pytest.mark.parametrize(
    ("bandit", "values"),
    [
        ("init", {}),
        ("epsilon_greedy_ce", {"epsilon": 0.05}),
        ("falcon", {"mu": 100.0, "gamma": 1000.0}),
        ("squarecb", {"mu": None}),
    ],
)
def test_policy_values_are_the_bandits_own_parameters(bandit, values):
    scenario = ["--scenario=init"] if bandit == "init" else []
    assert dict(options_of(f"--bandits_type={bandit}", *scenario).policy.parameters) == values


def test_model_aggregation_by_modes_is_not_clipped_and_by_chains_as_the_mean_is():
    modes, chains = (resolve(f"--model_aggregation={name}") for name in ("fedkp_cluster_mean", "fedpa"))
    assert (modes.adaptive_clipping, modes.clip_norm, modes.burn_in_rounds) == (False, None, 0)
    assert (chains.adaptive_clipping, chains.clip_norm, chains.burn_in_rounds) == (True, 0.1, 75)
