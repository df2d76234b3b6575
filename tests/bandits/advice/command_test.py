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
    columns = {"client_column": "store", "label_column": "bought"}
    for table in (TABLE, TABLE.copy(), TABLE.assign(age=0.0)):
        bandits.advise(table=table, minutes=2.5, root_output_dir=tmp_path, **columns)
    first, again, other = (settings for settings, _ in recommended)
    assert (first.minutes, first.root_output_dir) == (2.5, str(tmp_path))
    assert first.run_flags == again.run_flags != other.run_flags
    (file,) = (flag.partition("=")[2] for flag in first.run_flags if flag.startswith("--data_file="))
    pd.testing.assert_frame_equal(pd.read_parquet(file), TABLE)
    assert {"--task_type=tabular", "--client_column=store", "--label_column=bought"} <= set(first.run_flags)
    assert "scripts.advise --" in recommended[0][1]


@pytest.mark.parametrize(
    ("settings", "error", "printed"),
    [
        ({"minuts": 3}, TypeError, "'minuts': did you mean minutes"),
        ({"total_round": 3}, TypeError, "'total_round': did you mean total_rounds"),
        ({"minutes": 0}, UsageError, "--minutes"),
        ({"table": TABLE, "data_file": "x.csv"}, UsageError, "two tables"),
    ],
)
def test_bad_settings_are_refused_as_by_the_program(recommended, settings, error, printed):
    with pytest.raises(error, match=printed):
        bandits.advise(**settings)
    assert recommended == []
