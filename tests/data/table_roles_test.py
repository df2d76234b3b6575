"""Tests of data.table_roles: what flags make of columns; tests.data.tabular_test has their mistakes."""

import pytest

from data import table_roles
from data.errors import UsageError

NAMES = ["site", "age", "id", "left", "right", "y"]


def _roles(label_column="y", **flags):
    return table_roles.of(NAMES, "table.csv", table_roles.Wanted("site", label_column, **flags))


def test_what_no_flag_names_is_a_feature():
    roles = _roles()
    assert (roles.features, roles.named) == (["age", "id", "left", "right"], [])
    assert roles.suspected == roles.guessed == ["y", "age", "id", "left", "right"]


def test_of_many_columns_the_nearest_are_named():
    names = [f"x{row}" for row in range(20)] + ["site"]
    with pytest.raises(UsageError, match=r"no column 'sites' in t.csv; of its 21 columns the nearest are site\.$"):
        table_roles.of(names, "t.csv", table_roles.Wanted("sites", "x0"))
    with pytest.raises(UsageError, match=r"the nearest are x0, x1, x2, x3, x4\.$"):
        table_roles.of(names, "t.csv", table_roles.Wanted("QQ", "x0"))


def test_ignored_columns_are_no_features_and_no_rewards():
    assert _roles(ignore_columns="id, left").features == ["age", "right"]
    roles = _roles(None, reward_columns="all", ignore_columns="id,age,y")
    assert (roles.rewards, roles.features, roles.ignored) == (["left", "right"], [], ["id", "age", "y"])


def test_columns_of_categories_are_asked_for_by_name_and_are_no_rewards():
    roles = _roles(None, reward_columns="all", category_columns="id,age")
    assert roles.rewards == ["left", "right", "y"]
    assert (roles.features, roles.named) == (["age", "id"], ["id", "age"])


def test_who_names_the_features_says_that_it_is_no_log():
    assert _roles(feature_columns="age").suspected == []
    assert _roles(None, reward_columns="left,right", feature_columns="age").suspected == []


def test_named_rewards_are_suspected_by_their_names_alone():
    roles = _roles(None, reward_columns="left,right")
    assert roles.guessed == ["age", "id", "y"]
    assert roles.suspected == ["age", "id", "y", "left", "right"]


def test_one_column_is_no_table():
    with pytest.raises(UsageError, match=r"has one column alone, 'site\|y': columns must be separated by commas, semi"):
        table_roles.of(["site|y"], "table.csv", table_roles.Wanted("site", "y"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"ignore_columns": "x"}, "--ignore_columns: there is no column 'x' in table.csv; its columns are site, age"),
        ({"ignore_columns": "y"}, "--ignore_columns names column 'y' that --label_column names already"),
        ({"ignore_columns": "age", "feature_columns": "age"}, "'age' that --feature_columns names already"),
        ({"category_columns": "x"}, "--category_columns: there is no column 'x'"),
        ({"category_columns": "y"}, "--category_columns names column 'y', which is no feature"),
        ({"category_columns": "id", "feature_columns": "age"}, "names column 'id', which is no feature"),
        ({"category_columns": "id", "ignore_columns": "id"}, "names column 'id', which is no feature"),
    ],
)
def test_a_column_has_one_use(flags, message):
    with pytest.raises(UsageError, match=message):
        _roles(**flags)
