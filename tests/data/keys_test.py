"""Tests of data.keys."""

import pytest

from data import keys


def _draw(*key) -> list[int]:
    return keys.generator(*key).integers(1 << 62, size=4).tolist()


def test_purposes_keep_their_numbers():
    # A change would change every published run; add to the end only.
    numbers = (
        "COHORT=1 EXAMPLES=2 PARTITION=3 HELD_OUT=4 WEIGHTS=5 CACHE=6 TRAINING=7 EVALUATION=8 SILOS=9 DECISION=10 "
        "LABEL_NOISE=11 DELAY=20 NOISE=21 LANGEVIN=22 PARTICIPATION=23 BOOTSTRAP=24 FOLD=25 LOG_ROWS=30 LABORATORY=40 "
        "LOGGED_REWARDS=50 LOG_FOLDS=51 DRIFT=60 CLIENT_TIME=61 ARRIVAL=62 AVAILABILITY=63 RESERVE=64 DROP_OUT=65 "
        "TIME_ZONE=66 HALVES=70 REWARD_SCALE=71"
    )
    assert " ".join(f"{purpose.name}={purpose.value}" for purpose in keys.Purpose) == numbers


def test_a_key_has_as_many_places_as_its_purpose():
    with pytest.raises(ValueError, match="A key of CACHE has 2 places, not 1"):
        keys.generator(0, keys.Purpose.CACHE, 1)


@pytest.mark.parametrize(
    "other",
    [
        (8, keys.Purpose.CACHE, 3, 5),
        (7, keys.Purpose.TRAINING, 3, 5),
        (7, keys.Purpose.CACHE, 4, 5),
        (7, keys.Purpose.CACHE, 5, 3),
    ],
    ids=["seed", "purpose", "place", "order_of_places"],
)
def test_draws_change_with_the(other):
    assert _draw(*other) != _draw(7, keys.Purpose.CACHE, 3, 5)


def test_draws_are_the_same_on_every_machine_and_version():
    assert keys.generator(0, keys.Purpose.COHORT, 1).integers(10**6, size=3).tolist() == [674263, 848650, 817611]
    assert keys.tensorflow_key(0, keys.Purpose.TRAINING, 1, 2).tolist() == [1169752400, 353602132]
