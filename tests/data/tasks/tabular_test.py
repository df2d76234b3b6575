"""Tests of data.tasks.tabular: clients, the split, rewards, the real tables, and the task."""

import dataclasses
import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from data import frames, schema, statistics, tasks
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


@pytest.fixture
def write(tmp_path):
    def to_file(text: str, name: str = "table.csv") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return to_file


def _load(path, client_column, label_column=None, *, known=None, seed=0, held_out_fraction=0.2, **flags):
    wanted = schema.Schema(client_column, label_column, **flags)
    return tabular.open_table(path, wanted, known=known, seed=seed, held_out_fraction=held_out_fraction)


@pytest.fixture
def clinics(write):
    return _load(write(CLINICS), "site", "target")


def _rows(population) -> dict[str, list[list[float]]]:
    return {name: population.load(index).features.tolist() for index, name in enumerate(population.client_ids)}


def _labels(population) -> dict[str, list]:
    return {name: population.load(index).labels.tolist() for index, name in enumerate(population.client_ids)}


def test_statistics_say_what_was_learned(clinics):
    age = clinics.statistics.columns["age"]
    assert (age.mean, age.deviation, age.has_missing) == (pytest.approx(3.2), pytest.approx(np.sqrt(0.96)), True)
    assert clinics.statistics.columns["color"].categories == ("green", "red", "<missing>")
    assert clinics.statistics.labels == {"no": 3, "yes": 3}


def test_statistics_that_were_learned_give_the_same_table_again(clinics, write):
    path = write(json.dumps(clinics.statistics.as_json()), "statistics.json")
    again = _load(write(CLINICS), "site", "target", known=statistics.read_table(path))
    assert _rows(again.train) == _rows(clinics.train)
    assert (again.feature_names, again.label_counts) == (clinics.feature_names, clinics.label_counts)
    assert again.statistics == clinics.statistics


def test_statistics_from_elsewhere_decide_features_and_actions(write):
    known = statistics.OfTable(
        {"age": statistics.Numbers(2.0, 1.0, False), "color": statistics.Categories(("blue", "red"))},
        {"yes": 1, "maybe": 5},
    )
    table = _load(write(CLINICS), "site", "target", known=known)
    assert table.feature_names == ("age", "color=blue", "color=red")
    assert (table.action_names, table.label_counts) == (("yes", "maybe"), (1, 5))
    assert table.report["dropped_rows"]["of_another_label"] == 4
    assert sum(map(len, _labels(table.train).values())) + sum(map(len, _labels(table.held_out).values())) == 4
    assert [2, 0, 1] in _rows(table.train)["b"] + _rows(table.held_out)["b"]


@pytest.mark.parametrize(
    ("columns", "labels", "message"),
    [
        ({"age": None}, {"yes": 1, "no": 1}, "has nothing of the features of .*: color"),
        (
            {"age": None, "color": None, "sex": None},
            {"yes": 1, "no": 1},
            "has more columns than the features of .*: sex",
        ),
        ({"age": None, "color": None}, {}, "has no labels, but .* is read as a table of labels"),
        ({"age": None, "color": None}, {"left": 1, "right": 1}, "No row of .* with a label of --public_statistics"),
    ],
)
def test_statistics_of_another_table_are_an_error(write, columns, labels, message):
    with pytest.raises(UsageError, match=message):
        _load(write(CLINICS), "site", "target", known=statistics.OfTable(columns, labels))


def test_features_are_learned_from_training_clients_only(clinics):
    assert clinics.feature_names == (
        "age",
        "age is missing",
        "color=green",
        "color=red",
        "color=<missing>",
    )
    # Ages 4, 2, 2, 4, 4 of training clients: mean 3.2, deviation sqrt(0.96).
    old, young = 0.8 / np.sqrt(0.96), -1.2 / np.sqrt(0.96)
    expected = {
        "a": [[young, 0, 0, 1, 0], [0, 1, 1, 0, 0]],
        "b": [[old, 0, 0, 1, 0], [old, 0, 1, 0, 0]],
        "d": [[young, 0, 0, 1, 0]],
        "e": [[old, 0, 0, 0, 1]],
    }
    train = _rows(clinics.train)
    assert list(train) == list(expected)
    for name, rows in expected.items():
        np.testing.assert_allclose(train[name], rows, rtol=1e-6)


def test_held_out_clients_are_measured_with_the_training_clients_numbers(clinics):
    held_out = _rows(clinics.held_out)
    assert list(held_out) == ["c"]
    # 100 is (100 - 3.2) / sqrt(0.96); blue was never seen; a missing age is the mean.
    np.testing.assert_allclose(held_out["c"], [[96.8 / np.sqrt(0.96), 0, 0, 0, 0], [0, 1, 0, 1, 0]], rtol=1e-6)


def test_labels_are_indices_into_the_sorted_names(clinics):
    assert clinics.action_names == ("no", "yes")
    assert _labels(clinics.train) == {"a": [0, 0], "b": [1, 1], "d": [1], "e": [0]}
    assert _labels(clinics.held_out) == {"c": [1, 0]}
    assert clinics.label_counts == (3, 3)


def test_examples_have_the_documented_types(clinics):
    examples = clinics.train.load(0)
    assert (examples.features.dtype, examples.labels.dtype) == (np.float32, np.int32)


def test_the_report_counts_what_was_read_and_imputed(clinics):
    assert json.loads(json.dumps(clinics.report)) == {
        "content": "a8c510815d4f0ae0",
        "rows": 8,
        "training_rows": 6,
        "held_out_rows": 2,
        "dropped_rows": {"without_client": 0, "without_label": 0},
        "clients": 5,
        "held_out": "1 of 5 clients",
        "imputed": {"age": 2},
        "missing_as_category": {"color": 1},
        "columns_left_out": [],
        "form": {"encoding": "utf-8", "separator": "comma"},
        "missing_values": {},
        "signs": {},
        "warnings": [],
        "columns": [
            {"name": "site", "use": "client", "kind": "category", "categories": 5},
            {"name": "age", "use": "feature", "kind": "number", "imputed": 2},
            {"name": "color", "use": "feature", "kind": "category", "categories": 2, "missing": 1, "unknown": 1},
            {"name": "target", "use": "label", "kind": "category", "categories": 2},
        ],
    }


def test_a_file_and_a_frame_of_one_content_are_told_to_be_the_same(write, clinics):
    with frames.lent(pd.read_csv(io.StringIO(CLINICS))) as name:
        frame = _load(name, "site", "target")
    assert frame.report["content"] == clinics.report["content"]
    assert frame.checksum != clinics.checksum
    other = _load(write(CLINICS.replace("a,2,red,no", "a,2,red,yes")), "site", "target")
    assert other.report["content"] != clinics.report["content"]


def test_the_order_of_the_rows_changes_neither_features_nor_clients(write, clinics):
    header, *rows = CLINICS.splitlines()
    shuffled = _load(write("\n".join([header, *sorted(rows)])), "site", "target")
    assert shuffled.feature_names == clinics.feature_names
    assert shuffled.held_out.client_ids == clinics.held_out.client_ids
    # Ages are equally distant from the mean, up to the order of its sum.
    np.testing.assert_allclose(np.sort(_rows(shuffled.train)["b"]), np.sort(_rows(clinics.train)["b"]), rtol=1e-6)


def test_rows_without_client_or_label_are_dropped_and_counted(write):
    extra = ",1,red,yes\n,1,red,\na,1,red,\n"
    table = _load(write(CLINICS + extra), "site", "target")
    assert table.report["dropped_rows"] == {"without_client": 2, "without_label": 1}
    assert table.report["rows"] == 8
    assert _labels(table.train)["a"] == [0, 0]


def test_a_question_mark_among_numeric_labels_is_missing(write):
    table = _load(write("site,x,y\na,1,0\nb,2,1\na,3,?\nb,4,0\n"), "site", "y")
    assert table.action_names == ("0", "1")
    assert table.report["dropped_rows"]["without_label"] == 1


def test_numeric_labels_and_clients_keep_their_text_in_the_order_of_numbers(write):
    rows = "".join(f"{client},{label},{label}\n" for client in ("007", "10", "9") for label in ("10", "2", "1.5"))
    table = _load(write(f"site,x,y\n{rows}"), "site", "y")
    assert table.action_names == ("1.5", "2", "10")
    assert table.train.client_ids == ["007", "9", "10"]


def test_feature_columns_choose_and_order_the_features(write):
    table = _load(write(CLINICS), "site", "target", feature_columns="color, age")
    assert table.feature_names[0] == "color=green"
    assert _load(write(CLINICS), "site", "target", feature_columns="age").feature_names == (
        "age",
        "age is missing",
    )


def test_a_quoted_name_in_a_flag_may_hold_a_comma(write):
    path = write('site,"a, b",c,y\nu,1,2,0\nu,2,3,1\nv,3,4,0\nv,4,5,1\n')
    assert _load(path, "site", "y", feature_columns='"a, b"').feature_names == ("a, b",)


def test_columns_that_training_clients_leave_empty_are_left_out_and_named(write):
    lines = CLINICS.splitlines()
    # Client c, the held-out one, has the only value.
    values = ["empty", "", "", "7", "", "", "", "", ""]
    table = _load(
        write("\n".join(f"{line},{value}" for line, value in zip(lines, values, strict=True))), "site", "target"
    )
    assert table.report["columns_left_out"] == ["empty"]
    assert "empty" not in table.feature_names


def test_row_numbers_that_pandas_wrote_are_no_feature(write):
    text = "\n".join(f"{row or ''},{line}" for row, line in enumerate(CLINICS.splitlines()))
    table = _load(write(text), "site", "target")
    assert table.report["columns_left_out"] == ["Unnamed: 0"]
    assert table.feature_names[0] == "age"


def test_the_split_is_the_same_for_a_seed_and_another_for_another(write):
    path = write("site,x,y\n" + "".join(f"c{index:02d},{index},{index % 2}\n" for index in range(40)))
    held_out = [_load(path, "site", "y", seed=seed).held_out.client_ids for seed in (0, 0, 1)]
    assert held_out[0] == held_out[1] != held_out[2]
    assert len(held_out[0]) == 8


@pytest.mark.parametrize(("fraction", "count"), [(0.01, 1), (0.2, 2), (0.99, 9)])
def test_at_least_one_client_is_on_either_side(write, fraction, count):
    path = write("site,x,y\n" + "".join(f"c{index},{index},{index % 2}\n" for index in range(10)))
    table = _load(path, "site", "y", held_out_fraction=fraction)
    assert (len(table.train), len(table.held_out)) == (10 - count, count)
    assert not set(table.train.client_ids) & set(table.held_out.client_ids)


def test_of_four_clients_rows_are_held_out_instead(write):
    sizes = {"a": 10, "b": 5, "c": 2, "d": 1}
    rows = [f"{name},{row},{row % 2}\n" for name, size in sizes.items() for row in range(size)]
    table = _load(write("site,x,y\n" + "".join(rows)), "site", "y")
    assert table.train.client_ids == table.held_out.client_ids == ["a", "b", "c", "d"]
    assert [len(table.held_out.load(index).labels) for index in range(4)] == [2, 1, 1, 0]
    assert [len(table.train.load(index).labels) for index in range(4)] == [8, 4, 1, 1]
    assert table.report["held_out"] == "20% of each client's rows, because there are fewer than 5 clients"
    assert table.report["clients"] == 4
    again = _load(write("site,x,y\n" + "".join(rows)), "site", "y")
    assert _rows(again.held_out) == _rows(table.held_out)
    assert _rows(_load(write("site,x,y\n" + "".join(rows)), "site", "y", seed=1).held_out) != _rows(again.held_out)


def test_within_clients_too_only_training_rows_are_learned_from(write):
    path = write("site,x,y\n" + "".join(f"{name},{row * row},{row % 2}\n" for name in "ab" for row in range(5)))
    table = _load(path, "site", "y")
    train = np.concatenate([table.train.load(index).features for index in range(2)])
    np.testing.assert_allclose([train.mean(), train.std()], [0, 1], atol=1e-6)


def test_made_clients_share_the_rows_evenly(write):
    path = write("x,y\n" + "".join(f"{row},{row % 2}\n" for row in range(23)))
    table = _load(path, "rows:10", "y")
    assert (len(table.train), len(table.held_out)) == (8, 2)
    assert sorted([*table.train.client_ids, *table.held_out.client_ids]) == [f"client_{n}" for n in range(10)]
    sizes = {name: len(rows) for part in (table.train, table.held_out) for name, rows in _rows(part).items()}
    assert [sizes[f"client_{n}"] for n in range(10)] == [3, 3, 3, 2, 2, 2, 2, 2, 2, 2]
    assert table.feature_names == ("x",)
    assert table.report["dropped_rows"] == {"without_label": 0}


def test_made_clients_are_drawn_by_the_seed(write):
    path = write("x,y\n" + "".join(f"{row},{row % 2}\n" for row in range(40)))
    dealt = [_labels(_load(path, "rows:3", "y", seed=seed).train) for seed in (0, 0, 1)]
    assert dealt[0] == dealt[1] != dealt[2]


REWARDS = "site,age,left,right\na,1,0.5,-1\nb,2,0,2\nc,3,1,0\nd,4,1,1e-3\ne,5,3,0\n"


def test_rewards_are_the_labels(write):
    table = _load(write(REWARDS), "site", reward_columns="right,left")
    assert table.action_names == ("right", "left")
    assert table.feature_names == ("age",)
    assert table.label_counts == ()
    labels = _labels(table.train) | _labels(table.held_out)
    assert labels == {
        "a": [[-1, 0.5]],
        "b": [[2, 0]],
        "c": [[0, 1]],
        "d": [[pytest.approx(1e-3), 1]],
        "e": [[0, 3]],
    }
    assert table.train.load(0).labels.dtype == np.float32


def test_all_rewards_are_all_columns_but_the_clients_and_the_features(write):
    table = _load(write(REWARDS), "site", reward_columns="all", feature_columns="age")
    assert (table.action_names, table.feature_names) == (("left", "right"), ("age",))
    assert _load(write(REWARDS), "site", reward_columns="all").action_names == ("age", "left", "right")


@pytest.mark.parametrize("named", ["all", "left,right"])
def test_rewards_alone_leave_the_constant_1_as_the_feature(write, named):
    table = _load(write("left,right\n" + "1,0\n" * 10), "rows:5", reward_columns=named)
    assert table.feature_names == ("constant",)
    assert any("no feature is left" in warning for warning in table.report["warnings"])
    assert table.train.load(0).features.tolist() == [[1.0], [1.0]]


def test_truth_values_are_rewards_of_0_and_1(write):
    table = _load(write("left,right\n" + "True,False\n" * 4), "rows:2", reward_columns="all")
    assert table.train.load(0).labels.tolist() == [[1.0, 0.0]]


def test_the_checksum_is_the_files(write):
    first = _load(write(CLINICS), "site", "target")
    assert first.train.checksum == first.held_out.checksum == first.checksum
    assert _load(write(CLINICS.replace("100", "101")), "site", "target").checksum != first.checksum


MISTAKES = {
    "neither": ({}, r"either --label_column or --reward_columns: neither is given"),
    "both": (
        {"label_column": "target", "reward_columns": "age"},
        r"either --label_column or --reward_columns: both are given",
    ),
    "no_client_column": (
        {"client_column": "hospital", "label_column": "target"},
        r"--client_column: there is no column 'hospital' in .*table.csv; its columns are site, age, color, target\.",
    ),
    "no_label_column": ({"label_column": "y"}, r"--label_column: there is no column 'y' .* site, age, color, target\."),
    "no_reward_column": ({"reward_columns": "age,y"}, r"--reward_columns: there is no column 'y' .* site, age"),
    "no_feature_column": (
        {"label_column": "target", "feature_columns": "x"},
        r"--feature_columns: there is no column 'x' .* site, age",
    ),
    "client_as_label": ({"label_column": "site"}, r"--label_column names column 'site' that --client_column names"),
    "label_as_feature": (
        {"label_column": "target", "feature_columns": "age,target"},
        r"--feature_columns names column 'target' that --label_column names already",
    ),
    "reward_as_feature": (
        {"reward_columns": "age,target", "feature_columns": "age"},
        r"--feature_columns names column 'age' that --reward_columns names already",
    ),
    "reward_twice": ({"reward_columns": "age,age"}, r"--reward_columns names column 'age' twice"),
    "one_reward": ({"reward_columns": "age"}, r"--reward_columns=age: a bandit needs at least two actions"),
    "missing_rewards": (
        {"reward_columns": "all"},
        r"--reward_columns: a missing value in column 'age' \(line 5 of .*table.csv\)",
    ),
    "made_clients": (
        {"client_column": "rows:ten", "label_column": "target"},
        r"--client_column=rows:ten must be rows:N with N at least 2",
    ),
    "one_made_client": ({"client_column": "rows:1", "label_column": "target"}, r"rows:1 must be rows:N"),
    "more_made_clients_than_rows": (
        {"client_column": "rows:9", "label_column": "target"},
        r"--client_column=rows:9 is more than the 8 rows",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_the_flag(write, arguments, message):
    with pytest.raises(UsageError, match=message):
        _load(write(CLINICS), **{"client_column": "site", **arguments})


BAD_TABLES = {
    "one_class": ("site,x,y\na,1,0\nb,2,0\n", r"--label_column=y has one value only, '0': a bandit needs two"),
    "one_client": (
        "site,x,y\na,1,0\na,2,1\n",
        r"--client_column=site has one value only, 'a': .*--client_column=rows:N",
    ),
    "no_feature": ("site,y\na,0\na,1\nb,1\n", r"leaves no feature: .*--feature_columns"),
    "only_empty_features": ("site,y,x\na,0,\na,1,\nb,1,\n", r"leaves no feature: .*--feature_columns"),
    "no_label": ("site,x,y\na,1,\nb,1,\n", r"No row of .*table.csv has what --client_column and --label_column name"),
    "single_rows": ("site,x,y\na,1,0\nb,2,1\n", r"--client_column gives each client one row"),
    "numbers_as_classes": (
        "site,x,y\n" + "".join(f"{row % 2},1,{row}.5\n" for row in range(1001)),
        r"--label_column=y has 1001 distinct values, more than 1000: name a column of classes",
    ),
    "free_text": (
        "site,x,y\n" + "".join(f"{row % 2},text {row},{row % 3}\n" for row in range(1001)),
        r"Column 'x' is text with 1001 distinct values, more than 1000: leave it out with --ignore_columns=x",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_an_unfit_table_is_named_with_the_flag(write, text, message):
    with pytest.raises(UsageError, match=message):
        _load(write(text), "site", "y")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("high", r"'high' in column 'right' \(line 4 of .*table.csv\) is no number"),
        ("?", r"'\?' in column 'right' \(line 4 of .*table.csv\) is no number"),
        ("", r"a missing value in column 'right' \(line 4 of .*table.csv\)"),
        ("NA", r"a missing value in column 'right' \(line 4 "),
        ("inf", r"inf in column 'right' \(line 4 of .*table.csv\)"),
        ("1e39", r"1e\+39 in column 'right' \(line 4 of .*table.csv\)"),
    ],
)
def test_a_bad_reward_is_named_with_its_column_and_first_line(write, bad, message):
    # The row without a client is dropped and counts as a line nevertheless.
    path = write(f"site,left,right\n,0,0\na,1,0\nb,1,{bad}\nb,1,{bad}\n")
    with pytest.raises(UsageError, match=f"--reward_columns: {message}"):
        _load(path, "site", reward_columns="left,right")


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5])
def test_a_part_that_is_none_or_all_is_refused(write, fraction):
    with pytest.raises(ValueError, match="held_out_fraction must lie between 0 and 1"):
        _load(write(CLINICS), "site", "target", held_out_fraction=fraction)


def test_exactly_1000_categories_and_classes_are_taken(write):
    rows = "".join(f"{row % 2},text {row % 1000},{row % 1000}\n" for row in range(2 * statistics.MAX_CATEGORIES))
    table = _load(write(f"site,x,y\n{rows}"), "site", "y")
    assert len(table.action_names) == 1000
    assert len(table.feature_names) == 956


def test_the_module_imports_neither_pandas_nor_tensorflow_nor_scikit_learn():
    code = "import sys, data.tasks.tabular; print(*{'pandas', 'tensorflow', 'sklearn'} & set(sys.modules))"
    environment_path = [path for path in sys.path if path]
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {environment_path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == ""


def test_gzipped_and_byte_order_marked_files_are_the_same_table(tmp_path, clinics):
    content = b"\xef\xbb\xbf" + CLINICS.encode()
    (tmp_path / "marked.csv").write_bytes(content)
    (tmp_path / "marked.csv.gz").write_bytes(gzip.compress(content))
    for name in ("marked.csv", "marked.csv.gz"):
        table = _load(str(tmp_path / name), "site", "target")
        assert _rows(table.train) == _rows(clinics.train)


def test_the_real_hospitals_are_split_by_rows(shared_data):
    table = _load(str(shared_data / "heart_disease_4sites.csv"), "site", "target")
    assert table.train.client_ids == ["cleveland", "hungarian", "switzerland", "va"]
    assert table.action_names == ("0", "1", "2", "3", "4")
    # 303, 294, 123 and 200 rows.
    assert [len(table.held_out.load(index).labels) for index in range(4)] == [61, 59, 25, 40]
    assert [len(table.train.load(index).labels) for index in range(4)] == [242, 235, 98, 160]
    assert table.report["imputed"] == {
        "trestbps": 59,
        "chol": 30,
        "fbs": 90,
        "restecg": 2,
        "thalach": 55,
        "exang": 55,
        "oldpeak": 62,
        "slope": 309,
        "ca": 611,
        "thal": 486,
    }
    # 13 columns, 10 of them with gaps.
    assert len(table.feature_names) == 23
    train = np.concatenate([table.train.load(index).features for index in range(4)])
    np.testing.assert_allclose(train[:, 0].mean(), 0, atol=1e-5)
    np.testing.assert_allclose(train[:, 0].std(), 1, atol=1e-5)
    assert np.isfinite(train).all()


def test_the_real_advertisements_need_no_client_column_and_no_features(shared_data):
    table = _load(str(shared_data / "Ads_CTR_Optimisation.csv"), "rows:100", reward_columns="all")
    assert (len(table.train), len(table.held_out)) == (80, 20)
    assert table.action_names == tuple(f"Ad {number}" for number in range(1, 11))
    clicks = sum(
        part.load(index).labels.sum(axis=0) for part in (table.train, table.held_out) for index in range(len(part))
    )
    assert clicks.tolist() == [1703, 1295, 728, 1196, 2695, 126, 1112, 2091, 952, 489]
    assert table.feature_names == ("constant",)


def _patients(change=lambda row, cells: cells, rows=60):
    """Returns a table of 6 clients; `change` makes other cells of a row's number and cells (id, site, age, day, y)."""
    lines = []
    for row in range(rows):
        cells = [f"p{row % 20}", f"s{row % 6}", str(row % 7), f"2023-01-{row % 28 + 1:02d}", f"{row % 2}"]
        lines.append(",".join(change(row, cells)))
    return "id,site,age,day,y\n" + "\n".join(lines) + "\n"


def _age(row, age):
    return lambda at, cells: cells if at != row else [*cells[:2], age, *cells[3:]]


def test_a_word_among_numbers_is_named_with_its_line_unless_it_is_missing_or_all_are_categories(write):
    path = write(_patients(_age(7, "n/k")))
    with pytest.raises(UsageError, match=r"'age' is of numbers in all but 1 of 60 cells: 'n/k' \(line 9\)"):
        _load(path, "site", "y")
    table = _load(path, "site", "y", missing_values="n/k")
    assert {"name": "age", "use": "feature", "kind": "number", "imputed": 1} in table.report["columns"]
    assert table.report["missing_values"] == {"n/k": 1}
    table = _load(path, "site", "y", category_columns="age")
    assert {"name": "age", "use": "feature", "kind": "category", "categories": 8} in table.report["columns"]


def test_lines_are_right_after_dropped_rows(write):
    path = write(_patients(lambda row, cells: [cells[0], "", *cells[2:]] if row < 3 else _age(9, "<5")(row, cells)))
    with pytest.raises(UsageError, match=r"all but 1 of 57 cells: '<5' \(line 11\)"):
        _load(path, "site", "y")


def test_missing_values_are_missing_labels_and_clients_too(write):
    path = write(_patients(_age(0, "0")).replace("p0,s0", "p0,n/k").replace(",1\n", ",<5\n", 1))
    dropped = _load(path, "site", "y", missing_values="n/k,<5").report["dropped_rows"]
    assert dropped == {"without_client": 1, "without_label": 1}


def test_a_missing_reward_is_one_also_if_it_was_said_so(write):
    path = write("site,left,right\n" + "a,1,0\nb,n/k,1\n" * 3)
    with pytest.raises(UsageError, match=r"'n/k' in column 'left' \(line 3 of .*\) is no number"):
        _load(path, "site", reward_columns="left,right")
    with pytest.raises(UsageError, match=r"a missing value in column 'left' \(line 3 of"):
        _load(path, "site", reward_columns="left,right", missing_values="n/k")


def test_statistics_of_dates_give_the_same_table_again(write):
    path = write(_patients())
    table = _load(path, "site", "y")
    assert "day=Monday" in table.feature_names
    known = write(json.dumps(table.statistics.as_json()), "statistics.json")
    assert _rows(_load(path, "site", "y", known=statistics.read_table(known)).train) == _rows(table.train)


def test_categories_that_statistics_from_elsewhere_do_not_have_are_refused(write):
    path = write(_patients())
    known = _load(path, "site", "y").statistics
    with pytest.raises(UsageError, match="--category_columns names column 'age', of which --public_statistics has no"):
        _load(path, "site", "y", known=known, category_columns="age")


def test_text_that_identifies_rows_is_refused_unless_it_is_asked_for(write):
    coded = write(_patients(lambda row, cells: [f"p{row}", *cells[1:]]))
    with pytest.raises(UsageError, match="Column 'id' is text with 60 distinct values in 60 rows"):
        _load(coded, "site", "y")
    assert len(_load(coded, "site", "y", feature_columns="id").feature_names) == 50
    assert not any(name.startswith("id") for name in _load(coded, "site", "y", ignore_columns="id").feature_names)


def test_numbers_that_count_the_rows_are_numbers(write):
    numbered = write(_patients(lambda row, cells: [str(100 + row), *cells[1:]]))
    assert "id" in _load(numbered, "site", "y").feature_names


def test_several_client_columns_make_a_client_of_each_combination(write):
    table = _load(write(CLINICS), "site,color", "target")
    assert sorted([*table.train.client_ids, *table.held_out.client_ids])[:3] == ["a | green", "a | red", "b | green"]


def test_odd_labels_and_many_categories_are_warned_of(write):
    rows = [f"c{row % 6},w{row % 51},{row % 2}{'.0' if row == 9 else ''}\n" for row in range(600)]
    path = write("site,word,y\n" + "".join(rows))
    assert _load(path, "site", "y").report["warnings"] == [
        "--label_column=y has classes that are one number in several ways: '1' and '1.0'.",
        "--label_column=y has classes of a single row: '1.0'.",
        "column 'word' gives 51 features, one for each category: --ignore_columns=word leaves it out, "
        "--category_columns=word says that it is meant so.",
    ]
    assert len(_load(path, "site", "y", category_columns="word").report["warnings"]) == 2


def test_a_log_is_refused_unless_the_features_are_named(write):
    path = write("x,arm,reward,pscore\n" + "".join(f"{row % 7},{row % 3},{row % 2},0.5\n" for row in range(60)))
    for flags in ({"label_column": "arm"}, {"label_column": "reward"}, {"reward_columns": "all"}):
        with pytest.raises(UsageError, match="looks like a log of a bandit, with 'arm' as the chosen action"):
            _load(path, "rows:5", **flags)
    with pytest.raises(UsageError, match="looks like a log of a bandit"):
        _load(path, "rows:5", reward_columns="reward,pscore")
    assert _load(path, "rows:5", "arm", feature_columns="x").feature_names == ("x",)


def test_the_same_rows_in_other_files_are_the_same_table(write, tmp_path, clinics):
    for name, text in (
        ("semicolons.csv", CLINICS.replace(",", ";")),
        ("tabs.tsv", CLINICS.replace(",", "\t")),
    ):
        assert _rows(_load(write(text, name), "site", "target").train) == _rows(clinics.train)


SITES = TaskOptions("tabular", client_column="site", label_column="y")
# Labels r, q, p of 3, 2 and 1 rows a client; with the seed 0, client c is held out.
SITES_LABELS = "site,age,color,y\n" + "".join(
    f"{site},{row},{'red' if row % 2 else 'blue'},{label}\n" for site in "abcde" for row, label in enumerate("pqqrrr")
)
SITES_REWARDS = "site,age,left,right\n" + "".join(f"{site},{row},{row},0.5\n" for site in "abcde" for row in range(3))


@pytest.fixture
def load(tmp_path):
    """Opens the task of a table with this text."""

    def write_and_load(text: str = SITES_LABELS, **changes) -> tasks.Task:
        (tmp_path / "table.csv").write_text(text)
        return tabular.load(dataclasses.replace(SITES, **{"data_file": str(tmp_path / "table.csv"), **changes}))

    return write_and_load


def test_the_linear_task_has_the_tables_sizes(load):
    task = load()
    assert task.num_actions == 3
    assert task.feature_spec == ((3,), "float32")
    assert task.model == "mlp"
    assert task.model_arguments == {"num_features": 3, "hidden": (), "num_outputs": 3}
    assert not task.multi_label
    assert task.clients.client_ids == ["a", "b", "d", "e"]
    assert task.held_out.client_ids == ["c"]


def test_features_and_labels_fit_the_task(load):
    task = load()
    examples = task.clients.load(0)
    assert task.normalise(examples.features).shape == (6, *task.feature_spec[0])
    assert examples.features.dtype == task.feature_spec[1]
    assert examples.labels.tolist() == [0, 1, 1, 2, 2, 2]


def test_the_mlp_has_a_hidden_layer_of_64(load):
    assert load(model="mlp").model_arguments["hidden"] == (64,)


# By the number of labels in the initial training: which they are. The default is 2, half of 3 rounded up.
@pytest.mark.parametrize(("init_labels", "paid"), [(None, [0, 1, 1]), (1, [0, 0, 1]), (2, [0, 1, 1]), (3, [1, 1, 1])])
def test_the_initial_training_pays_for_the_most_frequent_labels_only(load, init_labels, paid):
    rewards = load(init_labels=init_labels).rewards
    np.testing.assert_array_equal(rewards["init"], np.diag(paid))
    np.testing.assert_array_equal(rewards["bandits"], np.eye(3))
    np.testing.assert_array_equal(rewards["exact"], np.eye(3))
    assert {matrix.dtype for matrix in rewards.values()} == {np.dtype(np.float32)}


def test_labels_are_counted_on_training_clients(load):
    # The held-out client c has most of all p.
    rewards = load(SITES_LABELS + "c,1,red,p\n" * 50, init_labels=1).rewards
    np.testing.assert_array_equal(rewards["init"], np.diag([0, 0, 1]))


@pytest.mark.parametrize("init_labels", [0, -1, 4])
def test_more_or_fewer_labels_than_there_are_are_refused(load, init_labels):
    with pytest.raises(UsageError, match=f"--init_labels={init_labels} must lie between 1 and 3"):
        load(init_labels=init_labels)


def test_rewards_are_the_labels_and_have_no_shift(load):
    task = load(SITES_REWARDS, label_column=None, reward_columns="left,right")
    assert (task.num_actions, task.multi_label) == (2, True)
    assert task.feature_spec == ((1,), "float32")
    assert list(task.rewards) == ["exact"]
    examples = task.clients.load(0)
    np.testing.assert_array_equal(examples.labels @ task.rewards["exact"], [[0, 0.5], [1, 0.5], [2, 0.5]])
    assert task.reward_range("exact") == (0, 2)


def test_init_labels_is_refused_with_rewards(load):
    with pytest.raises(UsageError, match="--init_labels has no effect with --reward_columns"):
        load(SITES_REWARDS, label_column=None, reward_columns="left,right", init_labels=1)


@pytest.mark.parametrize("flag", ["data_file", "client_column"])
def test_the_table_needs_a_file_and_clients(load, flag):
    with pytest.raises(UsageError, match=f"--task_type=tabular needs --{flag}"):
        load(**{flag: ""})


def test_the_tables_mistakes_are_passed_on(load):
    with pytest.raises(UsageError, match="--label_column: there is no column 'z'"):
        load(label_column="z")


def test_the_real_hospitals_make_a_task(shared_data):
    path = str(shared_data / "heart_disease_4sites.csv")
    task = tabular.load(dataclasses.replace(SITES, data_file=path, label_column="target"))
    assert (len(task.clients), task.num_actions, task.feature_spec) == (4, 5, ((23,), "float32"))
    # The three most frequent of five.
    np.testing.assert_array_equal(task.rewards["init"], np.diag([1, 1, 1, 0, 0]))


def test_the_real_advertisements_make_a_task(shared_data):
    path = str(shared_data / "Ads_CTR_Optimisation.csv")
    task = tabular.load(TaskOptions("tabular", data_file=path, client_column="rows:100", reward_columns="all"))
    assert (len(task.clients), len(task.held_out), task.num_actions) == (80, 20, 10)
    assert task.model_arguments == {"num_features": 1, "hidden": (), "num_outputs": 10}


def test_what_was_learned_from_clients_is_named_unless_it_is_public(load, tmp_path):
    learned = load()
    assert learned.private_statistics == (
        "means, deviations and categories of the table's columns",
        "the table's labels and their counts",
    )
    assert learned.statistics["labels"] == {"p": 4, "q": 8, "r": 12}
    (tmp_path / "statistics.json").write_text(json.dumps(learned.statistics))
    public = load(public_statistics=str(tmp_path / "statistics.json"))
    assert (public.private_statistics, public.statistics) == ((), {})
    assert public.checksum not in (learned.checksum, "")
    np.testing.assert_array_equal(public.clients.load(0).features, learned.clients.load(0).features)


def test_a_table_of_rewards_without_context_teaches_nothing(load):
    task = load("site,left,right\n" + "a,0,1\nb,1,0\n" * 9, label_column=None, reward_columns="all")
    assert (task.private_statistics, task.statistics) == ((), {})
