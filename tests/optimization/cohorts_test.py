import collections

import numpy as np
import pytest

from optimization import cohorts, options
from optimization.privacy import mechanisms

GROUP_OF = np.arange(200) % 2


@pytest.mark.parametrize("sampling", mechanisms.SAMPLINGS)
def test_equal_seeds_draw_equal_cohorts_and_rounds_differ(sampling):
    cohort = options.Cohorts(30, sampling, groups=2)
    first = cohorts.draw(cohort, 200, 4, 1, GROUP_OF)
    np.testing.assert_array_equal(first, cohorts.draw(cohort, 200, 4, 1, GROUP_OF))
    assert not np.array_equal(first, cohorts.draw(cohort, 200, 4, 2, GROUP_OF))
    assert not np.array_equal(first, cohorts.draw(cohort, 200, 5, 1, GROUP_OF))


def test_poisson_cohorts_have_binomial_sizes_and_treat_clients_alike():
    drawn = [cohorts.draw(options.Cohorts(8, "poisson"), 40, 1, round_num) for round_num in range(1, 2001)]
    sizes = np.array([len(cohort) for cohort in drawn])
    assert sizes.mean() == pytest.approx(8, abs=4 * np.sqrt(40 * 0.2 * 0.8 / 2000))
    assert sizes.var() == pytest.approx(40 * 0.2 * 0.8, rel=0.15)
    counts = np.bincount(np.concatenate(drawn), minlength=40)
    assert abs(counts - 400).max() < 5 * np.sqrt(2000 * 0.2 * 0.8)


def test_groups_take_turns_and_each_member_is_drawn_at_one_rate():
    group_of = cohorts.groups(map(str, range(90)), 3, seed=5)
    cohort = options.Cohorts(6, "cyclic_poisson", groups=3)
    drawn = [cohorts.draw(cohort, 90, 1, round_num, group_of) for round_num in range(1, 3001)]
    for index, members in enumerate(drawn[:60]):
        assert set(group_of[members]) <= {index % 3}
    counts = np.bincount(np.concatenate(drawn), minlength=90)
    assert abs(counts - 200).max() < 5 * np.sqrt(1000 * 0.2 * 0.8)  # At a rate of 6 * 3 / 90 in a third of the rounds.


def test_a_clients_group_depends_on_its_name_and_the_key_alone():
    names = [f"client {number}" for number in range(6000)]
    group_of = cohorts.groups(names, 4, seed=1)
    np.testing.assert_array_equal(cohorts.groups(names[:3:-1], 4, seed=1), group_of[:3:-1])
    assert (cohorts.groups(names, 4, seed=2) != group_of).mean() == pytest.approx(0.75, abs=0.03)
    assert np.bincount(group_of) == pytest.approx(np.full(4, 1500), abs=5 * np.sqrt(6000 * 0.25 * 0.75))


def test_by_turns_every_client_comes_back_after_population_over_cohort_rounds():
    rounds = [cohorts.draw(options.Cohorts(5, "cyclic"), 23, 3, round_num).tolist() for round_num in range(1, 47)]
    seen = collections.defaultdict(list)
    for round_num, cohort in enumerate(rounds):
        for client in cohort:
            seen[client].append(round_num)
    assert {len(turns) for turns in seen.values()} == {10}
    assert len(seen) == 23
    assert min(np.diff(turns).min() for turns in seen.values()) >= 23 // 5


def test_rounds_are_prepared_once_and_ahead_up_to_the_last():
    prepared = []
    ahead = cohorts.PreparedAhead(lambda round_num: prepared.append(round_num) or -round_num, total_rounds=5)
    assert [ahead(round_num) for round_num in (3, 4, 5)] == [-3, -4, -5]
    assert prepared == [3, 4, 5]
    assert [ahead(round_num) for round_num in (1, 4)] == [-1, -4]


def test_a_failed_preparation_fails_in_its_round():
    ahead = cohorts.PreparedAhead(lambda round_num: 6 // (2 - round_num), total_rounds=3)
    assert ahead(1) == 6
    with pytest.raises(ZeroDivisionError):
        ahead(2)
