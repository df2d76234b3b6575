"""Tests of data.schema: the roles of columns, and logs by their columns' names."""

import decimal

import pandas as pd
import pytest

from data import schema, table_file
from data.errors import UsageError

NAMES = ["site", "age", "id", "left", "right", "y"]


def _roles(label_column="y", **flags):
    return schema.resolve(schema.Schema("site", label_column, **flags), NAMES, "table.csv")


def test_what_no_flag_names_is_a_feature():
    roles = _roles()
    assert (roles.features, roles.named) == (["age", "id", "left", "right"], [])
    assert roles.suspected == ["y", "age", "id", "left", "right"]


def test_of_many_columns_the_nearest_are_named():
    names = [f"x{row}" for row in range(20)] + ["site"]
    with pytest.raises(UsageError, match=r"no column 'sites' in t.csv; of its 21 columns the nearest are site\.$"):
        schema.resolve(schema.Schema("sites", "x0"), names, "t.csv")
    with pytest.raises(UsageError, match=r"the nearest are x0, x1, x2, x3, x4\.$"):
        schema.resolve(schema.Schema("QQ", "x0"), names, "t.csv")


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
    assert roles.suspected == ["left", "right", "age", "id", "y"]


def test_one_column_is_no_table():
    with pytest.raises(UsageError, match=r"has one column alone, 'site\|y': columns must be separated by commas, semi"):
        schema.resolve(schema.Schema("site", "y"), ["site|y"], "table.csv")


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


def _check(frame):
    schema.check_no_log(frame, "table.csv")


def _frame(**columns):
    return pd.DataFrame(columns | {"age": range(4)})


LOGS = {
    "propensity": (_frame(propensity_score=[0.5, 0.2, 1.0, 0.1]), "with 'propensity_score' as its propensity"),
    "a_propensity_of_0": (_frame(propensity=[0.5, 0.0, -1.0, 0.1]), "with 'propensity' as its propensity"),
    "propensities_all_1": (_frame(propensity=[1.0, 1.0, 1.0, 1.0]), "with 'propensity' as its propensity"),
    "propensity_in_percent": (_frame(propensity=["47%", "20%", "1%", "n/k"]), "with 'propensity' as its propensity"),
    "other_spelling": (_frame(**{"Action Prob": [0.5, 0.2, 1.0, 0.1]}), "with 'Action Prob' as its propensity"),
    "weak_names": (
        _frame(a=[1, 2, 1, 2], cost=[0.0, -1.0, 0.0, 0.0], p=[0.5, 0.5, 0.5, 0.25]),
        "with 'a' as the chosen action, 'cost' as its reward, 'p' as its propensity",
    ),
    "no_propensity": (
        _frame(arm=["x", "y", "x", "y"], reward=[0, 1, 0, 1]),
        "with 'arm' as the chosen action, 'reward' as its reward",
    ),
}


@pytest.mark.parametrize(("frame", "told"), LOGS.values(), ids=LOGS)
def test_a_log_is_recognised_by_its_names(frame, told):
    with pytest.raises(UsageError, match=f"table.csv looks like a log of a bandit, {told}") as caught:
        _check(frame)
    assert "has the reward of the chosen action alone" in str(caught.value)
    assert "--feature_columns" in str(caught.value)
    assert "--ignore_columns" in str(caught.value)


NO_LOGS = {
    "shop": _frame(item=[1, 2, 1, 2], cost=[3.5, 2.0, 1.0, 9.0], prob_of_rain=[0.1, 0.2, 0.3, 0.4]),
    "p_alone": _frame(p=[0.1, 0.2, 0.3, 0.4]),
    "action_alone": _frame(action=["x", "y", "x", "y"]),
    "p_always_the_same": _frame(a=[1, 2, 1, 2], cost=[0.0, -1.0, 0.0, 0.0], p=[0.5, 0.5, 0.5, 0.5]),
    "p_in_percent": _frame(a=[1, 2, 1, 2], cost=[0.0, -1.0, 0.0, 0.0], p=[50.0, 20.0, 0.5, 1.0]),
    "cost_and_prob": _frame(cost=[3.5, 2.0, 1.0, 9.0], prob=[0.1, 0.2, 0.3, 0.4]),
    "reward_alone": _frame(reward=[0, 1, 0, 1]),
}


@pytest.mark.parametrize("frame", NO_LOGS.values(), ids=NO_LOGS)
def test_a_name_alone_makes_no_log(frame):
    _check(frame)


SHARES = [0.1, 0.2, 0.3, 0.4]
CALLED_SO = [
    *("propensityScore", "propensity_scores", "actionProbability", "action_probs", "behavior_policy_prob"),
    *("logging_policy_prob", "behaviourPolicyProbability", "logged_propensities"),
]


@pytest.mark.parametrize("name", CALLED_SO)
def test_a_column_that_is_called_a_propensity_makes_a_log(name):
    with pytest.raises(UsageError, match=f"with '{name}' as its propensity"):
        _check(_frame(**{name: [5, 5, 0, 5]}))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *((name, SHARES) for name in ("sampling_prob", "pi_b", "label_probability", "Prob", "policyProb")),
        ("logprob", [-0.5, -2.0, -0.1, 0.0]),
        ("ipw", [1.0, 2.0, 50.0, 4.0]),
    ],
)
def test_a_column_that_may_be_a_propensity_makes_a_log_beside_an_action_and_a_reward(name, values):
    frame = _frame(**{"itemId": [1, 2, 1, 2], "outcome": [0, 1, 0, 1], name: values})
    for label in (None, "itemId"):
        with pytest.raises(UsageError, match=f"with 'itemId' as the chosen .*, 'outcome' as its rew.*, '{name}' as"):
            schema.check_no_log(frame, "table.csv", label)
    schema.check_no_log(frame, "table.csv", "outcome")
    _check(_frame(**{"itemId": [1, 2, 1, 2], name: values}))
    _check(_frame(**{"outcome": [0, 1, 0, 1], name: values}))


@pytest.mark.parametrize("label", [None, "first", "other"])
@pytest.mark.parametrize(
    ("action", "reward"),
    [("action_taken", "reward"), ("actionId", "reward"), ("arm", "payout"), ("item_id", "click"), ("arm", "click")],
)
def test_an_action_and_its_reward_make_a_log_without_a_propensity(action, reward, label):
    frame = _frame(**{action: [1, 2, 1, 2], reward: [0, 1, 0, 1], "other": list("abab")})
    label = action if label == "first" else label
    with pytest.raises(UsageError, match=f"with '{action}' as the chosen action, '{reward}' as its reward. A log"):
        schema.check_no_log(frame, "table.csv", label)


@pytest.mark.parametrize(
    ("label", "feature"),
    [("y", "p"), ("choice", "prob"), ("outcome", "probability"), ("action", "clicked"), ("choice", "converted")],
)
def test_a_label_and_one_feature_make_no_log(label, feature):
    values = [0, 1, 1, 0] if feature.endswith("ed") else SHARES
    frame = _frame(**{label: [0, 1, 0, 1], feature: values})
    schema.check_no_log(frame, "table.csv", label)


@pytest.mark.parametrize("kept_as", [str, decimal.Decimal])
def test_probabilities_are_recognised_whatever_they_are_kept_as(kept_as):
    weak = _frame(a=[1, 2, 1, 2], r=[0, 1, 0, 0], p=["0.5", "0.25", "0.5", "0.5"])
    with pytest.raises(UsageError, match="with 'a' as the chosen action, 'r' as its reward, 'p' as its propensity"):
        _check(weak.assign(p=weak["p"].map(kept_as)))


def test_values_alone_make_no_log():
    shares = [0.5, 0.25, 0.125, 0.125] * 500
    _check(pd.DataFrame({"u": [0, 1, 2, 3] * 500, "v": shares, "w": [0, 1] * 1000}))


@pytest.mark.parametrize("name", ["heart_disease_4sites.csv", "Ads_CTR_Optimisation.csv"])
def test_real_tables_are_no_logs(shared_data, name):
    _check(table_file.read(str(shared_data / name)).frame)


@pytest.mark.parametrize("policy", ["random", "bts"])
def test_real_logs_are_recognised(shared_data, policy):
    frame = table_file.read(str(shared_data / "open_bandit" / f"{policy}_all.csv.gz")).frame
    with pytest.raises(UsageError, match=r"'item_id' as the chosen action, 'click' .*, 'propensity_score' as"):
        _check(frame)
