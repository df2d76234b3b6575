"""Tests of data.convert.vw, on small logs in both formats, sound and malformed."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from data.convert import vw
from data.errors import UsageError

NAN = np.nan
ITEMS = [
    {"_tag": "shoes", "Item": {"price": 2.5, "words": {"_text": "red red warm"}}, "Seen": [0.5, 0.25]},
    {"_tag": "hat", "Item": {"price": 1}, "Rating": [{"stars": 4}, None]},
]
USER = {"id": 9007199254740993, "city": "Rome", "_ip": "1.2.3.4", "is_new": True, "is_old": False}
EVENT = {
    "_label_cost": -1.0, "_label_probability": 0.75, "_label_Action": 2, "_labelIndex": 1, "EventId": "e1",
    "Timestamp": "2024-03-01T10:00:00.1234567Z", "a": [2, 1], "p": [0.75, 0.25], "VWState": {"m": "v1"},
    "c": {"_synthetic": False, "Age": 31, "User": USER, "_multi": ITEMS},
}  # fmt: skip


def _changed(**changes):
    """Another event, without the keys whose value is None."""
    return {key: value for key, value in (EVENT | {"EventId": "e2"} | changes).items() if value is not None}


def _context(**changes):
    return _changed(c={key: value for key, value in (EVENT["c"] | changes).items() if value is not None})


def _write(tmp_path, *events):
    path = tmp_path / "log.json"
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _text(tmp_path, text):
    path = tmp_path / "log.txt"
    path.write_text(text, "utf-8")
    return path


def test_each_action_of_an_event_becomes_a_row_with_its_and_the_shared_features(tmp_path):
    (table,), flags, _ = vw.vw(_write(tmp_path, EVENT), client_feature="User^id")
    columns = {
        "client": ["9007199254740993"] * 2, "decision": ["e1"] * 2, "action": ["shoes", "hat"], "chosen": [0, 1],
        "reward": [NAN, 1.0], "propensity": [NAN, 0.75], "time": [EVENT["Timestamp"]] * 2,
    }  # fmt: skip
    features = {
        "Item^price": [2.5, 1.0], "Rating^stars": [0.0, 4.0], "Seen^[0]": [0.5, 0.0], "Seen^[1]": [0.25, 0.0],
        "User^city=Rome": [1.0, 1.0], "User^is_new": [1.0, 1.0], "User^is_old": [0.0, 0.0], "^Age": [31.0, 31.0],
        "words^red": [2.0, 0.0], "words^warm": [1.0, 0.0],
    }  # fmt: skip
    pd.testing.assert_frame_equal(table, pd.DataFrame(columns | features), check_dtype=False, check_like=True)
    assert flags == ["--task_type=logged"] + [f"--{name}_column={name}" for name in columns]


TEXT = """shared |User:2 city=Rome age:31 |Page home
0:-0.5:0.25 'shoes |Item price:2.5 red
'hat |Item price:1 size:XL

 | a b b:1.5
3:2:1 | a
"""


@pytest.mark.parametrize("name", ["log.txt", "log.txt.gz"])
def test_each_line_of_a_block_becomes_a_row(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(TEXT.encode()) if name.endswith(".gz") else TEXT.encode())
    (table,), flags, notes = vw.vw(path)
    assert table["decision"].tolist() == ["1", "1", "5", "5"]
    assert table["chosen"].tolist() == [1, 0, 0, 1]
    np.testing.assert_array_equal(table["reward"], [0.5, NAN, NAN, -2])
    np.testing.assert_array_equal(table["propensity"], [0.25, NAN, NAN, 1])
    features = table.drop(columns=["decision", "chosen", "reward", "propensity"])
    assert features.to_dict("list") == {
        "Item^price": [2.5, 1, 0, 0], "Item^red": [1, 0, 0, 0], "Item^size=XL": [0, 1, 0, 0], "Page^home": [1, 1, 0, 0],
        "User^age": [62, 62, 0, 0], "User^city=Rome": [2, 2, 0, 0], "^a": [0, 0, 1, 1], "^b": [0, 0, 2.5, 0],
    }  # fmt: skip
    assert "--client_column=rows:20" in flags
    assert any("rows:N" in note for note in notes)
    assert "No column action: some decisions lack it." in notes


@pytest.mark.parametrize(("name", "client"), [("User^id", "u7"), ("User^age", "31")])
def test_a_shared_feature_names_the_client_and_is_no_feature(tmp_path, name, client):
    path = _text(tmp_path, "shared |User id=u7 age:31\n0:1:0.5 |I a\n |I b\n")
    (table,), flags, _ = vw.vw(path, client_feature=name)
    assert table["client"].tolist() == [client] * 2
    assert not [column for column in table if column.startswith(name)]
    assert "--client_column=client" in flags
    assert "--client_column=rows:20" not in flags


def test_the_number_of_the_chosen_action_stands_in_for_its_position(tmp_path):
    (table,), *_ = vw.vw(_write(tmp_path, EVENT, _changed(_labelIndex=None, _label_Action=1)))
    assert table["chosen"].tolist() == [0, 1, 1, 0]


def test_only_the_most_frequent_features_are_columns(tmp_path):
    (table,), _, notes = vw.vw(_text(tmp_path, "0:1:0.5 |I a b\n |I b c\n\n0:1:1 |I b c d\n"), max_features=2)
    assert [column for column in table if "^" in column] == ["I^b", "I^c"]
    assert "2 features, 2 rarer ones are left out (see --max_features)." in notes


def test_lines_that_are_no_labelled_decisions_are_counted(tmp_path):
    dangling = {"RewardValue": 1.0, "EventId": "x", "Observations": [{"v": 1.0}]}
    lines = ["[CHECKPOINT INFO]", dangling, EVENT, "", _changed(_label_cost=None), dangling]
    (table,), _, notes = vw.vw(_write(tmp_path, *lines, _changed(_skipLearn=True, EventId="e3")))
    assert table["decision"].unique().tolist() == ["e1"]
    skipped = ("lines in brackets, such as [CHECKPOINT INFO LINE] (1)", "observations without their decision (2)")
    skipped += ("events without a label (1)", "events with _skipLearn (1)")
    assert [f"Left out: {what}." for what in skipped] == notes[2:6]


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ("{", "line 2: Expecting"),
        ('{"c": {"x": NaN}, "_label_cost": 0}', "line 2: .*NaN"),
        (_changed(EventId="e1"), "line 2: the decision e1 is in line 1, too"),
        (_changed(_labelIndex=None, _label_Action=None), "line 2: _labelIndex, -1, is no position"),
        (_changed(_labelIndex=2), "line 2: _labelIndex, 2, is no position in _multi, which has 2 actions"),
        (_changed(_labelIndex=0), "line 2: _labelIndex, 0, and _label_Action, 2, are different actions"),
        (json.dumps(_changed()).replace("31", "1e999"), "line 2: the feature .Age is inf"),
        ("5", "line 2: this line is not in a format of Vowpal Wabbit"),
        (_changed(_label_probability=0), "line 2: .*must be above 0"),
        (_changed(_label_probability=None), "line 2: .*probability nan"),
        (_changed(c=None), "line 2: .*0 actions"),
        (_context(_multi=[{"_tag": "x"}, {"_tag": "x"}]), "line 2: .*offers the action x twice"),
        (_context(User=None), "line 2: the shared context lacks the feature User.id, which --client_feature"),
        (_context(_slots=[{}]), r"line 2: several slots per decision \(CCB, slates\)"),
        ({"c": {}, "_outcomes": []}, r"line 2: several slots per decision \(CCB, slates\)"),
        (_changed(pdrop=0.5), "line 2: pdrop"),
    ],
)
def test_a_malformed_event_is_refused_with_its_line(tmp_path, event, problem):
    with pytest.raises(UsageError, match=problem):
        vw.vw(_write(tmp_path, EVENT, event), client_feature="User^id")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n\n", "no decision in this file has a label"),
        ("|I a\n|I b\n", "line 2: the decision from line 1 on has 0 chosen actions, not one"),
        ("0:1:1 |I a\n\n|I a\n0:1:0.5 |I b\n0:1:0.5 |I c\n", "the decision from line 3 on has 2 chosen actions"),
        ("0:1:1 |I a\n\n|I a\n0:1:2 |I b\n\n", "probability 2.0: it must be above 0 and at most 1"),
        ("0:inf:1 |I a\n", "the cost is inf"),
        ("0:1:x |I a\n", "line 1: could not convert string to float: 'x'"),
        ("0:1:0.5 'x |I a\n'x |I b\n", "offers the action x twice"),
        ("|I:x a\n", "line 1: could not convert"),
        ("ccb shared |U a\nccb action |I a\nccb slot 0:1:1 |S s\n", "line 1: several slots per decision"),
    ],
)
def test_a_malformed_block_is_refused(tmp_path, text, problem):
    with pytest.raises(UsageError, match=problem):
        vw.vw(_text(tmp_path, text))


def test_a_file_that_cannot_be_decompressed_is_refused(tmp_path):
    path = tmp_path / "log.json.gz"
    path.write_bytes(gzip.compress(TEXT.encode() * 500)[:100])
    with pytest.raises(UsageError, match=r"log\.json\.gz, line 1: Compressed file ended"):
        vw.vw(path)
