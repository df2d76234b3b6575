"""Tests of bandits.advice.command as `bandits.advise`; tests/scripts/advise_test.py runs whole recommendations."""

import pandas as pd
import pytest

import bandits
from bandits.advice import command
from data.errors import UsageError

TABLE = pd.DataFrame({"store": ["a", "b", "b"], "bought": ["x", "y", "x"], "age": [1.5, 2.0, 3.0]})


@pytest.fixture
def recommended(monkeypatch) -> list:
    calls: list = []
    monkeypatch.setattr(command, "recommend", lambda settings, recorded: calls.append((settings, recorded)))
    return calls


def test_a_frame_becomes_a_file_of_its_content(recommended, tmp_path):
    where = {"client_column": "store", "label_column": "bought", "root_output_dir": tmp_path}
    for table in (TABLE, TABLE.copy(), TABLE.assign(age=0.0)):
        bandits.advise(table=table, minutes=2.5, **where)
    first, again, other = (settings for settings, _ in recommended)
    assert (first.minutes, first.root_output_dir) == (2.5, str(tmp_path))
    assert first.run_flags == again.run_flags != other.run_flags
    (file,) = (flag.partition("=")[2] for flag in first.run_flags if flag.startswith("--data_file="))
    pd.testing.assert_frame_equal(pd.read_parquet(file), TABLE)
    assert {"--task_type=tabular", "--client_column=store", "--label_column=bought"} <= set(first.run_flags)
    assert "scripts.advise --" in recommended[0][1]


def test_an_unknown_keyword_is_named_with_similar_ones(recommended):
    with pytest.raises(TypeError, match="'minuts': did you mean minutes"):
        bandits.advise(minuts=3)
    with pytest.raises(TypeError, match="'total_round': did you mean total_rounds"):
        bandits.advise(total_round=3)
    assert recommended == []


def test_bad_values_are_refused_as_by_the_program(recommended):
    with pytest.raises(UsageError, match="--minutes"):
        bandits.advise(minutes=0)
    with pytest.raises(UsageError, match="two tables"):
        bandits.advise(table=TABLE, data_file="x.csv")
    assert recommended == []
