"""Tests of data.offers: tables and logs whose rows offer sets of actions."""

import numpy as np
import pandas as pd
import pytest

from data import frames, interaction_log, log_checks, log_table, schema, tables
from data.errors import UsageError
from data.tasks import registry
from data.tasks.options import TaskOptions

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


def _schema(**flags) -> schema.Schema:
    columns = {"action_column": "item", "reward_column": "reward", "propensity_column": "propensity"}
    return schema.Schema(client_column="user", file_flag="--log", **columns | flags)


def _long(**flags) -> schema.Schema:
    return _schema(**{"decision_column": "visit", "chosen_column": "shown"} | flags)


def test_a_log_with_offered_ids_restricts_the_named_actions(write):
    log = log_table.read(write(LOG), _schema(offered_column="offered"))
    assert (log.action_names, log.catalogue, log.feature_names) == (("7", "9", "10"), None, ("age",))
    np.testing.assert_array_equal(log.actions, [1, 0, 2, 2])
    np.testing.assert_array_equal(log.contexts.entries, [[0, 1, 2], [0, 1, -1], [0, -1, 2], [-1, -1, 2]])
    sets = log.report["sets"]
    assert (sets["smallest"], sets["mean"], sets["largest"], log.num_actions) == (1, 2, 3, 3)
    assert "add --offered_column=offered" in log_checks.check(log_table.read(write(LOG), _schema())).text


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
        "name": "color", "use": "of action", "kind": "category", "categories": 2, "missing": 0, "unknown": 0,
    }  # fmt: skip


def test_a_log_without_sets_offers_all_of_its_table_of_actions(write):
    log = log_table.read(write(LOG), _schema(action_table=write(ITEMS, "items.csv"), ignore_columns="offered"))
    np.testing.assert_array_equal(log.contexts.entries, [[0, 1, 2]] * 4)
    np.testing.assert_array_equal(log.actions, [2, 0, 1, 1])


def test_lists_of_numbers_are_ids_like_those_of_labels():
    frame = pd.DataFrame({"user": ["a", "b"], "item": [1, 20], "reward": 1.0, "propensity": 0.5})
    for sets in ([[1, 3], [3, 20, 1]], [np.array([1.0, 3.0]), (3, 20, 1)], ["[1, 3]", "[3, 20, 1]"], ["1;3", "3;20;1"]):
        with frames.lent(frame.assign(offered=sets)) as name:
            log = log_table.read(name, _schema(offered_column="offered"))
        assert log.action_names == ("1", "3", "20")
        np.testing.assert_array_equal(log.contexts.entries, [[0, 1, -1], [0, 1, 2]])


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (LOG, {"offered_column": "offered"}),
        (LOG, {"offered_column": "offered", "action_table": ITEMS}),
        (LONG, {"decision_column": "visit", "chosen_column": "shown"}),
        (LONG, {"decision_column": "visit", "chosen_column": "shown", "action_column": None, "ignore_columns": "item"}),
    ],
    ids=["names", "features", "long", "slots"],
)
def test_a_written_log_is_read_back_equal(write, tmp_path, text, flags):
    if "action_table" in flags:
        flags = {**flags, "action_table": write(ITEMS, "items.csv")}
    log = log_table.read(write(text), _schema(**flags))
    for part in (log, log.take(np.array([1]))):
        interaction_log.write(part, tmp_path / "log.parquet")
        again = interaction_log.read(tmp_path / "log.parquet")
        for name in set(vars(part)) - {"statistics"}:
            np.testing.assert_equal(getattr(again, name), getattr(part, name), name)


def test_rows_of_a_log_in_long_form_are_grouped_by_client_and_decision(write):
    log = log_table.read(write(LONG), _long(feature_columns="age,price"))
    assert (log.client_ids, log.feature_names, log.action_names) == (("a", "b"), ("age",), ("x", "y", "z"))
    np.testing.assert_array_equal(log.clients, [0, 0, 1])
    np.testing.assert_array_equal(log.actions, [0, 0, 1])  # Slots.
    np.testing.assert_array_equal(log.rewards, [1, 0, 0])
    np.testing.assert_array_equal(log.propensities, [0.25, 0.125, 0.5])
    np.testing.assert_allclose(log.contexts.contexts[:, 0] > 0, [True, True, False])
    prices = log.catalogue[log.contexts.entries, 0]
    mean, deviation = (log.statistics["actions"]["price"][name] for name in ("mean", "deviation"))
    np.testing.assert_allclose(prices * deviation + mean, [[2, 4], [1, 2], [1, 3]], rtol=1e-6)
    names = np.array(log.action_names)[log.catalogue_actions[log.contexts.entries]]
    np.testing.assert_array_equal(names, [["y", "z"], ["x", "z"], ["x", "y"]])
    assert [column["use"] for column in log.report["columns"]] == [
        "client", "decision", "feature", "action", "of action", "chosen", "reward", "propensity",
    ]  # fmt: skip


def test_long_forms_without_ids_or_features_of_actions_name_slots_or_the_actions(write):
    slots = log_table.read(write(LONG), _long(action_column=None, ignore_columns="item"))
    assert (slots.action_names, len(slots.catalogue)) == (("1", "2"), 6)
    np.testing.assert_array_equal(slots.catalogue_actions[slots.contexts.entries], [[0, 1]] * 3)
    named = log_table.read(write(LONG), _long(ignore_columns="price"))
    assert (named.catalogue, named.action_names) == (None, ("x", "y", "z"))
    np.testing.assert_array_equal(named.contexts.entries, [[-1, 1, 2], [0, -1, 2], [0, 1, -1]])
    np.testing.assert_array_equal(named.actions, [1, 0, 1])


def test_features_of_both_files_are_joined_by_id(write):
    items = write("name,size\ny,10\nz,30\nx,20\nw,0\n", "items.csv")
    log = log_table.read(write(LONG), _long(action_table=items))
    price, size = log.catalogue.T
    assert log.action_names == ("y", "z", "x", "w")
    sizes = [{"y": 10, "z": 30, "x": 20}[log.action_names[action]] for action in log.catalogue_actions]
    np.testing.assert_array_equal(np.argsort(size, kind="stable"), np.argsort(sizes, kind="stable"))
    assert len(set(price)) == 4  # Item z has two prices.


def test_long_form_equals_one_row_per_decision(write):
    flags = {"action_table": write(ITEMS, "items.csv")}
    wide = log_table.read(write(LOG), _schema(offered_column="offered", **flags))
    frame = pd.read_csv(write(LOG), dtype={"item": str}).reset_index(names="visit")
    long = frame.assign(offered=frame["offered"].str.split("|")).explode("offered")
    long["shown"] = (long["offered"] == long["item"]).astype(int)
    with frames.lent(long.drop(columns="item").rename(columns={"offered": "item"})) as name:
        read = log_table.read(name, _long(**flags))
    for field in ("contexts", "actions", "rewards", "catalogue", "catalogue_actions", "action_names"):
        np.testing.assert_equal(getattr(read, field), getattr(wide, field))


def test_only_actions_that_are_offered_need_a_reward(write):
    table, flags = (
        "user,age,offered,x,y\na,1,x|y,0,1\nb,2,y,,0.5\n",
        {"reward_columns": "x,y", "offered_column": "offered"},
    )
    rows = tables.read(write(table), schema.Schema(client_column="user", **flags))
    np.testing.assert_array_equal(rows.offered.rewards, [[0, 1], [0, 0.5]])
    with pytest.raises(UsageError, match=r"--reward_columns: a missing value in column 'y' \(line 3"):
        tables.read(write(table.replace("0.5", "")), schema.Schema(client_column="user", **flags))


SETS_ERRORS = {
    "chosen_not_offered": ("10|7", "9|7", {}, r"Column 'item': '10' \(line 2\) of .* is not in the --offered_column"),
    "unknown": ("10|7", "10|7|8", {}, r"--offered_column: '8' \(line 2\) of .* is not an action of --action_table"),
    "twice": ("10|7", "10|7|10", {}, r"--offered_column: '10' \(line 2\) of .* occurs twice in its set"),
    "empty": ("9|7", "", {}, r"--offered_column: .*\(line 5\) of .* is an empty set"),
    "empty_id": ("9|7", "9|", {}, r"--offered_column: '9|' \(line 5\) of .* has an empty id"),
    "same_id": ("9,3.0", "7,3.0", {}, r"--action_table: '7' \(line 4\) of .* is the id of an earlier row"),
    "no_id": ("9,3.0", ",3.0", {}, r"--action_table: None \(line 4\) of .* is not an id"),
    "no_features": ("9,3.0,red", "9,,", {}, r"'9' \(line 3\), '9' .* is offered, but all its features are missing"),
    "other_column": ("", "", {"action_id_column": "key"}, "--action_id_column: there is no column 'key'"),
    "large_set": ("", "", {"largest_set": 2}, r"--largest_set: '10' \(line 3\) of .* is offered after 2 others"),
}


@pytest.mark.parametrize(("old", "new", "flags", "message"), SETS_ERRORS.values(), ids=SETS_ERRORS)
def test_an_invalid_set_or_table_of_actions_is_refused_with_its_row_and_value(write, old, new, flags, message):
    assert old in LOG or old in ITEMS
    items = write(ITEMS.replace(old, new), "items.csv")
    with pytest.raises(UsageError, match=message):
        log_table.read(write(LOG.replace(old, new)), _schema(offered_column="offered", action_table=items, **flags))


def test_numbers_of_actions_that_are_wrong_are_named_and_missing_ones_become_the_mean(write):
    rows = "".join(f"{number},1.0,red\n" for number in range(20, 40)) + "99,much,red\n"
    with pytest.raises(UsageError, match=r"Column 'price' has numbers in all but 1 of 24 cells: 'much' \(line 25\)"):
        log_table.read(write(LOG), _schema(action_table=write(ITEMS + rows, "items.csv"), ignore_columns="offered"))
    items = write(ITEMS.replace("9,3.0,red", "9,,red"), "items.csv")
    log = log_table.read(write(LOG), _schema(offered_column="offered", action_table=items))
    price, missing = log.catalogue[list(log.action_names).index("9")][:2]
    assert (price, missing) == (0, 1)
    assert log.report["sets"]["features"][0] == {"name": "price", "use": "of action", "kind": "number", "imputed": 1}


LONG_ERRORS = {
    "none": ("y,2,1,1", "y,2,0,1", {}, r"--chosen_column: '1' \(line 3\), '1' \(line 6\) of .* without a chosen"),
    "two": ("z,4,0,,", "z,4,1,0,.5", {}, r"--chosen_column: '1' \(line 3\), '1' \(line 6\) of .* with two chosen"),
    "mark": ("z,2,false", "z,2,yes", {}, r"--chosen_column: 'yes' in column 'shown' \(line 7"),
    "same": ("b,1,20,y", "b,1,20,x", {}, r"--action_column: 'x' \(line 4\) of .* occurs twice"),
    "no_id": ("b,1,20,y", "b,1,20,", {}, r"--action_column: None \(line 4\) of .* is not an id"),
    "propensity": ("0,0.5", "0,0", {}, r"--propensity_column: 0 in column 'propensity' \(line 4 of"),
    "no_features": ("", "", {"action_column": None, "ignore_columns": "item,price"}, "name their ids with --action_"),
    "texts": ("", "", {"text_columns": "item", "action_column": None}, "--text_columns: 'item' differs within"),
    "offered": ("", "", {"offered_column": "item"}, "--decision_column excludes"),
    "no_reward": ("", "", {"reward_column": None}, "A log needs --reward_column"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "flags", "message"), LONG_ERRORS.values(), ids=LONG_ERRORS)
def test_an_invalid_file_in_long_form_is_refused(write, old, new, flags, message):
    assert old in LONG
    with pytest.raises(UsageError, match=message):
        log_table.read(write(LONG.replace(old, new)), _long(**flags))


def test_the_sets_of_a_recommender_are_read(shared_data):
    columns = {"reward_column": "click", "offered_column": "available_items"}
    log = log_table.read(str(shared_data / "cases" / "recommender.csv.gz"), _schema(**columns))
    weights = 1 / log.offered.sum(axis=1) / log.propensities
    assert (weights * log.rewards).mean() == pytest.approx(0.206, abs=0.002)


def test_the_published_random_log_has_uniform_propensities_over_its_items(shared_data):
    folder = shared_data / "open_bandit"
    wanted = schema.Schema(
        client_column="user_feature_0", action_column="item_id", reward_column="click", ignore_columns="timestamp",
        propensity_column="propensity_score", action_table=str(folder / "item_context_all.csv"),
    )  # fmt: skip
    log = log_table.read(str(folder / "random_all.csv.gz"), wanted)
    assert (log.contexts.entries.shape, log.catalogue.shape) == ((10000, 80), (80, 41))
    np.testing.assert_allclose(log.propensities, 1 / log.offered.sum(axis=1))


def test_ids_keep_their_brackets_quotes_and_separators(write):
    titles = ["(500) Days", "'Til There", "[a]", "Up", "Cars (2006)", "a, b"]
    rows = [f'c{place % 2},{place},"{title}","{title}|no"\n' for place, title in enumerate(titles)]
    columns = {"client_column": "who", "label_column": "best", "offered_column": "offered"}
    options = TaskOptions("tabular", data_file=write("who,x,best,offered\n" + "".join(rows)), **columns)
    assert set(registry.load(options).action_names) == {*titles, "no"}
