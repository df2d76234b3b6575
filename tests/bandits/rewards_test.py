"""Tests of bandits.rewards: every entry of the matrices from the rule in words."""

import string
from collections.abc import Callable

import numpy as np
import pytest

from bandits import rewards

# EMNIST's order of classes.
CHARACTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase


def _table(rule: Callable[[str, str], float]) -> list[list[float]]:
    return [[rule(label, action) for action in CHARACTERS] for label in CHARACTERS]


def _is_lower_of(small: str, capital: str) -> bool:
    return small.islower() and capital.isupper() and small == capital.lower()


def _exact(label: str, action: str) -> float:
    return float(label == action)


def _paper_init(label: str, action: str) -> float:
    return 0.5 if _is_lower_of(action, label) else _exact(label, action)


def _code_init(label: str, action: str) -> float:
    return _exact(label.upper(), action)


def _code_bandits(label: str, action: str) -> float:
    return 0.5 if _is_lower_of(label, action) else _exact(label, action)


def test_exact_rewards_pay_one_for_the_label_only():
    matrix = rewards.exact(3)
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, [[1, 0, 0], [0, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("reference_code", "phase", "rule"),
    [
        (False, "exact", _exact),
        (False, "init", _paper_init),
        (False, "bandits", _exact),
        (True, "exact", _exact),
        (True, "init", _code_init),
        (True, "bandits", _code_bandits),
    ],
)
def test_character_rewards_follow_the_rule(reference_code, phase, rule):
    matrix = rewards.character_rewards(reference_code=reference_code)[phase]
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, _table(rule))


@pytest.mark.parametrize(
    ("reference_code", "phase", "label", "paid"),
    [
        (False, "init", "A", {"A": 1.0, "a": 0.5}),
        (False, "init", "a", {"a": 1.0}),
        (False, "init", "Z", {"Z": 1.0, "z": 0.5}),
        (False, "init", "7", {"7": 1.0}),
        (False, "bandits", "A", {"A": 1.0}),
        (False, "bandits", "a", {"a": 1.0}),
        (True, "init", "A", {"A": 1.0}),
        (True, "init", "a", {"A": 1.0}),
        (True, "init", "7", {"7": 1.0}),
        (True, "bandits", "A", {"A": 1.0}),
        (True, "bandits", "a", {"a": 1.0, "A": 0.5}),
        (True, "bandits", "7", {"7": 1.0}),
    ],
)
def test_a_character_pays_for(reference_code, phase, label, paid):
    row = rewards.character_rewards(reference_code=reference_code)[phase][CHARACTERS.index(label)]
    assert {CHARACTERS[action]: row[action] for action in np.flatnonzero(row)} == paid


def test_the_papers_variant_is_the_default():
    default, paper = rewards.character_rewards(), rewards.character_rewards(reference_code=False)
    for phase in ("exact", "init", "bandits"):
        np.testing.assert_array_equal(default[phase], paper[phase])


def test_phases_do_not_share_memory():
    phases = rewards.character_rewards()
    phases["init"][:] = 9
    np.testing.assert_array_equal(phases["exact"], np.eye(62))
    np.testing.assert_array_equal(phases["bandits"], np.eye(62))
