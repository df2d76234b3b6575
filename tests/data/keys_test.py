"""Tests of data.keys."""

import numpy as np
import pytest

from data import keys


def _draw(*key) -> list[int]:
    return keys.generator(*key).integers(1 << 62, size=4).tolist()


def test_purposes_keep_their_numbers():
    # A change would change every published run; add to the end only.
    assert {purpose.name: purpose.value for purpose in keys.Purpose} == {
        "COHORT": 1,
        "EXAMPLES": 2,
        "PARTITION": 3,
        "HELD_OUT": 4,
        "WEIGHTS": 5,
        "CACHE": 6,
        "TRAINING": 7,
        "EVALUATION": 8,
        "SILOS": 9,
        "DECISION": 10,
        "DELAY": 20,
    }


def test_a_generator_draws_what_its_key_says_whatever_was_drawn_before():
    first = _draw(7, keys.Purpose.COHORT, 3)
    _draw(7, keys.Purpose.COHORT, 4)
    assert _draw(7, keys.Purpose.COHORT, 3) == first


@pytest.mark.parametrize(
    "other",
    [
        (8, keys.Purpose.COHORT, 3, 5),
        (7, keys.Purpose.CACHE, 3, 5),
        (7, keys.Purpose.COHORT, 4, 5),
        (7, keys.Purpose.COHORT, 5, 3),
    ],
    ids=["seed", "purpose", "place", "order_of_places"],
)
def test_draws_change_with_the(other):
    assert _draw(*other) != _draw(7, keys.Purpose.COHORT, 3, 5)


def test_draws_are_the_same_on_every_machine_and_version():
    assert keys.generator(0, keys.Purpose.COHORT, 1).integers(10**6, size=3).tolist() == [674263, 848650, 817611]
    assert keys.tensorflow_key(0, keys.Purpose.TRAINING, 1, 2).tolist() == [1169752400, 353602132]


def test_a_tensorflow_key_is_two_int32():
    key = keys.tensorflow_key(7, keys.Purpose.TRAINING, 3)
    assert (key.dtype, key.shape) == (np.int32, (2,))


def test_tensorflow_keys_of_a_run_differ():
    found = {
        tuple(keys.tensorflow_key(0, purpose, round_num, client))
        for purpose in (keys.Purpose.CACHE, keys.Purpose.TRAINING)
        for round_num in range(1, 21)
        for client in range(20)
    }
    assert len(found) == 2 * 20 * 20
