"""Tests of a run's selected cohorts."""

import numpy as np
import pytest

from data.errors import UsageError
from optimization.selection import selected, selectors


def test_clients_report_once_and_only_finite_losses():
    seen = []

    class Watched(selectors.Uniform):
        def observe(self, state, ids, losses, silent=()):
            seen.extend([ids, *losses, silent])
            return "after"

    cohorts = selected.SelectedCohorts(Watched([1] * 9, 4), seed=0)
    means, deviations = np.array([0.5, np.nan, 0.25, 0.5]), np.array([0.1, 0.1, np.inf, 0.1])
    assert cohorts.observe((), np.array([7, 3, 2, 7]), means, deviations) == "after"
    assert [part.tolist() for part in seen] == [[7], [0.5], [0.1], [2, 3]]


def test_the_largest_answers_to_a_poll_are_chosen_and_silence_is_none():
    cohorts = selected.SelectedCohorts(selectors.PowD([1] * 5, 2, 5), seed=3)
    answers = np.array([0.5, np.nan, 3.0, 2.0, np.inf])
    cohort, polled, state = cohorts.choose(cohorts.selector.initial_state(), 1, lambda ids: answers[ids])
    assert (set(cohort), set(polled)) == ({2, 3}, set(range(5)))
    assert sorted(state.losses[np.isfinite(state.losses)]) == [0.5, 2, 3]


def test_nobody_is_polled_who_needs_no_poll():
    cohorts = selected.SelectedCohorts(selectors.UcbCs([1] * 5, 2, 0.7), seed=3)
    assert not len(cohorts.choose(cohorts.selector.initial_state(), 1, pytest.fail).polled)


def test_cohorts_are_drawn_from_the_seed_and_the_round():
    drawn = [
        selected.SelectedCohorts(selectors.Uniform([1] * 99, 5), seed).choose((), round_num, pytest.fail).cohort
        for seed, round_num in ((1, 1), (1, 1), (1, 2), (2, 1))
    ]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert len({tuple(cohort) for cohort in drawn}) == 3


def test_equal_selections_are_equal_and_others_are_not():
    def ucb(gamma):
        return selected.Selection("ucb_cs", selectors.UcbCs, (("gamma", gamma),))

    assert hash(ucb(0.7)) == hash(ucb(0.7))
    assert ucb(0.7) == ucb(0.7) != ucb(0.6)


def test_a_selection_that_does_not_fit_the_clients_is_refused():
    with pytest.raises(UsageError, match="--client_selection=uniform: A cohort of 6 cannot be chosen from 5 clients"):
        selected.UNIFORM.build([1] * 5, 6)
