"""Tests of data.schema: columns of actions by name or by pairs."""

import pytest

from data import schema
from data.errors import UsageError

_ACTIONS = ("high", "low", "medium")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("pi_low,pi_medium,pi_high", ("pi_high", "pi_low", "pi_medium")),
        ("medium,low,high", ("high", "low", "medium")),
        ("low_prob,high_prob,medium_prob", ("high_prob", "low_prob", "medium_prob")),
        ("P_LOW,P_HIGH,P_MEDIUM", ("P_HIGH", "P_LOW", "P_MEDIUM")),
        ("low=x1,medium=x2,high=x3", ("x3", "x1", "x2")),
        ("low = a=b,medium=x2,high=x3", ("x3", "a=b", "x2")),
    ],
)
def test_columns_are_matched_by_name_or_by_pairs(text, columns):
    names = ["a=b", "x1", "x2", "x3"]
    found = schema.matched(text, names, _ACTIONS, "--policy=column")
    assert found == dict(zip(_ACTIONS, columns, strict=True))
    assert list(found) == list(_ACTIONS)


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("x1,x2,x3", _ACTIONS),
        ("pi_low,pi_medium", _ACTIONS),
        ("pi_low,p_medium,pi_high", _ACTIONS),
        ("low=x1,medium=x2,x3", _ACTIONS),
        ("low=x1,medium=x1,high=x3", _ACTIONS),
        ("low=x1,medium=x2,huge=x3", _ACTIONS),
        ("p_0,p_1,p_2", ("1", "2", "3")),  # Shifted by one.
        ("p_Low,p_low", ("LOW", "low")),  # Equal but for their case.
    ],
)
def test_unclear_columns_are_refused_with_an_example_of_pairs(text, actions):
    names = text.replace("=", ",").split(",")
    with pytest.raises(UsageError, match=rf"the {len(actions)} actions are .*--policy=column:{actions[0]}=COLUMN,"):
        schema.matched(text, names, actions, "--policy=column")


def test_actions_that_are_parts_of_others_are_matched():
    assert schema.by_name(["aa", "aaa"], ["a", "aa"]) == {"a": "aa", "aa": "aaa"}
    assert schema.by_name(["xaxa", "xbxa"], ["xa", "xb"]) == {"xa": "xaxa", "xb": "xbxa"}
