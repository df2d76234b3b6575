"""Tests of data.schema: the roles of columns, and logs by their columns' names."""

import contextlib

import pytest

from data import schema
from data.errors import UsageError

NAMES = ["site", "age", "id", "left", "right", "y"]


def _roles(label_column="y", **flags):
    return schema.resolve(schema.Schema(client_column="site", label_column=label_column, **flags), NAMES, "table.csv")


def test_of_many_columns_the_nearest_are_named():
    names = [f"x{row}" for row in range(20)] + ["site"]
    with pytest.raises(UsageError, match=r"no column 'sites' in t.csv; did you mean site\?$"):
        schema.resolve(schema.Schema(client_column="sites", label_column="x0"), names, "t.csv")
    with pytest.raises(UsageError, match=r"its columns are x0, x1, .*, x19 and 1 more\.$"):
        schema.resolve(schema.Schema(client_column="QQ", label_column="x0"), names, "t.csv")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"ignore_columns": "x"}, "--ignore_columns: there is no column 'x' in table.csv; its columns are site, age"),
        ({"ignore_columns": "y"}, "--ignore_columns names column 'y' that --label_column already names"),
        ({"ignore_columns": "age", "feature_columns": "age"}, "'age' that --feature_columns already names"),
        ({"category_columns": "y"}, "--category_columns names column 'y', which is not a feature"),
        ({"category_columns": "id", "ignore_columns": "id"}, "names column 'id', which is not a feature"),
    ],
)
def test_a_column_has_one_use(flags, message):
    with pytest.raises(UsageError, match=message):
        _roles(**flags)


PROPENSITIES = ["propensity_score", "propensityScore", "propensity_scores", "Action Prob", "actionProbability"]
PROPENSITIES += ["action_probs", "behavior_policy_prob", "behaviourPolicyProbability", "logged_propensities"]


@pytest.mark.parametrize("names", [*PROPENSITIES, "a,cost,p", "arm,reward"])
def test_a_log_is_recognized_by_its_names(names):
    *others, last = names.split(",")
    with pytest.raises(UsageError, match=f"table.csv looks like a log .*{last}.*--feature_columns.*--ignore_"):
        schema.check_no_log([*others, last, "age"], "table.csv")


def test_names_that_other_tables_have_make_no_log():
    alone = ["item,cost,prob_of_rain", "p", "action", "cost,prob", "reward", "itemId,prob", "outcome,prob", "u,v,w"]
    for names in alone:
        schema.check_no_log([*names.split(","), "age"], "table.csv")
    labels_and_features = ["y,p", "choice,prob", "outcome,probability", "action,clicked", "choice,converted"]
    for label, feature in (names.split(",") for names in labels_and_features):
        schema.check_no_log([label, feature, "age"], "table.csv", label)


def test_a_column_that_may_be_a_propensity_makes_a_log_beside_an_action_and_a_reward():
    for name in ("sampling_prob", "pi_b", "label_probability", "Prob", "policyProb", "logprob", "ipw", "p"):
        for label in (None, "itemId"):
            with pytest.raises(UsageError, match=f"'itemId' as the chosen .*, 'outcome' as its rew.*, '{name}' as"):
                schema.check_no_log(["age", "itemId", "outcome", name], "table.csv", label)
        schema.check_no_log(["age", "itemId", "outcome", name], "table.csv", "outcome")


@pytest.mark.parametrize(
    ("action", "reward"),
    [("action_taken", "reward"), ("actionId", "reward"), ("arm", "payout"), ("item_id", "click"), ("arm", "click")],
)
def test_an_action_and_its_reward_make_a_log_without_a_propensity(action, reward):
    for label in (None, action, "other"):
        with pytest.raises(UsageError, match=f"with '{action}' as the chosen action, '{reward}' as its reward. A log"):
            schema.check_no_log([action, reward, "other"], "table.csv", label)


REST = ["age", "id", "left", "right"]
ALL = {"reward_columns": "all"}


@pytest.mark.parametrize(
    ("label", "flags", "expected"),
    [
        ("y", {}, {"features": REST, "named": []}),
        ("y", {"ignore_columns": "id, left"}, {"features": ["age", "right"]}),
        ("y", {"feature_columns": "age"}, {"features": ["age"], "named": ["age"]}),
        (None, ALL | {"ignore_columns": "id,age,y"}, {"rewards": ["left", "right"], "features": []}),
        (None, ALL | {"category_columns": "id"}, {"rewards": ["age", "left", "right", "y"], "named": ["id"]}),
        (None, {"reward_columns": "left,right", "feature_columns": "age"}, {"rewards": ["left", "right"]}),
    ],
)
def test_columns_have_roles(label, flags, expected):
    roles = _roles(label, **flags)
    assert {name: getattr(roles, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("flags", "is_refused"),
    [
        ({"label_column": "y"}, True),
        ({"label_column": "y", "ignore_columns": "reward"}, False),
        ({"reward_columns": "all"}, True),
        ({"reward_columns": "y,left", "feature_columns": "arm,reward"}, False),
        ({"action_column": "arm", "reward_column": "reward", "propensity_column": "y"}, False),
    ],
)
def test_a_log_is_refused_as_a_table_unless_features_are_named(flags, is_refused):
    wanted = schema.Schema(client_column="site", **flags)
    with pytest.raises(UsageError, match="looks like a log") if is_refused else contextlib.nullcontext():
        schema.resolve(wanted, ["site", "arm", "reward", "left", "y"], "table.csv")


_ACTIONS = ("high", "low", "medium")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("pi_low,pi_medium,pi_high", ("pi_high", "pi_low", "pi_medium")),
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


def test_pairs_are_suggested_in_the_form_of_the_flag():
    with pytest.raises(UsageError, match=r"Write pairs: .*--propensity_columns=a=COLUMN,b=COLUMN"):
        schema.matched("x", ["x"], ("a", "b"), "--propensity_columns")


def test_actions_that_are_parts_of_others_are_matched():
    assert schema.by_name(["aa", "aaa"], ["a", "aa"]) == {"a": "aa", "aa": "aaa"}
    assert schema.by_name(["xaxa", "xbxa"], ["xa", "xb"]) == {"xa": "xaxa", "xb": "xbxa"}
