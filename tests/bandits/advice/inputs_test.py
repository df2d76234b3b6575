"""The data, its simulator, and where the model would be trained."""

import numpy as np
import pytest

from bandits import studies
from bandits.advice import inputs
from bandits.advice.plan import BINARY
from data.errors import UsageError
from optimization.study import cli

TABLE = ("--data_file=sklearn_wine.csv", "--client_column=cellar", "--label_column=cultivar")
COLUMNS = ("--client_column=user", "--action_column=action", "--reward_column=reward", "--propensity_column=propensity")


def _write(path, probability):
    """Writes a log of 80 users whose best action is XOR of two features, which no linear model of them fits."""
    draw = np.random.default_rng(2)
    lines = ["user,x,y,action,reward,propensity"]
    for user in np.repeat(np.arange(80), 40):
        x, y = draw.integers(2, size=2)
        best = int(x != y)
        action = best if draw.random() < probability else 1 - best
        reward = int(draw.random() < (0.6 if action == best else 0.05))
        propensity = probability if action == best else 1 - probability
        lines.append(f"u{user},{x},{y},{'ab'[action]},{reward},{propensity:.2f}")
    path.write_text("\n".join(lines))


def _scores(path):
    flags = ("--task_type=logged", f"--data_file={path}", *COLUMNS)
    return flags, inputs.open_data(studies.resolve(BINARY, (*flags, "--bandits_type=greedy"))).scores


def test_a_simulator_that_dr_refutes_is_refused_with_what_the_log_supports(tmp_path):
    _write(tmp_path / "log.csv", 0.9)
    flags, scores = _scores(tmp_path / "log.csv")
    (uniform,) = [one for one in scores if one.is_off]
    # The truth is (0.6 + 0.05) / 2: DR finds it, and the simulator takes the logged actions' reward for any action's.
    assert uniform.logged.low < 0.325 < uniform.logged.high
    assert uniform.simulated.mean > 0.5
    with pytest.raises(UsageError, match="The log contradicts its simulator") as caught:
        inputs.check_simulator(scores, flags)
    printed = str(caught.value)
    assert "uniform policy: 0.56 simulated, 0.30 doubly robust, difference +0.26 (95% CI " in printed
    offline = printed.partition("offline training:")[2].partition("\n")[0]
    resolved = studies.resolve(BINARY, offline.partition(f"{BINARY} ")[2].split())
    assert resolved.learn_from == "dr"
    with pytest.raises(UsageError, match="a linear model fitted centrally 0\\.5"):
        inputs.check_simulator(scores, flags, "a linear model fitted centrally 0.5")


def test_a_simulator_that_its_log_supports_is_accepted(tmp_path):
    _write(tmp_path / "log.csv", 0.5)
    flags, scores = _scores(tmp_path / "log.csv")
    inputs.check_simulator(scores, flags)
    assert [inputs.score_text(score).partition(":")[0] for score in scores] == ["logging policy", "uniform policy"]


def test_a_preset_with_noise_is_refused_and_what_is_right_is_reported():
    with pytest.raises(UsageError, match=r"--preset=so_dp_small_noise sets --noise_multiplier=.*=0, too"):
        inputs.base_flags(("--preset=so_dp_small_noise",))


@pytest.mark.parametrize(
    "flags", [("--preset=emnist_dp_clip_only",), ("--preset=emnist_dp_small_noise", "--aggregator_type=mean")]
)
def test_values_that_add_no_noise_are_passed_on(flags):
    assert inputs.base_flags(flags) == flags
    assert inputs.base_flags(TABLE) == (*TABLE, "--task_type=tabular")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("--task_type=tabular", *TABLE), "advice_sklearn_wine"),
        (("--task_type=digits", "--scenario=init_shift"), "advice_digits_init_shift"),
        (("--preset=emnist_init_shift_softmax", "--scenario=init_shift"), "advice_emnist_init_shift_softmax"),
    ],
)
def test_the_folder_is_named_by_the_data(arguments, name):
    assert inputs.folder_name(studies.parse(BINARY, arguments)) == name


def test_the_data_says_what_its_searches_need():
    resolved = studies.resolve(BINARY, ("--task_type=tabular", *TABLE, "--bandits_type=greedy"))
    data = inputs.open_data(resolved)
    assert (data.clients, data.cohort, data.num_actions, data.reward_width) == (20, 20, 3, 1.0)
    assert data.is_labelled
    assert (data.held_out, data.rows) == ("held out for evaluation: 5 of 25 clients", data.report["training_rows"])
    assert data.unit.startswith("one value of column 'cellar' with all its rows, not the people behind single rows: 20")
    few = inputs.open_data(studies.resolve(BINARY, ("--task_type=digits", "--bandits_type=greedy")))
    assert (few.cohort, few.rows, few.unit) == (20, 0, "one client with all its data, not a single example")


def test_labels_measure_no_model_where_rewards_change():
    flags = ("--task_type=digits", "--bandits_type=greedy")
    for others, is_labelled in (((), True), (("--scenario=drift",), False), (("--scenario=init_shift",), False)):
        assert inputs.open_data(studies.resolve(BINARY, (*flags, *others))).is_labelled is is_labelled


def _settings(*arguments: str) -> cli.Settings:
    flags = cli.FlagSet("x")
    flags.group(inputs.Privacy)
    return flags.parse(["x", *arguments])


@pytest.mark.parametrize(
    ("arguments", "clients", "reason"),
    [
        ((), 19, "with 19 clients to protect, delta is 0.039, above 0.001, so no epsilon is a meaningful guarantee"),
        ((), 534, ""),
        (("--target_delta=0.0001",), 19, ""),
    ],
)
def test_no_cost_is_reported_where_delta_makes_epsilon_meaningless(arguments, clients, reason):
    where = inputs.deployment(_settings(*arguments), clients, 5, ())
    assert inputs.no_guarantee(where).startswith(reason)
    assert bool(inputs.no_guarantee(where)) == bool(reason)


def test_the_cohort_of_a_deployment_is_a_hundredth_of_its_population_and_holds_the_sample():
    for population, cohort in ((5000, 50), (1500, 20), (10_000_000, 1000)):
        assert inputs.deployment(_settings(f"--population={population}"), 60, 20, ()).cohort == cohort
    assert (
        inputs.deployment(_settings("--population=5000", "--population_clients_per_round=700"), 60, 20, ()).cohort
        == 700
    )
    with pytest.raises(UsageError, match="--population=50 is less than the 60 clients"):
        inputs.deployment(_settings("--population=50"), 60, 20, ())
    with pytest.raises(UsageError, match="--population_clients_per_round=19 is less than"):
        inputs.deployment(_settings("--population=5000", "--population_clients_per_round=19"), 60, 20, ())


def test_epsilons_are_numbers_above_0_in_the_order_given():
    for text in ("", "1,,2", "0", "-1", "a", "inf"):
        with pytest.raises(UsageError, match="--target_epsilons"):
            _settings(f"--target_epsilons={text}")
    assert _settings("--target_epsilons=8,2").target_epsilons == (8.0, 2.0)
    assert _settings().target_epsilons == (3.0, 10.0, 1.0)
