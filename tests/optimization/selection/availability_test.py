import numpy as np
import pytest

from data import clients
from optimization.selection.availability import ALWAYS, Attendance, Availability

DAILY = Availability("diurnal", day=8, time_zones=4)


def _clients(labels):
    owners = np.repeat(np.arange(len(labels)), [len(some) for some in labels])
    flat = np.concatenate([np.array(some) for some in labels])
    examples = clients.Examples(np.zeros((len(flat), 1), np.float32), flat)
    return clients.ArrayClients(examples, owners, [str(index) for index in range(len(labels))])


def test_probabilities_of_a_day_by_hand():
    zones = np.array([0, 2])  # Half a day apart.
    noon, night, between = 0.9, 0.1, 0.5
    found = [DAILY.probabilities(zones, round_num) for round_num in (1, 3, 5, 7, 9)]
    expected = [[noon, night], [between, between], [night, noon], [between, between], [noon, night]]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_clients_participate_with_their_probabilities():
    attendance = Attendance(DAILY, np.array([0, 1, 2, 3]), 5)
    came = np.mean([attendance.available(1 + 8 * day) for day in range(4000)], axis=0)
    # The standard error of a share is at most 0.008.
    np.testing.assert_allclose(came, [0.9, 0.5, 0.1, 0.5], atol=0.03)


def test_clients_of_near_labels_share_a_zone():
    population = _clients([[0, 0, 9], [9, 9], [4, 5, 5], [1]])
    by_labels = Availability("diurnal", day=8, time_zones=2, by_labels=True)
    assert by_labels.zones(population, 10).tolist() == [0, 1, 1, 0]
    assert by_labels.zones(population, 10, range(1, 3)).tolist() == [1, 1]
    assert by_labels.revealed == ("when clients are available, which depends on their labels",)


def test_a_client_of_several_labels_has_the_zone_of_the_most_frequent():
    labels = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0]], np.float32)
    population = clients.ArrayClients(
        clients.Examples(np.zeros((3, 1), np.float32), labels), np.array([0, 0, 1]), ["0", "1"]
    )
    assert Availability("diurnal", day=8, time_zones=3, by_labels=True).zones(population, 3).tolist() == [2, 0]


def test_random_zones_are_independent_of_the_data():
    population = _clients([[0]] * 400)
    zones = DAILY.zones(population, 1)
    assert set(zones) == {0, 1, 2, 3}
    np.testing.assert_array_equal(zones, DAILY.zones(population, 1))
    np.testing.assert_array_equal(zones[7:90], DAILY.zones(population, 1, range(7, 90)))
    assert (zones != Availability("diurnal", time_zones=4, seed=1).zones(population, 1)).any()
    assert DAILY.revealed == ()


def test_where_everyone_is_there_the_cohort_is_the_drawn_one():
    drawn = np.array([7, 1, 4])
    attendance = Attendance(ALWAYS, np.zeros(9, int), 0)
    np.testing.assert_array_equal(attendance.come(drawn, 3, fill=True), drawn)


@pytest.mark.parametrize("fill", [True, False])
def test_only_those_who_are_available_come(fill):
    attendance = Attendance(DAILY, np.arange(40) % 4, 0)
    for round_num in range(1, 30):
        drawn = np.random.default_rng(round_num).choice(40, 10, replace=False)
        there, came = attendance.available(round_num), attendance.come(drawn, round_num, fill=fill)
        assert there[came].all()
        assert len(set(came)) == len(came) == (min(10, there.sum()) if fill else there[drawn].sum())
        assert set(drawn[there[drawn]]) <= set(came)


@pytest.mark.slow
def test_places_are_taken_uniformly():
    """Given who is available, each of them is in the cohort as often as any other."""
    attendance = Attendance(Availability("diurnal", day=8), np.zeros(12, int), 0)
    ratio, weight = np.zeros(12), np.zeros(12)
    for round_num in range(1, 6001):
        drawn = np.random.default_rng(round_num).choice(12, 3, replace=False)
        there, came = attendance.available(round_num), attendance.come(drawn, round_num, fill=True)
        if there.sum() >= 3:
            ratio[came] += 1
            weight[there] += 3 / there.sum()
    # About 1500 draws each: a standard error of at most 0.03.
    np.testing.assert_allclose(ratio / weight, 1, atol=0.1)


def test_one_client_more_or_less_moves_at_most_one_other(monkeypatch):
    """What privacy's accounting of a replaced client rests on."""
    attendance = Attendance(DAILY, np.arange(30) % 4, 0)
    for round_num in range(1, 40):
        drawn = np.random.default_rng(round_num).choice(30, 8, replace=False)
        there = attendance.available(round_num)
        came = set(attendance.come(drawn, round_num, fill=True))
        for client in range(30):
            other = there.copy()
            other[client] ^= True
            with monkeypatch.context() as patch:
                patch.setattr(Attendance, "available", lambda *_, other=other: other)
                changed = set(attendance.come(drawn, round_num, fill=True))
            assert len((came ^ changed) - {client}) <= 1


def test_who_drops_out_is_not_replaced():
    attendance = Attendance(Availability(drop_out=0.25), np.zeros(2000, int), 0)
    drawn = np.arange(1000)
    came = attendance.come(drawn, 1, fill=True)
    assert set(came) < set(drawn)
    np.testing.assert_array_equal(attendance.start(drawn, 1, fill=True), drawn)
    assert len(came) == pytest.approx(750, abs=60)  # Four standard deviations.
    np.testing.assert_array_equal(came, attendance.come(drawn, 1, fill=True))
    assert set(came) != set(attendance.come(drawn, 2, fill=True))
    assert not len(Attendance(Availability(drop_out=1.0), np.zeros(9, int), 0).come(np.arange(3), 1, fill=True))
