"""Tests of data.tables: what is a label, and what is odd about some."""

import pandas as pd
import pytest

from data import frames, schema, table_report, tables
from data.errors import UsageError


def _read(frame, **roles):
    with frames.lent(pd.DataFrame(frame)) as name:
        return tables.read(name, schema.Schema(client_column="rows:2", **roles))


def _rows(values):
    features = [row % 3 for row in range(len(values))]
    return _read({"x": features, "y": pd.Series(values, dtype=object)}, label_column="y")


DAYS = [f"2023-{1 + row // 28:02d}-{1 + row % 28:02d}" for row in range(60)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([f"{row % 60 + 0.5}" for row in range(300)], "60 distinct values in 300 rows, which are numbers, not classes"),
        ([str(row * 7) for row in range(60)], "60 distinct values in 60 rows, which are numbers, not classes: name a"),
        (DAYS, "60 distinct values in 60 rows, which are dates, not classes"),
        ([f"n{row}" for row in range(1001)], "1001 distinct values in 1,001 rows, more than 1000: name a column of"),
    ],
    ids=range(4),
)
def test_measurements_and_dates_are_no_classes(values, message):
    with pytest.raises(UsageError, match=f"--label_column=y has {message}"):
        _rows(values)


def test_codes_words_and_a_few_numbers_are_classes():
    codes, words = [str(row % 100) for row in range(300)], [f"n{row}" for row in range(10, 70)]
    for values in (codes, words, [f"{row}.5" for row in range(50)]):
        assert _rows(values).label_names == list(dict.fromkeys(values))


@pytest.mark.parametrize(
    ("values", "odd"),
    [(["0", "1", "0", "1"], None), (["a", "b", "c"] * 2, None), (["0", "1", "NA"], "NA"), (["0", "1", "n/k"], "n/k")],
)
def test_classes_that_may_mean_a_missing_value_are_warned_of(values, odd):
    rows = _rows(values)
    warning = f"--label_column=y has the class {odd!r}, which is treated as a name: if it means a missing value, "
    warning += f"--missing_values={odd!r} drops such rows."
    assert table_report.of(rows, rows.features())["warnings"] == [warning] * bool(odd)


@pytest.mark.parametrize("flags", [{}, {"category_columns": "e"}, {"feature_columns": "e,x"}])
def test_lists_are_refused_as_features_and_not_read_otherwise(flags):
    frame = {"e": [[0.0, 1.0], None, [1.0, 4.0], [2.0, 1.0]], "x": [1, 2, 3, 4], "y": [0, 1, 0, 1]}
    with pytest.raises(UsageError, match=r"'e' holds lists\. .*--ignore_columns=e"):
        _read(frame, label_column="y", **flags).features()
    assert _read(frame, label_column="y", ignore_columns="e").features().names == ["x"]
    rows = _read(frame, label_column="y", text_columns="e")
    with pytest.raises(UsageError, match="'e' holds lists"):
        tables.words(rows.frame[rows.roles.texts])


@pytest.mark.parametrize("text", ["# exported, today\nwho,y\na,1\nb,0\n", "sep=;\nwho;y\na;1\nb;0\n"])
def test_a_line_before_the_header_is_named_where_a_column_is_missing(write, text):
    with pytest.raises(UsageError, match=r"(?i)remove .*lines before the header"):
        tables.read(write(text), schema.Schema(client_column="who", label_column="y"))
