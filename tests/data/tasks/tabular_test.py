"""Tests of data.tasks.tabular: clients, the split, rewards, the real tables, and the task."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from data import action_sets, frames, reward_bounds, tasks
from data.errors import UsageError
from data.tasks import tabular
from data.tasks.options import TaskOptions

# Five clients; with the seed 0, client c is held out. Its values must not be learned from.
CLINICS = """site,age,color,target
b,4,red,yes
a,2,red,no
c,100,blue,yes
a,,green,no
d,2,red,yes
e,4,,no
b,4,green,yes
c,,red,no
"""


def _load(path, client_column, label_column=None, **flags) -> tasks.Task:
    options = TaskOptions("tabular", data_file=path, client_column=client_column, label_column=label_column, **flags)
    return tabular.load(options)


@pytest.fixture
def clinics(write):
    return _load(write(CLINICS), "site", "target")


def _rows(population) -> dict[str, list[list[float]]]:
    return {name: population.load(index).features.tolist() for index, name in enumerate(population.client_ids)}


def _labels(population) -> dict[str, list]:
    return {name: population.load(index).labels.tolist() for index, name in enumerate(population.client_ids)}


def _known(write, columns, labels):
    return write(json.dumps({"kind": "table", "columns": columns, "labels": labels}), "statistics.json")


def test_statistics_that_were_learned_give_the_same_table_again(clinics, write):
    age = clinics.statistics["columns"]["age"]
    assert age == {"mean": pytest.approx(3.2), "deviation": pytest.approx(np.sqrt(0.96)), "has_missing": True}
    assert clinics.statistics["columns"]["color"]["categories"] == ("green", "red", "<missing>")
    assert clinics.statistics["labels"] == {"no": 3, "yes": 3}
    names = ("means, deviations and categories of the table's columns", "the table's labels and their counts")
    assert clinics.private_statistics == names
    path = write(json.dumps(clinics.statistics), "statistics.json")
    again = _load(write(CLINICS), "site", "target", public_statistics=path)
    assert (_rows(again.clients), again.feature_names) == (_rows(clinics.clients), clinics.feature_names)
    assert (again.private_statistics, again.statistics) == ((), {})
    assert again.checksum not in (clinics.checksum, "")


def test_statistics_from_elsewhere_decide_features_and_actions(write):
    columns = {"age": {"mean": 2, "deviation": 1, "has_missing": False}, "color": {"categories": ["blue", "red"]}}
    table = _load(write(CLINICS), "site", "target", public_statistics=_known(write, columns, {"yes": 1, "maybe": 5}))
    assert table.feature_names == ("age", "color=blue", "color=red")
    assert table.action_names == ("yes", "maybe")
    np.testing.assert_array_equal(table.rewards["init"], np.diag([0, 1]))
    assert table.report["dropped_rows"]["of_another_label"] == 4
    assert sum(map(len, _labels(table.clients).values())) + sum(map(len, _labels(table.held_out).values())) == 4
    assert [2, 0, 1] in _rows(table.clients)["b"] + _rows(table.held_out)["b"]


@pytest.mark.parametrize(
    ("columns", "labels", "message"),
    [
        (["age", "color", "sex"], {"yes": 1, "no": 1}, "the features of .* differ in sex"),
        (["age", "color"], {}, "has no labels, unlike"),
        (["age", "color"], {"left": 1, "right": 1}, "No row of .* with a label of --public_statistics"),
    ],
)
def test_statistics_of_another_table_are_refused(write, columns, labels, message):
    path = _known(write, dict.fromkeys(columns), labels)
    with pytest.raises(UsageError, match=message):
        _load(write(CLINICS), "site", "target", public_statistics=path)


def test_categories_are_refused_for_a_column_of_which_public_statistics_have_none(write, clinics):
    path = write(json.dumps(clinics.statistics), "statistics.json")
    with pytest.raises(UsageError, match="--category_columns names column 'age', but --public_statistics has no"):
        _load(write(CLINICS), "site", "target", category_columns="age", public_statistics=path)


def test_features_are_learned_from_training_clients_only_and_labels_are_indices_of_sorted_names(clinics):
    assert clinics.feature_names == ("age", "age is missing", "color=green", "color=red", "color=<missing>")
    # Ages 4, 2, 2, 4, 4 of training clients: mean 3.2, deviation sqrt(0.96).
    old, young = 0.8 / np.sqrt(0.96), -1.2 / np.sqrt(0.96)
    expected = {
        "a": [[young, 0, 0, 1, 0], [0, 1, 1, 0, 0]],
        "b": [[old, 0, 0, 1, 0], [old, 0, 1, 0, 0]],
        "d": [[young, 0, 0, 1, 0]],
        "e": [[old, 0, 0, 0, 1]],
        "c": [[96.8 / np.sqrt(0.96), 0, 0, 0, 0], [0, 1, 0, 1, 0]],  # Held out: 100, and blue, which is new.
    }
    train, held_out = _rows(clinics.clients), _rows(clinics.held_out)
    assert [*train, *held_out] == list(expected)
    for name, rows in (train | held_out).items():
        np.testing.assert_allclose(rows, expected[name], rtol=1e-6)
    assert clinics.action_names == ("no", "yes")
    assert _labels(clinics.clients) | _labels(clinics.held_out) == {
        "a": [0, 0],
        "b": [1, 1],
        "d": [1],
        "e": [0],
        "c": [1, 0],
    }
    examples = clinics.clients.load(0)
    assert (examples.features.dtype, examples.labels.dtype) == (np.float32, np.int32)


def test_the_report_counts_what_was_read_and_imputed(clinics):
    report = json.loads(json.dumps(clinics.report))
    assert [report[name] for name in ("rows", "training_rows", "held_out_rows", "clients")] == [8, 6, 2, 5]
    assert report["content"] == "a8c510815d4f0ae0"
    assert report["dropped_rows"] == {"without_client": 0, "without_label": 0}
    assert (report["held_out"], report["synthetic_clients"]) == ("1 of 5 clients", "")
    assert not any(report[name] for name in ("missing_values", "percents", "warnings", "notes"))
    assert report["columns"] == [
        {"name": "site", "use": "client", "kind": "category", "categories": 5},
        {"name": "age", "use": "feature", "kind": "number", "imputed": 2},
        {"name": "color", "use": "feature", "kind": "category", "categories": 2, "missing": 1, "unknown": 1},
        {"name": "target", "use": "label", "kind": "category", "categories": 2},
    ]


def test_a_file_and_a_frame_with_the_same_content_have_the_same_digest(write, clinics):
    with frames.lent(pd.read_csv(io.StringIO(CLINICS))) as name:
        frame = _load(name, "site", "target")
    assert frame.report["content"] == clinics.report["content"]
    assert frame.checksum != clinics.checksum
    other = _load(write(CLINICS.replace("a,2,red,no", "a,2,red,yes")), "site", "target")
    assert other.report["content"] != clinics.report["content"]


def test_rows_without_client_or_label_are_dropped_and_counted(write):
    table = _load(write(CLINICS + ",1,red,yes\n,1,red,\na,1,red,\n"), "site", "target")
    assert table.report["dropped_rows"] == {"without_client": 2, "without_label": 1}
    assert _labels(table.clients)["a"] == [0, 0]
    declared = _load(write(CLINICS + "n/k,1,red,no\na,1,red,<5\n"), "site", "target", missing_values="n/k,<5")
    assert declared.report["dropped_rows"] == {"without_client": 1, "without_label": 1}


def test_rows_of_each_client_are_held_out_if_there_are_fewer_than_five_clients(write):
    sizes = {"a": 10, "b": 5, "c": 2, "d": 1}
    rows = [f"{name},{row},{row % 2}\n" for name, size in sizes.items() for row in range(size)]
    table = _load(write("site,x,y\n" + "".join(rows)), "site", "y")
    assert table.clients.client_ids == table.held_out.client_ids == ["a", "b", "c", "d"]
    assert [len(table.held_out.load(index).labels) for index in range(4)] == [2, 1, 1, 0]
    assert [len(table.clients.load(index).labels) for index in range(4)] == [8, 4, 1, 1]
    assert table.report["held_out"] == "20% of each client's rows, because there are fewer than 5 clients"


def test_synthetic_clients_share_the_rows_evenly(write):
    path = write("x,y\n" + "".join(f"{row},{row % 2}\n" for row in range(23)))
    table = _load(path, "rows:10", "y")
    assert (len(table.clients), len(table.held_out), table.feature_names) == (8, 2, ("x",))
    sizes = {name: len(rows) for part in (table.clients, table.held_out) for name, rows in _rows(part).items()}
    assert sizes == {f"client_{number}": 3 if number < 3 else 2 for number in range(10)}
    assert table.report["dropped_rows"] == {"without_label": 0}


def test_rewards_are_the_labels(write):
    rewards = "site,age,left,right\na,1,0.5,-1\nb,2,0,2\nc,3,1,0\nd,4,1,1e-3\ne,5,3,0\n"
    table = _load(write(rewards), "site", reward_columns="right,left")
    assert table.action_names == ("right", "left")
    assert table.feature_names == ("age",)
    assert (table.multi_label, list(table.rewards), table.label_range) == (True, ["exact"], (-1, 3))
    labels = _labels(table.clients) | _labels(table.held_out)
    assert labels == {"a": [[-1, 0.5]], "b": [[2, 0]], "c": [[0, 1]], "d": [[pytest.approx(1e-3), 1]], "e": [[0, 3]]}
    assert table.clients.load(0).labels.dtype == np.float32


def test_reward_bounds_are_learned_from_one_random_action_of_each_training_row(write):
    def table_of(rewards):
        rows = [f"{row % 10},{row % 7},{rewards[0]},{rewards[row % 3]}\n" for row in range(200)]
        return _load(write("site,age,left,right\n" + "".join(rows)), "site", reward_columns="left,right")

    table = table_of([5, 0, 2])
    assert (table.reward_bounds, table.has_learned_bounds) == (reward_bounds.RewardBounds(0, 5), True)
    assert table_of([1, 0, 0]).reward_bounds is None


def test_rewards_alone_leave_the_constant_1_as_the_feature(write):
    table = _load(write("left,right\n" + "1,0\n" * 10), "rows:5", reward_columns="all")
    assert table.feature_names == ("constant",)
    assert any("no feature is left" in warning for warning in table.report["warnings"])
    assert table.clients.load(0).features.tolist() == [[1.0], [1.0]]
    assert (table.private_statistics, table.statistics) == ((), {})


BAD_TABLES = {
    "one_class": ("site,x,y\na,1,0\nb,2,0\n", r"--label_column=y has a single value, '0', but a bandit needs two"),
    "one_client": ("site,x,y\na,1,0\na,2,1\n", r"=site has a single value, 'a': .*--client_column=rows:N"),
    "no_feature": ("site,y,x\na,0,\na,1,\nb,1,\n", r"has no features: .*--feature_columns"),
    "no_label": ("site,x,y\na,1,\nb,1,\n", r"No row of .*table.csv has values in --client_column and --label_column"),
    "word": (
        "site,x,y\n" + "a,1,0\nb,2,1\n" * 9 + "a,n/k,0\n",
        r"'x' has numbers in all but 1 of 19 cells: 'n/k' \(line 20\)",
    ),
    "single_rows": ("site,x,y\na,1,0\nb,2,1\n", r"--client_column gives each client one row"),
}


@pytest.mark.parametrize(("text", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_an_unfit_table_is_named_with_the_flag(write, text, message):
    with pytest.raises(UsageError, match=message):
        _load(write(text), "site", "y")


def test_the_real_hospitals_are_split_by_rows(shared_data):
    table = _load(str(shared_data / "heart_disease_4sites.csv"), "site", "target")
    assert table.clients.client_ids == ["cleveland", "hungarian", "switzerland", "va"]
    assert table.action_names == ("0", "1", "2", "3", "4")
    # 303, 294, 123 and 200 rows.
    assert [len(table.held_out.load(index).labels) for index in range(4)] == [61, 59, 25, 40]
    assert [len(table.clients.load(index).labels) for index in range(4)] == [242, 235, 98, 160]
    imputed = [column.get("imputed") for column in table.report["columns"] if column["use"] == "feature"]
    assert imputed == [0, 0, 0, 59, 30, 90, 2, 55, 55, 62, 309, 611, 486]
    assert len(table.feature_names) == 23  # 13 columns, 10 of them with gaps.
    train = np.concatenate([table.clients.load(index).features for index in range(4)])
    np.testing.assert_allclose([train[:, 0].mean(), train[:, 0].std()], [0, 1], atol=1e-5)
    assert np.isfinite(train).all()


# Labels r, q, p of 3, 2 and 1 rows a client; the held-out client c has most of all p.
SITES = "site,x,y\n" + "".join(f"{site},{row},{label}\n" for site in "abcde" for row, label in enumerate("pqqrrr"))
SITES += "c,1,p\n" * 50


# The default is half of the labels, rounded up.
@pytest.mark.parametrize(("init_labels", "paid"), [(None, [0, 1, 1]), (1, [0, 0, 1]), (3, [1, 1, 1])])
def test_the_initial_training_pays_for_the_most_frequent_labels_only(write, init_labels, paid):
    rewards = _load(write(SITES), "site", "y", init_labels=init_labels).rewards
    np.testing.assert_array_equal(rewards["init"], np.diag(paid))
    np.testing.assert_array_equal(rewards["bandits"], np.eye(3))
    np.testing.assert_array_equal(rewards["exact"], np.eye(3))
    assert {matrix.dtype for matrix in rewards.values()} == {np.dtype(np.float32)}


# Of the training clients a, b, d and e; the held-out client c has the word `new`.
QUESTIONS = """user,topic,question,length,small,large
a,x,How high is it?,1,1,1
b,y,How is IT,3,0,1
c,x,new how,9,1,0
d,y,,3,0,0
e,x,it 007,1,1,1
"""


def _routed(path, client_column="user", **flags):
    flags = {"reward_columns": "small,large", "action_prices": "0,0.25", "text_columns": "question"} | flags
    return _load(path, client_column, vocabulary_size=3, ignore_columns="topic", **flags)


def _bags(population) -> dict[str, list[tuple[list[int], list[float]]]]:
    features = {name: population.load(index).features for index, name in enumerate(population.client_ids)}
    return {name: [(bags.ids.tolist(), bags.values.tolist())] for name, bags in features.items()}


def test_texts_become_counts_of_the_training_clients_most_frequent_words_or_of_public_ones(write):
    task = _routed(write(QUESTIONS))
    # it: 3, how: 2, is: 2, before 007 and high; then the length, of mean 2 and deviation 1, with the id 3.
    assert task.feature_names == ("it", "how", "is", "length")
    assert task.model_arguments == {"vocabulary_size": 4, "num_outputs": 2}
    third = pytest.approx(1 / 3)
    assert _bags(task.clients) == {
        "a": [([0, 1, 2, 3], [third, third, third, -1])],
        "b": [([0, 1, 2, 3], [third, third, third, 1])],
        "d": [([3], [1])],
        "e": [([0, 3], [1, -1])],
    }
    assert _bags(task.held_out) == {"c": [([1, 3], [1, 7])]}
    assert "the vocabulary of the table's texts" in task.private_statistics
    assert task.report["words"] == 3
    again = _routed(write(QUESTIONS), public_statistics=write(json.dumps(task.statistics), "statistics.json"))
    assert (_bags(again.clients), again.feature_names) == (_bags(task.clients), task.feature_names)
    assert again.private_statistics == ()


def test_an_action_s_price_is_taken_off_its_rewards(write):
    task = _routed(write(QUESTIONS))
    assert _labels(task.clients) == {"a": [[1, 0.75]], "b": [[0, 0.75]], "d": [[0, -0.25]], "e": [[1, 0.75]]}
    assert task.reward_range("exact") == (-0.25, 1)
    assert task.report["prices"] == {"small": 0, "large": 0.25}
    all_columns = {"reward_columns": "all", "feature_columns": "length"}
    for flags in ({}, all_columns):
        named = _routed(write(QUESTIONS), action_prices="large=0.25,small=0", **flags)
        assert _labels(named.clients) == _labels(task.clients)
    with pytest.raises(UsageError, match=r"required with --reward_columns=all\): --action_prices=small=0,large=0\.1\."):
        _routed(write(QUESTIONS), **all_columns)


def test_synthetic_clients_have_mixes_of_a_column_s_values(write):
    rows = "".join(f"{'xyz'[row % 3]},{row % 3},{row % 2},1\n" for row in range(300))
    path = write("topic,number,small,large\n" + rows)

    def task(alpha):
        return _load(path, "rows:10", reward_columns="small,large", partition_column="topic", partition_alpha=alpha)

    def mean_share_of_the_most_frequent_topic(task):
        return np.mean(
            [max(np.unique(rows, return_counts=True)[1]) / len(rows) for rows in _rows(task.clients).values()]
        )

    skewed = task(0.01)
    assert (skewed.feature_names, len(skewed.clients), len(skewed.held_out)) == (("number",), 8, 2)
    assert skewed.report["synthetic_clients"] == "each has a mix of topic, sampled from Dirichlet(0.01)"
    assert mean_share_of_the_most_frequent_topic(skewed) > 0.9
    assert mean_share_of_the_most_frequent_topic(task(1000)) < 0.6


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"action_prices": "0"}, "--action_prices=0 must be 2 numbers"),
        ({"action_prices": "0,inf"}, "--action_prices=0,inf must be 2 numbers"),
        ({"action_prices": "small=0,huge=1"}, "--action_prices=small=0,huge=1 must be 2 numbers"),
        ({"model": "mlp"}, "--model=mlp cannot read words"),
        ({"text_columns": "small"}, "--text_columns names column 'small' that --reward_columns already names"),
        ({"partition_column": "topic"}, "--partition_column=topic needs --client_column=rows:N"),
    ],
)
def test_texts_prices_and_partitions_that_do_not_fit_are_refused(write, flags, message):
    with pytest.raises(UsageError, match=message):
        _routed(write(QUESTIONS), **flags)


def _case(shared_data, name, *roles, form=None, **flags):
    path = shared_data / "cases" / name
    if form is None:
        return _load(str(path), *roles, **flags)
    frame = pd.read_parquet(path, dtype_backend=form) if name.endswith(".parquet") else pd.read_csv(path, sep=form)
    with frames.lent(frame) as lent:
        return _load(lent, *roles, **flags)


@pytest.mark.parametrize("form", [None, "numpy_nullable", "pyarrow"])
def test_64_bit_and_hashed_ids_of_the_cases_are_read_and_lists_refused(shared_data, form):
    task = _case(shared_data, "large_ids_table.parquet", "user", "y", form=form)
    assert len(task.clients) + len(task.held_out) == 24
    with pytest.raises(UsageError, match="'embedding' holds lists"):
        _case(shared_data, "list_column.parquet", "user", "y", form=form)
    hashed = _case(shared_data, "segfault.csv.gz", "device_id", "best", form=form and ",")
    assert len(hashed.clients) + len(hashed.held_out) == 43


@pytest.mark.parametrize("form", [None, ";"])
def test_decimal_commas_of_the_case_are_read_with_one_flag(shared_data, form):
    name, prices = "german_decimal_comma.csv.gz", ["Gewinn Plakat", "Gewinn Eis", "Gewinn Rabatt"]
    flags = {"reward_columns": ",".join(prices), "form": form}
    task = _case(shared_data, name, "Filiale", decimal=",", **flags)
    assert task.statistics["columns"]["Umsatz"]["mean"] == pytest.approx(1000, abs=300)
    parse = {"sep": ";", "decimal": ",", "thousands": ".", "dtype": {"Datum": str}}
    expected = pd.read_csv(shared_data / "cases" / name, **parse)[prices].to_numpy(np.float32)
    rewards = np.concatenate([examples.labels for examples in _examples(task).values()])
    np.testing.assert_array_equal(np.sort(rewards, axis=0), np.sort(expected, axis=0))
    assert {"name": "Datum", "use": "feature", "kind": "date", "imputed": 0, "hours": False} in task.report["columns"]
    with pytest.raises(UsageError, match="--decimal=,"):
        _case(shared_data, name, "Filiale", **flags)


SETS = """site,age,target,offered
b,4,x,x|z
a,2,y,z|y|x
c,100,z,z|y
a,1,x,y|x
d,2,z,z|x
e,4,y,y|z
b,4,z,x|z
c,3,y,y|z
"""
ITEMS = "id,size\nx,1\ny,2\nz,6\n"


def _examples(task):
    parts = [(part, index) for part in (task.clients, task.held_out) for index in range(len(part))]
    return {part.client_ids[index]: part.load(index) for part, index in parts}


def test_rows_with_sets_of_labels_restrict_the_actions(write):
    task = _load(write(SETS), "site", "target", offered_column="offered")
    examples = _examples(task)
    assert (task.num_actions, task.feature_spec) == (3, action_sets.Spec(((1,), "float32")))
    np.testing.assert_array_equal(examples["a"].labels, [1, 0])
    np.testing.assert_array_equal(examples["a"].features.entries, [[0, 1, 2], [0, 1, -1]])
    assert set(task.rewards) == {"exact", "init", "bandits"}
    sizes = {"smallest": 2, "mean": 2.125, "largest": 3, "actions": 3, "entries": 3}
    assert {name: task.report["sets"][name] for name in sizes} == sizes


def test_labels_among_actions_with_features_are_rewards_of_slots(write):
    task = _load(write(SETS), "site", "target", offered_column="offered", action_table=write(ITEMS, "items.csv"))
    examples = _examples(task)["a"]
    np.testing.assert_array_equal(examples.labels, [[0, 1, 0], [0, 1, 0]])
    sets = task.normalize(examples.features)
    size = task.statistics["actions"]["size"]
    found = sets.actions[..., 0] * size["deviation"] + size["mean"]
    np.testing.assert_allclose(np.where(sets.entries >= 0, found, 0), [[6, 2, 1], [2, 1, 0]], rtol=1e-6)
    names = np.array(task.action_names)[task.catalogue_actions]
    np.testing.assert_array_equal(names[sets.entries[0]], ["z", "y", "x"])
    assert (task.num_actions, task.feature_spec) == (3, action_sets.Spec(((1,), "float32"), 1))
    assert (task.statistics["labels"], task.has_reward_labels, task.label_range) == ({}, True, (0, 1))
    assert "means, deviations and categories of the actions' features" in task.private_statistics


def test_one_hot_actions_that_are_all_offered_have_the_rewards_and_contexts_of_labels(write):
    one_hot = write("id,is_x,is_y,is_z\nx,1,0,0\ny,0,1,0\nz,0,0,1\n", "items.csv")
    plain = _load(write(SETS), "site", "target", ignore_columns="offered")
    sets = _load(write(SETS), "site", "target", ignore_columns="offered", action_table=one_hot)
    for name, examples in _examples(plain).items():
        with_sets = _examples(sets)[name]
        np.testing.assert_array_equal(with_sets.features.contexts, examples.features)
        np.testing.assert_array_equal(with_sets.labels, plain.rewards["exact"][examples.labels])
        actions = sets.normalize(with_sets.features).actions
        np.testing.assert_array_equal(actions > 0, np.broadcast_to(np.eye(3, dtype=bool), actions.shape))
    assert (sets.action_names, sets.num_actions) == (plain.action_names, plain.num_actions)
    assert list(sets.held_out.client_ids) == list(plain.held_out.client_ids)


def _load_long(change=lambda frame: frame, **flags):
    """Opens the table with one row for each offered action, after a change."""
    table = pd.read_csv(io.StringIO(SETS))
    long = table.reset_index(names="visit").assign(item=table["offered"].str.split("|")).explode("item")
    long["reward"] = (long["item"] == long["target"]).astype(float)
    with frames.lent(change(long.drop(columns=["target", "offered"]))) as name:
        columns = {"decision_column": "visit", "action_column": "item", "reward_column": "reward"}
        return _load(name, "site", **columns, **flags)


def test_a_table_in_long_form_has_the_reward_of_each_offered_action(write):
    flags = {"action_table": write(ITEMS, "items.csv")}
    wide = _load(write(SETS), "site", "target", offered_column="offered", **flags)
    long = _load_long(**flags)
    for name, examples in _examples(wide).items():
        same = _examples(long)[name]
        pairs = zip(long.normalize(same.features), wide.normalize(examples.features), strict=True)
        for one, other in [*pairs, (same.labels, examples.labels)]:
            np.testing.assert_array_equal(one, other)
    only_ids = _examples(_load_long())["a"]
    np.testing.assert_array_equal(only_ids.labels, [[0, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(only_ids.features.entries, [[0, 1, 2], [0, 1, -1]])


def test_rewards_of_actions_that_are_not_offered_do_not_decide_their_bounds():
    def large(frame):
        return frame.assign(reward=frame["reward"] * 5 + 100)

    assert _load_long(large).reward_bounds.low >= 100
    assert _load_long(large, reward_bounds="100,105").clipping == ""


def test_statistics_of_actions_encode_new_actions_alike(write):
    items = write(ITEMS, "items.csv")
    task = _load(write(SETS), "site", "target", offered_column="offered", action_table=items)
    known = {"offered_column": "offered", "public_statistics": write(json.dumps(task.statistics), "statistics.json")}
    table = write(SETS.replace("y|z", "y|z|new"), "new.csv")
    again = _load(table, "site", "target", action_table=write(ITEMS + "new,11\n", "others.csv"), **known)
    entry = list(np.array(again.action_names)[again.catalogue_actions]).index("new")
    encoded = again.normalize(action_sets.of_entries(np.zeros((1, 1)), np.array([[entry, -1]]))).actions[0, 0, 0]
    size = task.statistics["actions"]["size"]
    assert encoded == pytest.approx((11 - size["mean"]) / size["deviation"])
    weights = write(ITEMS.replace("size", "weight") + "new,1\n", "weights.csv")
    with pytest.raises(UsageError, match=r"are of the action features"):
        _load(table, "site", "target", action_table=weights, **known)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"label_column": None, "action_column": "x", "reward_column": "x", "propensity_column": "x"}, "needs"),
        ({"action_table": "items", "init_labels": 2}, "--init_labels has no effect"),
        ({"offered_column": "offered", "reward_bounds": "0,1"}, "--reward_bounds has no effect"),
        ({"action_table": "items", "largest_set": 2}, "--largest_set is below 3"),
        ({"decision_column": "age"}, "--decision_column needs --reward_column"),
        ({"action_table": "items", "model": "mlp"}, "does not score actions with features"),
    ],
)
def test_flags_that_do_not_fit_sets_are_refused(write, flags, message):
    if "action_table" in flags:
        flags = {**flags, "action_table": write(ITEMS, "items.csv")}
    with pytest.raises(UsageError, match=message):
        _load(write(SETS), "site", **{"label_column": "target"} | flags)


def test_columns_of_rewards_with_offered_actions_that_have_features(write):
    table = write("who,x,a,b,c,menu\none,1,3,4,5,b|a\none,2,6,7,8,c\ntwo,3,0,1,2,a|b|c\ntwo,4,9,9,9,c|a\n")
    columns = {"reward_columns": "a,b,c", "offered_column": "menu", "action_prices": "a=0,b=1,c=2"}
    task = _load(table, "who", action_table=write("id,size\nc,30\na,10\nb,20\n", "actions.csv"), **columns)
    names = np.array(task.action_names)[task.catalogue_actions]
    offered = sorted(
        [*zip(names[entries[entries >= 0]], rewards[entries >= 0].tolist(), strict=True)]
        for part in (task.clients, task.held_out)
        for index in range(len(part))
        for entries, rewards in zip(part.load(index).features.entries, part.load(index).labels, strict=True)
    )
    assert offered == [[("a", 0), ("b", 0), ("c", 0)], [("b", 3), ("a", 3)], [("c", 6)], [("c", 7), ("a", 9)]]
