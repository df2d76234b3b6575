"""Tests of data.tasks: every entry of the matrices from the rule in words."""

import string

import numpy as np
import pytest

from data import tasks

# EMNIST's order of classes.
CHARACTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase


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


@pytest.mark.parametrize(
    ("reference_code", "rules"), [(False, (_exact, _paper_init, _exact)), (True, (_exact, _code_init, _code_bandits))]
)
def test_character_rewards_follow_the_rule(reference_code, rules):
    matrices = tasks.character_rewards(reference_code=reference_code)
    for phase, rule in zip(("exact", "init", "bandits"), rules, strict=True):
        assert matrices[phase].dtype == np.float32
        expected = [[rule(label, action) for action in CHARACTERS] for label in CHARACTERS]
        np.testing.assert_array_equal(matrices[phase], expected)


def test_tag_rewards_of_three_tags_by_hand():
    phases = tasks.tag_rewards(np.array([12, 4, 3]))
    assert {matrix.dtype for matrix in phases.values()} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(phases["exact"], np.eye(3))
    np.testing.assert_array_equal(phases["init"], np.eye(3))
    np.testing.assert_array_equal(phases["bandits"], [[1, 0, 0], [0, 3, 0], [0, 0, 4]])


@pytest.mark.parametrize(
    ("tags", "reference_code", "asked", "paid"),
    [(50, False, None, 10), (50, True, None, 30), (20, True, None, 12), (20, False, 4, 4)],
)
def test_the_initial_training_pays_for_the_most_frequent_tags(tags, reference_code, asked, paid):
    counts = np.arange(tags, 0, -1)
    phases = tasks.tag_rewards(counts, reference_code=reference_code, initial_tags=asked)
    np.testing.assert_array_equal(phases["init"], np.diag([1.0] * paid + [0.0] * (tags - paid)))
    np.testing.assert_array_equal(phases["bandits"], np.diag(tags / counts).astype(np.float32))
