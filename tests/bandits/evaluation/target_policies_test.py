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


@pytest.mark.parametrize("policy", ["best", "uniform:", "uniform:3", "constant", "constant:", "column:", "run:"])
def test_other_words_are_refused(policy):
    with pytest.raises(UsageError, match=r"--policy=.* must be one of logged, uniform, constant:ACTION, column:NAME"):
        target_policies.parse(policy)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no folder"):
        target_policies.parse(f"run:{tmp_path}/none")
    assert target_policies.parse(f"run:{tmp_path}") == ("run", str(tmp_path))


def test_an_action_that_the_log_does_not_know_is_refused():
    with pytest.raises(
        UsageError, match="names the action 'up', which the log has not: its 2 actions are 'left', 'right'"
    ):
        target_policies.probabilities(target_policies.parse("constant:up"), _LOG)
