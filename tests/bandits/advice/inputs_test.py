"""Flags of all runs, the data and its simulator, and the deployment that privacy is computed for."""

import types

import numpy as np
import pytest

from bandits import studies
from bandits.advice import inputs
from bandits.advice.plan import BINARY
from data.errors import UsageError
from optimization.study import cli

TABLE = ("--data_file=sklearn_wine.csv", "--client_column=cellar", "--label_column=cultivar")
COLUMNS = ("--client_column=user", "--action_column=action", "--reward_column=reward", "--propensity_column=propensity")


def _scores(path, probability):
    """Flags and scores of the simulator of a log whose best action is XOR of two features, which is not linear."""
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
    flags = ("--task_type=logged", f"--data_file={path}", *COLUMNS)
    return flags, inputs.open_data(studies.resolve(BINARY, (*flags, "--bandits_type=greedy"))).scores


def test_only_a_simulator_that_doubly_robust_estimates_contradict_is_refused(tmp_path):
    flags, scores = _scores(tmp_path / "log.csv", 0.5)
    inputs.check_simulator(scores, flags)
    flags, scores = _scores(tmp_path / "log.csv", 0.9)
    (uniform,) = [score for score in scores if score.is_off]
    # The truth is (0.6 + 0.05) / 2: DR finds it, and the simulator takes the logged actions' reward for any action's.
    assert uniform.logged.low < 0.325 < uniform.logged.high
    assert uniform.simulated.mean > 0.5
    with pytest.raises(UsageError, match="The log contradicts its simulator") as caught:
        inputs.check_simulator(scores, flags, "a linear model fitted centrally 0.5")
    printed = str(caught.value)
    assert "uniformly random actions: simulator 0.5" in printed
    assert "a linear model fitted centrally 0.5" in printed
    offline = printed.partition("this command trains offline.\n")[2].partition("\n")[0]
    assert studies.resolve(BINARY, offline.partition(f"{BINARY} ")[2].split()).learn_from == "dr"


def test_a_preset_with_noise_is_refused_with_the_remedy():
    with pytest.raises(UsageError, match=r"--noise_multiplier=.* \(set by --preset=so_dp_small_noise\): .*=0, or"):
        inputs.base_flags(("--preset=so_dp_small_noise",))


@pytest.mark.parametrize(
    "flags", [("--preset=emnist_dp_clip_only",), ("--preset=emnist_dp_small_noise", "--aggregator_type=mean")]
)
def test_values_that_add_no_noise_are_passed_on(flags):
    assert inputs.base_flags(flags) == flags
    assert inputs.base_flags(TABLE) == (*TABLE, "--task_type=tabular")


def test_the_data_has_the_facts_that_searches_need():
    data = inputs.open_data(studies.resolve(BINARY, ("--task_type=tabular", *TABLE, "--bandits_type=greedy")))
    assert (data.clients, data.cohort, data.num_actions, data.reward_width) == (20, 20, 3, 1.0)
    assert (data.held_out, data.unit[:32]) == ("5 of 25 clients", "one value of column 'cellar' wit")


def _deployment(*arguments, clients=60, cohort=20):
    flags = cli.FlagSet("x")
    flags.group("Privacy", inputs.Privacy)
    return inputs.deployment(flags.parse(["x", *arguments]), clients, cohort, ())


@pytest.mark.parametrize(
    ("arguments", "clients", "reason"),
    [
        ((), 19, "with 19 clients to protect, delta is 0.039, above 0.001, so no epsilon is a meaningful guarantee"),
        ((), 534, ""),
        (("--target_delta=0.0001",), 19, ""),
    ],
)
def test_no_cost_is_reported_where_delta_makes_epsilon_meaningless(arguments, clients, reason):
    data = types.SimpleNamespace(has_learned_bounds=False)
    found = inputs.no_guarantee(_deployment(*arguments, clients=clients, cohort=5), data)
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


def test_the_cohort_of_a_deployment_is_a_hundredth_of_its_population_and_no_smaller_than_that_of_the_data():
    for population, cohort in ((5000, 50), (1500, 20), (10_000_000, 1000)):
        assert _deployment(f"--population={population}").cohort == cohort
    assert _deployment("--population=5000", "--population_clients_per_round=700").cohort == 700
    with pytest.raises(UsageError, match="--population=50 is less than the 60 clients"):
        _deployment("--population=50")
    with pytest.raises(UsageError, match="--population_clients_per_round=19 is less than"):
        _deployment("--population=5000", "--population_clients_per_round=19")
