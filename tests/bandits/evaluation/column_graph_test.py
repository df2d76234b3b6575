"""Tests of bandits.evaluation.column_graph: its features equal those that pandas' columns are encoded as."""

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from bandits.evaluation import column_graph
from data import columns, statistics, table_file, tables, text
from data.tasks.options import TaskOptions

NAN = float("nan")
ZONED = [
    "2023-01-31T23:30:00-02:30",
    "2024-02-29 00:00:00.5+01:00",
    "1969-12-31 12:00Z",
    "",
    "NULL",
    "2000-03-01T01:02Z",
]


def _assert_encoded(cells, known: statistics.OfColumn, missing_values=None, atol=1e-6):
    options = TaskOptions(task_type="tabular", missing_values=missing_values)
    of_table = statistics.OfTable({"column": known}, {})
    dtype = tf.float64 if column_graph.kinds(of_table, options)["column"]["type"] == "number" else tf.string
    found = column_graph.features({"column": tf.constant(cells, dtype)}, of_table, options, is_lite=False)
    table = table_file.of_frame(pd.DataFrame({"column": cells}), "the frame", options)
    expected = columns.encode(table.frame, known={"column": known}).values
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=atol)


@pytest.mark.parametrize("has_missing", [True, False])
@pytest.mark.parametrize(("mean", "deviation"), [(3.0, 2.0), (1.7e9, 50.0), (5.0, 0.0), (0.0, 1e-300), (1e308, 1e300)])
def test_numbers_are_standardized(mean, deviation, has_missing):
    numbers = [mean, mean + deviation, mean - 7 * deviation, NAN, np.inf, -np.inf, 0.0, 1.7e308]
    _assert_encoded(numbers, statistics.Numbers(mean, deviation, has_missing))


def test_numbers_that_the_run_took_as_missing_are_missing():
    _assert_encoded([-9.0, 1.0, NAN, 3.0], statistics.Numbers(1.0, 2.0, True), "-9,none")


@pytest.mark.parametrize("categories", [("a", "b c", "größe", "<missing>"), ("a", "3", "True")])
def test_categories_are_one_hot(categories):
    cells = ["a", " a\t", "b c", "größe", "3", "True", "", "NaN", "\u00a0b c\u2003", "unknown", "A", "skipped"]
    _assert_encoded(cells, statistics.Categories(categories), "skipped")


@pytest.mark.parametrize("has_times", [True, False])
@pytest.mark.parametrize("has_missing", [True, False])
@pytest.mark.parametrize(
    "written",
    [
        ZONED,
        ["2023-01-31", "1900-03-01", "2000-02-29", "1970-01-01", " 2023-12-31 ", "?", "2024-01-01"],
        [
            "2023-01-31 06:00",
            "2023-01-31T18:45:30",
            "2023-02-01 00:00:00.25",
            "",
            "2023-02-01 12:00",
            "1999-09-09 09:09",
        ],
    ],
)
def test_dates_are_days_hours_and_weekdays(written, has_times, has_missing):
    _assert_encoded(written, statistics.Dates(19000.5, 200.0, has_missing, has_times))


@pytest.mark.parametrize("wrong", ["31/01/2023", "2023-1-31", "yesterday", "20230131"])
def test_dates_in_another_form_are_refused(wrong):
    known = statistics.OfTable({"day": statistics.Dates(19000.0, 200.0, False, False)}, {})
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be written as 2023-01-31"):
        column_graph.features({"day": tf.constant(["2023-01-31", wrong])}, known, TaskOptions("tabular"), is_lite=False)


TEXTS = [
    "How is IT? It is it.",
    "c++ and C# but not c++11, a#b#c#d#e or f#_g; c+++a x##",
    "",
    "NA",
    "ÉCOLE école Straße node.js don't foo_bar ١٢ 3",
    "nothing known",
    "\ttabs\u00a0and\u2003spaces\n",
]
WORDS = ("it", "is", "c++", "c#", "c", "11", "a", "b#", "b", "x#", "école", "straße", "don", "t", "foo", "bar", "١٢")


@pytest.mark.parametrize("normalization", text.NORMALIZATIONS)
@pytest.mark.parametrize("most", [100, 2])
def test_texts_are_bags_of_words(normalization, most):
    options = TaskOptions("tabular", text_columns="one,two", text_normalisation=normalization, max_words=most)
    frame = pd.DataFrame({"one": TEXTS, "two": TEXTS[::-1]})
    number = statistics.Numbers(0.0, 1.0, False)
    known = statistics.OfTable({"number": number}, {}, WORDS)
    inputs = {"number": tf.range(7, dtype=tf.float64)} | {name: tf.constant(frame[name]) for name in frame}
    bags = column_graph.features(inputs, known, options, is_lite=False)
    found = np.zeros((7, len(WORDS) + 1))
    np.add.at(found, (np.arange(7)[:, np.newaxis], bags["ids"].numpy()), bags["values"].numpy())
    words = tables.words(frame).bags(WORDS, np.arange(7), most, normalization)
    expected = np.zeros_like(found)
    expected[np.repeat(np.arange(7), np.diff(words.offsets)), words.ids] = words.values
    expected[:, -1] = np.arange(7)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
