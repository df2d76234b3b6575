"""Tests of data.table_log: logs are recognised, by names or by values, and other tables are not."""

import decimal

import numpy as np
import pandas as pd
import pytest

from data import table_file, table_log
from data.errors import UsageError


def _check(frame):
    table_log.check(frame, list(frame.columns), "table.csv")


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
            table_log.check(frame, list(frame.columns), "table.csv", label)
    table_log.check(frame, list(frame.columns), "table.csv", "outcome")
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
        table_log.check(frame, list(frame.columns), "table.csv", label)


@pytest.mark.parametrize(
    ("label", "feature"),
    [("y", "p"), ("choice", "prob"), ("outcome", "probability"), ("action", "clicked"), ("choice", "converted")],
)
def test_a_label_and_one_feature_make_no_log(label, feature):
    values = [0, 1, 1, 0] if feature.endswith("ed") else SHARES
    frame = _frame(**{label: [0, 1, 0, 1], feature: values})
    table_log.check(frame, list(frame.columns), "table.csv", label)


def test_halves_beside_two_columns_of_0_and_1_make_no_log():
    draw = np.random.default_rng(0)
    _check(pd.DataFrame({"u": draw.integers(0, 2, 1500), "w": draw.integers(0, 2, 1500), "half": 0.5}))


def _logged(actions: int, seed: int, rows: int = 5000):
    """Returns a log of a softmax policy, whose columns have names that say nothing."""
    draw = np.random.default_rng(seed)
    context = draw.normal(size=rows)
    logits = np.outer(context, draw.normal(size=actions))
    policy = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    chosen = (policy.cumsum(axis=1) < draw.random((rows, 1))).sum(axis=1)
    return pd.DataFrame({"x": context, "u": chosen, "v": policy[range(rows), chosen], "w": draw.integers(0, 2, rows)})


@pytest.mark.parametrize("actions", [2, 5, 20])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_log_is_recognised_by_its_values(actions, seed):
    with pytest.raises(UsageError, match="with 'u' as the chosen action, 'w' as its reward, 'v' as its propensity"):
        _check(_logged(actions, seed))


@pytest.mark.parametrize("kept_as", [str, decimal.Decimal])
def test_a_log_is_recognised_whatever_its_numbers_are_kept_as(kept_as):
    frame = _logged(5, 0)
    with pytest.raises(UsageError, match="with 'u' as the chosen action, 'w' as its reward, 'v' as its propensity"):
        _check(frame.assign(v=frame["v"].map(kept_as), w=frame["w"].map(kept_as)))
    weak = _frame(a=[1, 2, 1, 2], r=[0, 1, 0, 0], p=["0.5", "0.25", "0.5", "0.5"])
    with pytest.raises(UsageError, match="with 'a' as the chosen action, 'r' as its reward, 'p' as its propensity"):
        _check(weak.assign(p=weak["p"].map(kept_as)))


def test_columns_of_lists_are_no_actions():
    frame = _logged(5, 0)
    _check(frame.assign(u=[[chosen] for chosen in frame["u"]]))


def test_named_rewards_are_no_propensities_by_their_values():
    frame = _logged(5, 0)
    table_log.check(frame, ["x", "u", "w"], "table.csv")


@pytest.mark.parametrize("seed", range(20))
def test_shares_beside_switches_and_categories_make_no_log(seed):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "sex": draw.integers(0, 2, 1500),
            "smokes": (draw.random(1500) < 0.2).astype(int),
            "group": draw.integers(0, 4, 1500),
            "fraction": draw.uniform(0.05, 1, 1500),
            "rate": draw.beta(2, 5, 1500).clip(0.01, 1),
            "score": draw.normal(0.5, 0.15, 1500).clip(0.05, 1),
        }
    )
    _check(frame)


@pytest.mark.parametrize("name", ["heart_disease_4sites.csv", "Ads_CTR_Optimisation.csv"])
def test_real_tables_are_no_logs(shared_data, name):
    _check(table_file.read(str(shared_data / name)).frame)


@pytest.mark.parametrize("policy", ["random", "bts"])
def test_real_logs_are_recognised_also_without_their_names(shared_data, policy):
    frame = table_file.read(str(shared_data / "open_bandit" / f"{policy}_all.csv.gz")).frame
    with pytest.raises(UsageError, match=r"'item_id' as the chosen action, 'click' .*, 'propensity_score' as"):
        _check(frame)
    names = {"item_id": "u", "click": "w", "propensity_score": "v"}
    if policy == "random":
        with pytest.raises(UsageError, match=r"with 'u' as the chosen action, 'w' .*, 'v' as its propensity"):
            _check(frame.rename(columns=names))
