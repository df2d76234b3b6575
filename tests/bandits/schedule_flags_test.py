import pytest

from bandits import run_federated, schedules
from bandits.options import phases
from data.errors import UsageError
from data.tasks import registry
from tests.bandits.whole_runs import options_of, resolve


def policy(*arguments: str):
    return options_of("--total_rounds=95", "--bandits_deploy_freq=10", *arguments).policy


def test_without_a_schedule_policies_are_built_of_all_their_parameters():
    chosen = policy("--bandits_type=falcon", "--bandits_schedule=constant")
    assert (chosen.parameters, chosen.schedule) == ((("mu", 100.0), ("gamma", 1000.0)), None)


@pytest.mark.parametrize(
    ("bandit", "moving", "kept"),
    [("epsilon_greedy", "epsilon", {}), ("softmax_ce", "temperature", {}), ("falcon", "gamma", {"mu": 100.0})],
)
@pytest.mark.parametrize(("name", "kind"), [("linear", schedules.Linear), ("cosine", schedules.Cosine)])
def test_a_schedule_goes_from_the_parameter_to_its_end_at_the_last_deployment(bandit, moving, kept, name, kind):
    given = f"--bandits_{moving}=0.5"
    chosen = policy(f"--bandits_type={bandit}", given, f"--bandits_schedule={name}", "--bandits_schedule_end=0.1")
    # 95 rounds have ten periods of ten or fewer.
    assert (chosen.scheduled, dict(chosen.parameters), chosen.schedule) == (moving, kept, kind(0.5, 0.1, 10))


def test_strategies_that_always_move_have_schedules_of_their_own():
    assert policy("--bandits_type=squarecb").schedule == schedules.Power(10.0, 0.5, False)
    assert policy("--bandits_type=epsilon_decay_ce").schedule == schedules.Power(0.2, -1 / 3, False)
    power = ("--bandits_schedule_time=interactions", "--bandits_schedule_exponent=0.25", "--max_examples_per_client=7")
    assert policy("--bandits_type=squarecb", "--bandits_gamma=3", *power).schedule == schedules.Power(3.0, 0.25, True)
    epochs = policy("--bandits_type=falcon_epochs", "--max_examples_per_client=7", "--bandits_log_class_size=4")
    assert epochs.schedule == schedules.FalconEpochs(1.0, 4.0, 0.05, 0.0, 10)
    assert dict(epochs.parameters) == {"mu": None}


def test_a_longer_run_would_have_another_schedule_unless_its_deployments_are_given():
    given = ("--bandits_schedule=linear", "--bandits_schedule_end=0.01", "--bandits_deploy_freq=5")
    horizons = [resolve(*given, f"--total_rounds={rounds}").bandits_schedule_deployments for rounds in (50, 100)]
    assert horizons == [10, 20]
    assert resolve(*given, "--bandits_schedule_deployments=10", "--total_rounds=100").bandits_schedule_deployments == 10


def test_a_power_that_leaves_the_range_of_its_parameter_is_refused_with_the_deployment():
    power = ("--bandits_schedule=power", "--bandits_schedule_exponent=1", "--bandits_epsilon=0.1")
    chosen = options_of("--bandits_type=epsilon_greedy", *power, "--bandits_deploy_freq=10", "--total_rounds=110")
    message = (
        "--bandits_schedule: at deployment 11 of 11 epsilon would be out of range: 1.1 is not a number of at least 0"
    )
    with pytest.raises(UsageError, match=f"^{message}"):
        run_federated.STUDY.check(chosen, registry.load(chosen.task))


def test_what_is_planned_is_rounds_times_cohort_times_cap():
    rounds = ("--clients_per_round=3", "--bandits_deploy_freq=5", "--total_rounds=12")
    chosen = options_of("--bandits_type=falcon_epochs", "--max_examples_per_client=7", *rounds)
    (phase,) = phases(chosen, registry.load(chosen.task))
    assert phase.planned(10) == schedules.Planned(10, 5 * 3 * 7)
    assert phase.periods == 3
    gamma = schedules.falcon_gamma(10, schedules.complexity(10.0, 0.05, 3), 105)
    assert [phase.scheduled_value(10, period) for period in (0, 1)] == [1.0, gamma]
