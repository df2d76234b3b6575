"""Tests of data.action_sets."""

import numpy as np

from data import action_sets, clients, text


def sets(entries, contexts=None) -> action_sets.ActionSets:
    entries = np.array(entries)
    return action_sets.of_entries(np.zeros((len(entries), 2), np.float32) if contexts is None else contexts, entries)


def test_features_of_offered_entries_come_from_the_catalogue_and_unused_slots_are_dropped():
    catalogue = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    made = action_sets.normalized(sets([[2, 0, -1], [1, -1, -1]]), catalogue)
    np.testing.assert_array_equal(made.entries, [[2, 0], [1, -1]])
    np.testing.assert_array_equal(made.actions, [[[5, 6], [1, 2]], [[3, 4], [0, 0]]])


def test_joined_sets_have_as_many_slots_as_the_widest_part():
    catalogue = np.ones((3, 1), np.float32)
    narrow, wide = (action_sets.normalized(sets(each), catalogue) for each in ([[0]], [[0, 1, 2], [1, -1, -1]]))
    both = action_sets.joined([narrow, wide])
    np.testing.assert_array_equal(both.entries, [[0, -1, -1], [0, 1, 2], [1, -1, -1]])
    np.testing.assert_array_equal(both.actions[..., 0], both.entries >= 0)


def test_rows_are_taken_and_joined_with_bags_of_words_as_contexts():
    bags = text.bags(np.array([0, 1, 1, 2], np.int64), np.array([2, 2]), 9, "mean")
    examples = clients.Examples(sets([[0, 1], [1, -1]], bags), np.zeros((2, 2), np.float32))
    parts = [examples.take(np.array([row])) for row in (0, 1)]
    whole = clients.joined(parts)
    for one, other in zip(clients.arrays(whole.features), clients.arrays(examples.features), strict=True):
        np.testing.assert_array_equal(one, other)
