"""What bounds leave of a log, by hand, and that a client's rows decide alone which of them count."""

import numpy as np
import pytest

from bandits.evaluation import bounds
from data.errors import UsageError
from tests.bandits.evaluation.tables_of_logs import weighted


def test_weights_and_rewards_are_clipped():
    found, kept = bounds.apply(
        weighted([0, 0, 1], [0.5, 9.0, 4.0], [-1.0, 0.5, 3.0]), bounds.Bounds(4.0, 2, clips_rewards=True), ("a", "b"), 0
    )
    assert kept.all()
    np.testing.assert_array_equal(found.weights, [0.5, 4, 4])
    np.testing.assert_array_equal(found.rewards, [0, 0.5, 1])


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("rewards", [-1.0, 0.5], "--clip_rewards"),
        ("weights", [1.0, -1.0], "at least 0"),
        ("rewards", [0.5, np.nan], "must be finite"),
    ],
)
def test_numbers_out_of_their_bounds_are_refused(name, values, words):
    rows = weighted([0, 1], [1, 1], [0, 1])._replace(**{name: np.array(values)})
    with pytest.raises(UsageError, match=words):
        bounds.apply(rows, bounds.Bounds(4.0, 2), ("a", "b"), 0)


_CLIENTS = np.repeat(np.arange(4), [3, 10, 2, 7])
_NAMES = ("a", "b", "c", "d")


def test_no_client_has_more_rows_than_its_bound_and_each_is_as_likely():
    counts = np.zeros(len(_CLIENTS))
    for seed in range(500):
        kept = bounds.chosen(_CLIENTS, 3, _NAMES, seed)
        assert np.bincount(_CLIENTS[kept]).tolist() == [3, 3, 2, 3]
        counts += kept
    np.testing.assert_allclose(counts / 500, np.array([1, 0.3, 1, 3 / 7])[_CLIENTS], atol=0.08)


def test_the_choice_of_a_clients_rows_does_not_depend_on_other_clients():
    kept = bounds.chosen(_CLIENTS, 3, _NAMES, 5)
    without = bounds.chosen(np.repeat(np.arange(3), [10, 2, 7]), 3, _NAMES[1:], 5)
    np.testing.assert_array_equal(without, kept[3:])
    np.testing.assert_array_equal(bounds.chosen(_CLIENTS, 3, _NAMES, 5), kept)


def test_the_bound_can_apply_to_each_round():
    rounds = np.tile([1, 2], 11)
    kept = bounds.chosen(_CLIENTS, 2, _NAMES, 5, rounds)
    turns = 2 * _CLIENTS + rounds - 1  # A number for each client and round.
    np.testing.assert_array_equal(np.bincount(turns[kept]), np.minimum(2, np.bincount(turns)))
