"""Tests of data.offers: tables and logs whose rows offer sets of actions."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from data import frames, interaction_log, log_table, schema
from data.action_sets import ActionSets

ITEMS = "id,price,color\n7,1.0,red\n10,2.0,blue\n9,3.0,red\n"
# Two clients; the sets have 2, 3, 1 and 2 actions.
LOG = """user,age,item,reward,propensity,offered
b,20,10,1,0.5,10|7
a,40,9,0,0.25,7|9|10
b,30,10,1,0.9,10
a,20,7,0,0.5,9|7
"""
LONG = """user,visit,age,item,price,shown,reward,propensity
b,1,20,x,1,0,,
a,1,40,y,2,1,1,0.25
b,1,20,y,3,1,0,0.5
a,2,40,x,1,true,0,0.125
a,1,40,z,4,0,,
a,2,40,z,2,false,,
"""


@pytest.fixture
def write(tmp_path):
    def to_file(text: str, name: str = "log.csv") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return to_file


def _schema(**flags) -> schema.Schema:
    columns = {"action_column": "item", "reward_column": "reward", "propensity_column": "propensity"}
    return schema.Schema(client_column="user", file_flag="--log", **columns | flags)


def _long(**flags) -> schema.Schema:
    return _schema(**{"decision_column": "visit", "chosen_column": "shown"} | flags)


def _assert_equal(log: interaction_log.InteractionLog, other: interaction_log.InteractionLog):
    for field in dataclasses.fields(log):
        if field.name != "statistics":
            values = (getattr(each, field.name) for each in (log, other))
            pairs = zip(*((value if isinstance(value, ActionSets) else [value]) for value in values), strict=True)
            for one, another in pairs:
                np.testing.assert_equal(one, another)


def test_a_log_with_offered_ids_restricts_the_named_actions(write):
    log = log_table.read(write(LOG), _schema(offered_column="offered"))
    assert (log.action_names, log.catalogue, log.feature_names) == (("7", "9", "10"), None, ("age",))
    np.testing.assert_array_equal(log.actions, [1, 0, 2, 2])
    np.testing.assert_array_equal(log.contexts.entries, [[0, 1, 2], [0, 1, -1], [0, -1, 2], [-1, -1, 2]])
    sets = log.report["sets"]
    assert (sets["smallest"], sets["mean"], sets["largest"], log.num_actions) == (1, 2, 3, 3)


def test_a_table_of_actions_gives_features_to_the_slots_of_a_set(write):
    flags = {"offered_column": "offered", "action_table": write(ITEMS, "items.csv"), "category_columns": "color"}
    log = log_table.read(write(LOG), _schema(**flags))
    names = np.array(log.action_names)[log.catalogue_actions]
    shown = [[names[entry] for entry in row if entry >= 0] for row in log.contexts.entries]
    assert shown == [["7", "9", "10"], ["9", "7"], ["10", "7"], ["10"]]
    np.testing.assert_array_equal(log.actions, [1, 1, 0, 0])
    np.testing.assert_allclose(log.catalogue[:, 0], [{"7": -1, "10": 0, "9": 1}[name] * 1.5**0.5 for name in names])
    assert log.statistics["actions"]["color"] == {"categories": ("blue", "red")}
    assert log.report["sets"]["features"][1] == {
        "name": "color", "kind": "category", "categories": 2, "missing": 0, "unknown": 0,
    }  # fmt: skip


def test_a_log_without_sets_offers_all_of_its_table_of_actions(write):
    log = log_table.read(write(LOG), _schema(action_table=write(ITEMS, "items.csv"), ignore_columns="offered"))
    np.testing.assert_array_equal(log.contexts.entries, [[0, 1, 2]] * 4)
    np.testing.assert_array_equal(log.actions, [2, 0, 1, 1])


def test_lists_of_numbers_are_ids_like_those_of_labels(tmp_path):
    frame = pd.DataFrame({"user": ["a", "b"], "item": [1, 20], "reward": 1.0, "propensity": 0.5})
    for sets in ([[1, 3], [3, 20, 1]], [np.array([1.0, 3.0]), (3, 20, 1)], ["[1, 3]", "[3, 20, 1]"], ["1;3", "3;20;1"]):
        with frames.lent(frame.assign(offered=sets)) as name:
            log = log_table.read(name, _schema(offered_column="offered"))
        assert log.action_names == ("1", "3", "20")
        np.testing.assert_array_equal(log.contexts.entries, [[0, 1, -1], [0, 1, 2]])


@pytest.mark.parametrize("flags", [{}, {"action_table": True}, {"long": True}, {"long": True, "action_column": None}])
def test_a_written_log_is_read_back_equal(write, tmp_path, flags):
    if flags.pop("long", False):
        log = log_table.read(write(LONG), _long(ignore_columns="item" * ("action_column" in flags) or None, **flags))
    else:
        table = {"action_table": write(ITEMS, "items.csv")} if flags else {}
        log = log_table.read(write(LOG), _schema(offered_column="offered", **table))
    for part in (log, log.take(np.array([1]))):
        interaction_log.write(part, tmp_path / "log.parquet")
        _assert_equal(interaction_log.read(tmp_path / "log.parquet"), part)
