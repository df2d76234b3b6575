"""Tests of data.keys."""

import ast
import pathlib

import pytest

from data import keys

CACHE, TRAINING = keys.Purpose.CACHE, keys.Purpose.TRAINING
_ROOT = pathlib.Path(keys.__file__).parents[1]
_KEYED = ("generator", "tensorflow_key", "integer_key")
_PLACES = ("data", "optimization", "bandits", "scripts")


def _draw(*key) -> list[int]:
    return keys.generator(*key).integers(1 << 62, size=4).tolist()


def _keys_in(source: str) -> list[tuple[str, int]]:
    """Purpose and number of places of every key that a module makes."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _KEYED:
            _, purpose, *where = node.args
            assert not any(isinstance(place, ast.Starred) for place in where), ast.unparse(node)
            found.append((ast.unparse(purpose).rpartition(".")[2], len(where)))
    return found


def test_purposes_keep_their_numbers():
    # A change would change every published run; add to the end only.
    numbers = (
        "COHORT=1 EXAMPLES=2 PARTITION=3 HELD_OUT=4 WEIGHTS=5 CACHE=6 TRAINING=7 EVALUATION=8 SILOS=9 DECISION=10 "
        "LABEL_NOISE=11 DELAY=20 NOISE=21 LANGEVIN=22 PARTICIPATION=23 BOOTSTRAP=24 FOLD=25 LOG_ROWS=30 LABORATORY=40 "
        "LOGGED_REWARDS=50 LOG_FOLDS=51 DRIFT=60 CLIENT_TIME=61 ARRIVAL=62 AVAILABILITY=63 RESERVE=64 DROP_OUT=65 "
        "TIME_ZONE=66 HALVES=70 REWARD_SCALE=71 HASHING=72 ARMS=73 DISTRACTORS=90"
    )
    assert " ".join(f"{purpose.name}={purpose.value}" for purpose in keys.Purpose) == numbers


@pytest.mark.slow
def test_all_keys_of_a_purpose_have_one_length_in_the_whole_program():
    found = [
        key for package in _PLACES for path in (_ROOT / package).rglob("*.py") for key in _keys_in(path.read_text())
    ]
    assert len(found) > 20
    lengths = {name: {length for other, length in found if other == name} for name, _ in found}
    assert lengths == {name: {keys.Purpose[name].places} for name in lengths}


@pytest.mark.parametrize("other", [(8, CACHE, 3, 5), (7, TRAINING, 3, 5), (7, CACHE, 4, 5), (7, CACHE, 5, 3)])
def test_draws_change_with_the_seed_the_purpose_and_each_place(other):
    assert _draw(*other) != _draw(7, CACHE, 3, 5)


def test_draws_are_the_same_on_every_machine_and_version():
    assert keys.generator(0, keys.Purpose.COHORT, 1).integers(10**6, size=3).tolist() == [674263, 848650, 817611]
    assert keys.tensorflow_key(0, keys.Purpose.TRAINING, 1, 2).tolist() == [1169752400, 353602132]
