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

from data import clients, columns, interaction_log, text
from data.errors import UsageError


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
    contexts = np.arange(10, dtype=np.float32).reshape(5, 2)
    return interaction_log.ordered(
        ["zoe", "al", "nobody", "12"],
        np.array([3, 0, 3, 1, 0]),
        changed.pop("contexts", contexts),
        ["left", "right", "wait", "never"],
        columns | changed,
        report={"rows": 5},
    )


def _assert_equal(one: interaction_log.InteractionLog, other: interaction_log.InteractionLog):
    for field in dataclasses.fields(one):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
        elif isinstance(ours, text.Bags):
            for mine, its in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(mine, its)
        else:
            assert ours == theirs, field.name


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
        {"contexts": None, "rounds": None, "periods": None, "models": None, "rows": None},
        {"contexts": np.arange(20, dtype=np.float32).reshape(5, 2, 2)},
        {
            "contexts": text.Bags(
                np.array([3, 1, 4, 1, 5], np.int32),
                np.linspace(0, 1, 5, dtype=np.float32),
                np.array([0, 2, 2, 3, 3, 5]),
            )
        },
        {"probabilities": np.linspace(0, 1, 5)},
        {"probabilities": np.linspace([0, 0.5, 0.2, 0.3], [1, 0, 0, 0], 5)},
    ],
)
def test_what_is_written_is_read_back(tmp_path, changed):
    log = _log(**changed)
    interaction_log.write(log, tmp_path / "log.parquet")
    # Clients are read in the order of their names; no field is lost.
    names = columns.ordered(pd.Series(log.client_ids, dtype=object))
    place = np.array([names.index(name) for name in log.client_ids])
    order = np.argsort(place[log.clients], kind="stable")
    expected = dataclasses.replace(
        log,
        client_ids=tuple(names),
        clients=np.sort(place[log.clients]).astype(np.int32),
        contexts=None if log.contexts is None else clients.Examples(log.contexts, log.clients).take(order).features,
        **{
            name: None if getattr(log, name) is None else getattr(log, name)[order]
            for name in interaction_log.ROW_FIELDS
        },
    )
    _assert_equal(interaction_log.read(tmp_path / "log.parquet"), expected)
    again = tmp_path / "again.parquet"
    interaction_log.write(expected, again)
    _assert_equal(interaction_log.read(again), expected)


def test_others_read_names_not_codes(tmp_path):
    interaction_log.write(_log(), tmp_path / "log.parquet")
    frame = pd.read_parquet(tmp_path / "log.parquet")
    assert frame["client"].tolist() == ["zoe", "zoe", "al", "12", "12"]
    assert frame["action"].tolist() == ["left", "wait", "left", "wait", "right"]
    assert frame["reward"].tolist() == [0.0, 1 / 3, 0.0, 1.0, 0.1]


def test_parts_are_read_as_one_log(tmp_path):
    log = _log()
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    for path, rows in zip(paths, ([3], [0, 1, 4], [2]), strict=True):
        interaction_log.write(log.take(np.array(rows)), path)
    whole = interaction_log.read(paths)
    assert whole.client_ids == ("12", "al", "zoe")
    assert whole.action_names == log.action_names
    np.testing.assert_array_equal(whole.rounds, [1, 2, 2, 1, 3])
    np.testing.assert_array_equal(whole.contexts, log.contexts[[3, 4, 2, 0, 1]])


def test_taken_rows_leave_out_clients_without_one():
    taken = _log().take(np.array([0, 4]))
    assert taken.client_ids == ("zoe", "12")
    np.testing.assert_array_equal(taken.clients, [0, 1])
    np.testing.assert_array_equal(taken.rewards, [0.0, 0.1])


def test_what_is_no_log_of_ours_is_refused(tmp_path):
    other = tmp_path / "other.parquet"
    pd.DataFrame({"action": [1]}).to_parquet(other)
    (tmp_path / "text.csv").write_text("action\n1\n")
    for path in (other, tmp_path / "text.csv", tmp_path / "nothing"):
        assert not interaction_log.is_log_file(path)
        with pytest.raises(UsageError, match="is not a log in this program's format"):
            interaction_log.read(path)
    interaction_log.write(_log(), other)
    assert interaction_log.is_log_file(other)
    assert len(pq.read_table(other)) == 5


METADATA = b"interaction_log"


def _write(path: pathlib.Path, *, bags: bool = False, probabilities: bool = False) -> pathlib.Path:
    contexts = np.arange(8, dtype=np.float32).reshape(4, 2)
    words = text.Bags(np.array([0, 2, 1], np.int32), np.ones(3, np.float32), np.array([0, 2, 2, 3, 3]))
    columns = {
        "actions": np.array([1, 0, 1, 0]),
        "rewards": np.array([1.0, 0.0, 0.5, 0.0]),
        "propensities": np.array([0.5, 0.25, 1.0, 0.5]),
        "rounds": np.array([1, 1, 2, 2]),
        "probabilities": np.full((4, 2), 0.5) if probabilities else None,
    }
    log = interaction_log.ordered(
        ["al", "zoe"],
        np.array([0, 0, 1, 1]),
        words if bags else contexts,
        ["left", "right"],
        columns,
        feature_names=["a", "b", "c"] if bags else (),
        report={"dropped_rows": {"without_client": 0}},
    )
    interaction_log.write(log, path)
    return path


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
        ("propensity", 2.0, "--log: 2 in column 'propensity' (row 3 of {}) is not a propensity, which must be from"),
        ("propensity", -0.5, "--log: -0.5 in column 'propensity' (row 3 of {}) is not a propensity"),
        ("propensity", 0.0, "--log: 0 in column 'propensity' (row 3 of {}) is not a propensity"),
        ("reward", float("nan"), "--log: a missing value in column 'reward' (row 3 of {}) is not allowed"),
        ("reward", float("inf"), "--log: inf in column 'reward' (row 3 of {}) is not a reward"),
        ("round", -1, "--log: -1 in column 'round' (row 3 of {}) is not a round"),
        ("round", 1.5, "--log: 1.5 in column 'round' (row 3 of {}) is not a round, which must be a whole number"),
        ("client", None, "--log: None in column 'client' (row 3 of {}) must be one of the names"),
        ("action", "up", "--log: 'up' in column 'action' (row 3 of {}) must be one of the names"),
        ("context", [0.0, float("nan")], "--log: [0.0, nan] in column 'context' (row 3 of {}) must be numbers from"),
        ("words", None, "--log: None in column 'words' (row 3 of {}) must be numbers from"),
        ("words", [3], "--log: [3] in column 'words' (row 3 of {}) must be numbers from 0 to 2"),
        ("words", [0, 1], "{} is not a valid log: rows have more or fewer word_values than words"),
        ("word_values", [float("inf")], "--log: [inf] in column 'word_values' (row 3 of {}) must be numbers from"),
        (
            "probabilities",
            [1.5, -0.5],
            "--log: [1.5, -0.5] in column 'probabilities' (row 3 of {}) must be numbers from 0 to 1",
        ),
        ("probabilities", [0.5, 0.25], "--log: the probabilities in row 3 of {} sum to 0.75, not to 1"),
    ],
)
def test_a_value_that_is_not_possible_is_named_with_its_row(tmp_path, name, value, message):
    path = _write(tmp_path / "log.parquet", bags="word" in name, probabilities=name == "probabilities")
    _changed(path, name, 2, value)
    with pytest.raises(UsageError, match=re.escape(message.format(path))):
        interaction_log.read(path)


@pytest.mark.parametrize(
    ("changed", "has_checksum", "message"),
    [
        ({"format": 2}, True, "is a log of format 2, and this version reads only 1"),
        ({"action_names": ["left", "left"]}, False, "(its metadata does not match its checksum)"),
        ({"report": []}, False, "(its metadata does not match its checksum)"),
    ],
)
def test_changed_metadata_is_refused(tmp_path, changed, has_checksum, message):
    path = _write(tmp_path / "log.parquet")
    table = pq.read_table(path)
    metadata = json.dumps(json.loads(table.schema.metadata[METADATA]) | changed).encode()
    checksum = {b"interaction_log_checksum": hashlib.sha256(metadata).hexdigest()} if has_checksum else {}
    pq.write_table(table.replace_schema_metadata({METADATA: metadata, **checksum}), path)
    with pytest.raises(UsageError, match=re.escape(f"{path} ") + ".*" + re.escape(message)):
        interaction_log.read(path)


def test_a_truncated_or_damaged_copy_says_so(tmp_path):
    path = _write(tmp_path / "log.parquet")
    content = path.read_bytes()
    name = content.index(b'"left"')
    page = content.index(b"left")  # In the dictionary of actions, before the metadata.
    assert page < name
    for damaged in (
        content[:-1],
        content[:100],
        b"",
        content[:name] + b'"lift"' + content[name + 6 :],
        content[:page] + b"lift" + content[page + 4 :],
    ):
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match=r"is not readable .*: it is truncated or damaged: copy it again"):
            interaction_log.read(path)


def test_a_column_of_the_users_own_is_ignored_and_plain_text_is_accepted(tmp_path):
    path = _write(tmp_path / "log.parquet")
    expected = interaction_log.read(path)
    table = pq.read_table(path)
    for name in ("client", "action"):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].cast(pa.string()))
    pq.write_table(table.append_column("note", pa.array(["x"] * 4)), path)
    log = interaction_log.read(path)
    assert (log.client_ids, log.action_names) == (expected.client_ids, expected.action_names)
    np.testing.assert_array_equal(log.actions, expected.actions)


def test_parts_of_different_logs_are_refused(tmp_path):
    one = _write(tmp_path / "one.parquet")
    other = _write(tmp_path / "other.parquet", bags=True)
    with pytest.raises(UsageError, match="are not parts of one log"):
        interaction_log.read([one, other])


def test_a_log_without_rows_is_read_as_empty(tmp_path):
    path = _write(tmp_path / "log.parquet")
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    assert len(interaction_log.read(path)) == 0
