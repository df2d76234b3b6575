import math

import pytest

from bandits import schedules

# 10 actions; a period has 2 rounds of 5 clients with at most 20 examples: 200 interactions.
PLANNED = schedules.Planned(num_actions=10, interactions=200)


def values(schedule: schedules.Schedule, periods: int) -> list[float]:
    return [schedule.value(period, PLANNED) for period in range(periods)]


def test_linear_moves_by_as_much_each_deployment_and_stays_at_its_end():
    assert values(schedules.Linear(1.0, 0.2, 5), 7) == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2])


def test_cosine_moves_along_half_a_period_and_stays_at_its_end():
    # (1 + cos(pi / 4)) / 2 = 0.8535534 of the way is left after a quarter, half after a half.
    expected = [1.0, 0.2 + 0.8 * 0.8535534, 0.6, 0.2 + 0.8 * 0.1464466, 0.2, 0.2]
    assert values(schedules.Cosine(1.0, 0.2, 5), 6) == pytest.approx(expected)


def test_a_power_of_interactions_counts_those_planned_before_the_deployment_and_at_least_one():
    found = values(schedules.Power(10.0, 0.5, counts_interactions=True), 3)
    assert found == pytest.approx([10, 10 * math.sqrt(200), 200])
    assert values(schedules.Power(0.5, -1.0, counts_interactions=True), 2) == pytest.approx([0.5, 0.0025])


def test_falcons_gamma_of_the_epochs_by_hand():
    # ln |F| = 2, I = 3, delta = 0.05: ln(|F| I / delta) = 2 + ln 60 = 6.0943446; n = 200, 400 samples.
    schedule = schedules.FalconEpochs(scale=1.0, log_class_size=2.0, delta=0.05, fed_opt=0.0, periods=3)
    assert values(schedule, 3) == pytest.approx([1, math.sqrt(10 * 200 / 6.0943446), math.sqrt(10 * 400 / 6.0943446)])
    assert values(schedule, 3)[1] == pytest.approx(18.11555, abs=1e-5)


def test_falcons_gamma_by_hand():
    assert schedules.falcon_gamma(4, 2.0, 0) == 1
    assert schedules.falcon_gamma(4, 2.0, 200) == pytest.approx(20)
    assert schedules.falcon_gamma(4, 2.0, 200, scale=0.5) == pytest.approx(10)
    assert schedules.falcon_gamma(4, 2.0, 1e12, fed_opt=0.01) == pytest.approx(20)
