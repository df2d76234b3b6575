"""Tests of data.interaction_log: logs in memory, and their Parquet form."""

import dataclasses
import hashlib
import json
import pathlib
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data import frames, interaction_log, log_checks, log_table, schema, statistics, text
from data.errors import UsageError

BAGS = text.Bags(np.array([0, 2, 1], np.int32), np.float32([0.5, 0.25, 1]), np.array([0, 2, 2, 2, 3, 3]))


def _log(**changed) -> interaction_log.InteractionLog:
    columns = {
        "actions": np.array([2, 0, 1, 0, 2]),
        "rewards": np.array([1.0, 0.0, 0.1, 0.0, 1 / 3]),
        "propensities": np.array([0.5, 0.25, 1.0, 1e-7, 0.3]),
        "rounds": np.array([1, 1, 2, 2, 3]),
        "periods": np.array([0, 0, 1, 1, 2]),
        "models": np.array([0, 0, 0, 1, 1]),
        "rows": np.array([4, 0, 7, 1, 0]),
    }
    contexts = changed.pop("contexts", np.arange(10, dtype=np.float32).reshape(5, 2))
    others = {"report": {"rows": 5}, "feature_names": ("a", "b", "c") if contexts is BAGS else ()}
    names, actions = ["zoe", "al", "nobody", "12"], ["left", "right", "wait", "never"]
    return interaction_log.ordered(names, np.array([3, 0, 3, 1, 0]), contexts, actions, columns | changed, **others)


def _write(path: pathlib.Path, **changed) -> pathlib.Path:
    interaction_log.write(_log(**changed), path)
    return path


def _assert_equal(one: interaction_log.InteractionLog, other: interaction_log.InteractionLog):
    for field in dataclasses.fields(one):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        np.testing.assert_equal(ours, theirs, field.name)
        assert getattr(ours, "dtype", None) == getattr(theirs, "dtype", None)


def test_rows_are_ordered_by_client_and_keep_their_order_within_one():
    log = _log()
    assert log.client_ids == ("zoe", "al", "12")
    np.testing.assert_array_equal(log.clients, [0, 0, 1, 2, 2])
    np.testing.assert_array_equal(log.actions, [0, 2, 0, 2, 1])
    np.testing.assert_array_equal(log.rounds, [1, 3, 2, 1, 2])
    np.testing.assert_array_equal(log.contexts, [[2, 3], [8, 9], [6, 7], [0, 1], [4, 5]])
    assert log.rewards.dtype == log.propensities.dtype == np.float64
    assert log.actions.dtype == log.clients.dtype == np.int32


@pytest.mark.parametrize(
    "changed",
    [
        {},
        dict.fromkeys(["contexts", "rounds", "periods", "models", "rows"]),
        {"contexts": np.arange(20, dtype=np.float32).reshape(5, 2, 2)},
        {"contexts": BAGS},
        {"probabilities": np.linspace(0, 1, 5)},
        {"probabilities": np.linspace([0, 0.5, 0.2, 0.3], [1, 0, 0, 0], 5)},
    ],
    ids=["all", "few", "images", "words", "chosen", "each"],
)
def test_what_is_written_is_read_back_with_clients_in_the_order_of_their_names(tmp_path, changed):
    log = _log(**changed)
    fields = {name: getattr(log, name) for name in interaction_log.ROW_FIELDS}
    others = {"report": log.report, "feature_names": log.feature_names}
    owners = np.array([2, 1, 0])[log.clients]
    expected = interaction_log.ordered(["12", "al", "zoe"], owners, log.contexts, log.action_names, fields, **others)
    for written in (log, expected):
        interaction_log.write(written, tmp_path / "log.parquet")
        _assert_equal(interaction_log.read(tmp_path / "log.parquet"), expected)


def test_parts_are_read_as_one_log_and_those_of_different_logs_are_refused(tmp_path):
    log = _log()
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    for path, rows in zip(paths, ([3], [0, 1, 4], [2]), strict=True):
        interaction_log.write(log.take(np.array(rows)), path)
    whole = interaction_log.read(paths)
    assert whole.client_ids == ("12", "al", "zoe")
    assert whole.action_names == log.action_names
    np.testing.assert_array_equal(whole.rounds, [1, 2, 2, 1, 3])
    np.testing.assert_array_equal(whole.contexts, log.contexts[[3, 4, 2, 0, 1]])
    with pytest.raises(UsageError, match="are not parts of one log"):
        interaction_log.read([paths[0], _write(tmp_path / "other.parquet", contexts=BAGS)])


def test_files_in_other_formats_are_refused_and_a_log_without_rows_is_empty(tmp_path):
    other = tmp_path / "other.parquet"
    pd.DataFrame({"action": [1]}).to_parquet(other)
    (tmp_path / "text.csv").write_text("action\n1\n")
    for path in (other, tmp_path / "text.csv", tmp_path / "nothing"):
        assert not interaction_log.is_log_file(path)
        with pytest.raises(UsageError, match="is not a log in this program's format"):
            interaction_log.read(path)
    assert interaction_log.is_log_file(_write(other))
    pq.write_table(pq.read_table(other).slice(0, 0), other)
    assert len(interaction_log.read(other)) == 0


def _changed(path: pathlib.Path, name: str, row: int, value) -> None:
    """Changes a cell as another program would, which writes no checksums."""
    table = pq.read_table(path)
    cells = table[name].to_pylist()
    cells[row] = value
    kind = None if isinstance(value, float | int | str) else table[name].type
    table = table.set_column(table.column_names.index(name), name, pa.array(cells, kind))
    pq.write_table(table, path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("propensity", 2.0, "--log: 2 in column 'propensity' (row 3 of {}) is not a propensity: every row needs a"),
        ("reward", float("nan"), "a missing value in column 'reward' (row 3 of {}) is not a reward: every row needs a"),
        ("round", -1, "-1 in column 'round' (row 3 of {}) is not a round"),
        ("round", 1.5, "1.5 in column 'round' (row 3 of {}) is not a round: every row needs a whole number"),
        ("action", "up", "'up' in column 'action' (row 3 of {}) must be one of the names"),
        ("context", [0.0, float("nan")], "[0.0, nan] in column 'context' (row 3 of {}) must be numbers from"),
        ("words", [0, 1], "{} is not a valid log: some rows do not have as many word_values as words"),
        ("words", None, "None in column 'words' (row 3 of {}) must be numbers from"),
        ("words", [3], "[3] in column 'words' (row 3 of {}) must be numbers from 0 to 2"),
        ("word_values", [float("inf")], "[inf] in column 'word_values' (row 3 of {}) must be numbers from"),
        ("probabilities", [1.5, -0.5, 0, 0], "[1.5, -0.5, 0.0, 0.0] in column 'probabilities' (row 3 of {}) must be"),
        ("probabilities", [0.5, 0.25, 0, 0], "the probabilities in row 3 of {} sum to 0.75, not to 1"),
    ],
)
def test_an_impossible_value_is_named_with_its_row(tmp_path, name, value, message):
    changed = {"contexts": BAGS} if "word" in name else {"probabilities": np.full((5, 4), 0.25)}
    path = _write(tmp_path / "log.parquet", **changed)
    _changed(path, name, 2, value)
    with pytest.raises(UsageError, match=re.escape(message.format(path))):
        interaction_log.read(path)


@pytest.mark.parametrize(
    ("changed", "has_checksum", "message"),
    [
        ({"format": 2}, True, "is a log of format 2, but this version reads only 1"),
        ({"action_names": ["left", "left"]}, False, "(its metadata does not match its checksum)"),
    ],
)
def test_changed_metadata_is_refused(tmp_path, changed, has_checksum, message):
    path = _write(tmp_path / "log.parquet")
    table = pq.read_table(path)
    metadata = json.dumps(json.loads(table.schema.metadata[b"interaction_log"]) | changed).encode()
    checksum = {b"interaction_log_checksum": hashlib.sha256(metadata).hexdigest()} if has_checksum else {}
    pq.write_table(table.replace_schema_metadata({b"interaction_log": metadata, **checksum}), path)
    with pytest.raises(UsageError, match=re.escape(f"{path} ") + ".*" + re.escape(message)):
        interaction_log.read(path)


def test_a_truncated_or_damaged_copy_is_refused(tmp_path):
    path = _write(tmp_path / "log.parquet")
    content = path.read_bytes()
    assert content.index(b"left") < content.index(b'"left"')
    in_page = content.replace(b"left", b"lift", 1)  # In the dictionary of actions, before the metadata.
    for damaged in (content[:-1], content[:100], b"", content.replace(b'"left"', b'"lift"', 1), in_page):
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match=r"is not readable .*: it is truncated or damaged: copy it again"):
            interaction_log.read(path)


def test_further_columns_are_ignored_and_plain_text_is_accepted(tmp_path):
    path = _write(tmp_path / "log.parquet")
    expected = interaction_log.read(path)
    table = pq.read_table(path)
    for name in ("client", "action"):
        table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.string()))
    pq.write_table(table.append_column("note", pa.array(["x"] * 5)), path)
    _assert_equal(interaction_log.read(path), expected)


ROLES = {"action_column": "action", "reward_column": "reward", "propensity_column": "propensity"}


def _schema(client="user", **columns):
    return schema.Schema(client_column=client, **ROLES | columns, file_flag="--log")


WANTED = _schema()


def _frame(**changed) -> pd.DataFrame:
    columns = {
        "user": ["b", "a", "b", "10"],
        "action": [10, 9, 10, 2],
        "reward": [1.0, 0.0, 0.5, 0.0],
        "propensity": [0.5, 0.25, 1.0, 0.125],
        "age": [20.0, 40.0, 20.0, 40.0],
        "place": [1, 2, 1, 3],
    }
    return pd.DataFrame(columns | changed)


def _read(tmp_path: pathlib.Path, frame: pd.DataFrame, wanted: schema.Schema = WANTED, **others):
    path = tmp_path / "log.parquet"
    frame.to_parquet(path)
    return log_table.read(str(path), wanted, **others)


def test_rows_are_read_by_client_and_typed_as_tables_are(tmp_path):
    log = _read(tmp_path, _frame())
    assert (log.client_ids, log.action_names) == (("10", "a", "b"), ("2", "9", "10"))
    np.testing.assert_array_equal(log.clients, [0, 1, 2, 2])
    np.testing.assert_array_equal(log.actions, [0, 1, 2, 2])
    np.testing.assert_array_equal(log.rewards, [0, 0, 1, 0.5])
    np.testing.assert_array_equal(log.propensities, [0.125, 0.25, 0.5, 1])
    assert log.feature_names == ("age", "place")
    np.testing.assert_allclose(log.contexts[:, 0], [1, 1, -1, -1])
    assert log.rounds is log.periods is log.probabilities is None
    assert (log.report["rows"], log.report["duplicated_rows"]) == (4, 0)


def test_several_client_columns_make_a_client_of_each_combination(tmp_path):
    log = _read(tmp_path, _frame(place=[1, 2, 2, 3]), _schema("user,place"))
    assert (log.client_ids, log.feature_names) == (("10 | 3", "a | 2", "b | 1", "b | 2"), ("age",))


def test_rounds_periods_and_a_policys_probabilities_are_read(tmp_path):
    frame = _frame(round=[3, 1, 4, 2], period=[1, 0, 1, 0], new=[0.1, 0.2, 0.3, 0.4])
    wanted = _schema(round_column="round", period_column="period", probability_columns="new", ignore_columns="age")
    log = _read(tmp_path, frame, wanted)
    np.testing.assert_array_equal(log.rounds, [2, 1, 3, 4])
    np.testing.assert_array_equal(log.periods, [0, 0, 1, 1])
    np.testing.assert_array_equal(log.probabilities, [0.4, 0.2, 0.1, 0.3])
    each = frame.assign(p2=0.5, p9=0.25, p10=0.25)
    for flag in ("p2,p9,p10", "p10,p2,p9", "10=p10,2=p2,9=p9"):
        log = _read(tmp_path, each, _schema(probability_columns=flag))
        assert log.probabilities.tolist() == [[0.5, 0.25, 0.25]] * 4
        assert log.report["policy_columns"] == {"2": "p2", "9": "p9", "10": "p10"}
    assert "p2" not in log.feature_names


def test_actions_that_were_never_logged_can_be_named(tmp_path):
    log = _read(tmp_path, _frame(), _schema(action_names="3,9"))
    assert log.action_names == ("2", "3", "9", "10")
    np.testing.assert_array_equal(log.actions, [0, 2, 3, 3])


def test_rows_without_a_client_or_an_action_are_dropped_and_counted(tmp_path):
    log = _read(tmp_path, _frame(user=["b", None, "b", "10"], action=["x", "y", None, "z"]))
    assert log.client_ids == ("10", "b")
    assert log.report["dropped_rows"] == {"without_client": 1, "without_action": 1}
    assert log.action_names == ("x", "z")
    [finding] = log_checks.reading(log)
    assert finding.is_warning
    assert finding.text == "Rows were left out: 1 without client and 1 without action."
    assert not log_checks.reading(_read(tmp_path, _frame()))


def test_equal_rows_are_counted(tmp_path):
    log = _read(tmp_path, pd.concat([_frame(), _frame()[:2]], ignore_index=True))
    finding = log_checks.duplicates(log)
    assert (log.report["duplicated_rows"], finding.is_warning) == (2, True)
    assert "2 rows equal to an earlier one" in finding.text


def test_contexts_can_be_typed_by_anothers_statistics_or_left_unread(tmp_path):
    known = statistics.OfTable({"age": statistics.Numbers(0.0, 10.0, False), "place": None}, {})
    log = _read(tmp_path, _frame(), known=known)
    np.testing.assert_array_equal(log.contexts, [[4], [4], [2], [2]])
    assert not log.report["learned_statistics"]
    assert _read(tmp_path, _frame()).report["learned_statistics"]
    assert _read(tmp_path, _frame(), with_contexts=False).contexts is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"propensity": [0.5, 0.0, 0.0, 0.2]}, r"--propensity_column: 0 .*\(row 2 of .*\(and 1 more"),
        ({"propensity": [0.5, 0.5, 0.1, 1.2]}, r"1.2 .*\(row 4 of .* from 1e-18 to 1"),
        ({"reward": [1.0, 0.0, -1e300, 0.0]}, r"--reward_column: -1e\+300 .*\(row 3 of .* 1e\+18"),
        ({"propensity": [1.0] * 4}, "deterministic"),
        ({"user": ["b"] * 4}, "--client_column=user has a single value, 'b'"),
        ({"action": [3] * 4}, "--action_column=action has a single value, '3'"),
        ({"user": [None] * 4}, "No row of .* has values in --client_column"),
    ],
)
def test_unusable_logs_are_refused(tmp_path, changed, message):
    with pytest.raises(UsageError, match=message):
        _read(tmp_path, _frame(**changed))


def test_the_small_sample_of_open_bandit_has_its_published_overlap(shared_data):
    """The uniform policy over 80 items, from the log of Bernoulli Thompson sampling."""
    columns = ("item_id", "click", "propensity_score")
    wanted = _schema(
        ",".join(f"user_feature_{number}" for number in range(4)), **dict(zip(ROLES, columns, strict=True))
    )
    wanted = dataclasses.replace(wanted, position_column="position")
    log = log_table.read(str(shared_data / "open_bandit" / "bts_all.csv.gz"), wanted, with_contexts=False)
    weights = 1 / 80 / log.propensities
    assert (len(log), len(log.action_names), log.rewards.sum()) == (10000, 80, 42)
    assert log_checks.effective_sample_size(weights) == pytest.approx(340.38, abs=0.005)
    assert weights.mean() == pytest.approx(1.01111, abs=5e-6)
    assert weights.max() == pytest.approx(277.778, abs=5e-4)
    assert (weights * log.rewards).mean() == pytest.approx(0.00235964, abs=5e-9)
    assert not log_checks.mean_inverse_propensity(log).is_warning


def test_missing_value_words_are_names_of_actions_and_clients_with_a_warning(tmp_path):
    frame = _frame(action=["NA", "EU", "NA", "inf"], user=["NULL", "a", "b", ""])
    frame.to_csv(tmp_path / "log.csv", index=False)
    log = log_table.read(str(tmp_path / "log.csv"), WANTED)
    assert (log.client_ids, log.action_names) == (("NULL", "a", "b"), ("EU", "NA"))
    texts = [finding.text for finding in log_checks.reading(log)]
    assert texts[0] == "Rows were left out: 1 without client."
    assert "--client_column=user has the client 'NULL'" in texts[1]
    assert "--action_column has the action 'NA', which is treated as a name: if it means a missing value" in texts[2]
    assert [finding.text for finding in log_checks.public(log)] == texts[2:]
    dropped = log_table.read(str(tmp_path / "log.csv"), _schema(missing_values="NULL")).report["dropped_rows"]
    assert dropped == {"without_client": 2, "without_action": 0}


def _case(shared_data, name, form=None):
    """Log of a case file, read as the file or as a DataFrame."""
    wanted = _schema(action_column="item", reward_column="click", propensity_column="p")
    path = shared_data / "cases" / name
    if form is None:
        return log_table.read(str(path), wanted)
    with frames.lent(pd.read_parquet(path, dtype_backend=form)) as lent:
        return log_table.read(lent, wanted)


@pytest.mark.parametrize("form", [None, "numpy_nullable", "pyarrow"])
def test_clients_with_64_bit_ids_stay_apart_and_single_precision_propensities_are_accepted(shared_data, form):
    assert len(_case(shared_data, "large_ids_log.parquet", form).client_ids) == 120
    assert _case(shared_data, "float32_propensity.parquet", form).propensities.max() == 1


def test_percents_and_missing_words_of_the_cases_are_read_and_percents_reported(shared_data):
    log = _case(shared_data, "percent_propensity.csv.gz")
    assert set(log.propensities) == {0.004}
    assert (log.rewards / 250 / log.propensities).mean() == pytest.approx(0.105, abs=5e-4)
    sentence = "In column 'p', numbers have a percent sign, so they are divided by 100 (0.4% is read as 0.004)."
    assert [finding.text for finding in log_checks.public(log)] == [sentence]
    log = _case(shared_data, "na_action.csv.gz")
    assert log.action_names == ("APAC", "EU", "NA")
    assert np.bincount(log.actions).tolist() == [974, 996, 1030]


def test_features_from_after_the_action_are_found(tmp_path):
    draw = np.random.default_rng(0)
    action = draw.integers(2, size=2000)
    reward = draw.random(2000) < 0.02 + 0.1 * action
    paid = pd.Series(pd.Timestamp("2025-01-02 06:07:35"), range(2000)).where(reward)
    columns = {"user": np.arange(2000) // 4, "action": action, "reward": reward * 1, "propensity": 0.5, "age": 3}
    log = _read(tmp_path, pd.DataFrame(columns | {"paid": paid}))
    finding = log_checks.check(log)
    assert (finding.name, "'paid'" in finding.text) == (log_checks.COLUMNS, True)
    uses = [column["use"] for column in log.report["columns"]]
    assert uses == ["client", "action", "reward", "propensity", "feature", "feature"]


@pytest.mark.parametrize(
    ("each", "logged", "is_off", "words"),
    [
        ((0.25, 0.5, 0.25), None, False, "sum to 1 to 1 in a row; all rows sum to 1, up to rounding"),
        ((0.33, 0.33, 0.33), None, False, "sum to 0.99 to 0.99 in a row; all rows sum to 1, up to rounding"),
        ((0.25, 0.5, 0.35), None, True, "sum to 1.1 to 1.1 in a row; 4 of 4 rows do not sum to 1"),
        ((0.25, 0.5, 0.25), [0.25, 0.5, 0.25, 0.25], False, "In 0 rows the propensity is not"),
        ((0.25, 0.5, 0.25), [0.25, 0.5, 0.25, 0.5], True, "In 1 rows the propensity is not"),
    ],
)
def test_probabilities_of_all_actions_are_checked(tmp_path, each, logged, is_off, words):
    frame = _frame(**dict(zip(("p_2", "p_9", "p_10"), each, strict=True)), propensity=logged or 0.5)
    columns = {} if logged else {"propensity_column": None, "ignore_columns": "propensity"}
    log = _read(tmp_path, frame, _schema(propensity_columns="p_10,p_2,p_9", **columns))
    np.testing.assert_allclose(log.propensities[1:], [each[1], each[2], each[2]])
    checked = log_checks.Finding(*log.report["propensity_columns"])
    assert checked.is_warning == is_off
    assert words in checked.text
    assert log_checks.check(log).is_warning == is_off


def test_a_chosen_action_of_probability_0_is_refused(tmp_path):
    frame = _frame(p_2=0.5, p_9=[0.5, 0.0, 0.5, 0.5], p_10=0.5)
    with pytest.raises(UsageError, match=r"columns: 0 in column 'of the chosen action' \(row 2 .* not a prop"):
        _read(tmp_path, frame, _schema(propensity_column=None, propensity_columns="p_2,p_9,p_10"))


def test_a_list_column_of_available_actions_is_recognized_and_no_feature(tmp_path):
    log = _read(tmp_path, _frame(offered=[["10", "9"], ["9", "2"], ["10"], ["2", "9", "10"]]))
    assert (log.report["action_sets"], log.feature_names) == ("offered", ("age", "place"))
