import numpy as np
import pytest

from bandits.evaluation import target_policies
from data import interaction_log
from data.errors import UsageError

_LOG = interaction_log.InteractionLog(
    client_ids=("a", "b"),
    clients=np.array([0, 0, 1], np.int32),
    contexts=None,
    actions=np.array([0, 1, 1], np.int32),
    action_names=("left", "right"),
    rewards=np.array([0.0, 1.0, 0.0]),
    propensities=np.array([0.5, 0.5, 0.5]),
    probabilities=np.array([0.2, 0.3, 0.4]),
)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("uniform", [[0.5, 0.5]] * 3),
        ("constant:right", [[0, 1]] * 3),
        ("column:p", [0.2, 0.3, 0.4]),
    ],
)
def test_probabilities(policy, expected):
    found = target_policies.probabilities(target_policies.parse(policy), _LOG)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "policy", ["best", "uniform:", "uniform:3", "constant", "constant:", "column:", "run:", "run:no/such/folder"]
)
def test_other_words_are_refused(policy):
    with pytest.raises(UsageError, match=f"--policy={policy}"):
        target_policies.parse(policy)


def test_a_folder_and_an_action_must_be_there(tmp_path):
    assert target_policies.parse(f"run:{tmp_path}") == ("run", str(tmp_path), "")
    with pytest.raises(UsageError, match="'up'"):
        target_policies.probabilities(target_policies.parse("constant:up"), _LOG)


@pytest.mark.parametrize(
    ("policy", "is_known"), [("uniform", True), ("logged", False), ("column:p", False), ("column:p,q", True)]
)
def test_each_actions_probability_is_known_unless_one_column_names_it(policy, is_known):
    assert target_policies.parse(policy).has_each_probability == is_known
