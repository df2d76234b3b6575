"""Tests of scripts.reproduce.estimate; `command_test` plays a few rounds for one."""

import pytest

from scripts.reproduce import estimate


@pytest.mark.parametrize(
    ("settings", "rounds"),
    [
        ({"scenario": "scratch", "init_rounds": 100}, 0),  # The default, which nothing reads.
        ({"scenario": "init_shift", "init_rounds": 100}, 100),
        ({"scenario": "drift", "init_rounds": None}, 0),
        ({}, 0),  # Another study.
    ],
)
def test_rounds_of_an_initial_training_count_where_there_is_one(settings, rounds):
    assert estimate.init_rounds(settings) == rounds


@pytest.mark.parametrize(
    ("seconds", "words"), [(59, "59 seconds"), (90, "1.5 minutes"), (7200, "2.0 hours"), (1e6, "11.6 days")]
)
def test_a_duration_is_told_in_the_largest_unit(seconds, words):
    assert estimate.duration(seconds) == words


if __name__ == "__main__":
    pytest.main([__file__])
